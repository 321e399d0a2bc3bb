"""How much a server can write into our log: so many lines a second, and the rest is counted and told.

For whatever it causes without end: its stderr, lines on stdout that are no message, messages that
have to be dropped. What it meant to say is not lost on anybody who needs it: calls are answered.
"""

import asyncio
import logging
from collections.abc import Callable

__all__ = ["LINES_PER_S", "Noise"]

log = logging.getLogger("mooring.server")

LINES_PER_S = 500
"""A long traceback and more; whoever looks on reads no faster."""
LINE_CHARACTERS = 1024
"""A longer line counts as several."""
EXCERPT_CHARACTERS = 200
MASKED_BYTES = 64 * 1024


class Noise:
    """Of one workload, all its instances together."""

    __slots__ = ("_left_out", "_name", "_taken", "_timer", "mask")

    def __init__(self, name: str) -> None:
        self.mask: Callable[[str], str] = lambda text: text
        """Takes out of a line what must not be read in a log."""
        self._name = name
        self._taken = 0
        self._left_out = 0
        self._timer: asyncio.TimerHandle | None = None

    def admits(self, characters: int) -> bool:
        """May a line of that length be logged? If not, it is counted."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(1.0, self.end_second)
        if self._taken >= LINES_PER_S:
            self._left_out += 1
            return False
        self._taken += 1 + characters // LINE_CHARACTERS
        return True

    def excerpt(self, line: bytes) -> str | None:
        """The beginning of what a server has printed, if it may be logged.

        Masked before it is cut: half a value is not found.
        """
        if not self.admits(min(len(line), EXCERPT_CHARACTERS)):
            return None
        return self.mask(line[:MASKED_BYTES].decode("utf-8", "replace"))[:EXCERPT_CHARACTERS]

    def end_second(self) -> None:
        """Tell what was left out, and begin anew."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        left_out, self._left_out, self._taken = self._left_out, 0, 0
        if left_out:
            extra = {"event": "lines_left_out", "server": self._name, "lines": left_out}
            log.warning("… %s more lines were left out", f"{left_out:,}", extra=extra)
