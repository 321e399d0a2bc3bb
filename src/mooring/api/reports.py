"""A server as the API tells of it: what is wanted, what is the case, and why."""

from collections.abc import Callable

from mooring.api.types import Instance, Server, ServerExit
from mooring.supervise.reasons import Reason, ReasonCode
from mooring.supervise.states import State
from mooring.workloads.fleet import Seen
from mooring.workloads.generation import Generation
from mooring.workloads.recollection import Ended

__all__ = ["report"]

TROUBLED = frozenset({State.STARTING, State.BACKOFF, State.FAILED})
"""While it is in one of these, its last words may say why."""


def report(seen: Seen, *, pid: int, url: str, memory_of: Callable[[int, str], int], now: float) -> Server:
    """All that is known. `now` is of the wall clock; `pid` of the daemon, which owns the server.

    `memory_of`: of an instance, by its pid, and by the id of its container if it has one.
    """
    wanted, live, snapshot = seen.wanted, seen.live, seen.snapshot()
    state, reason = _at_rest(seen) if snapshot is None else (snapshot.state, snapshot.reason)
    instances = [] if live is None else live.workload.report()
    proxy = None if live is None else live.workload.proxy
    recollection = None if live is None else live.workload.recollection
    return Server(
        name=wanted.name,
        desired=str(wanted.desired),
        state=str(state),
        reason=str(reason.code),
        reason_text=reason.text,
        hint=reason.hint,
        generation=wanted.generation,
        pid=pid,
        url=url,
        started_at=None if live is None else live.began_at,
        restarts=0 if snapshot is None else snapshot.restarts,
        attempt=0 if snapshot is None else snapshot.attempt,
        attempts=0 if snapshot is None else snapshot.attempts,
        retry_in_s=None if snapshot is None else snapshot.retry_in_s,
        last_exit="" if snapshot is None else snapshot.last_exit,
        sessions=0 if proxy is None else len(proxy.sessions),
        calls=0 if proxy is None else proxy.calls_in_flight,
        calls_total=0 if proxy is None else proxy.stats.calls,
        memory_bytes=sum(memory_of(one.pid, one.container) for one in instances if one.pid > 0),
        instances=[
            Instance(
                pid=one.pid if one.pid > 0 else None,
                container=one.container,
                use=one.use,
                session=one.session,
                since=now - one.age_s,
            )
            for one in instances
        ],
        exits=[_exit(one) for one in (recollection.exits if recollection is not None else ())],
        stderr=recollection.last_words() if recollection is not None and state in TROUBLED else [],
        versions=[] if live is None else _versions(live),
        command=[] if seen.options is None else list(seen.options.argv),
        image=seen.options.container.image if seen.options and seen.options.container else "",
        address=seen.options.remote.shown_url if seen.options and seen.options.remote else "",
        origin=wanted.origin,
        references=[] if seen.options is None else [str(one) for one in seen.options.references],
    )


def _at_rest(seen: Seen) -> tuple[State, Reason]:
    """Of a server that has no live generation."""
    if seen.wanted.why_stopped == ReasonCode.REMOVED_OUTSIDE:
        name = seen.wanted.name
        hint = f"mooring start {name} runs it again, mooring rm {name} forgets it"
        return State.STOPPED, Reason(ReasonCode.REMOVED_OUTSIDE, "removed outside Mooring", hint)
    if seen.wanted.is_stopped:
        return State.STOPPED, Reason(ReasonCode.ASKED, "stopped by request")
    if seen.problem:
        return State.FAILED, Reason(ReasonCode.CANNOT_START, seen.problem)
    return State.STARTING, Reason(ReasonCode.FIRST_START, "Mooring itself has just started")


def _exit(ended: Ended) -> ServerExit:
    return ServerExit(
        at=ended.at,
        pid=ended.pid,
        container=ended.container,
        how=ended.how or str(ended.exit),
        code=ended.exit.code,
        signal=ended.exit.signal,
        ran_s=ended.ran_s,
    )


def _versions(live: Generation) -> list[str]:
    spoken = {session.revision for session in live.workload.proxy.sessions.values()}
    return sorted((spoken | {live.workload.trial.revision}) - {""})
