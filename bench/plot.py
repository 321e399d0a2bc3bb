"""A run as a picture: one small bar chart per row that matters most, as SVG.

    Path("docs/performance.svg").write_text(draw(results))

The bars are linear and start at zero: how much longer one is says how much more it is. The bare pipe
is left out, or nothing else could be seen beside it. The picture brings its own paper in a light and
a dark colour, so it is legible wherever it is shown.
"""

from collections.abc import Iterator
from html import escape
from textwrap import shorten

from bench.figures import figure
from bench.machine import sentence
from bench.results import MINIMAL, MOORING, PIPE, Results, Row

__all__ = ["PANELS", "draw"]

PANELS = ("rate_1s", "seq_p50", "cpu_per_call", "start", "rss_50", "line_20m")

_WIDTH, _MARGIN, _GAP = 880, 24, 40
_COLUMNS = 2
_PANEL_WIDTH = (_WIDTH - 2 * _MARGIN - _GAP * (_COLUMNS - 1)) / _COLUMNS
_HEADER, _PANEL_HEADER, _PANEL_FOOT, _FOOT = 64, 30, 26, 18
_BAR, _STEP = 14, 21
_LABEL, _FIGURE = 108, 62
_MAX_NOTE = 38

_STYLE = """
.paper { fill: #ffffff } .text { fill: #1f2328 } .quiet { fill: #59636e }
.ours { fill: #0969da } .limit { fill: #6e7781 } .peer { fill: #a3adb8 } .axis { stroke: #8c959f }
text { font: 12px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif }
.heading { font-size: 16px; font-weight: 600 } .title { font-size: 13px; font-weight: 600 }
.mine { font-weight: 600 }
@media (prefers-color-scheme: dark) {
.paper { fill: #0d1117 } .text { fill: #e6edf3 } .quiet { fill: #9198a1 }
.ours { fill: #4493f8 } .limit { fill: #8b949e } .peer { fill: #59626c } .axis { stroke: #6e7681 }
}
"""


def draw(results: Results) -> str:
    """The whole picture."""
    rows = [row for row_id in PANELS if (row := results.row(row_id)) is not None]
    targets = [target for target in results.targets if target != PIPE]
    panel_height = _PANEL_HEADER + _STEP * len(targets) + _PANEL_FOOT
    height = _HEADER + panel_height * -(-len(rows) // _COLUMNS) + _FOOT
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}"'
        f' viewBox="0 0 {_WIDTH} {height}" role="img">',
        "<title>Mooring beside other bridges</title>",
        f"<style>{_STYLE}</style>",
        f'<rect class="paper" width="{_WIDTH}" height="{height}" rx="8"/>',
        _text(_MARGIN, 32, "Mooring beside other bridges", "heading text"),
        _text(_MARGIN, 50, f"{results.date[:10]}, {sentence(results.machine)}", "quiet"),
    ]
    for place, row in enumerate(rows):
        x = _MARGIN + place % _COLUMNS * (_PANEL_WIDTH + _GAP)
        y = _HEADER + place // _COLUMNS * panel_height
        lines += _panel(row, targets, x, y)
    lines.append(
        _text(_MARGIN, height - 18, "minimal: a bridge without any feature, the practical limit", "quiet")
    )
    return "\n".join([*lines, "</svg>", ""])


def _panel(row: Row, targets: list[str], x: float, y: float) -> Iterator[str]:
    yield _text(x, y + 18, f"{row.title}, {row.unit}", "title text")
    yield _text(x + _PANEL_WIDTH, y + 18, f"{row.better} is better", "quiet", anchor="end")
    longest = max((row.values.get(target) or 0.0 for target in targets), default=0.0)
    zero, room = x + _LABEL, _PANEL_WIDTH - _LABEL - _FIGURE
    for place, target in enumerate(targets):
        top = y + _PANEL_HEADER + place * _STEP
        yield from _bar(row, target, zero, top, room / longest if longest else 0.0)
    bottom = y + _PANEL_HEADER + len(targets) * _STEP - _STEP + _BAR
    yield f'<path class="axis" d="M{zero:g} {y + _PANEL_HEADER - 3:g}V{bottom + 3:g}"/>'


def _bar(row: Row, target: str, zero: float, top: float, scale: float) -> Iterator[str]:
    value = row.values.get(target)
    length = (value or 0.0) * scale
    weight = " mine" if target == MOORING else ""
    base = top + _BAR - 3
    yield _text(zero - 8, base, target, f"text{weight}", anchor="end")
    if length > 0:
        kind = {MOORING: "ours", MINIMAL: "limit"}.get(target, "peer")
        yield f'<rect class="{kind}" x="{zero:g}" y="{top:g}" width="{length:.1f}" height="{_BAR}"/>'
    if value is None:
        note = row.notes.get(target, "not measured")
        yield _text(zero + 6, base, shorten(note, _MAX_NOTE, placeholder=" …"), "quiet")
    else:
        yield _text(zero + length + 6, base, figure(value, row.unit), f"text{weight}")


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    end = ' text-anchor="end"' if anchor == "end" else ""
    return f'<text class="{kind}" x="{x:g}" y="{y:g}"{end}>{escape(text)}</text>'
