"""The headers of a request to a session: whoever may not pass does not, whoever passes gets one answer.

An input is one byte that chooses method and body, then header lines. `{session}`, `{other}`, `{event}`
and `{token}` stand for what is true at the moment: the caller's session, somebody else's, an event of
the caller's stream, the caller's token.
"""

import asyncio
import ipaddress
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from mooring.errors import Unavailable
from mooring.http.guard import Guard, guarded
from mooring.http.head import render_head
from mooring.http.limits import Limits
from mooring.http.problems import Refusal
from mooring.http.reader import RequestReader
from mooring.http.router import Router
from mooring.proxy.policy import SessionPolicy
from mooring.proxy.ports import Channel, Receiver
from mooring.proxy.proxy import Proxy
from mooring.proxy.streamable import TRANSPORT, StreamableHTTP
from mooring.wire import jsonrpc
from mooring.wire.http import Head, Headers, Request, Response
from mooring.wire.revisions import HANDSHAKE_REVISIONS
from tests.fuzz.loop import run

TOKEN = b"a-token-of-sixteen"
GUARDS = (
    Guard(hosts=["allowed.example"], origins=["https://allowed.example"]),
    Guard(hosts=["allowed.example"], origins=["https://allowed.example"], tokens={"me": TOKEN.decode()}),
    Guard(origins=["*"], allow_ip_hosts=True),
)
METHODS = (b"POST", b"GET", b"DELETE", b"OPTIONS")
BODIES = (
    b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}',
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}',
    b'{"jsonrpc":"2.0","method":"notifications/x"}',
    b'{"jsonrpc":"2.0","id":"q","result":{}}',
    b'[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]',
    b'{"jsonrpc":"2.0","id":1,"method":"server/discover"}',
    b"{",
)
STATUSES = {200, 202, 204, 400, 401, 403, 404, 405, 406, 415}


def check(data: bytes) -> None:
    run(_Scene().play(data[0] if data else 0, data[1:]))


class _Server:
    """An instance that answers everything at once."""

    pid = 1
    writable = True
    consumed = 0

    def __init__(self) -> None:
        self._receiver: Receiver | None = None

    def attach(self, receiver: Receiver) -> None:
        self._receiver = receiver

    def send(self, line: bytes) -> int:
        message = jsonrpc.parse(line)
        if message.is_request and self._receiver is not None:
            answer = jsonrpc.result_response(message.request_id, {"protocolVersion": "2025-03-26"})
            asyncio.get_running_loop().call_soon(self._receiver.on_line, answer)
        return 0

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...

    is_paused = False


class _Backend:
    """As many of them as anybody wants."""

    def refusal(self) -> Unavailable | None:
        return None

    async def acquire(self, *, expendable: bool = False) -> Channel:
        return _Server()

    def spoke(self, channel: Channel) -> None: ...
    def release(self, channel: Channel, reason: str, *, failed: bool = False) -> None: ...
    def take_leave(self, *args: Any) -> None: ...
    def settle(self) -> None: ...

    def doubt_handshakes(self) -> bool:
        return False


class _Exchange:
    """Takes one answer, and renders it: no header may break it."""

    disconnected = False
    writable = True

    def __init__(self, request: Request) -> None:
        self.request = request
        self.extra_headers: Headers = []
        self.on_disconnect: Callable[[], None] | None = None
        self.on_writable: Callable[[], None] | None = None
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.body = b""
        self._is_over = False

    def respond(self, response: Response) -> None:
        self.start(response.status, response.headers)
        self.body = response.body
        self._is_over = True

    def start(self, status: int, headers: Headers) -> None:
        assert not self.status, "two answers"
        render_head(status, headers, self.extra_headers)
        self.status, self.headers = status, dict([*headers, *self.extra_headers])
        assert len(self.headers) == len(headers) + len(self.extra_headers), "a field twice"

    def write(self, data: bytes) -> None:
        assert self.status and not self._is_over
        self.body += data

    def end(self) -> None:
        self.write(b"")
        self._is_over = True

    def abort(self) -> None:
        raise AssertionError("nobody aborts here")

    def upgrade(self, subprotocol: str) -> None:
        raise AssertionError("nobody upgrades here")


