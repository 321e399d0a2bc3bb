"""An HTTP/1.1 client for one server: the counterpart of the listener.

    client = Client(origin)
    response = await client.request("POST", "/mcp", headers, body)
    async for piece in response: …
    response.close()

- A request is sent at most once. Errors say whether any of it went out (`client_errors`). Only where the
  server itself names another place of its own, it is sent there instead (`client_redirects`).
- An answer that was read to its end gives its connection back, to be used again; closing it before
  that closes the connection, which is how a server learns that nobody listens any more.
- Connections that have been idle are looked at before they are used: one that the server has closed
  meanwhile is no failure of the request.
"""

import asyncio
import logging
import re
from collections.abc import Callable
from typing import Self

from mooring.http.client_connection import ClientConnection
from mooring.http.client_errors import BadAnswer, NoAnswer, NoPlace, NotSent
from mooring.http.client_limits import ClientLimits
from mooring.http.client_opening import PROXY_WANTS_PASSWORD, open_connection, proxy_refusal
from mooring.http.client_places import Places
from mooring.http.client_redirects import redirected
from mooring.http.origin import Origin
from mooring.wire.http import Headers

__all__ = ["Client", "ClientResponse"]

log = logging.getLogger("mooring.http")

CLOSING_S = 5.0
"""For the loop to tell that all are closed."""
CLEAN = re.compile(rb"[^\x00-\x08\x0a-\x1f\x7f]*")


