"""What is remembered of one generation, for whoever asks why: its last exits, and its last words."""

from collections import deque
from typing import NamedTuple

from mooring.runtimes.exits import Exit

__all__ = ["Ended", "Recollection"]

MOST_EXITS = 10
MOST_WORDS = 20
MAX_WORD_CHARACTERS = 500
"""Of each line; the log has all of it."""


class Ended(NamedTuple):
    """An instance that ended unasked, or was given up (then without code and signal)."""

    at: float
    """By the wall clock."""
    pid: int
    exit: Exit
    ran_s: float
    how: str = ""
    """The exit in words; or that it was given up."""
    container: str = ""


class Recollection:
    """Bounded, whatever a server does. As with the log: what it says is shown, not judged."""

    def __init__(self) -> None:
        self.exits: deque[Ended] = deque(maxlen=MOST_EXITS)
        """The latest last."""
        self._words: deque[tuple[int, str]] = deque(maxlen=MOST_WORDS)

    def heard(self, pid: int, text: str) -> None:
        """An instance wrote a line to stderr."""
        cut = text if len(text) <= MAX_WORD_CHARACTERS else f"{text[:MAX_WORD_CHARACTERS]}…"
        self._words.append((pid, cut))

    def last_words(self) -> list[str]:
        """Lines of stderr: of the instance that ended last, or of any if that one said nothing."""
        dead = self.exits[-1].pid if self.exits else None
        return [text for pid, text in self._words if pid == dead] or [text for _, text in self._words]
