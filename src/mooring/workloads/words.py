"""What people are told of a workload's life: few lines, each worth reading."""

import logging
from typing import NamedTuple

from mooring.remote.options import RemoteOptions, ServedOptions
from mooring.runtimes.exits import Exit
from mooring.supervise.reasons import REFUSALS, ReasonCode
from mooring.supervise.snapshot import Snapshot
from mooring.supervise.states import State

__all__ = [
    "ENVIRONMENT_HINT",
    "NOT_MCP_HINT",
    "Line",
    "exit_line",
    "failure_line",
    "hint_if_silent",
    "state_line",
]

ENVIRONMENT_HINT = (
    "a server sees only a few of our environment variables; if it needs more, "
    "pass them with --pass-env NAME, --env K=V or --inherit-env"
)
NOT_MCP_HINT = "does it speak MCP on its standard input and output? Some servers need an option for that"


def hint_if_silent(served: ServedOptions | None, remote: RemoteOptions | None) -> str:
    """What may be wrong with a server that does not answer."""
    if remote is not None:
        hint = "is the path of its URL right? Many servers have /mcp, older ones /sse"
        if remote.transport == "auto":
            return hint
        return f"{hint}; and is --transport {remote.transport} what it speaks? Without it that is found out"
    if served is None:
        return NOT_MCP_HINT
    port = f"port {served.container_port}" if served.container_port else f"the port that {served.port_env} is"
    return f"does it listen on {port}, of 127.0.0.1 or all addresses, and speak MCP at {served.path}?"


UNUSABLE = REFUSALS | {ReasonCode.CANNOT_START, ReasonCode.INITIALIZE_FAILED}
"""It has failed without an exit."""


class Line(NamedTuple):
    """A line for the log."""

    level: int
    text: str


def state_line(name: str, seen: Snapshot, before: State) -> Line:
    """A change of state. What an exit led to is told with the exit."""
    if seen.state is State.FAILED and seen.reason.code in UNUSABLE:
        hint = f" ({seen.reason.hint})" if seen.reason.hint else ""
        return Line(logging.ERROR, f"{name} cannot be used: {seen.reason.text}{hint}")
    if seen.state is State.READY and before is not State.READY:
        return Line(logging.INFO, f"{name} is ready" + (" again" if seen.restarts else ""))
    return Line(logging.DEBUG, f"{name} is {seen.state}: {seen.reason.text or seen.reason.code}")


def exit_line(name: str, title: str, exit: Exit, seen: Snapshot) -> Line:
    """An unasked exit, and what is done about it: `seen` is what the supervisor decided."""
    how = "ended by itself" if exit.is_its_own else "is lost"
    return _what_follows(f"{name} ({title}) {how}: {exit}", seen)


def failure_line(name: str, title: str, reason: str, seen: Snapshot) -> Line:
    """An instance that runs and is of no use: what is done about it is the same."""
    return _what_follows(f"{name} ({title}) is given up: {reason}", seen)


def _what_follows(text: str, seen: Snapshot) -> Line:
    if seen.ended_for_good:
        return Line(logging.ERROR, f"{text}; it is not started again (--no-restart)")
    if seen.state is State.FAILED:
        return Line(logging.ERROR, f"{text}; given up: {seen.reason.text}. The next call tries once more")
    if seen.state is State.BACKOFF:
        wait_s = f"{seen.retry_in_s or 0:.0f}"
        return Line(logging.WARNING, f"{text}; next try in {wait_s} s ({seen.attempt} of {seen.attempts})")
    if seen.state is State.DRAINING:
        return Line(logging.WARNING, text)
    return Line(logging.WARNING, f"{text}; it is started again")
