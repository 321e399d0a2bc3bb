"""How long a shutdown may take, and whether whoever sends SIGKILL waits so long. Pure.

Kubernetes sends SIGTERM, and SIGKILL when `terminationGracePeriodSeconds` are over; a process cannot ask how
many those are. Manifests of `mooring k8s render` tell it in `MOORING_GRACE_PERIOD`, and have it from here.
"""

import math
from collections.abc import Mapping

from mooring.host.shutdown import FLUSH_S, DrainPolicy

__all__ = ["GRACE_VARIABLE", "grace_period_s", "longest_drain_s", "missing_grace"]

GRACE_VARIABLE = "MOORING_GRACE_PERIOD"
"""Says how many seconds there are between SIGTERM and SIGKILL."""
USUAL_GRACE_S = 30
"""Of a pod that says nothing about it."""
MARGIN_S = 2
"""For what no deadline covers: children are killed at it, and a process takes its time to end."""


def longest_drain_s(policy: DrainPolicy) -> float | None:
    """From the signal until the deadline of everything, the stopping of children included; None: no bound."""
    calls_s = policy.calls_s()
    if policy.timeout_s is None or calls_s is None:
        return None
    # A time-out of next to nothing still leaves answers the time to reach their clients.
    return policy.delay_s + max(policy.timeout_s, calls_s + FLUSH_S)


def grace_period_s(policy: DrainPolicy) -> int | None:
    """The whole seconds after which SIGKILL cuts nothing; None: however many, a call may take longer."""
    longest_s = longest_drain_s(policy)
    return None if longest_s is None else math.ceil(longest_s) + MARGIN_S


def missing_grace(policy: DrainPolicy, environment: Mapping[str, str]) -> str | None:
    """What to warn of at start: that a shutdown would be cut off. None: it fits, or nothing is known of it.

    Whoever gives the drain no bound has left it to the grace period, and is not warned.
    """
    needed_s = grace_period_s(policy)
    told = environment.get(GRACE_VARIABLE, "").strip()
    if told and not (told.isascii() and told.isdecimal()):
        return f"{GRACE_VARIABLE}={told!r} is no number of seconds: whether a shutdown fits cannot be told"
    if needed_s is None or not (told or environment.get("KUBERNETES_SERVICE_HOST")):
        return None
    grace_s = int(told or USUAL_GRACE_S)
    if needed_s <= grace_s:
        return None
    parts = f"--drain-delay {policy.delay_s:g} s, --drain-timeout {policy.timeout_s:g} s, {MARGIN_S} s to end"
    if told:
        remedy = f"set terminationGracePeriodSeconds and {GRACE_VARIABLE} to {needed_s}"
    else:
        remedy = f"set terminationGracePeriodSeconds to {needed_s} or more, and {GRACE_VARIABLE} to the same"
    whose = "" if told else ", the usual ones of Kubernetes"
    return (
        f"a shutdown may take {needed_s} s ({parts}), but is cut off after {grace_s} s{whose}: "
        f"{remedy}, or shorten the drain"
    )
