"""The answer to one POST of revision 2026-07-28.

Decided late: JSON with the status of its error code if the answer comes alone, a stream if anything
else comes first or nothing comes for a while. A stream cannot be resumed; a client that disconnects has
cancelled. What waits for a client that reads slowly is bounded by the connection.
"""

from collections.abc import Callable

from msgspec import Struct

from mooring.proxy.calls import JSON_HEADERS
from mooring.proxy.streams import SSE_HEADERS
from mooring.wire import sse
from mooring.wire.http import Exchange, Response
from mooring.wire.modern import http_status

__all__ = ["ModernReply"]


class ModernReply(Struct, eq=False):
    """Use `on_gone` to hear that nobody waits any more."""

    _exchange: Exchange
    _streamable: bool
    _since: float
    _keep_alive_s: float
    _streaming: bool = False
    _over: bool = False
    _last_word: float = 0.0

    @property
    def is_over(self) -> bool:
        """It was answered, or its client has gone."""
        return self._over or self._exchange.disconnected

    def on_gone(self, gone: Callable[[], None]) -> None:
        """What to do when the client disconnects before its answer."""
        self._exchange.on_disconnect = gone

    def note(self, line: bytes, now: float) -> None:
        """Something that comes before the answer. A client that takes no stream does not get it."""
        if self.is_over or not self._streamable:
            return
        self._begin(now)
        self._write(sse.encode_event(line), now)

    def answer(self, line: bytes, code: int, now: float) -> None:
        """The answer; `code` is that of its error, 0 if it is a result."""
        if self.is_over:
            return
        self._over = True
        self._exchange.on_disconnect = None  # and with it a circle of references, which would be left to gc
        if self._streaming:
            self._write(sse.encode_event(line), now)
            self._exchange.end()
        else:
            self._exchange.respond(Response(http_status(code), line, JSON_HEADERS))

    def tick(self, now: float) -> None:
        """Show that somebody is there."""
        if (
            self.is_over
            or not self._streamable
            or now - max(self._since, self._last_word) < self._keep_alive_s
        ):
            return
        self._begin(now)
        self._write(sse.KEEP_ALIVE, now)

    def begin_stream(self, now: float) -> None:
        """It will be one in any case."""
        if not self.is_over:
            self._begin(now)

    def _begin(self, now: float) -> None:
        if not self._streaming:
            self._streaming = True
            self._exchange.start(200, SSE_HEADERS)

    def _write(self, data: bytes, now: float) -> None:
        self._last_word = now
        self._exchange.write(data)
