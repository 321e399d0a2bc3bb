"""The parts of the soak, and the whole of it in small."""

import asyncio
import csv
import json
import math
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.mooring import LINUX_ONLY
from tests.soak import calls, mixed, sessions
from tests.soak.chart import draw, ticks
from tests.soak.command import QUICK, TINY
from tests.soak.gate import Gate
from tests.soak.ledger import AFTERMATH_S, Failed, Ledger, Over
from tests.soak.report import Report
from tests.soak.sampling import SERIES, Sample
from tests.soak.trend import Line, Rest, Trend, fit, rests, trends

pytestmark = LINUX_ONLY
MEMORY = ("rss_mib", "objects")
"""Settled only when as many sessions sleep as are allowed."""
SVG = "{http://www.w3.org/2000/svg}"


def sample(at_s: float, **values: Any) -> Sample:
    usual: dict[str, Any] = dict.fromkeys(SERIES, 1)
    return Sample(**{"target": "demo", "phase": "load 2", "at_s": at_s, **usual, **values})


# Growth


def test_the_line_of_least_squares() -> None:
    assert fit([0, 1, 2, 3], [1, 3, 5, 7]) == Line(1, 2)
    scattered = fit([0, 1, 2], [0, 3, 0])
    assert (scattered.level, scattered.slope) == (1, 0)
    assert scattered.error == pytest.approx(math.sqrt(3))
    assert fit([5, 5], [1, 3]) == Line(2, 0)
    assert Line(1, 2).at(10) == 21


