"""Values in columns, and spans and sizes in words."""

import time
from collections.abc import Iterable, Sequence

__all__ = ["Rolling", "age", "fitted", "render", "size"]


def render(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table whose columns are as wide as they must be; nothing after the last one."""
    lines = [list(head), *(list(row) for row in rows)]
    widths = [max(len(line[n]) for line in lines) for n in range(len(head))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


def fitted(
    head: Sequence[str], rows: Sequence[Sequence[str]], expendable: Iterable[str], width: int | None
) -> list[str]:
    """The same without as many of the expendable columns as it takes to be no wider than `width`."""
    lines = render(head, rows)
    for title in expendable:
        if width is None or max(map(len, lines)) <= width:
            break
        at = head.index(title)
        head = [*head[:at], *head[at + 1 :]]
        rows = [[*row[:at], *row[at + 1 :]] for row in rows]
        lines = render(head, rows)
    return lines


class Rolling:
    """A table of which some rows come after the other: the first ones say which columns there are.

    Columns only grow, so that nothing is cut off; what was printed before stays as it is.
    """

    def __init__(self, head: Sequence[str], expendable: Iterable[str], width: int | None) -> None:
        self._head = list(head)
        self._expendable = expendable
        self._width = width
        self._shown: list[int] = []
        self._widths: list[int] = []

    def add(self, rows: Sequence[Sequence[str]]) -> list[str]:
        """The lines of more rows; above the first ones the head."""
        lines = [list(row) for row in rows]
        if not self._shown:
            kept = fitted(self._head, lines, self._expendable, self._width)[0].split()
            self._shown = [n for n, title in enumerate(self._head) if title in kept]
            self._widths = [0] * len(self._head)
            lines.insert(0, self._head)
        self._widths = [max(width, *(len(line[n]) for line in lines)) for n, width in enumerate(self._widths)]
        return ["  ".join(line[n].ljust(self._widths[n]) for n in self._shown).rstrip() for line in lines]


def age(since: float | None) -> str:
    """How long ago, in the largest unit that fits."""
    if since is None:
        return "-"
    seconds = max(0, int(time.time() - since))
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def size(amount_bytes: int) -> str:
    """Bytes, in MB."""
    return f"{amount_bytes / 1e6:.0f} MB" if amount_bytes else "-"
