"""Values that were given to a server, made unreadable in what it says.

A service, not a wall: a value that stands in a line as it is becomes `[secret:NAME]`; one that was
encoded, cut or spread over lines is not found. Bounded, so that a line costs the same whatever is kept.
"""

from collections.abc import Iterable

from mooring.secrets.references import Reference

__all__ = ["Mask"]

LEAST_CHARACTERS = 8
"""A shorter value would be found in words that have nothing to do with it."""
MOST_PIECES = 256
"""Lines of values that are looked for; those learnt longest ago give way."""


class Mask:
    """Of one server: also values that only its older processes have stay masked for a while."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._longest_first: list[str] = []

    def learn(self, values: Iterable[tuple[Reference, str]]) -> None:
        """From now on these are masked; a value of many lines line by line, as it is printed."""
        self.know(
            (piece, str(reference))
            for reference, value in values
            for piece in map(str.strip, value.splitlines())
            if len(piece) >= LEAST_CHARACTERS
        )

    @property
    def pieces(self) -> list[tuple[str, str]]:
        """All that is masked, and the name of each; the one learnt longest ago first."""
        return list(self._names.items())

    def know(self, pieces: Iterable[tuple[str, str]]) -> None:
        """What another Mooring has masked."""
        for piece, name in pieces:
            self._names.pop(piece, None)
            self._names[piece] = name
        for piece in list(self._names)[:-MOST_PIECES]:
            del self._names[piece]
        self._longest_first = sorted(self._names, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        """The text without what is known."""
        for piece in self._longest_first:
            if piece in text:
                text = text.replace(piece, f"[{self._names[piece]}]")
        return text
