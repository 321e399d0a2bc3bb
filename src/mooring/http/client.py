"""An HTTP/1.1 client for one server: the counterpart of the listener.

    client = Client(origin)
    response = await client.request("POST", "/mcp", headers, body)
    async for piece in response: …
    response.close()

- A request is sent at most once. Errors say whether any of it went out (`client_errors`).
- An answer that was read to its end gives its connection back, to be used again; closing it before
  that closes the connection, which is how a server learns that nobody listens any more.
- Connections that have been idle are looked at before they are used: one that the server has closed
  meanwhile is no failure of the request.
"""

import asyncio
import logging
import re
import ssl
from typing import Self

from mooring.http.client_connection import ClientConnection
from mooring.http.client_errors import BadAnswer, NoAnswer, NotSent, NotTrusted
from mooring.http.client_limits import ClientLimits
from mooring.http.origin import Origin
from mooring.wire.http import Headers

__all__ = ["Client", "ClientResponse"]

log = logging.getLogger("mooring.http")

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
        self._limits = limits or ClientLimits()
        self._places = asyncio.Semaphore(self._limits.max_connections)
        self._idle: list[ClientConnection] = []
        self._all: set[ClientConnection] = set()
        self._loop = asyncio.get_running_loop()
        self._closed = False

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._all)

    async def request(
        self,
        method: str,
        target: str,
        headers: Headers,
        body: bytes = b"",
        *,
        head_timeout_s: float | None = None,
    ) -> ClientResponse:
        """The head of the answer; the request has been sent once.

        `headers` are sent as they are, beside Host and the length of the body.

        Raises:
            NotSent: nothing went out.
            AnswerLost: it went out, and no head came back (within `head_timeout_s`).
        """
        message = self._encode(method, target, headers, body)
        connection = await self._connection()
        try:
            connection.send(message, body)
            try:
                async with asyncio.timeout(head_timeout_s):
                    status, fields = await connection.head()
            except TimeoutError:
                raise NoAnswer(f"the server did not answer within {head_timeout_s:g} s") from None
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
        if connection.idle and not self._closed and len(self._idle) < self._limits.max_idle_connections:
            connection.idle_since = self._loop.time()
            self._idle.append(connection)
            self._loop.call_later(self._limits.idle_timeout_s, self._tire, connection, connection.idle_since)
        else:
            connection.abort()
        self._places.release()

    async def aclose(self) -> None:
        """Close every connection, those in use too."""
        self._closed = True
        self._idle.clear()
        for connection in (everyone := list(self._all)):
            connection.abort()
        for connection in everyone:
            await connection.wait_closed()

    def _tire(self, connection: ClientConnection, since: float) -> None:
        if connection in self._idle and connection.idle_since == since:
            self._idle.remove(connection)
            connection.abort()

    async def _connection(self) -> ClientConnection:
        if self._closed:
            raise NotSent("the client is closed", code="closed")
        await self._places.acquire()
        try:
            while self._idle:
                connection = self._idle.pop()
                if connection.looks_alive():
                    return connection
                connection.abort()
            return await self._open()
        except BaseException:
            self._places.release()
            raise

    async def _open(self) -> ClientConnection:
        origin, limits = self._origin, self._limits
        where = f"unix:{origin.unix}" if origin.unix is not None else origin.authority
        try:
            async with asyncio.timeout(limits.connect_timeout_s):
                if origin.unix is not None:
                    _, connection = await self._loop.create_unix_connection(self._make, str(origin.unix))
                else:
                    _, connection = await self._loop.create_connection(
                        self._make, origin.host, origin.port, ssl=origin.tls
                    )
        except TimeoutError:
            raise NotSent(f"{where}: no connection within {limits.connect_timeout_s:g} s") from None
        except ssl.SSLCertVerificationError as error:
            hint = "give the authority that signed it with --ca-file PATH, if you trust it"
            raise NotTrusted(
                f"{where}: its certificate is not good: {error.verify_message}", hint=hint
            ) from None
        except ssl.SSLError as error:
            hint = "is it http:// rather than https://?"
            raise NotTrusted(f"{where}: no TLS: {error.reason or error}", hint=hint) from None
        except (OSError, UnicodeError) as error:
            raise NotSent(f"{where}: {_reason(error)}") from None
        return connection

    def _make(self) -> ClientConnection:
        return _Counted(self._limits, self._all)

    def _encode(self, method: str, target: str, headers: Headers, body: bytes) -> bytes:
        lines = [f"{method} {target} HTTP/1.1\r\nHost: {self._origin.authority}\r\n".encode("ascii")]
        for name, value in headers:
            if not CLEAN.fullmatch(value):
                raise ValueError(f"the header {name.decode('latin-1')} has control characters in its value")
            lines.append(b"%b: %b\r\n" % (name, value))
        if body or method in ("POST", "PUT", "PATCH"):
            lines.append(b"Content-Length: %d\r\n" % len(body))
        return b"".join([*lines, b"\r\n"])


class _Counted(ClientConnection):
    """A connection that is in `everyone` for as long as it has a descriptor."""

    def __init__(self, limits: ClientLimits, everyone: set[ClientConnection]) -> None:
        super().__init__(limits)
        self._everyone = everyone

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._everyone.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._everyone.discard(self)
        super().connection_lost(exc)


def _reason(error: OSError | UnicodeError) -> str:
    """The words of the system, without the numbers and addresses that asyncio puts before them."""
    if isinstance(error, ConnectionRefusedError) or "refused" in str(error).lower():
        return "connection refused"
    if isinstance(error, FileNotFoundError):
        return "there is no such socket"
    return (isinstance(error, OSError) and error.strerror) or str(error)
