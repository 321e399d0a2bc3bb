"""Talking HTTP/1.1 to an engine, over its socket: one connection for each request.

    exchange    a request and its whole answer
    open_lines  an answer that goes on, line by line (events, the progress of a pull)
    upgrade     a request after which the connection is no longer HTTP (what is attached to a container)

Connecting to a socket of the same machine takes some 50 µs, so none is kept: what a connection has seen can
never be taken for the answer to something else, and one that broke concerns one request.

Whatever is wrong below HTTP is `Unavailable` (engine_unreachable; `Silence` if it was connected to and then
said nothing), or `UserError` (engine_forbidden). An answer that says no is a `Refusal`.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, Self, cast
from urllib.parse import urlencode

import httptools
import msgspec

from mooring.runtimes.containers.endpoints import Endpoint
from mooring.runtimes.containers.failures import (
    REFUSED,
    Refusal,
    Silence,
    engine_forbidden,
    engine_unreachable,
)

__all__ = ["Lines", "Reply", "Upgraded", "exchange", "open_lines", "target", "upgrade"]

ANSWER_BYTES = 16 * 1024 * 1024
"""Of one answer, or one line of it: beyond that it is nothing that an engine sends."""
WAITING_LINES = 256
"""So many may wait to be looked at before no more are read."""
CONNECT_S = 5.0
UPGRADED = 101


class Reply(NamedTuple):
    """A whole answer."""

    status: int
    body: bytes

    def decode(self) -> Any:
        """Its JSON; None if it is none."""
        try:
            return msgspec.json.decode(self.body)
        except (msgspec.DecodeError, RecursionError):
            return None

    @property
    def words(self) -> str:
        """What it says is wrong."""
        said = self.decode()
        if isinstance(said, dict) and isinstance(message := said.get("message"), str):
            cause = said.get("cause")
            return f"{message} ({cause})" if isinstance(cause, str) and cause not in message else message
        return self.body[:500].decode("utf-8", "replace")


class Upgraded(NamedTuple):
    """A connection that is no longer HTTP, and what has come on it already. It is paused."""

    transport: asyncio.Transport
    rest: bytes


def target(path: str, **query: str | int | None) -> str:
    """A path with what is asked of it; what is None is left out."""
    asked = {name: value for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(asked)}" if asked else path


class _Connection(asyncio.Protocol):
    """One request, one answer. The parser calls the methods that are named for what it has read."""

    def __init__(self, where: Endpoint) -> None:
        loop = asyncio.get_running_loop()
        self._where = where
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._pieces: list[bytes] = []
        self._size = 0
        self._is_upgraded = False
        self._tells_its_end = False
        self.rest = b""
        self.status = 0
        self.head: asyncio.Future[int] = loop.create_future()
        self.end: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        self.lines: Lines | None = None

    # What the transport tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._is_upgraded:
            self.rest += data  # it had been read before the pause
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._is_upgraded = True
            self.rest = data[upgrade.args[0] :]
            self.transport.pause_reading()
            self._settle(self.head, self.status)
            self._settle(self.end, None)
        except Exception as error:  # httptools wraps what its callbacks raise, too
            self.fail(f"its answer cannot be read ({error})")

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is None and self.status >= REFUSED and not self._tells_its_end:
            self._settle(self.end, None)  # as Docker refuses to attach: what it says ends with the connection
        self.fail("the connection was closed" if exc is None else str(exc))
        self._settle(self.closed, None)

    # What the parser tells

    def on_header(self, name: bytes, value: bytes) -> None:
        self._tells_its_end |= name.lower() in (b"content-length", b"transfer-encoding")

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        if self.status != UPGRADED:
            self._settle(self.head, self.status)

    def on_body(self, body: bytes) -> None:
        if self.lines is not None:
            self.lines.feed(body)
            return
        self._size += len(body)
        if self._size > ANSWER_BYTES:
            raise ValueError("too large")
        self._pieces.append(body)

    def on_message_complete(self) -> None:
        if self.status != UPGRADED and self.status >= 200:
            self._settle(self.end, None)
            if self.lines is not None:
                self.lines.finish(None)

    # What is asked of it

    @property
    def transport(self) -> asyncio.Transport:
        if self._transport is None:
            raise engine_unreachable(str(self._where), "not connected")
        return self._transport

    @property
    def body(self) -> bytes:
        return b"".join(self._pieces)

    def follow(self, silence_s: float | None) -> "Lines":
        """From here on the body is read line by line."""
        self.lines = Lines(self, self._where, silence_s)
        for piece in self._pieces:
            self.lines.feed(piece)
        self._pieces.clear()
        if self.end.done() and self.end.exception() is None:
            self.lines.finish(None)
        elif self.end.done():
            self.lines.finish(self.end.exception())
        return self.lines

    def fail(self, why: str) -> None:
        error = engine_unreachable(str(self._where), why)
        for future in (self.head, self.end):
            if not future.done():
                future.set_exception(error)
                future.exception()  # whoever waits hears of it; nobody need
        if self.lines is not None:
            self.lines.finish(error)
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _settle(self, future: "asyncio.Future[Any]", value: Any) -> None:
        if not future.done():
            future.set_result(value)


class Lines:
    """An answer that goes on. `async for` gives its lines; at its end it stops, or raises if it broke off."""

    def __init__(self, connection: _Connection, where: Endpoint, silence_s: float | None) -> None:
        self._connection = connection
        self._where = where
        self._silence_s = silence_s
        self._lines: deque[bytes] = deque()
        self._unfinished: list[bytes] = []
        self._size = 0
        self._paused = False
        self._is_over = False
        self._error: BaseException | None = None
        self._news = asyncio.Event()

    def feed(self, data: bytes) -> None:
        """Called by the connection."""
        *ends, rest = data.split(b"\n")
        for end in ends:
            line = b"".join((*self._unfinished, end)).strip()
            self._unfinished.clear()
            self._size = 0
            if line:
                self._lines.append(line)
        if rest:
            self._size += len(rest)
            if self._size > ANSWER_BYTES:
                raise ValueError("a line is too large")
            self._unfinished.append(rest)
        if len(self._lines) > WAITING_LINES and not self._paused:
            self._paused = True
            self._connection.transport.pause_reading()
        self._news.set()

    def finish(self, error: BaseException | None) -> None:
        """Called by the connection: nothing more comes."""
        if self._is_over:
            return
        self._is_over, self._error = True, error
        if error is None and (line := b"".join(self._unfinished).strip()):
            self._lines.append(line)
        self._news.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        while not self._lines:
            if self._error is not None:
                raise self._error
            if self._is_over:
                raise StopAsyncIteration
            self._news.clear()
            try:
                async with asyncio.timeout(self._silence_s):
                    await self._news.wait()
            except TimeoutError as error:
                raise Silence(str(self._where), self._silence_s or 0) from error
        line = self._lines.popleft()
        if self._paused and not self._lines:
            self._paused = False
            if not self._is_over:
                self._connection.transport.resume_reading()
        return line


async def exchange(
    where: Endpoint,
    method: str,
    path: str,
    body: bytes | None = None,
    *,
    timeout_s: float,
) -> Reply:
    """Send a request and wait for all of its answer, whatever it says."""
    async with _connected(where, timeout_s) as connection:
        connection.transport.write(_request(method, path, body))
        await connection.end
        return Reply(connection.status, connection.body)


@asynccontextmanager
async def open_lines(
    where: Endpoint, doing: str, method: str, path: str, *, timeout_s: float, silence_s: float | None = None
) -> AsyncIterator[Lines]:
    """Send a request whose answer goes on. Raises Refusal.

    `timeout_s` is for its beginning, `silence_s` between two lines; None: there may be nothing to tell.
    """
    connection = await _connect(where, timeout_s)
    try:
        try:
            async with asyncio.timeout(timeout_s):
                connection.transport.write(_request(method, path, None))
                status = await connection.head
                if status >= REFUSED:
                    await connection.end
                    raise Refusal(doing, status, Reply(status, connection.body).words)
        except TimeoutError as error:
            raise Silence(str(where), timeout_s) from error
        yield connection.follow(silence_s)
    finally:
        await _closed(connection)


async def upgrade(where: Endpoint, doing: str, path: str, *, timeout_s: float) -> Upgraded:
    """Make a connection that is no longer HTTP; it belongs to the caller. Raises Refusal."""
    connection = await _connect(where, timeout_s)
    try:
        async with asyncio.timeout(timeout_s):
            connection.transport.write(_request("POST", path, None, upgrades=True))
            await connection.end
        if connection.status != UPGRADED:
            raise Refusal(doing, connection.status, Reply(connection.status, connection.body).words)
    except TimeoutError as error:
        await _closed(connection)
        raise Silence(str(where), timeout_s) from error
    except BaseException:
        await _closed(connection)
        raise
    return Upgraded(connection.transport, connection.rest)


@asynccontextmanager
async def _connected(where: Endpoint, timeout_s: float) -> AsyncIterator[_Connection]:
    connection = await _connect(where, timeout_s)
    try:
        async with asyncio.timeout(timeout_s):
            yield connection
    except TimeoutError as error:
        raise Silence(str(where), timeout_s) from error
    finally:
        await _closed(connection)


async def _closed(connection: _Connection) -> None:
    """The descriptor is given back at the loop's next turn: wait for it."""
    connection.close()
    await asyncio.wait([connection.closed], timeout=1)


async def _connect(where: Endpoint, timeout_s: float) -> _Connection:
    loop = asyncio.get_running_loop()
    bound_s = min(timeout_s, CONNECT_S)
    try:
        async with asyncio.timeout(bound_s):
            if where.path:
                _, connection = await loop.create_unix_connection(lambda: _Connection(where), where.path)
            else:
                _, connection = await loop.create_connection(
                    lambda: _Connection(where), where.host, where.port
                )
    except TimeoutError as error:
        raise engine_unreachable(str(where), f"no connection in {bound_s:g} s") from error
    except PermissionError as error:
        raise engine_forbidden(str(where)) from error
    except OSError as error:
        raise engine_unreachable(str(where), error.strerror or str(error)) from error
    return connection


def _request(method: str, path: str, body: bytes | None, *, upgrades: bool = False) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: engine", "User-Agent: mooring"]
    lines += ["Connection: Upgrade", "Upgrade: tcp"] if upgrades else ["Connection: close"]
    if body is not None:
        lines += ["Content-Type: application/json"]
    if body is not None or method == "POST":
        lines += [f"Content-Length: {len(body or b'')}"]
    return "\r\n".join([*lines, "", ""]).encode("ascii") + (body or b"")
