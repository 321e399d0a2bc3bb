"""One workload kept as desired.

Owns the states of a workload and the table of its transitions, the restart policy, and
the waiting that back-off means for whoever needs an instance.

Does not know how an instance is made or stopped, nor who talks to it.
"""

from mooring.supervise.lifecycle import lifecycle_markdown
from mooring.supervise.reasons import Reason, ReasonCode
from mooring.supervise.restart import (
    GiveUp,
    RestartAfter,
    RestartHistory,
    RestartNow,
    RestartPolicy,
    Verdict,
    decide,
)
from mooring.supervise.snapshot import Snapshot
from mooring.supervise.states import TRANSITIONS, Event, State, next_state
from mooring.supervise.supervisor import Supervisor, Timer

__all__ = [
    "TRANSITIONS",
    "Event",
    "GiveUp",
    "Reason",
    "ReasonCode",
    "RestartAfter",
    "RestartHistory",
    "RestartNow",
    "RestartPolicy",
    "Snapshot",
    "State",
    "Supervisor",
    "Timer",
    "Verdict",
    "decide",
    "lifecycle_markdown",
    "next_state",
]
