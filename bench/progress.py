"""How far the benchmark is: each figure on a line of its own; on a terminal, also what happens right now."""

import time
from collections.abc import Sequence
from typing import TextIO

from bench.figures import figure, with_unit
from bench.measuring import Group
from bench.results import Row

__all__ = ["Lines"]

CLEAR = "\r\x1b[K"


class Lines:
    """Progress on a file, a terminal or not."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._rewrites = file.isatty()
        self._began = time.monotonic()
        self._now = ""

    def begin(self, group: Group) -> None:
        self._now = ", ".join(group.ids[:3]) + ("…" if len(group.ids) > 3 else "")

    def step(self, target: str, text: str) -> None:
        if self._rewrites:
            self._write(f"{CLEAR}{self._elapsed()}  {self._now}: {target}, {text}")

    def end(self, rows: Sequence[Row]) -> None:
        clear = CLEAR if self._rewrites else ""
        for row in rows:
            for target, value in row.values.items():
                number = with_unit(figure(value, row.unit), row.unit) if value is not None else "–"
                note = f"  ({row.notes[target]})" if target in row.notes else ""
                self._write(f"{clear}{self._elapsed()}  {row.id:<20} {target:<15} {number}{note}\n")

    def say(self, text: str) -> None:
        """One line."""
        self._write(f"{CLEAR if self._rewrites else ''}{self._elapsed()}  {text}\n")

    def _elapsed(self) -> str:
        minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
        return f"{minutes:2}:{seconds:02}"

    def _write(self, text: str) -> None:
        self._file.write(text)
        self._file.flush()
