"""What a request head must be, beyond what the parser already refuses. Pure functions.

llhttp (strict, as httptools runs it) refuses line folding, bare CR or LF, control
characters, white space before a colon, Content-Length beside Transfer-Encoding, and
repeated Content-Length. What it lets pass and we do not:

- no Host, two Hosts, a Host that is no authority (RFC 9112 §3.2);
- Transfer-Encoding that merely ends in `chunked`, or in an HTTP/1.0 request (§6.1);
- protocol versions other than 1.0 and 1.1, and methods of other protocols (RTSP, ICE);
- a fragment, or characters hidden by percent-encoding, in the target;
- an absolute target for another authority than Host names (§3.2.2 would let the target
  win; whoever stands before us may have looked at Host).

It also takes several spaces after the method and after the target, `RTSP/1.0` where `HTTP/1.0`
belongs, and Proxy-Connection for Connection. None can be seen from here, and none moves the end
of a request.

Clients repeat themselves, so what was judged good is remembered (a refusal never is).
"""

import re
from functools import lru_cache
from urllib.parse import unquote_to_bytes

from mooring.http.problems import Refusal
from mooring.wire.http import Head

__all__ = [
    "METHODS",
    "body_length",
    "check_host",
    "expects_continue",
    "offers_websocket",
    "split_target",
    "tokens",
    "wants_close",
]

METHODS = {name.encode(): name for name in ("GET", "POST", "DELETE", "OPTIONS", "HEAD", "PUT", "PATCH")}
"""Methods an app can see; by the parser's bytes, so that each request shares one string."""

Fields = dict[bytes, bytes]
"""The fields of a head by lower-case name. Those that decide how it is read are there at most once."""

CHUNKED = -1
AUTHORITY = re.compile(rb"(?:\[[0-9A-Za-z:.%~_-]+\]|[0-9A-Za-z._~!$&'()*+;=%-]*)(?::[0-9]{0,5})?")
CONTROL = re.compile(r"[\x00-\x1f\x7f]")
PERCENT = re.compile(rb"%(?![0-9A-Fa-f]{2})")
DEFAULT_PORTS = {b"http": b"80", b"https": b"443"}


def body_length(fields: Fields, version: str) -> int:
    """How many bytes of body follow, or `CHUNKED`."""
    coding = fields.get(b"transfer-encoding")
    if coding is not None:
        if version != "1.1":
            raise Refusal(400, "bad_framing", "Transfer-Encoding needs HTTP/1.1")
        if b"content-length" in fields:
            raise Refusal(400, "bad_framing", "Content-Length and Transfer-Encoding in one request")
        if coding.lower() != b"chunked":
            raise Refusal(501, "unknown_coding", "the only Transfer-Encoding understood here is chunked")
        return CHUNKED
    length = fields.get(b"content-length")
    if length is None:
        return 0
    if not length.isdigit():
        raise Refusal(400, "bad_framing", "Content-Length is not a number")
    return int(length)


@lru_cache(maxsize=256)
def check_host(host: bytes | None, version: str) -> None:
    """Refuse a request that does not say whom it is for, or says it in a way that can be misread."""
    if host is None:
        if version == "1.1":
            raise Refusal(400, "bad_host", "an HTTP/1.1 request needs a Host header")
    elif not AUTHORITY.fullmatch(host):
        raise Refusal(400, "bad_host", "the Host header is not a host with an optional port")


def expects_continue(fields: Fields, version: str) -> bool:
    """Does the peer wait for `100 Continue` before it sends its body?"""
    expectation = fields.get(b"expect")
    if expectation is None or version != "1.1":
        return False
    if expectation.lower() != b"100-continue":
        raise Refusal(417, "unknown_expectation", "the only Expect understood here is 100-continue")
    return True


def tokens(fields: list[bytes]) -> list[bytes]:
    """The members of a comma-separated list that may be spread over several fields."""
    return [word for item in b",".join(fields).split(b",") if (word := item.strip(b" \t"))]


def offers_websocket(head: Head, length: int, version: str) -> bool:
    """May the connection become a WebSocket behind this head, whose upgrade the parser has seen?

    With a body, or in HTTP/1.0, `Upgrade` means nothing (RFC 6455 §4.1, RFC 9110 §7.8).
    """
    offered = (name.lower() for name in tokens(head.get_all(b"upgrade")))
    return head.method == "GET" and length == 0 and version == "1.1" and b"websocket" in offered


def wants_close(connection: list[bytes]) -> bool:
    """Is `close` among the options in these Connection fields? It wins over all others (RFC 9112 §9.3)."""
    return any(option.lower() == b"close" for option in tokens(connection))


@lru_cache(maxsize=256)
def split_target(method: str, target: bytes, host: bytes | None) -> tuple[str, str]:
    """Decoded path (it begins with a slash) and raw query of a request target."""
    if b"#" in target:
        raise Refusal(400, "bad_target", "a request target has no fragment")
    if not target.startswith(b"/"):
        target = _origin_form(method, target, host)
    path, _, query = target.partition(b"?")
    if b"%" in path:
        return _decoded(path), query.decode("ascii")
    return path.decode("ascii"), query.decode("ascii")


def _origin_form(method: str, target: bytes, host: bytes | None) -> bytes:
    if target == b"*":
        if method != "OPTIONS":
            raise Refusal(400, "bad_target", "only OPTIONS may have the target *")
        return b"/"
    scheme, _, rest = target.partition(b"://")
    default_port = DEFAULT_PORTS.get(scheme.lower())
    if default_port is None:
        raise Refusal(400, "bad_target", "the request target is neither a path nor an http URL")
    end = min((at for at in (rest.find(b"/"), rest.find(b"?")) if at >= 0), default=len(rest))
    authority, path = rest[:end], rest[end:]
    if not authority or not AUTHORITY.fullmatch(authority):
        raise Refusal(400, "bad_target", "the authority of the request target is malformed")
    if host is not None and _comparable(authority, default_port) != _comparable(host, default_port):
        raise Refusal(400, "bad_target", "the request target and Host name different servers")
    return path if path.startswith(b"/") else b"/" + path


def _comparable(authority: bytes, default_port: bytes) -> bytes:
    authority = authority.lower()
    name, colon, port = authority.rpartition(b":")
    if not colon or port.endswith(b"]"):
        return authority + b":" + default_port
    return name + b":" + (port or default_port)


def _decoded(path: bytes) -> str:
    if PERCENT.search(path):
        raise Refusal(400, "bad_target", "the path has a broken percent-encoding")
    try:
        decoded = unquote_to_bytes(path).decode("utf-8")
    except UnicodeDecodeError:
        raise Refusal(400, "bad_target", "the path is not UTF-8") from None
    if CONTROL.search(decoded):
        raise Refusal(400, "bad_target", "the path contains a control character")
    return decoded
