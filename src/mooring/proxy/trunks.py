"""The trunks of one workload: made, given time, ended."""

import asyncio
from collections.abc import Callable

from mooring.proxy.health import Health
from mooring.proxy.noise import Noise
from mooring.proxy.passed_trunk import SEAT, Purpose
from mooring.proxy.policy import SessionPolicy
from mooring.proxy.ports import Backend
from mooring.proxy.stats import Stats
from mooring.proxy.trunk import Trunk, TrunkKeeper
from mooring.wire.budget import Budget
from mooring.wire.memory import Memory
from mooring.wire.mirrored import MarkedTools

__all__ = ["Trunks"]


class Trunks:
    """Makes them with what they have in common."""

    def __init__(
        self,
        backend: Backend,
        *,
        policy: SessionPolicy,
        stats: Stats,
        noise: Noise,
        health: Health,
        in_flight: Budget,
        clock: Callable[[], float],
    ) -> None:
        self.backend = backend
        self.tools = MarkedTools()
        """What the server has said of its tools to any of them."""
        self._policy = policy
        self._stats = stats
        self._noise = noise
        self._health = health
        self._in_flight = in_flight
        self._clock = clock
        self._count = 0
        self._trunks: set[Trunk] = set()
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def is_busy(self) -> bool:
        """One of them is in use, or has an instance."""
        return any(trunk.is_awake or trunk.rides for trunk in self._trunks)

    @property
    def pids(self) -> set[int]:
        """The instances that they have now."""
        return {trunk.pid for trunk in self._trunks if trunk.pid}

    def now(self) -> float:
        """The common clock."""
        return self._clock()

    def make(
        self,
        keeper: TrunkKeeper,
        memory: Memory | None = None,
        *,
        purpose: Purpose,
        max_calls: int | None = None,
    ) -> Trunk:
        """Another one; it starts an instance when somebody rides."""
        self._count += 1
        trunk = Trunk(
            f"trunk-{self._count}",
            keeper,
            memory or Memory(),
            backend=self.backend,
            policy=self._policy,
            stats=self._stats,
            noise=self._noise,
            health=self._health,
            in_flight=self._in_flight,
            clock=self._clock,
            tools=self.tools,
            max_calls=max_calls or self._policy.max_calls,
            purpose=purpose,
        )
        self._trunks.add(trunk)
        return trunk

    def end(self, trunk: Trunk, reason: str) -> None:
        """It is no longer needed."""
        if trunk in self._trunks:
            self._trunks.discard(trunk)
            trunk.close(reason)
            task = asyncio.get_running_loop().create_task(trunk.wait_closed(), name=f"{trunk.name} ends")
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def that_can_go(self) -> list[Trunk]:
        """To another Mooring, now, and by themselves."""
        return [trunk for trunk in self._trunks if trunk.instance is not None and trunk.purpose.kind != SEAT]

    @property
    def load(self) -> int:
        """Calls that wait for an answer on those that many use."""
        return sum(trunk.load for trunk in self._trunks if trunk.purpose.is_common)

    def part(self, trunk: Trunk) -> None:
        """Another Mooring has its instance."""
        self._trunks.discard(trunk)
        trunk.part()
        trunk.keeper.on_parted(trunk)

    def tick(self, now: float) -> None:
        """Time-outs; and instances that nobody has used for long are let go."""
        idle_s = self._policy.idle_timeout_s
        for trunk in list(self._trunks):
            trunk.tick(now)
            if trunk.rides:
                trunk.last_used = now
            elif idle_s is not None and trunk.is_live and now - trunk.last_used >= idle_s:
                trunk.sleep("idle")

    async def aclose(self, reason: str) -> None:
        """End them all."""
        for trunk in list(self._trunks):
            self.end(trunk, reason)
        if self._closing:
            await asyncio.wait(self._closing)
