"""A link and the WebSocket that carries it now.

What is said in one turn of the loop goes out as one message: that is where most of the speed comes from.
"""

import asyncio
from collections.abc import Callable

from mooring.relay.closing import FAILED, PROTOCOL_ERROR
from mooring.relay.envelope import MAX_MESSAGE_BYTES, BadEnvelope
from mooring.relay.link import Link
from mooring.wire.websocket import WebSocket

__all__ = ["Carrier", "prepare"]


def prepare(socket: WebSocket) -> None:
    """To be called before anything is read from it."""
    socket.expect_binary(MAX_MESSAGE_BYTES)


class Carrier:
    """Until the socket is lost, or another takes its place (`drop`).

    `is_strict`: a bad envelope ends the socket, as of a client; otherwise it is left out and counted.
    A gap ends it in any case.
    `on_lost` is called once, and not after `drop`. `measure` says of so many bytes for how long nothing more
    is to be read.
    """

    def __init__(
        self,
        link: Link,
        socket: WebSocket,
        *,
        is_strict: bool,
        on_lost: Callable[[int, str], None],
        measure: Callable[[int], float] = lambda count: 0.0,
    ) -> None:
        self.socket = socket
        self.heard = 0
        """Messages that came."""
        self._link = link
        self._is_strict = is_strict
        self._on_lost: Callable[[int, str], None] | None = on_lost
        self._measure = measure
        self._is_scheduled = False
        self._resting: asyncio.TimerHandle | None = None
        """More was read than may be: until then nothing is."""
        self._loop = asyncio.get_running_loop()
        link.on_wanted = self._want
        socket.on_message = self.hear
        socket.on_writable = self._pump
        socket.on_closed = self._on_closed
        self._want()

    def __repr__(self) -> str:
        return f"<Carrier of {self._link!r}{'' if self._on_lost else ' dropped'}>"

    @property
    def is_flushed(self) -> bool:
        """All that was said is with the kernel."""
        return self._link.has_nothing_to_send and self.socket.unsent_bytes == 0

    @property
    def is_resting(self) -> bool:
        """It is not read now, as too much was."""
        return self._resting is not None

    def close(self, code: int, reason: str) -> None:
        """Say goodbye, after all that was said. Idempotent."""
        self._pump()
        self.socket.close(code, reason)

    def drop(self) -> None:
        """Another carries the link, or nobody: whatever still happens here changes nothing."""
        self._on_lost = None
        if self._resting is not None:
            self._resting.cancel()
            self.socket.go_on()  # its goodbye is heard
        self._link.on_wanted = _nobody
        self.socket.on_message = self.socket.on_writable = None

    def _want(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        self._is_scheduled = False
        if self._on_lost is None:
            return
        socket, link = self.socket, self._link
        while socket.writable:
            message = link.take()
            if message:
                socket.send(message)
            if not link.is_wanted:
                return

    def hear(self, message: bytes) -> None:
        """What came."""
        self.heard += 1
        try:
            self._link.receive(message, strict=self._is_strict)
        except BadEnvelope as error:
            code = PROTOCOL_ERROR if self._is_strict else FAILED
            self.socket.close(code, str(error))
            self._on_closed(code, str(error))
            return
        wait_s = self._measure(len(message))
        if wait_s:
            self._rest(wait_s)

    def _rest(self, wait_s: float) -> None:
        """Messages that were read together each ask for it: the last one for the longest."""
        if self._resting is not None:
            self._resting.cancel()
        self.socket.hold()
        self._resting = self._loop.call_later(wait_s, self._go_on)

    def _go_on(self) -> None:
        self._resting = None
        self.socket.go_on()

    def _on_closed(self, code: int, reason: str) -> None:
        on_lost = self._on_lost
        if on_lost is not None:
            self.drop()
            on_lost(code, reason)


def _nobody() -> None:
    """Nobody sends: what waits is sent when the link goes on."""
