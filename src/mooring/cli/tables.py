"""Values in columns, and spans and sizes in words."""

import time
from collections.abc import Iterable, Sequence

__all__ = ["age", "render", "size"]


def render(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose columns are as wide as they must be; nothing after the last one."""
    lines = [list(head), *(list(row) for row in rows)]
    widths = [max(len(line[n]) for line in lines) for n in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


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