class ClientResponse:
    """The head of an answer, and its body piece by piece."""

    def __init__(self, client: "Client", connection: ClientConnection, status: int, headers: Headers) -> None:
        self.status = status
        self.headers = headers
        self._client = client
        self._connection: ClientConnection | None = connection

    def __repr__(self) -> str:
        return f"<ClientResponse {self.status}>"

    def header(self, name: bytes) -> bytes | None:
        """The first field of that (lower case) name."""
        return next((value for key, value in self.headers if key == name), None)

    def __aiter__(self) -> Self:
        """Pieces of the body, as they come. Raises AnswerLost if it breaks off."""
        return self

    async def __anext__(self) -> bytes:
        if self._connection is not None and (piece := await self._connection.piece()):
            return piece
        self.close()
        raise StopAsyncIteration

    async def read(self, limit_bytes: int) -> bytes:
        """The rest of the body, if it is no larger than that. Raises AnswerLost."""
        pieces: list[bytes] = []
        length = 0
        async for piece in self:
            length += len(piece)
            if length > limit_bytes:
                self.close()
                raise BadAnswer(f"the answer is over {limit_bytes} bytes", code="message_too_long")
            pieces.append(piece)
        return b"".join(pieces)

    def close(self) -> None:
        """Done with it. Idempotent; necessary unless the body was read to its end."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._client.give_back(connection)


class Client:
    """Requests to one server. `aclose` leaves no connection."""

    def __init__(self, origin: Origin, limits: ClientLimits | None = None) -> None:
        self._origin = origin
        self._authority = origin.authority
        self._limits = limits or ClientLimits()
        self._places = Places(self._limits.max_connections)
        self._idle: list[ClientConnection] = []
        """Those that were used last are last, and used first."""
        self._tiring: asyncio.TimerHandle | None = None
        self._all: set[ClientConnection] = set()
        self._loop = asyncio.get_running_loop()
        self._closed = False

    @property
    def origin(self) -> Origin:
        """Whom it speaks to."""
        return self._origin

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._all)

    @property
    def is_used(self) -> bool:
        """Is a connection open, or wanted?"""
        return bool(self._all) or self._places.taken > 0

    async def request(
        self,
        method: str,
        target: str,
        headers: Headers,
        body: bytes = b"",
        *,
        head_timeout_s: float | None = None,
        check: Callable[[], None] | None = None,
    ) -> ClientResponse:
        """The head of the answer; the request has been sent once, but for redirects.

        `headers` are sent as they are, beside Host and the length of the body. `check` is called as each goes
        out, however long it has waited for a connection; what it raises keeps it here.

        Raises:
            NotSent: nothing went out.
            AnswerLost: it went out, and no head came back (within `head_timeout_s`).
        """
        for _ in range(self._limits.max_redirects):
            response = await self._send(
                method, target, headers, body, head_timeout_s=head_timeout_s, check=check
            )
            location = response.header(b"location")
            elsewhere = redirected(self._origin, target, method, response.status, location)
            if elsewhere is None:
                return response
            response.close()
            target = elsewhere
        return await self._send(method, target, headers, body, head_timeout_s=head_timeout_s, check=check)

    async def _send(
        self,
        method: str,
        target: str,
        headers: Headers,
        body: bytes,
        *,
        head_timeout_s: float | None,
        check: Callable[[], None] | None,
    ) -> ClientResponse:
        head = self.encode_head(method, target, headers)
        has_length = body or method in ("POST", "PUT", "PATCH")
        message = head + (b"Content-Length: %d\r\n\r\n" % len(body) if has_length else b"\r\n")
        connection = await self._connection()
        try:
            if check is not None:
                check()
            connection.send(message, body)
            if head_timeout_s is None:
                status, fields = await connection.head()
            else:
                status, fields = await _head_within(connection, head_timeout_s)
            if status == PROXY_WANTS_PASSWORD and self._origin.proxy is not None:
                # Of a server's own, this status would mean nothing to us.
                raise proxy_refusal(self._origin.proxy, self._origin.authority, status)
        except BaseException:
            connection.abort()
            self.give_back(connection)
            raise
        return ClientResponse(self, connection, status, fields)

    async def connect(self) -> None:
        """Open a connection for the next request: can the server be reached at all? Raises NotSent."""
        self.give_back(await self._connection())

    def give_back(self, connection: ClientConnection) -> None:
        """Keep a connection for the next request, or close it."""
        # Whoever waits for a place takes one in a moment.
        wanted = self._limits.max_idle_connections + self._places.waiting
        if connection.idle and not self._closed and len(self._idle) < wanted:
            connection.idle_since = self._loop.time()
            self._idle.append(connection)
            if self._tiring is None:
                self._tiring = self._loop.call_later(self._limits.idle_timeout_s, self._tire)
        else:
            connection.abort()
        self._places.give_back()

    async def aclose(self) -> None:
        """Close every connection, those in use too."""
        self._closed = True
        self._idle.clear()
        if self._tiring is not None:
            self._tiring.cancel()
        for connection in (everyone := list(self._all)):
            connection.abort()
        closing = [asyncio.ensure_future(connection.wait_closed()) for connection in everyone]
        if closing:
            _, late = await asyncio.wait(closing, timeout=CLOSING_S)
            for each in late:  # what the loop does not tell of is closed all the same
                each.cancel()

    def _tire(self) -> None:
        """Close those that nobody has used for too long; look again when the next one is due."""
        self._tiring = None
        now, span_s = self._loop.time(), self._limits.idle_timeout_s
        while self._idle and self._idle[0].idle_since + span_s <= now:
            self._idle.pop(0).abort()
        if self._idle:
            self._tiring = self._loop.call_at(self._idle[0].idle_since + span_s, self._tire)

    async def _connection(self) -> ClientConnection:
        self._check_open()
        if not self._places.take_now():
            await self._wait_for_place()
        connection: ClientConnection | None = None
        try:
            connection = self._pop_idle() or await self._open()
            self._check_open()
        except BaseException:
            if connection is not None:
                connection.abort()
            self._places.give_back()
            raise
        return connection

    def _check_open(self) -> None:
        if self._closed:
            raise NotSent("the client is closed", code="closed")

    def _pop_idle(self) -> ClientConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.looks_alive():
                return connection
            connection.abort()
        return None

    async def _open(self) -> ClientConnection:
        """Of one that is given up while it is made, no loop tells us every time that it is closed."""
        made: list[_Counted] = []

        def make() -> ClientConnection:
            made.append(_Counted(self._limits, self._all))
            return made[-1]

        try:
            return await open_connection(self._origin, self._limits.connect_timeout_s, make)
        except BaseException:
            for connection in made:
                connection.abandon()
            raise

    async def _wait_for_place(self) -> None:
        try:
            async with asyncio.timeout(self._limits.place_timeout_s):
                await self._places.take()
        except TimeoutError:
            text = f"all {self._limits.max_connections} connections to {self._origin.authority} are in use"
            hint = "each open stream takes one, and each call under way"
            raise NoPlace(text, hint=hint) from None

    def encode_head(self, method: str, target: str, headers: Headers) -> bytes:
        """All of a head but the length of the body and the empty line."""
        origin = self._origin
        through = origin.proxy if origin.tls is None else None
        whole = f"http://{self._authority}{target}" if through is not None else target
        lines = [f"{method} {whole} HTTP/1.1\r\nHost: {self._authority}\r\n".encode("ascii")]
        if through is not None and through.authorization is not None:
            lines.append(b"Proxy-Authorization: %b\r\n" % through.authorization)
        for name, value in headers:
            if not CLEAN.fullmatch(value):
                raise ValueError(f"the header {name.decode('latin-1')} has control characters in its value")
            lines.append(b"%b: %b\r\n" % (name, value))
        return b"".join(lines)


async def _head_within(connection: ClientConnection, timeout_s: float) -> tuple[int, Headers]:
    try:
        async with asyncio.timeout(timeout_s):
            return await connection.head()
    except TimeoutError:
        raise NoAnswer(f"the server did not answer within {timeout_s:g} s", code="timeout") from None


class _Counted(ClientConnection):
    """A connection that is in `everyone` for as long as it has a descriptor."""

    def __init__(self, limits: ClientLimits, everyone: set[ClientConnection]) -> None:
        super().__init__(limits)
        self._everyone = everyone

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if self._lost:
            self._transport.abort()
        else:
            self._everyone.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._everyone.discard(self)
        super().connection_lost(exc)
