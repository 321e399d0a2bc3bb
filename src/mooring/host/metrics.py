"""`/metrics` in the text format of Prometheus, made from plain counts when it is asked for."""

import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Iterable

from mooring import __version__
from mooring.host.prometheus import CONTENT_TYPE, Labels, Page, Teller, by
from mooring.http.listener import Listener
from mooring.proxy.stats import BUCKETS_S
from mooring.supervise.states import State
from mooring.workloads.workload import Workload

__all__ = ["CONTENT_TYPE", "render"]

HELD = "Messages held in memory, of all sessions together."


def render(
    workloads: Iterable[Workload],
    listener: Listener,
    common: Labels,
    further: Iterable[Callable[[Teller], None]] = (),
) -> bytes:
    """The whole page; `common` labels what belongs to no single server, and what `further` ones tell."""
    page = Page()
    for workload in workloads:
        _tell_workload(Teller(page, {"server": workload.name}), workload)
    _tell_process(Teller(page, common), listener)
    for tell_more in further:
        tell_more(Teller(page, common))
    return page.encode()


def _tell_workload(tell: Teller, workload: Workload) -> None:
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
    tell.gauge("sessions", "Client sessions.", by("state", sessions))
    tell.gauge("instances", "Server processes.", by("use", instances))
    tell.gauge("calls_in_flight", "Calls not answered yet.", [({}, workload.proxy.calls_in_flight)])
    tell.gauge("held_bytes", HELD, by("of", held))
    tell.counter("calls_total", "Calls taken.", [({}, stats.calls)])
    tell.counter(
        "calls_failed_total", "Calls that Mooring answered with an error.", by("reason", stats.calls_failed)
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
        "call_duration_seconds",
        "Time to the server's answer.",
        BUCKETS_S,
        stats.duration_buckets,
        stats.duration_sum_s,
    )


def _tell_process(tell: Teller, listener: Listener) -> None:
    held = {"requests": listener.unread_bytes, "answers": listener.unsent_bytes}
    tell.gauge("build_info", "Which Mooring this is.", [({"version": __version__}, 1)])
    tell.gauge("connections", "Open connections.", [({}, listener.connections)])
    tell.gauge("websockets", "How many of them are WebSockets.", [({}, listener.websockets)])
    tell.gauge("held_bytes", HELD, by("of", held))
    tell.gauge("tasks", "Tasks of the event loop.", [({}, len(asyncio.all_tasks()))])
    tell.gauge("objects", "Blocks of memory that Python objects occupy.", [({}, sys.getallocatedblocks())])
    tell.counter(
        "connections_refused_total", "Connections for which there was no room.", [({}, listener.refused)]
    )
