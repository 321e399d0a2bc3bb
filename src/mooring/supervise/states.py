"""The states of a workload and every transition between them, as one literal table.

Rules:

1. The table is total: every event has an answer in every state. An event that means nothing
   in a state is written down as leading back to it.
2. `stop` wins in every state, back-off and failure included, and nothing leads out of
   `stopping` but `stopped`.
3. One `Supervisor` is one generation of a workload. Only `start` leaves `stopped`, and it is
   where a supervisor begins; it never comes back there. A later start is a new generation,
   so that a late exit of the old one finds nothing to touch.
"""

from enum import StrEnum

__all__ = ["EVENT_MEANING", "RENEWED", "STATE_MEANING", "TRANSITIONS", "Event", "State", "next_state"]


class State(StrEnum):
    """What a workload is doing; everything finer is a `Reason`."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    BACKOFF = "backoff"
    FAILED = "failed"
    STOPPING = "stopping"
    STOPPED = "stopped"


class Event(StrEnum):
    """What can happen to a workload."""

    START = "start"
    STARTED = "started"
    INSTANCE_LOST = "instance_lost"
    RESTART_DELAYED = "restart_delayed"
    RETRY_DUE = "retry_due"
    RESUMED = "resumed"
    GAVE_UP = "gave_up"
    CANNOT_START = "cannot_start"
    DRAIN = "drain"
    STOP = "stop"
    STOPPED = "stopped"


STATE_MEANING: dict[State, str] = {
    State.STARTING: "no instance has proved yet that it works; one may be started at once",
    State.READY: "the server has proved that it works; instances are started as sessions need them",
    State.DRAINING: "shutting down: what is under way goes on, nothing is restarted",
    State.BACKOFF: "it exits too often: new instances wait for the delay, working ones go on",
    State.FAILED: "given up: calls fail at once, and demand triggers one attempt a minute at most",
    State.STOPPING: "its instances are being ended",
    State.STOPPED: "none of its instances is left",
}

EVENT_MEANING: dict[Event, str] = {
    Event.START: "a generation of the workload begins",
    Event.STARTED: "an instance answered: it works",
    Event.INSTANCE_LOST: "unasked exit, or its engine is gone; no other works, a restart is allowed at once",
    Event.RESTART_DELAYED: "unasked exit, the next restart has to wait",
    Event.RETRY_DUE: "the delay is over or was skipped, or there is demand in `failed`",
    Event.RESUMED: "the delay is over or was skipped, and other instances still work",
    Event.GAVE_UP: "unasked exit, the restart policy allows no further restart",
    Event.CANNOT_START: "an instance could not be made at all",
    Event.DRAIN: "shutdown begins",
    Event.STOP: "stop was asked for",
    Event.STOPPED: "the last instance is gone",
}

TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.STARTING, Event.START): State.STARTING,
    (State.STARTING, Event.STARTED): State.READY,
    (State.STARTING, Event.INSTANCE_LOST): State.STARTING,
    (State.STARTING, Event.RESTART_DELAYED): State.BACKOFF,
    (State.STARTING, Event.RETRY_DUE): State.STARTING,
    (State.STARTING, Event.RESUMED): State.STARTING,
    (State.STARTING, Event.GAVE_UP): State.FAILED,
    (State.STARTING, Event.CANNOT_START): State.FAILED,
    (State.STARTING, Event.DRAIN): State.DRAINING,
    (State.STARTING, Event.STOP): State.STOPPING,
    (State.STARTING, Event.STOPPED): State.STOPPED,
    (State.READY, Event.START): State.READY,
    (State.READY, Event.STARTED): State.READY,
    (State.READY, Event.INSTANCE_LOST): State.STARTING,
    (State.READY, Event.RESTART_DELAYED): State.BACKOFF,
    (State.READY, Event.RETRY_DUE): State.READY,
    (State.READY, Event.RESUMED): State.READY,
    (State.READY, Event.GAVE_UP): State.FAILED,
    (State.READY, Event.CANNOT_START): State.FAILED,
    (State.READY, Event.DRAIN): State.DRAINING,
    (State.READY, Event.STOP): State.STOPPING,
    (State.READY, Event.STOPPED): State.STOPPED,
    # The exit of yet another old instance, or an old one that only now answers, neither
    # lengthens nor shortens a delay: it was decided for new instances, and none was made since.
    (State.BACKOFF, Event.START): State.BACKOFF,
    (State.BACKOFF, Event.STARTED): State.BACKOFF,
    (State.BACKOFF, Event.INSTANCE_LOST): State.BACKOFF,
    (State.BACKOFF, Event.RESTART_DELAYED): State.BACKOFF,
    (State.BACKOFF, Event.RETRY_DUE): State.STARTING,
    (State.BACKOFF, Event.RESUMED): State.READY,
    (State.BACKOFF, Event.GAVE_UP): State.FAILED,
    (State.BACKOFF, Event.CANNOT_START): State.FAILED,
    (State.BACKOFF, Event.DRAIN): State.DRAINING,
    (State.BACKOFF, Event.STOP): State.STOPPING,
    (State.BACKOFF, Event.STOPPED): State.STOPPED,
    (State.FAILED, Event.START): State.FAILED,
    (State.FAILED, Event.STARTED): State.READY,
    (State.FAILED, Event.INSTANCE_LOST): State.FAILED,
    (State.FAILED, Event.RESTART_DELAYED): State.FAILED,
    (State.FAILED, Event.RETRY_DUE): State.STARTING,
    (State.FAILED, Event.RESUMED): State.FAILED,
    (State.FAILED, Event.GAVE_UP): State.FAILED,
    (State.FAILED, Event.CANNOT_START): State.FAILED,
    (State.FAILED, Event.DRAIN): State.DRAINING,
    (State.FAILED, Event.STOP): State.STOPPING,
    (State.FAILED, Event.STOPPED): State.STOPPED,
    (State.DRAINING, Event.START): State.DRAINING,
    (State.DRAINING, Event.STARTED): State.DRAINING,
    (State.DRAINING, Event.INSTANCE_LOST): State.DRAINING,
    (State.DRAINING, Event.RESTART_DELAYED): State.DRAINING,
    (State.DRAINING, Event.RETRY_DUE): State.DRAINING,
    (State.DRAINING, Event.RESUMED): State.DRAINING,
    (State.DRAINING, Event.GAVE_UP): State.DRAINING,
    (State.DRAINING, Event.CANNOT_START): State.DRAINING,
    (State.DRAINING, Event.DRAIN): State.DRAINING,
    (State.DRAINING, Event.STOP): State.STOPPING,
    (State.DRAINING, Event.STOPPED): State.STOPPED,
    (State.STOPPING, Event.START): State.STOPPING,
    (State.STOPPING, Event.STARTED): State.STOPPING,
    (State.STOPPING, Event.INSTANCE_LOST): State.STOPPING,
    (State.STOPPING, Event.RESTART_DELAYED): State.STOPPING,
    (State.STOPPING, Event.RETRY_DUE): State.STOPPING,
    (State.STOPPING, Event.RESUMED): State.STOPPING,
    (State.STOPPING, Event.GAVE_UP): State.STOPPING,
    (State.STOPPING, Event.CANNOT_START): State.STOPPING,
    (State.STOPPING, Event.DRAIN): State.STOPPING,
    (State.STOPPING, Event.STOP): State.STOPPING,
    (State.STOPPING, Event.STOPPED): State.STOPPED,
    (State.STOPPED, Event.START): State.STARTING,
    (State.STOPPED, Event.STARTED): State.STOPPED,
    (State.STOPPED, Event.INSTANCE_LOST): State.STOPPED,
    (State.STOPPED, Event.RESTART_DELAYED): State.STOPPED,
    (State.STOPPED, Event.RETRY_DUE): State.STOPPED,
    (State.STOPPED, Event.RESUMED): State.STOPPED,
    (State.STOPPED, Event.GAVE_UP): State.STOPPED,
    (State.STOPPED, Event.CANNOT_START): State.STOPPED,
    (State.STOPPED, Event.DRAIN): State.STOPPED,
    (State.STOPPED, Event.STOP): State.STOPPED,
    (State.STOPPED, Event.STOPPED): State.STOPPED,
}

RENEWED: frozenset[tuple[State, Event]] = frozenset(
    {
        (State.STARTING, Event.INSTANCE_LOST),
        (State.FAILED, Event.CANNOT_START),
    }
)
"""Keeps its state but gives it a new reason. Every other pair that keeps its state is ignored."""


def next_state(state: State, event: Event) -> State:
    """Where `event` leads from `state`; the same state if it means nothing there."""
    return TRANSITIONS[state, event]
