"""Who may ask: Host, Origin and bearer token, judged before an app sees the request. Pure.

The order of a judgement, and why:
1. Exempt paths (health checks) pass unseen: a kubelet sends its pod's address and no token.
   So do requests that another replica vouches for: it has judged them, and says who asks. One that says
   so and is not believed is nobody's: as a client's it could be passed on once more.
2. Host. A page that rebinds its own name to 127.0.0.1 still sends that name here. Loopback
   names are always fine; IP literals when bound to the network, since rebinding needs a name.
   A unix socket cannot be reached by a page at all.
3. Origin. A page of a foreign site sends its own; programs send none.
4. OPTIONS is answered here, without a token: browsers send none with a preflight.
5. Token. Compared with every token in constant time, so that timing tells nothing.

From 4 on, answers to an allowed origin carry CORS fields, refusals too: a page must be able
to read its 401.
"""

import hmac
import ipaddress
import re
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urlsplit

from mooring.http.problems import problem
from mooring.wire.http import App, Exchange, Headers, Request, Response

__all__ = ["Guard", "Verdict", "guarded"]

ALLOWED_METHODS = b"GET, POST, DELETE, OPTIONS"
USUAL_HEADERS = (
    b"content-type, authorization, accept, last-event-id, mcp-session-id, mcp-protocol-version, "
    b"mcp-method, mcp-name"
)
EXPOSED_HEADERS = b"Mcp-Session-Id, WWW-Authenticate"
PREFLIGHT_LIFETIME_S = b"600"
NAME_LIST = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+(?:[ \t]*,[ \t]*[!#$%&'*+.^_`|~0-9A-Za-z-]+)*")
BEARER = re.compile(rb"bearer +(\S+)", re.IGNORECASE)


class Verdict(NamedTuple):
    """What a guard says: an answer instead of the app's, or None; fields for the answer; who asks."""

    answer: Response | None
    headers: Headers
    principal: str = "local"


PASS = Verdict(None, [])


class Guard:
    """Whom to let in. `hosts` and `origins` are exact, or `*` for any; without `tokens` none is needed."""

    def __init__(
        self,
        *,
        hosts: Collection[str] = (),
        origins: Collection[str] = (),
        tokens: Mapping[str, str] | None = None,
        exempt_paths: Collection[str] = (),
        allow_ip_hosts: bool = False,
    ) -> None:
        self.vouched: Callable[[Request], str | None] | None = None
        """The principal for whom another replica of ours asks; None: nobody vouches for it."""
        self.voucher_field: bytes | None = None
        """By which it does that: no client has it."""
        self._hosts = frozenset(_host_name(host.encode()) for host in hosts)
        self._origins = frozenset(origin.lower().rstrip("/") for origin in origins)
        self._tokens = {name: token.encode() for name, token in (tokens or {}).items()}
        self._exempt_paths = frozenset(exempt_paths)
        self._allow_ip_hosts = allow_ip_hosts

    def admit(self, request: Request) -> Response | None:
        """Refuse a request by its head alone: nobody's body is read who would not be let in."""
        verdict = self.judge(request)
        if verdict.answer is None:
            return None
        return Response(verdict.answer.status, verdict.answer.body, verdict.answer.headers + verdict.headers)

    def judge(self, request: Request) -> Verdict:
        """The verdict on one request; see the order above. One that lets in is noted on its head."""
        verdict: Verdict | None = request.head.notes.get(self)
        if verdict is not None and request.peer != "unix":
            return verdict
        vouched = self.vouched(request) if self.vouched is not None else None
        if vouched is not None and request.path not in self._exempt_paths:
            # Never noted: a seal is good for a while, a head for as long as it comes again.
            return Verdict(None, [], vouched)
        verdict = self._judge(request)
        if verdict.answer is None and request.peer != "unix":
            request.head.notes[self] = verdict
        return verdict

    def _judge(self, request: Request) -> Verdict:
        if request.path in self._exempt_paths:  # 1
            return PASS
        if self.voucher_field in request.head.fields:
            return Verdict(_not_believed(), [])
        if request.peer != "unix" and (refusal := self._check_host(request)):  # 2
            return Verdict(refusal, [])
        cors: Headers = []
        origins = request.header_all(b"origin")
        if origins:  # 3
            if len(origins) > 1 or not self._is_allowed_origin(origins[0]):
                return Verdict(_foreign_origin(origins[0]), [])
            cors = _cors_headers(origins[0])
        if request.method == "OPTIONS":  # 4
            return Verdict(_options_answer(request), cors)
        if not self._tokens:
            return Verdict(None, cors)
        return self._check_token(request, cors)  # 5

    def _check_host(self, request: Request) -> Response | None:
        name = _host_name(request.header(b"host") or b"")
        if _is_loopback(name) or "*" in self._hosts or name in self._hosts:
            return None
        if self._allow_ip_hosts and _is_ip(name):
            return None
        return problem(
            403,
            "host_not_allowed",
            f"requests for the host {name!r} are not served here",
            hint=f"to serve it, start Mooring with --allow-host {name or 'NAME'}",
        )

    def _is_allowed_origin(self, origin: bytes) -> bool:
        text = origin.decode("latin-1").lower()
        return text in self._origins or "*" in self._origins or _is_loopback_origin(text)

    def _check_token(self, request: Request, cors: Headers) -> Verdict:
        presented = request.header_all(b"authorization")
        if len(presented) > 1:
            return Verdict(problem(400, "bad_authorization", "several Authorization headers"), cors)
        match = BEARER.fullmatch(presented[0]) if presented else None
        if match is None:
            return Verdict(_unauthorized(invalid=bool(presented)), cors)
        principal: str | None = None
        for name, token in self._tokens.items():
            if hmac.compare_digest(match[1], token):
                principal = name
        if principal is None:
            return Verdict(_unauthorized(invalid=True), cors)
        return Verdict(None, cors, principal)


def guarded(app: App, guard: Guard) -> App:
    """`app`, reached only by requests that `guard` lets in."""

    def guarded_app(exchange: Exchange) -> None:
        answer, headers, principal = guard.judge(exchange.request)
        if headers:
            exchange.extra_headers.extend(headers)
        if answer is not None:
            exchange.respond(answer)
            return
        exchange.request.principal = principal
        app(exchange)

    return guarded_app


@lru_cache(maxsize=256)
def _host_name(host: bytes) -> str:
    """The name in a Host field: lower case, without port, brackets and final dot."""
    text = host.decode("latin-1").lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0].rstrip(".")


@lru_cache(maxsize=256)
def _is_ip(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


@lru_cache(maxsize=256)
def _is_loopback(name: str) -> bool:
    return name == "localhost" or (_is_ip(name) and ipaddress.ip_address(name).is_loopback)


@lru_cache(maxsize=256)
def _is_loopback_origin(origin: str) -> bool:
    try:
        parts = urlsplit(origin)
        port = parts.port
    except ValueError:
        return False
    netloc = parts.hostname or ""
    shown = f"[{netloc}]" if ":" in netloc else netloc
    # Rebuilt and compared: nothing but scheme, host and port is an origin.
    rebuilt = f"{parts.scheme}://{shown}" + ("" if port is None else f":{port}")
    return parts.scheme in ("http", "https") and rebuilt == origin and _is_loopback(netloc)


def _foreign_origin(origin: bytes) -> Response:
    shown = origin.decode("latin-1")
    return problem(
        403,
        "origin_not_allowed",
        f"pages of {shown!r} may not call this server",
        hint=f"to let them, start Mooring with --allow-origin {shown}",
    )


def _cors_headers(origin: bytes) -> Headers:
    return [
        (b"access-control-allow-origin", origin),
        (b"access-control-expose-headers", EXPOSED_HEADERS),
        (b"vary", b"Origin"),
    ]


def _options_answer(request: Request) -> Response:
    if request.header(b"access-control-request-method") is None:
        return Response(204, b"", [(b"allow", ALLOWED_METHODS)])
    wanted = request.header(b"access-control-request-headers")
    if not wanted or not NAME_LIST.fullmatch(wanted):
        wanted = USUAL_HEADERS
    return Response(
        204,
        b"",
        [
            (b"access-control-allow-methods", ALLOWED_METHODS),
            (b"access-control-allow-headers", wanted),
            (b"access-control-max-age", PREFLIGHT_LIFETIME_S),
        ],
    )


def _not_believed() -> Response:
    return problem(
        401,
        "replica_untrusted",
        "who passes this on is not believed to be a replica",
        hint="give all replicas the same --replica-key, and clocks that agree",
    )


def _unauthorized(*, invalid: bool) -> Response:
    challenge = b'Bearer realm="mooring"'
    if invalid:
        message = "the token presented is not valid here"
        challenge += b', error="invalid_token"'
    else:
        message = "this server needs a token"
    return problem(
        401,
        "unauthorized",
        message,
        hint="send the header Authorization: Bearer TOKEN",
        headers=[(b"www-authenticate", challenge)],
    )