def test_a_leak_is_seen_and_noise_is_not() -> None:
    noisy = [sample(4 * n, rss_mib=40 + (n % 5), descriptors=100 + 40 * (n % 2)) for n in range(225)]
    assert not [trend for trend in trends(noisy) if trend.grows]
    leaking = [sample(4 * n, rss_mib=40 + (n % 5) + n / 15 * 0.25, tasks=5 + n // 30) for n in range(225)]
    grown = {trend.series: trend for trend in trends(leaking) if trend.grows}
    assert set(grown) == {"rss_mib", "tasks"}
    assert grown["rss_mib"].slope == pytest.approx(0.25, abs=0.01) and "GROWS" in str(grown["rss_mib"])


def test_the_shorter_the_span_the_steeper_a_minute_may_be() -> None:
    [short] = [one for one in trends([sample(0), sample(30)]) if one.series == "rss_mib"]
    [long] = [one for one in trends([sample(0), sample(900)]) if one.series == "rss_mib"]
    assert (short.allowed, long.allowed) == (6.0, 0.2)


def test_rests_are_compared() -> None:
    before, after = [sample(0), sample(1)], [sample(2, processes=1), sample(3, processes=2, rss_mib=3.5)]
    assert [one.series for one in rests(before, after) if one.grows] == ["processes"]


# Calls


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


async def fails(cause: str) -> None:
    raise Failed(cause)


async def test_every_call_is_counted_once() -> None:
    async def answers() -> int:
        return 7

    troubles: list[str] = []
    ledger = Ledger(troubles.append)
    assert await ledger.count("echo", answers()) == 7
    with ledger.disturbing("kill"):
        await ledger.count("echo", fails("server_exited"))
        with pytest.raises(Over):
            await ledger.count("echo", fails("wrong answer"))
    waiting = asyncio.create_task(ledger.count("echo", asyncio.Event().wait()))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait((waiting,))
    assert ledger.right == {"echo": 1}
    assert ledger.explained == {"server_exited": 1, "the soak ended first": 1}
    assert ledger.unexplained == {"echo: wrong answer": 1} and len(troubles) == 1
    assert (ledger.calls, ledger.done) == (4, {"kill": 1})


@pytest.mark.parametrize(
    ("cause", "did", "explained"),
    [
        ("server_exited", "kill", True),
        ("server_exited", "sigterm", False),
        ("connection lost", "kill", False),
        ("connection lost", "sigkill", True),
        ("404 session_not_found", "sigterm", True),
        ("404 session_not_found", "kill", False),
        ("nothing for 60 s", "sigkill", False),
    ],
)
async def test_what_we_did_explains_only_what_it_can_cause(cause: str, did: str, explained: bool) -> None:
    ledger = Ledger(lambda text: None, Clock())
    with ledger.disturbing(did):
        pass
    try:
        await ledger.count("echo", fails(cause))
    except Over:
        assert cause != "server_exited"
    assert ledger.explained.total() == explained


async def test_what_we_did_long_ago_explains_nothing() -> None:
    clock = Clock()
    ledger = Ledger(lambda text: None, clock)
    with ledger.disturbing("kill"):
        pass
    clock.now += AFTERMATH_S + 0.1
    await ledger.count("echo", fails("server_exited"))
    assert ledger.unexplained.total() == 1


async def test_a_call_under_way_at_sigterm_must_be_answered() -> None:
    clock = Clock()
    ledger = Ledger(lambda text: None, clock)

    async def cut_off() -> None:
        clock.now += 1
        with ledger.disturbing("sigterm"):
            raise Failed("connection lost")

    with pytest.raises(Over):
        await ledger.count("echo", cut_off())
    assert ledger.unexplained == {"echo: connection lost": 1}


async def test_a_gate_closes_when_the_last_one_inside_has_left() -> None:
    gate, happened = Gate(), list[str]()

    async def pass_through(name: str) -> None:
        async with gate.inside():
            happened.append(f"{name} in")
            await asyncio.sleep(0.01)
            happened.append(f"{name} out")

    first = asyncio.create_task(pass_through("first"))
    await asyncio.sleep(0)
    async with gate.closed():
        happened.append("closed")
        second = asyncio.create_task(pass_through("second"))
        await asyncio.sleep(0.02)
        happened.append("opened")
    await asyncio.gather(first, second)
    assert happened == ["first in", "first out", "closed", "opened", "second in", "second out"]


# Pictures


def test_round_numbers_for_an_axis() -> None:
    assert ticks(0, 100, 4) == [0, 25, 50, 75, 100]
    assert ticks(0, 0.13, 4) == [0, 0.05, 0.1, 0.15]
    assert ticks(0, 53, 4) == [0, 20, 40, 60]


def test_the_picture_shows_every_sample() -> None:
    samples = [sample(n, rss_mib=n, target=name) for n in range(10) for name in ("demo", "quick & co")]
    lines = {("demo", "rss_mib"): (0.0, 9.0, Line(0, 60))}
    picture = ET.fromstring(draw("a <title>", samples, lines=lines, marks=[(3.0, "SIGTERM")]))
    curves = [curve.get("points", "").split() for curve in picture.iter(f"{SVG}polyline")]
    assert len(curves) == 2 * len(SERIES) and all(len(points) == 10 for points in curves)
    heights = [float(point.split(",")[1]) for point in curves[0]]
    assert heights == sorted(heights, reverse=True) and heights[0] > heights[-1], "it rises"
    words = [text.text for text in picture.iter(f"{SVG}text")]
    assert "a <title>" in words and "quick & co" in words


# Servers


@pytest.mark.parametrize("argv", [QUICK, TINY])
def test_the_small_servers_are_servers(argv: tuple[str, ...]) -> None:
    messages: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}},
        {"method": "notifications/initialized"},
        {"id": "two", "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "hello"}}},
    ]
    lines = [json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")) for message in messages]
    run = subprocess.run(
        argv, input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=20, check=True
    )
    first, second = map(json.loads, run.stdout.splitlines())
    assert first["id"] == 1 and first["result"]["protocolVersion"] == "2025-11-25"
    assert second == {
        "jsonrpc": "2.0",
        "id": "two",
        "result": {"content": [{"type": "text", "text": "hello"}]},
    }
    assert run.stderr == ""


# The whole


def check(report: Report, out: Path, title: str) -> None:
    """What a soak of seconds can tell: memory has not found its level, but all else is countable."""
    assert not report.wrong
    assert not [one for one in report.grown if isinstance(one, Rest) and one.series not in MEMORY]
    with (out / f"{title}.csv").open() as file:
        assert {row["phase"] for row in csv.DictReader(file)} > {"load 1", "load 2", "rest"}
    assert ET.parse(out / f"{title}.svg").getroot().tag.endswith("svg")
    assert "under load" in (out / f"{title}.txt").read_text()


async def test_a_soak_of_seconds(tmp_path: Path) -> None:
    check(await mixed.soak(0.2, tmp_path, seed=1), tmp_path, "mixed")


@pytest.mark.slow
async def test_a_soak_of_minutes(tmp_path: Path) -> None:
    report = await mixed.soak(5, tmp_path, seed=2)
    check(report, tmp_path, "mixed")
    assert not [one for one in report.grown if isinstance(one, Trend) and one.series not in MEMORY]


@pytest.mark.slow
async def test_thousands_of_sessions_that_nobody_ends(tmp_path: Path) -> None:
    check(await sessions.soak(4000, tmp_path, seed=1), tmp_path, "sessions")


@pytest.mark.slow
async def test_many_calls_through_a_few_sessions(tmp_path: Path) -> None:
    check(await calls.soak(40_000, tmp_path, seed=1), tmp_path, "calls")