class _Scene:
    def __init__(self) -> None:
        self._proxy = Proxy(_Backend(), SessionPolicy(), lambda: 0.0, "fuzzed")
        streamable = StreamableHTTP(self._proxy)
        self._app = (
            Router()
            .add("POST", "/mcp", streamable.post)
            .add("GET", "/mcp", streamable.get)
            .add("DELETE", "/mcp", streamable.delete)
        )
        self._reached = 0

    async def play(self, choice: int, lines: bytes) -> None:
        guard = GUARDS[choice % 3]
        principal = "me" if choice % 3 == 1 else "local"
        try:
            request = await self._request(
                METHODS[choice // 3 % 4], BODIES[choice // 12 % 7], lines, principal
            )
            if request is not None:
                exchange = _Exchange(request)
                guarded(self._counted, guard)(exchange)
                await _turns()
                self._check(exchange, choice % 3)
        finally:
            await self._proxy.aclose("the end")

    async def _request(self, method: bytes, body: bytes, lines: bytes, principal: str) -> Request | None:
        """The request that the HTTP layer makes of it, unless it refuses."""
        session = await self._open(principal)
        other = self._proxy.open("somebody else", TRANSPORT, "")
        stream = session.streams.open(standalone=True)
        stream.append(b"{}")
        for name, value in (
            (b"{session}", session.id.encode()),
            (b"{other}", other.id.encode()),
            (b"{event}", stream.log.id_of(0)),
            (b"{token}", TOKEN),
        ):
            lines = lines.replace(name, value)
        self._other = other.id
        if not re.search(rb"(?im)^host *:", lines):
            lines += b"\nHost: localhost"
        fields = b"\r\n".join(line for line in lines.split(b"\n") if line)
        seen: list[Request] = []
        reader = RequestReader(
            Limits(), lambda request, *_: seen.append(request), lambda: None, peer="192.0.2.1:1"
        )
        wire = method + b" /mcp HTTP/1.1\r\n" + fields + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        with suppress(Refusal):
            reader.feed(wire)
        return seen[0] if seen else None

    async def _open(self, principal: str) -> Any:
        request = Request(Head("POST", "/mcp", headers=[(b"content-type", b"application/json")]), BODIES[1])
        request.principal = principal
        exchange = _Exchange(request)
        self._app(exchange)
        await _turns()
        return self._proxy.find(exchange.headers[b"mcp-session-id"].decode(), principal, TRANSPORT)

    def _counted(self, exchange: Any) -> None:
        self._reached += 1
        self._app(exchange)

    def _check(self, exchange: _Exchange, which: int) -> None:
        request = exchange.request
        assert exchange.status in STATUSES, exchange.status
        if exchange.status in (401, 403) or request.method == "OPTIONS":
            assert not self._reached, "refused, and let in nevertheless"
        else:
            assert self._reached or exchange.status == 400
        if self._reached:
            self._check_passed(request, which)
        origins = request.header_all(b"origin")
        if origins and exchange.status != 403:
            assert exchange.headers[b"access-control-allow-origin"] == origins[0]
        # (Where there are no sessions, the header means nothing.)
        revision = request.header(b"mcp-protocol-version")
        in_session = revision is None or revision.decode("latin-1") in HANDSHAKE_REVISIONS
        if in_session and request.header(b"mcp-session-id") == self._other.encode() and self._reached:
            assert exchange.status in (400, 404, 405, 406, 415), "somebody else's session"
        self._check_kind(exchange)

    def _check_passed(self, request: Request, which: int) -> None:
        """Said once more, in other words than the guard's."""
        host = (request.header(b"host") or b"").decode("latin-1").lower()
        name = re.sub(r":\d*$", "", host)
        known = name.rstrip(".") in ("localhost", "allowed.example" if which < 2 else "localhost")
        assert known or _is_ip(name.strip("[]").rstrip("."), loopback=which < 2), f"host {host!r}"
        for origin in request.header_all(b"origin"):
            if which < 2 and origin.lower() != b"https://allowed.example":
                match = re.fullmatch(r"https?://(\[[^\]]+\]|[^:/@?#\[\]]+)(:\d+)?", origin.decode().lower())
                assert match is not None and (match[1] == "localhost" or _is_ip(match[1].strip("[]"), True))
        if which == 1:
            assert re.fullmatch(rb"(?i:bearer) +" + TOKEN, b"|".join(request.header_all(b"authorization")))
            assert request.principal == "me"

    def _check_kind(self, exchange: _Exchange) -> None:
        """Nobody gets a stream who does not take one."""
        accepted = b",".join(exchange.request.header_all(b"accept")).lower() or b"*/*"
        if exchange.headers.get(b"content-type") == b"text/event-stream":
            assert re.search(rb"\*/\*|text/\*|text/event-stream", accepted)


def _is_ip(name: str, loopback: bool) -> bool:
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return address.is_loopback or not loopback


async def _turns() -> None:
    for _ in range(6):
        await asyncio.sleep(0)
