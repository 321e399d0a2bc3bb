"""Pipes to a child and what it writes to them, on whichever event loop runs.

Invariants:
- A descriptor is closed exactly once. A loop that was given one owns it from then on: asyncio
  closes the object it was given, libuv closes the number itself (and uvloop the object again,
  by when the number may be somebody else's; therefore `Descriptor` forgets it first).
- A pipe's callbacks come from the loop; the end of an output comes once, after all its data.
"""

import asyncio
import os
from collections.abc import Callable
from typing import IO, cast

__all__ = ["Descriptor", "OutputPipe", "open_pipe"]

_LAST_READ_BYTES = 1024 * 1024


class Descriptor:
    """One end of a pipe."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._foreign = False

    def fileno(self) -> int:
        """Its number, also after it was handed over."""
        return self._number

    def close(self) -> None:
        """Idempotent; does nothing once a loop that closes numbers by itself owns it."""
        if not self._foreign:
            self._foreign = True
            os.close(self._number)

    def hand_over(self, loop: asyncio.AbstractEventLoop) -> IO[bytes]:
        """Itself, in the shape that `connect_…_pipe` wants: all they use is `fileno` and `close`."""
        if type(loop).__module__.partition(".")[0] == "uvloop":
            self._foreign = True
        return cast("IO[bytes]", self)


def open_pipe() -> tuple[Descriptor, Descriptor]:
    """Read end and write end, neither inherited by any child."""
    read_end, write_end = os.pipe()
    return Descriptor(read_end), Descriptor(write_end)


class OutputPipe(asyncio.Protocol):
    """The read end of a child's stdout or stderr."""

    def __init__(self, on_data: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        # Called by the transport, straight to whoever listens: this is the path of every answer.
        self.data_received = on_data  # type: ignore[method-assign,assignment]
        self._on_end = on_end
        self._descriptor: Descriptor | None = None
        self._transport: asyncio.ReadTransport | None = None

    async def connect(self, descriptor: Descriptor) -> None:
        """Give the descriptor to the loop."""
        loop = asyncio.get_running_loop()
        self._descriptor = descriptor
        self._transport, _ = await loop.connect_read_pipe(lambda: self, descriptor.hand_over(loop))

    @property
    def closed(self) -> bool:
        """Its end was seen, or it was closed; the descriptor is given back."""
        return self._transport is None

    @property
    def descriptor(self) -> int | None:
        """While it is open."""
        if self._descriptor is None or self._transport is None or self._transport.is_closing():
            return None
        return self._descriptor.fileno()

    def pause(self) -> None:
        """Leave what comes in the pipe."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read on."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def close(self) -> None:
        """Read no more."""
        if self._transport is not None:
            self._transport.close()

    def read_rest(self) -> None:
        """Take what is in the pipe this very moment, without waiting for its end."""
        if self._transport is None or self._descriptor is None or self._transport.is_closing():
            return
        try:
            data = os.read(self._descriptor.fileno(), _LAST_READ_BYTES)
        except BlockingIOError:
            return
        if data:
            self.data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the transport: the end of the output, or closed by us."""
        self._transport = None
        self._on_end()
