"""Large messages, and many small ones on one stream."""

from bench.generator import Window
from bench.measuring import Figures, Unable
from bench.rows.loading import under_load

__all__ = ["GROUPS"]

MIB = 1024 * 1024
EVENTS = 5000


def _echo(_: str, found: Window) -> Figures:
    return Figures({"echo_1m": found.p50_us / 1000})


def _long_line(_: str, found: Window) -> Figures:
    return Figures({"line_20m": found.min_us / 1e6})


def _events(_: str, found: Window) -> Figures:
    if found.events != EVENTS:
        raise Unable(
            "drops progress notifications" if not found.events else f"{found.events} of {EVENTS} events"
        )
    return Figures({"events": found.events / found.seconds})


def _big(bytes: int) -> str:
    return f'{{"bytes":{bytes}}}'


GROUPS = (
    under_load(("echo_1m",), _echo, "-b", str(MIB), "-n", "20", windows=4, quick_windows=3),
    under_load(
        ("line_20m",), _long_line, "-t", "big", "-a", _big(20 * MIB), "-n", "1", windows=3, quick_windows=3
    ),
    under_load(
        ("events",),
        _events,
        "-t",
        "events",
        "-p",
        "-a",
        f'{{"count":{EVENTS}}}',
        "-n",
        "1",
        windows=4,
        quick_windows=3,
    ),
)
