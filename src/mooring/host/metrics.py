"""`/metrics` in the text format of Prometheus, made from plain counts when it is asked for."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping

from mooring import __version__
from mooring.http.listener import Listener
from mooring.proxy.stats import BUCKETS_S
from mooring.supervise.states import State
from mooring.workloads.workload import Workload

__all__ = ["CONTENT_TYPE", "render"]

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, str]


def render(workload: Workload, listener: Listener) -> bytes:
    """The whole page."""
    page = _Page(workload.name)
    stats, seen = workload.proxy.stats, workload.supervisor.snapshot()
    sessions = Counter(str(session.state) for session in workload.proxy.sessions.values())
    instances = Counter(report.use for report in workload.report())
    held = {
        "calls": workload.proxy.in_flight.taken_bytes,
        "events": workload.proxy.kept.taken_bytes,
        "unfinished": workload.unfinished.taken_bytes,
        "requests": listener.unread_bytes,
        "answers": listener.unsent_bytes,
    }
    page.gauge("build_info", "Which Mooring this is.", [({"version": __version__}, 1)])
    states = [({"state": str(state)}, int(state is seen.state)) for state in State]
    page.gauge("state", "1 for the state the server is in.", states)
    page.gauge("ready", "1 if requests are worth sending here.", [({}, int(seen.ready))])
    page.gauge("sessions", "Client sessions.", _by("state", sessions))
    page.gauge("instances", "Server processes.", _by("use", instances))
    page.gauge("calls_in_flight", "Calls not answered yet.", [({}, workload.proxy.calls_in_flight)])
    page.gauge("connections", "Open connections.", [({}, listener.connections)])
    page.gauge("websockets", "How many of them are WebSockets.", [({}, listener.websockets)])
    page.gauge("held_bytes", "Messages held in memory, of all sessions together.", _by("of", held))
    page.gauge("tasks", "Tasks of the event loop.", [({}, len(asyncio.all_tasks()))])
    page.counter(
        "connections_refused_total", "Connections for which there was no room.", [({}, listener.refused)]
    )
    page.counter("calls_total", "Calls taken.", [({}, stats.calls)])
    page.counter(
        "calls_failed_total", "Calls that Mooring answered with an error.", _by("reason", stats.calls_failed)
    )
    page.counter("calls_retried_total", "Calls run again on a new instance.", [({}, stats.calls_retried)])
    page.counter("sessions_opened_total", "Sessions opened.", [({}, stats.sessions_opened)])
    page.counter("sessions_closed_total", "Sessions closed.", [({}, stats.sessions_closed)])
    page.counter(
        "sessions_recovered_total", "Sessions given a new instance.", [({}, stats.sessions_recovered)]
    )
    page.counter("sessions_refused_total", "Sessions refused.", [({}, stats.sessions_refused)])
    page.counter("restarts_total", "Restarts of the server.", [({}, seen.restarts)])
    page.counter(
        "server_exits_total", "Server processes that ended unasked, or were given up.", [({}, workload.exits)]
    )
    page.counter("junk_lines_total", "Lines of output that were no message.", [({}, stats.junk_lines)])
    page.histogram(
        "call_duration_seconds", "Time to the server's answer.", stats.duration_buckets, stats.duration_sum_s
    )
    return page.encode()


def _by(label: str, counts: Mapping[str, int]) -> list[tuple[Labels, float]]:
    return [({label: key}, count) for key, count in sorted(counts.items())]


class _Page:
    def __init__(self, server: str) -> None:
        self._server = server
        self._lines: list[str] = []

    def gauge(self, name: str, text: str, samples: Iterable[tuple[Labels, float]]) -> None:
        self._family(name, "gauge", text, samples)

    def counter(self, name: str, text: str, samples: Iterable[tuple[Labels, float]]) -> None:
        self._family(name, "counter", text, samples)

    def histogram(self, name: str, text: str, buckets: list[int], total: float) -> None:
        self._head(name, "histogram", text)
        count = 0
        for bound, number in zip([*map(str, BUCKETS_S), "+Inf"], buckets, strict=True):
            count += number
            self._sample(f"{name}_bucket", {"le": bound}, count)
        self._sample(f"{name}_sum", {}, total)
        self._sample(f"{name}_count", {}, count)

    def _family(self, name: str, kind: str, text: str, samples: Iterable[tuple[Labels, float]]) -> None:
        self._head(name, kind, text)
        for labels, value in samples:
            self._sample(name, labels, value)

    def _head(self, name: str, kind: str, text: str) -> None:
        self._lines += [f"# HELP mooring_{name} {text}", f"# TYPE mooring_{name} {kind}"]

    def _sample(self, name: str, labels: Labels, value: float) -> None:
        # Names and reasons are ours and plain: nothing needs escaping.
        every = {"server": self._server, **labels}
        inside = ",".join(f'{key}="{word}"' for key, word in every.items())
        # In full: rounded, a sum would stand still once it is large.
        self._lines.append(f"mooring_{name}{{{inside}}} {value}")

    def encode(self) -> bytes:
        return ("\n".join(self._lines) + "\n").encode()
