"""The same bytes to our reader and to h11: same verdict, same values, save what the tables below list.

h11 is an independent reading of the same standard, in regular expressions instead of a state machine.
Where both take a request, everything they say of it is equal (but see `comparable` and `_keeps`). Where
only one takes it, a row of `REFUSED_BY_US` or `REFUSED_BY_H11` says why, and its example shows that the
difference is there: a row cannot outlive it.
"""

import re
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import h11
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.http.limits import Limits
from mooring.http.problems import Refusal
from mooring.http.reader import RequestReader
from mooring.wire.http import Headers, Request
from tests.http_bytes import Tape, stream

LIMITS = Limits(max_body_bytes=300, max_header_bytes=600, max_target_bytes=120, max_headers=12)
H11_BUFFER_BYTES = 1 << 20
"""h11's only limit, out of the way: ours are tested elsewhere, and listed below."""

START = b"POST / HTTP/1.1\r\nHost: a\r\n"
CHUNKED = START + b"Transfer-Encoding: chunked\r\n\r\n"


class Difference(NamedTuple):
    """A request that only one of both takes: what we say of it, how it looks in `parts` of it, an example."""

    ours: str
    looks: bytes
    example: bytes
    parts: str = "head"


TAKEN = "taken"

REFUSED_BY_US = {
    # A lone LF ends a line for h11. Whoever reads it otherwise sees other headers (RFC 9112 §2.2: MAY).
    "bare line feed": Difference(
        "malformed", rb"(?<!\r)\n", b"GET / HTTP/1.1\nHost: a\n\n", parts="head trailer"
    ),
    # Folding is deprecated (§5.2): a server must refuse or replace it.
    "folded field": Difference("malformed", rb"\n[ \t]", START + b"X: a\r\n b\r\n\r\n", parts="head trailer"),
    # h11 lets control characters pass, for the sake of old cookies; RFC 9110 §5.5 calls them invalid.
    "control character in a value": Difference(
        "malformed.*header value",
        rb"[\x01-\x08\x0b-\x1f\x7f]",
        START + b"X: \x01\r\n\r\n",
        parts="head trailer",
    ),
    # One length, said once: what stands before us may have believed another of them (§6.3).
    "repeated length": Difference(
        "malformed.*Content-Length|two content-length",
        rb"(?is)content-length:.*content-length:|content-length:[^\n]*,",
        START + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\nx",
    ),
    "length over 64 bits": Difference(
        "malformed.*overflow", rb"[0-9]{20}", START + b"Content-Length: 99999999999999999999\r\n\r\n"
    ),
    # The mark of a smuggled request (§6.1, §6.3); h11 lets Transfer-Encoding win.
    "length beside coding": Difference(
        "malformed.*(Content-Length|Transfer-Encoding)|bad_framing",
        rb"(?is)(content-length|transfer-encoding):.*(content-length|transfer-encoding):",
        START + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    # The parser allows spaces there, no tab: whoever reads it otherwise sees another framing.
    "tab behind the coding": Difference(
        "malformed.*Transfer-Encoding",
        rb"(?i)\ntransfer-encoding:[^\n]*\t *\r\n",
        START + b"Transfer-Encoding: chunked\t\r\n\r\n0\r\n\r\n",
    ),
    "coding in HTTP/1.0": Difference(
        "bad_framing", rb"HTTP/1\.0", b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    ),
    # Nothing in a body's tail may look as if it had framed the body (§6.5.1: MUST NOT be sent).
    "framing in a trailer": Difference(
        "malformed.*(Content-Length|Transfer-Encoding)|bad_framing: .* in a trailer",
        rb"(?i)\n(content-length|transfer-encoding|(proxy-)?connection):",
        CHUNKED + b"0\r\nContent-Length: 3\r\n\r\n",
        parts="trailer",
    ),
    # White space in a chunk's line is what obfuscated chunks are made of (§7.1 has none).
    "space after a chunk's size": Difference(
        "malformed.*chunk size", rb"\n[0-9A-Fa-f]+[ \t]", CHUNKED + b"1 \r\nx\r\n0\r\n\r\n", parts="body"
    ),
    "chunk extension that is none": Difference(
        "malformed.*chunk (extension|size)",
        rb"\n[0-9A-Fa-f]+;",
        CHUNKED + b"1; =\r\nx\r\n0\r\n\r\n",
        parts="body",
    ),
    "chunk size over 64 bits": Difference(
        "malformed.*overflow", rb"\n[0-9A-Fa-f]{17}", CHUNKED + b"10000000000000000\r\n", parts="body"
    ),
    # Methods of no use here, versions we do not speak, expectations we cannot meet.
    "method": Difference(
        "malformed.*[Mm]ethod|unknown_method|HTTP/2",
        rb"\A(?!(GET|POST|DELETE|OPTIONS|HEAD|PUT|PATCH) )",
        b"BREW / HTTP/1.1\r\nHost: a\r\n\r\n",
    ),
    "version": Difference(
        "malformed.*version|unknown_version",
        rb" HTTP/(?!1\.[01]\r)",
        b"GET / HTTP/2.0\r\nHost: a\r\n\r\n",
    ),
    "expectation": Difference(
        "unknown_expectation|two expect", rb"(?i)\nexpect:", START + b"Expect: 200-maybe\r\n\r\n"
    ),
    # h11 hands Host and target on as they are.
    "host that is no authority": Difference(
        "bad_host", rb"(?i)\nhost:", b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"
    ),
    "target that can be misread": Difference(
        "bad_target|malformed.*url",
        rb"\A\S+ +(?!/[!$&-/0-;=?-Z_a-z~]* )",
        b"GET /%00 HTTP/1.1\r\nHost: a\r\n\r\n",
    ),
    # h11 has one limit: that of an unfinished event.
    "long target": Difference(
        "target_too_long", rb"\A\S+ +\S{121}", b"GET /" + b"a" * 120 + b" HTTP/1.1\r\nHost: a\r\n\r\n"
    ),
    "long head": Difference("headers_too_large", rb"(?s).{600}", START + b"X: " + b"y" * 600 + b"\r\n\r\n"),
    "many fields": Difference("too_many_headers", rb"(\n.+){13}", START + b"X: y\r\n" * 12 + b"\r\n"),
    "long body": Difference(
        "body_too_large",
        rb"(?i)content-length:[ \t]*0*([1-9]\d{3}|[3-9]\d\d)",
        START + b"Content-Length: 301\r\n\r\n",
    ),
    "long chunked body": Difference(
        "body_too_large", rb"(?s).{301}", CHUNKED + b"12d\r\n" + b"x" * 301 + b"\r\n0\r\n\r\n", parts="body"
    ),
}

REFUSED_BY_H11 = {
    # Old clients send a line end behind a body; §2.2 wants it ignored.
    "empty line before a request": Difference(TAKEN, rb"\A[\r\n]", b"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    # What llhttp takes and nobody can see behind it. Neither moves the end of a request.
    "several spaces in the request line": Difference(
        TAKEN, rb"\A\S+ .* {2}|\A\S+ {2}", b"GET  /  HTTP/1.1\r\nHost: a\r\n\r\n"
    ),
    # §7.1 does not count them; a limit does, with the extensions.
    "many zeros before a chunk's size": Difference(
        TAKEN, rb"\n0[0-9A-Fa-f]{20}", CHUNKED + b"000000000000000000001\r\nx\r\n0\r\n\r\n", parts="body"
    ),
    "RTSP/1.0 for HTTP/1.0": Difference(TAKEN, rb"\A\S+ \S+ RTSP/", b"GET / RTSP/1.0\r\n\r\n"),
}


class Read(NamedTuple):
    """What one of both says of one request."""

    method: str
    path: str
    query: str
    headers: Headers
    body: bytes
    keep_alive: bool
    waits_for_leave: bool


class Reading(NamedTuple):
    """What one of both makes of some bytes."""

    requests: list[Read]
    verdict: str
    """On what follows the last of them: `OPEN`, `CLOSED`, or why it is refused."""
    ends: list[int]
    """Where each of them ends, with 0 before the first; only h11 tells."""


OPEN, CLOSED = "open", "closed"


def read(pieces: list[bytes]) -> Reading:
    requests: list[Read] = []
    expected = False

    def on_expect() -> None:
        nonlocal expected
        expected = True

    def on_request(request: Request, keep_alive: bool, is_http_1_0: bool) -> None:
        nonlocal expected
        waits, expected = expected, False
        if not requests or requests[-1].keep_alive:
            requests.append(
                Read(
                    request.method,
                    request.path,
                    request.query,
                    request.headers,
                    request.body,
                    keep_alive,
                    waits,
                )
            )

    reader = RequestReader(LIMITS, on_request, on_expect)
    verdict = OPEN
    try:
        for piece in pieces:
            reader.feed(piece)
    except Refusal as refusal:
        verdict = f"{refusal.status} {refusal.code}: {refusal.message}"
    if requests and not requests[-1].keep_alive:
        verdict = CLOSED
    return Reading(requests, verdict, [])


def read_with_h11(data: bytes) -> Reading:
    requests: list[Read] = []
    ends = [0]
    while not requests or requests[-1].keep_alive:
        connection = h11.Connection(h11.SERVER, H11_BUFFER_BYTES)
        connection.receive_data(data[ends[-1] :])
        try:
            request = _next_request(connection)
        except h11.RemoteProtocolError as error:
            return Reading(requests, f"refused: {error}", ends)
        if request is None:
            return Reading(requests, OPEN, ends)
        requests.append(request)
        ends.append(len(data) - len(connection.trailing_data[0]))
    return Reading(requests, CLOSED, ends)


def _next_request(connection: h11.Connection) -> Read | None:
    head = connection.next_event()
    if not isinstance(head, h11.Request):
        return None
    waits = connection.they_are_waiting_for_100_continue
    body = b""
    while isinstance(event := connection.next_event(), h11.Data):
        body += bytes(event.data)
    if not isinstance(event, h11.EndOfMessage):
        return None
    # With an error, so that no proposal to switch protocols is taken up.
    connection.send(h11.Response(status_code=400, headers=[(b"content-length", b"0")]))
    connection.send(h11.EndOfMessage())
    path, query = _split(head.target.decode())
    return Read(
        head.method.decode(),
        path,
        query,
        [(bytes(name), bytes(value)) for name, value in head.headers],
        body,
        _keeps(head, connection.their_state is h11.DONE),
        waits and _announces_body(head),
    )


def _split(target: str) -> tuple[str, str]:
    if not target.startswith("/"):
        # By the standard library's reading of a URL.
        parts = urlsplit(target if target != "*" else "")
        return unquote(parts.path) or "/", parts.query
    path, _, query = target.partition("?")
    return unquote(path), query


def _keeps(head: h11.Request, kept: bool) -> bool:
    """Is the connection kept after it? Two differences: an HTTP/1.0 client may ask for it, which h11
    never grants (RFC 9112 §9.3 allows either); and llhttp takes Proxy-Connection for Connection."""
    fields = [value for name, value in head.headers if name in (b"connection", b"proxy-connection")]
    options = {option.strip(b" \t") for option in b",".join(fields).lower().split(b",")}
    return b"close" not in options and (kept or b"keep-alive" in options)


def _announces_body(head: h11.Request) -> bool:
    fields = dict(head.headers)
    return b"transfer-encoding" in fields or int(fields.get(b"content-length", 0)) > 0


def comparable(request: Read) -> Read:
    """h11 writes the one coding there is in lower case; we share heads that differ only in their length.

    Fields of one name keep their order; that of different names means nothing.
    """
    changed = {b"transfer-encoding": b"chunked", b"content-length": b"%d" % len(request.body)}
    headers = [(name, changed.get(name, value)) for name, value in request.headers]
    return request._replace(headers=sorted(headers, key=lambda field: field[0]))


def compare(data: bytes) -> str:
    """The row that explains why both differ on `data`; empty if they agree. Fails if there is none."""
    ours, theirs = read([data]), read_with_h11(data)
    if theirs.verdict == OPEN and ours.verdict not in (OPEN, CLOSED):
        # We refuse at the first wrong byte, h11 at the end of the head or of the chunk's line: there it is.
        theirs = read_with_h11(data + b"\r\n\r\n")
    both = min(len(ours.requests), len(theirs.requests))
    assert list(map(comparable, ours.requests[:both])) == list(map(comparable, theirs.requests[:both]))
    we_refuse = len(ours.requests) == both and ours.verdict not in (OPEN, CLOSED)
    they_refuse = len(theirs.requests) == both and theirs.verdict not in (OPEN, CLOSED)
    if we_refuse == they_refuse:
        assert we_refuse or len(ours.requests) == len(theirs.requests)
        return ""
    raw = data[theirs.ends[both] : (theirs.ends[both + 1 :] or [len(data)])[0]]
    if we_refuse:
        return explained(REFUSED_BY_US, ours.verdict, raw)
    return explained(REFUSED_BY_H11, TAKEN, raw)


def explained(rows: dict[str, Difference], ours: str, raw: bytes) -> str:
    blank = re.search(rb"\n\r?\n", raw)
    end = blank.end() if blank else len(raw)
    body = raw[end - 1 :]
    trailer = re.split(rb"\n0+(?:;[^\r\n]*)?\r\n", body)
    parts = {"head": raw[:end], "body": body, "trailer": b"\r\n" + trailer[-1] if trailer[1:] else b""}
    for name, row in rows.items():
        if re.search(row.ours, ours) and any(re.search(row.looks, parts[part]) for part in row.parts.split()):
            return name
    raise AssertionError(f"{ours!r} is not how h11 sees it, and no row explains it: {raw!r}")


@pytest.mark.parametrize("name", [*REFUSED_BY_US, *REFUSED_BY_H11])
def test_each_listed_difference_is_there(name: str) -> None:
    assert compare((REFUSED_BY_US | REFUSED_BY_H11)[name].example) == name


@pytest.mark.parametrize(
    ("data", "kept_by_us"),
    [
        (b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", True),
        (b"GET / HTTP/1.1\r\nHost: a\r\nProxy-Connection: close\r\n\r\n", False),
    ],
)
def test_only_one_of_both_keeps_the_connection(data: bytes, kept_by_us: bool) -> None:
    assert read([data]).requests[0].keep_alive is kept_by_us
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(data)
    connection.next_event()
    connection.next_event()
    assert (connection.their_state is h11.DONE) is not kept_by_us


def test_the_end_of_a_connection_wins_over_its_keeping() -> None:
    for version in (b"1.0", b"1.1"):
        data = b"GET / HTTP/%b\r\nHost: a\r\nConnection: keep-alive, close\r\n\r\n" % version
        assert compare(data) == ""
        assert not read([data]).requests[0].keep_alive


streams = st.binary(min_size=160, max_size=160).map(lambda tape: stream(Tape(tape)))


def check_every_split(data: bytes) -> None:
    whole = outcome([data])
    for at in range(1, len(data)):
        assert outcome([data[:at], data[at:]]) == whole, at
    assert outcome([data[at : at + 1] for at in range(len(data))]) == whole


def outcome(pieces: list[bytes]) -> tuple[list[Read], str]:
    """Which of several faults is seen first may depend on the split; that there is one may not."""
    requests, verdict, _ = read(pieces)
    return list(map(comparable, requests)), verdict if verdict in (OPEN, CLOSED) else "refused"


@settings(max_examples=5000, deadline=None)
@given(streams)
def test_h11_agrees_or_a_row_says_why_not(data: bytes) -> None:
    compare(data)


@settings(max_examples=300, deadline=None)
@given(streams)
def test_every_split_gives_the_same(data: bytes) -> None:
    check_every_split(data)


@settings(max_examples=1000, deadline=None)
@given(st.binary(max_size=200))
def test_h11_agrees_on_noise(data: bytes) -> None:
    compare(data)
    compare(CHUNKED + data)


@pytest.mark.slow
@settings(max_examples=100_000, deadline=None)
@given(streams)
def test_h11_agrees_on_very_many(data: bytes) -> None:
    compare(data)


@pytest.mark.slow
@settings(max_examples=5_000, deadline=None)
@given(streams)
def test_every_split_of_very_many_gives_the_same(data: bytes) -> None:
    check_every_split(data)
