"""How long to wait before the next attempt. Pure, but for chance."""

from collections.abc import Callable

from mooring.relay.policy import AgentPolicy

__all__ = ["Backoff"]


class Backoff:
    """Full jitter: anything up to a bound that doubles, and is the first one again after a good link."""

    def __init__(self, policy: AgentPolicy, chance: Callable[[], float]) -> None:
        self._policy = policy
        self._chance = chance
        self._attempts = 0

    def next_s(self, minimum_s: float = 0.0) -> float:
        """The next delay. `minimum_s`: the relay's own word, to which the jitter is added."""
        policy = self._policy
        bound_s = min(policy.longest_delay_s, policy.first_delay_s * 2.0**self._attempts)
        if bound_s < policy.longest_delay_s:
            self._attempts += 1
        return minimum_s + bound_s * self._chance()

    def begin_anew(self) -> None:
        """The last link did not fail: a relay that ends in words is no bad one."""
        self._attempts = 0

    def note_uptime(self, span_s: float) -> None:
        """So long the last link held."""
        if span_s >= self._policy.stable_s:
            self.begin_anew()
