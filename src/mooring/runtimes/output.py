"""What a child says: its stdout as lines for a receiver, its stderr as text for people.

stdout is left in the pipe until somebody listens. stderr is always read, to its very end: a
child must never wait because nobody reads its complaints.
"""

import logging
from collections.abc import Callable
from typing import Any, Protocol, cast

from mooring.runtimes.exits import Exit
from mooring.runtimes.pipes import OutputPipe
from mooring.runtimes.text import TextLines
from mooring.wire.budget import Budget
from mooring.wire.jsonrpc import is_cut
from mooring.wire.lines import LineDecoder, LongLine

__all__ = ["LineOutput", "Receiver", "TextOutput", "call"]

logger = logging.getLogger(__name__)


class Receiver(Protocol):
    """Who hears an instance. Called from the event loop, never from within `send`."""

    def on_line(self, line: bytes) -> None:
        """One line of its output, without the line end."""
        ...

    def on_long_line(self, line: LongLine) -> None:
        """A line over the limit, or for which there was no room: what was kept of it."""
        ...

    def on_writable(self) -> None:
        """`writable` has turned true again."""
        ...

    def on_gone(self, exit: Exit) -> None:
        """It has exited and its output has been read to the end. Called once, last."""
        ...


def call(listener: Callable[..., None], *arguments: Any) -> None:
    """Call a listener; what it raises is logged, so that the reading goes on."""
    try:
        listener(*arguments)
    except Exception:
        logger.exception("a listener failed")


class LineOutput:
    """stdout: read only while somebody listens and does not ask for a pause."""

    def __init__(self, max_line_bytes: int, unfinished: Budget, on_end: Callable[[], None]) -> None:
        self.pipe = OutputPipe(self._on_data, self._on_pipe_end)
        self.receiver: Receiver | None = None
        self._decoder: LineDecoder | None = LineDecoder(max_line_bytes, unfinished)
        self._on_end = on_end
        self._held = False
        self._paused = False
        self._unpausable = False

    def attach(self, receiver: Receiver) -> None:
        """Begin to read."""
        self.receiver = receiver
        self.turn()

    def pause_until_heard(self) -> None:
        """Leave it unread until somebody listens. Not before the loop has the pipe: it would read on."""
        self.turn()

    def pause(self) -> None:
        """Leave what comes in the pipe; lines that were read already still come."""
        self._paused = True
        self.turn()

    def resume(self) -> None:
        """Read on."""
        self._paused = False
        self.turn()

    def hold(self) -> None:
        """The same, whoever pauses and resumes meanwhile, until `go_on`."""
        self._held = True
        self.turn()

    def go_on(self) -> None:
        """After `hold`."""
        self._held = False
        self.turn()

    def read_to_end(self) -> None:
        """No more pauses: the writer has ended, and what it left fits the pipe."""
        self._unpausable = True
        self.turn()

    def finish(self) -> None:
        """Hand over what there is, an unterminated line included, and discard whatever comes later.

        But for a message that was cut: whoever waits for it is told of the end, which is the reason.
        """
        self.pipe.read_rest()
        decoder, self._decoder = self._decoder, None
        line = None if decoder is None else decoder.close()
        if line and not (type(line) is bytes and is_cut(line)):
            self._deliver(line)
        self.pipe.resume()

    @property
    def unfinished(self) -> bytes | None:
        """What was read of a line that has not ended; None if that is not all there."""
        return None if self._decoder is None else self._decoder.unfinished

    def begin_with(self, unfinished: bytes) -> None:
        """Another has read so much of a line."""
        self._on_data(unfinished)

    def let_go(self) -> None:
        """Another reads on: nothing of it is heard here any more."""
        self.receiver = None
        decoder, self._decoder = self._decoder, None
        if decoder is not None:
            decoder.close()
        self.pipe.close()

    def turn(self) -> None:
        """Read, or leave it unread, as it should be now."""
        if self.receiver is not None and (self._unpausable or not (self._paused or self._held)):
            self.pipe.resume()
        else:
            self.pipe.pause()

    def _on_data(self, data: bytes) -> None:
        if self._decoder is not None:
            for line in self._decoder.feed(data):
                self._deliver(line)

    def _deliver(self, line: bytes | LongLine) -> None:
        if self.receiver is None:
            return
        try:
            if type(line) is bytes:
                self.receiver.on_line(line)
            else:
                self.receiver.on_long_line(cast("LongLine", line))
        except Exception:
            logger.exception("a listener failed")

    def _on_pipe_end(self) -> None:
        self.finish()
        self._on_end()


class TextOutput:
    """stderr: always read."""

    def __init__(self, on_text: Callable[[str], None], on_end: Callable[[], None]) -> None:
        self.pipe = OutputPipe(self._on_data, self._on_pipe_end)
        self._lines = TextLines()
        self._on_text = on_text
        self._on_end = on_end

    @property
    def unfinished(self) -> bytes:
        """What was read of a line that has not ended, so far as it is kept."""
        return self._lines.unfinished

    def begin_with(self, unfinished: bytes) -> None:
        """Another has read so much of a line."""
        self._on_data(unfinished)

    def let_go(self) -> None:
        """Another reads on."""
        self._lines.close()
        self.pipe.close()

    def _on_data(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            call(self._on_text, line)

    def _on_pipe_end(self) -> None:
        if (line := self._lines.close()) is not None:
            call(self._on_text, line)
        self._on_end()
