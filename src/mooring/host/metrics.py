"""`/metrics` in the text format of Prometheus, made from plain counts when it is asked for."""

import asyncio
import sys
from collections import Counter
from collections.abc import Iterable, Mapping

from mooring import __version__
from mooring.http.listener import Listener
from mooring.proxy.stats import BUCKETS_S
from mooring.supervise.states import State
from mooring.workloads.workload import Workload

__all__ = ["CONTENT_TYPE", "render"]

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"

HELD = "Messages held in memory, of all sessions together."

Labels = Mapping[str, str]


def render(workloads: Iterable[Workload], listener: Listener, common: Labels) -> bytes:
    """The whole page; `common` labels what belongs to no single server."""
    page = _Page()
    for workload in workloads:
        _tell_workload(_Teller(page, {"server": workload.name}), workload)
    _tell_process(_Teller(page, common), listener)
    return page.encode()


def _tell_workload(tell: "_Teller", workload: Workload) -> None:
    stats, seen = workload.proxy.stats, workload.supervisor.snapshot()
    sessions = Counter(str(session.state) for session in workload.proxy.sessions.values())
    instances = Counter(report.use for report in workload.report())
    held = {
        "calls": workload.proxy.in_flight.taken_bytes,
        "events": workload.proxy.kept.taken_bytes,
        "unfinished": workload.unfinished.taken_bytes,
    }
    states = [({"state": str(state)}, int(state is seen.state)) for state in State]
    tell.gauge("state", "1 for the state the server is in.", states)
    tell.gauge("ready", "1 if requests are worth sending here.", [({}, int(seen.ready))])
    tell.gauge("sessions", "Client sessions.", _by("state", sessions))
    tell.gauge("instances", "Server processes.", _by("use", instances))
    tell.gauge("calls_in_flight", "Calls not answered yet.", [({}, workload.proxy.calls_in_flight)])
    tell.gauge("held_bytes", HELD, _by("of", held))
    tell.counter("calls_total", "Calls taken.", [({}, stats.calls)])
    tell.counter(
        "calls_failed_total", "Calls that Mooring answered with an error.", _by("reason", stats.calls_failed)
    )
    tell.counter("calls_retried_total", "Calls run again on a new instance.", [({}, stats.calls_retried)])
    tell.counter("sessions_opened_total", "Sessions opened.", [({}, stats.sessions_opened)])
    tell.counter("sessions_closed_total", "Sessions closed.", [({}, stats.sessions_closed)])
    tell.counter(
        "sessions_recovered_total", "Sessions given a new instance.", [({}, stats.sessions_recovered)]
    )
    tell.counter("sessions_refused_total", "Sessions refused.", [({}, stats.sessions_refused)])
    tell.counter("restarts_total", "Restarts of the server.", [({}, seen.restarts)])
    tell.counter(
        "server_exits_total", "Server processes that ended unasked, or were given up.", [({}, workload.exits)]
    )
    tell.counter("junk_lines_total", "Lines of output that were no message.", [({}, stats.junk_lines)])
    tell.histogram(
        "call_duration_seconds", "Time to the server's answer.", stats.duration_buckets, stats.duration_sum_s
    )


def _tell_process(tell: "_Teller", listener: Listener) -> None:
    held = {"requests": listener.unread_bytes, "answers": listener.unsent_bytes}
    tell.gauge("build_info", "Which Mooring this is.", [({"version": __version__}, 1)])
    tell.gauge("connections", "Open connections.", [({}, listener.connections)])
    tell.gauge("websockets", "How many of them are WebSockets.", [({}, listener.websockets)])
    tell.gauge("held_bytes", HELD, _by("of", held))
    tell.gauge("tasks", "Tasks of the event loop.", [({}, len(asyncio.all_tasks()))])
    tell.gauge("objects", "Blocks of memory that Python objects occupy.", [({}, sys.getallocatedblocks())])
    tell.counter(
        "connections_refused_total", "Connections for which there was no room.", [({}, listener.refused)]
    )


def _by(label: str, counts: Mapping[str, int]) -> list[tuple[Labels, float]]:
    return [({label: key}, count) for key, count in sorted(counts.items())]


class _Page:
    """Families with all their samples: each of them stands in one place, whoever they are of."""

    def __init__(self) -> None:
        self._families: dict[str, list[str]] = {}

    def family(self, name: str, kind: str, text: str) -> list[str]:
        head = [f"# HELP mooring_{name} {text}", f"# TYPE mooring_{name} {kind}"]
        return self._families.setdefault(name, head)

    def encode(self) -> bytes:
        return ("\n".join(line for lines in self._families.values() for line in lines) + "\n").encode()


class _Teller:
    """Writes samples that have some labels in common."""

    def __init__(self, page: _Page, common: Labels) -> None:
        self._page = page
        self._common = common

    def gauge(self, name: str, text: str, samples: Iterable[tuple[Labels, float]]) -> None:
        self._tell(self._page.family(name, "gauge", text), name, samples)

    def counter(self, name: str, text: str, samples: Iterable[tuple[Labels, float]]) -> None:
        self._tell(self._page.family(name, "counter", text), name, samples)

    def histogram(self, name: str, text: str, buckets: list[int], total: float) -> None:
        family, count, samples = self._page.family(name, "histogram", text), 0, []
        for bound, number in zip([*map(str, BUCKETS_S), "+Inf"], buckets, strict=True):
            count += number
            samples.append(({"le": bound}, count))
        self._tell(family, f"{name}_bucket", samples)
        self._tell(family, f"{name}_sum", [({}, total)])
        self._tell(family, f"{name}_count", [({}, count)])

    def _tell(self, family: list[str], name: str, samples: Iterable[tuple[Labels, float]]) -> None:
        for labels, value in samples:
            # Names and reasons are ours and plain: nothing needs escaping.
            inside = ",".join(f'{key}="{word}"' for key, word in {**self._common, **labels}.items())
            # In full: rounded, a sum would stand still once it is large.
            family.append(f"mooring_{name}{{{inside}}} {value}" if inside else f"mooring_{name} {value}")
