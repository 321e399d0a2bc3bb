"""Why a workload is in its state: a stable code for programs, a text for people."""

from enum import StrEnum

from msgspec import Struct

__all__ = ["REFUSALS", "Reason", "ReasonCode"]


class ReasonCode(StrEnum):
    """Stable: shown by `ls` and `/readyz`, and matched by programs."""

    FIRST_START = "first_start"
    """starting: the generation has just begun."""
    RESTARTING = "restarting"
    """starting: after an exit, at once or because the delay is over."""
    RETRYING = "retrying"
    """starting: one attempt after it had failed, because it was asked for."""
    PULLING = "pulling"
    """starting: the image that it runs from is being brought."""
    PULL_FAILED = "pull_failed"
    """starting: that image could not be brought; it is tried again and again."""
    ENGINE_UNREACHABLE = "engine_unreachable"
    """starting: the container engine does not answer; it is asked again and again."""
    UNREACHABLE = "unreachable"
    """starting: it is elsewhere, and cannot be reached; it is tried again and again."""
    WORKING = "working"
    """ready: an instance has answered."""
    IDLE = "idle"
    """ready: it works, and nobody needs an instance now."""
    PAUSED = "paused"
    """ready: somebody has paused a container of it, and its calls wait."""
    CALLS_FAIL = "calls_fail"
    """ready: it is elsewhere, and the last call was not answered by it."""
    WAITING_TO_RESTART = "waiting_to_restart"
    """backoff: the delay before the next restart runs."""
    CRASH_LOOP = "crash_loop"
    """failed: too many exits."""
    SERVER_EXITED = "server_exited"
    """failed: it exited, and restart is off."""
    CANNOT_START = "cannot_start"
    """failed: an instance cannot be made: program missing, bad configuration."""
    INITIALIZE_FAILED = "initialize_failed"
    """failed: it runs, but does not answer `initialize` as a server should."""
    UNAUTHORIZED = "unauthorized"
    """failed: it is elsewhere, and wants to know who asks."""
    FORBIDDEN = "forbidden"
    """failed: it is elsewhere, and does not let us in."""
    NOT_MCP = "not_mcp"
    """failed: no MCP server answers at its URL."""
    REDIRECTED = "redirected"
    """failed: it has moved to another URL."""
    SIGNAL = "signal"
    """draining, stopping, stopped: Mooring itself was told to end."""
    ASKED = "asked"
    """draining, stopping, stopped: somebody asked for the workload to end."""
    REMOVED_OUTSIDE = "removed_outside"
    """draining, stopping, stopped: somebody has removed a container of it, and not by Mooring."""


REFUSALS = frozenset(
    {ReasonCode.UNAUTHORIZED, ReasonCode.FORBIDDEN, ReasonCode.NOT_MCP, ReasonCode.REDIRECTED}
)
"""What answers elsewhere does not serve us, as only people can put right."""


class Reason(Struct, frozen=True):
    """Why a workload is in its state. `hint` says what to do, where that is known."""

    code: ReasonCode
    text: str = ""
    hint: str = ""
