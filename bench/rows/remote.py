"""In front of a server that speaks HTTP: what Mooring adds, and what another proxy of that kind does.

The server is the minimal bridge before the native child, for everybody the same. Its own figures, without a
proxy, stand where the minimal bridge's always do.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.client import first_answer
from bench.generator import Window, generator
from bench.installed import mooring_program
from bench.measuring import Figures, Group, Plan, Probe
from bench.peers import python_program
from bench.processes import rss_bytes
from bench.programs import FOLDER
from bench.results import MINIMAL, MOORING
from bench.rows.fresh import from_scratch
from bench.targets import Argv, Running, free_port, native_child, serving, started

__all__ = ["GROUPS"]

FASTMCP = "fastmcp"
DIRECT = "the server itself"
CALLS_BEFORE, CALLS = "10000", "100000"
EVENT = ("-t", "events", "-p", "-a", '{"count":1}')
"""A call that says how far it is, once, and is then answered: on a stream."""


def _mooring(port: int, url: str) -> Argv:
    return [mooring_program(), "run", "--foreground", "bench", "--port", str(port), "--url", url]


def _fastmcp(port: int, url: str) -> Argv:
    configuration = FOLDER / "fastmcp-url.json"
    configuration.write_text(json.dumps({"mcpServers": {"bench": {"url": url, "transport": "http"}}}))
    words = ["--transport", "http", "--port", str(port), "--no-banner"]
    return [python_program("fastmcp"), "run", str(configuration), *words]


COMMANDS = {MOORING: _mooring, FASTMCP: _fastmcp}


@contextmanager
def _in_front(target: str) -> Iterator[Running]:
    """The server, and unless it is to be alone, that proxy before it, which has answered a call."""
    with serving(MINIMAL, native_child()) as server:
        if target == MINIMAL:
            yield server
            return
        port = free_port()
        argv = COMMANDS[target](port, f"http://127.0.0.1:{server.port}/mcp")
        with started(f"{target}-url", argv, port, []) as running:
            first_answer(port).leave()
            yield running


@contextmanager
def _windows(
    id: str, target: str, value: Callable[[Window], float], options: tuple[str, ...], plan: Plan
) -> Iterator[Callable[[], Figures]]:
    def window() -> Figures:
        return Figures({id: value(load())}, {id: DIRECT if target == MINIMAL else ""})

    seconds = "0.5" if plan.quick else "1"
    with _in_front(target) as running, generator(running, "-d", seconds, *options) as load:
        yield window


def _in_turn(id: str, value: Callable[[Window], float], *options: str, windows: int = 5) -> Group:
    def probes(plan: Plan) -> Iterator[Probe]:
        for target in plan.among(MOORING, MINIMAL, FASTMCP):
            yield Probe(target, (id,), _windows(id, target, value, options, plan))

    return Group((id,), probes, windows)


def _growth(_: str) -> Figures:
    """After it has warmed up."""
    with _in_front(MOORING) as running:
        with generator(running, "-c", "32", "-n", CALLS_BEFORE) as load:
            load()
        before = rss_bytes(running.process.pid)
        with generator(running, "-c", "32", "-n", CALLS) as load:
            load()
        after = rss_bytes(running.process.pid)
    return Figures(
        {"remote_growth": (after - before) / 1e6}, {"remote_growth": f"{before / 1e6:.1f} MB before"}
    )


GROUPS = (
    _in_turn("remote_p50", lambda found: found.p50_us / 1000),
    _in_turn("remote_event", lambda found: found.p50_us / 1000, *EVENT),
    _in_turn("remote_rate", lambda found: found.rate, "-c", "32"),
    from_scratch(("remote_growth",), _growth, windows=1, targets=(MOORING,)),
)
