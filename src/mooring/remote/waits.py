"""How long to wait before the next attempt. No clock, no timers."""

import random
from collections.abc import Iterator

from mooring.remote.policy import RemotePolicy

__all__ = ["delays_s"]

JITTER = 0.1
"""Only adds: clients that lost the same server do not all come back at the same moment."""


def delays_s(policy: RemotePolicy) -> Iterator[float]:
    """0.1, 0.2, 0.4, … up to the longest, which repeats for ever."""
    delay_s = policy.first_wait_s
    while True:
        # Not a secret: any dice do.
        yield delay_s * (1 + JITTER * random.random())  # noqa: S311
        delay_s = min(2 * delay_s, policy.longest_wait_s)
