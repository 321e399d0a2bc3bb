"""Samples as a picture: one panel for each series, one line for each target. SVG, written by hand."""

import math
from collections.abc import Mapping, Sequence
from html import escape

from tests.soak.sampling import SERIES, Sample
from tests.soak.trend import Line

__all__ = ["draw", "ticks"]

WIDTH, PANEL, GAP, LEFT, RIGHT, TOP = 960, 110, 34, 70, 20, 74
COLOURS = ("#1f6fb2", "#d1601f", "#2e8b57", "#8a4fb5")
GREY, PALE, DARK = "#888", "#e6e6e6", "#222"
TITLES = {
    "rss_mib": "memory of Mooring (RSS, MiB)",
    "guardian_mib": "memory of its guardian (RSS, MiB)",
    "descriptors": "open descriptors",
    "threads": "threads",
    "processes": "processes of its tree",
    "tasks": "tasks of the event loop",
    "objects": "blocks of memory that objects occupy",
    "sessions": "sessions",
    "connections": "connections",
    "held_mib": "messages kept for clients that come back (MiB)",
}
Marks = Sequence[tuple[float, str]]


def draw(
    title: str,
    samples: Sequence[Sample],
    *,
    lines: Mapping[tuple[str, str], tuple[float, float, Line]] | None = None,
    marks: Marks = (),
) -> str:
    """The whole picture.

    `lines`: (target, series) → from and to (seconds), and the line fitted there (x in minutes).
    `marks`: seconds → what was done then, marked in every panel.
    """
    targets = list(dict.fromkeys(sample.target for sample in samples))
    end_s = max(sample.at_s for sample in samples)
    height = TOP + len(SERIES) * (PANEL + GAP) + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        _text(LEFT, 22, title, colour=DARK, size=15),
        *_legend(targets),
    ]
    for row, series in enumerate(SERIES):
        panel = _Panel(TOP + row * (PANEL + GAP), end_s, [getattr(one, series) for one in samples])
        parts += panel.frame(TITLES[series], marks)
        for colour, target in zip(COLOURS, targets, strict=False):
            points = [(one.at_s, getattr(one, series)) for one in samples if one.target == target]
            parts.append(panel.polyline(points, colour))
            if lines and (target, series) in lines:
                parts.append(panel.fitted(*lines[target, series], colour))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _legend(targets: Sequence[str]) -> list[str]:
    parts = []
    for place, (colour, target) in enumerate(zip(COLOURS, targets, strict=False)):
        x = LEFT + 90 * place
        parts.append(f'<line x1="{x}" y1="38" x2="{x + 22}" y2="38" stroke="{colour}" stroke-width="2"/>')
        parts.append(_text(x + 28, 42, target, colour=DARK))
    return parts


def _text(x: float, y: float, text: str, *, anchor: str = "start", colour: str = GREY, size: int = 11) -> str:
    style = f'text-anchor="{anchor}" fill="{colour}" font-size="{size}"'
    return f'<text x="{x}" y="{y}" {style}>{escape(text)}</text>'


class _Panel:
    """One series over time."""

    def __init__(self, top: float, end_s: float, values: Sequence[float]) -> None:
        self._top = top
        self._end_s = end_s or 1.0
        self._marks = ticks(0.0, max(values) or 1.0, 4)
        self._high = self._marks[-1]

    def x(self, at_s: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * at_s / self._end_s, 1)

    def y(self, value: float) -> float:
        return round(self._top + PANEL * (1 - value / self._high), 1)

    def frame(self, title: str, marks: Marks) -> list[str]:
        right, bottom = WIDTH - RIGHT, self._top + PANEL
        parts = [_text(LEFT, self._top - 5, title, colour=DARK)]
        for mark in self._marks:
            y = self.y(mark)
            parts.append(f'<line x1="{LEFT}" y1="{y}" x2="{right}" y2="{y}" stroke="{PALE}"/>')
            parts.append(_text(LEFT - 6, y + 4, f"{mark:g}", anchor="end"))
        for minute in ticks(0.0, self._end_s / 60, 8):
            if minute * 60 <= self._end_s:
                parts.append(_text(self.x(minute * 60), bottom + 13, f"{minute:g} min", anchor="middle"))
        for at_s, what in marks:
            x = self.x(at_s)
            line = f'<line x1="{x}" y1="{self._top}" x2="{x}" y2="{bottom}" stroke="{GREY}"'
            parts.append(f'{line} stroke-dasharray="2 3"><title>{escape(what)}</title></line>')
        return parts

    def polyline(self, points: Sequence[tuple[float, float]], colour: str) -> str:
        path = " ".join(f"{self.x(at_s)},{self.y(value)}" for at_s, value in points)
        return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.3"/>'

    def fitted(self, from_s: float, to_s: float, line: Line, colour: str) -> str:
        y1, y2 = self.y(line.at(from_s / 60)), self.y(line.at(to_s / 60))
        return (
            f'<line x1="{self.x(from_s)}" y1="{y1}" x2="{self.x(to_s)}" y2="{y2}" '
            f'stroke="{colour}" stroke-width="3" stroke-opacity="0.45"/>'
        )


def ticks(low: float, high: float, most: int) -> list[float]:
    """Round numbers from `low` to at least `high`, a few more than `most` at the worst."""
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(nice * power for nice in (1, 2, 2.5, 5, 10) if nice * power >= rough)
    return [round(low + step * n, 10) for n in range(math.ceil((high - low) / step) + 1)]
