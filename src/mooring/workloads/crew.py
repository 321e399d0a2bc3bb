"""The instances of a workload, and what each is for.

spare      running, unspoken to, kept for the next session while the workload is in use
lent       belongs to a session, to several of them, or to our own probe
dismissed  is being stopped, because it was asked for
"""

from collections.abc import Container
from typing import NamedTuple

from mooring.proxy.ports import Channel
from mooring.proxy.proxy import Proxy
from mooring.workloads.makers import Instance, Maker

__all__ = ["Crew", "InstanceReport", "Lent"]


class Lent(NamedTuple):
    """An instance in use, and since when: for a spare that is later than its start."""

    instance: Instance
    since: float
    expendable: bool = False
    """Its exit would say nothing of the server; whoever has it lets it go."""


class InstanceReport(NamedTuple):
    """What is told about an instance from outside."""

    pid: int
    container: str
    """Its id; empty: it is a process."""
    use: str
    session: str | None
    age_s: float


class Crew:
    """See the module."""

    def __init__(self, maker: Maker) -> None:
        self.maker = maker
        self.spares: list[Instance] = []
        self._set_aside: set[Instance] = set()
        """Spares that are about to go to another Mooring, and are not to be lent."""
        self.lent: dict[Channel, Lent] = {}
        self.working: set[Channel] = set()
        """Those of the lent that have shown that they work."""

    def __len__(self) -> int:
        """All of them, those too that are being stopped."""
        return len(self.maker.instances)

    def lend(self, instance: Instance, since: float, *, expendable: bool = False) -> None:
        """Somebody has it from now on."""
        self.lent[instance] = Lent(instance, since, expendable)

    def take_spare(self) -> Instance | None:
        """One for a session; not one that could not answer, because somebody has paused it."""
        spare = next((one for one in self.spares if not one.is_paused), None)
        if spare is not None:
            self.spares.remove(spare)
        return spare

    def take_back(self, channel: Channel) -> Lent | None:
        """Nobody has it any more; None if nobody had."""
        self.working.discard(channel)
        return self.lent.pop(channel, None)

    def has(self, instance: Instance) -> bool:
        """It has not ended, and nobody wants it to."""
        return instance in self.lent or instance in self.spares or instance in self._set_aside

    def part_with(self, instance: Instance) -> None:
        """Another Mooring has it."""
        self.take_back(instance)
        self._set_aside.discard(instance)
        self.maker.part_with(instance)

    def set_aside(self, instance: Instance) -> None:
        """If it is a spare, it is not lent, until `keep` or `part_with`."""
        if instance in self.spares:
            self.spares.remove(instance)
            self._set_aside.add(instance)

    def keep(self, instance: Instance) -> None:
        """After `set_aside`: it does not go."""
        if instance in self._set_aside:
            self._set_aside.remove(instance)
            self.spares.append(instance)

    def forget(self, instance: Instance) -> bool:
        """It has ended. Was it a spare?"""
        was_spare = instance in self.spares or instance in self._set_aside
        self._set_aside.discard(instance)
        if instance in self.spares:
            self.spares.remove(instance)
        return was_spare

    def report(self, proxy: Proxy, now: float) -> list[InstanceReport]:
        """One line for each instance, after those for what many of them are sessions with."""
        of_trunks = proxy.trunks.pids
        sessions = {s.pid: s.short_id for s in proxy.sessions.values() if s.pid not in of_trunks}
        serving = of_trunks | sessions.keys()
        told = [(one, "program") for one in self.maker.programs]
        told += [(one, self._use(one, serving)) for one in self.maker.instances]
        return [
            InstanceReport(
                instance.pid,
                instance.container,
                use,
                sessions.get(instance.pid),
                round(now - instance.started_at, 3),
            )
            for instance, use in told
        ]

    def _use(self, instance: Instance, serving: Container[int | None]) -> str:
        if instance.is_paused:
            return "paused"
        if instance.pid in serving:
            return "serving"
        if instance in self.spares or instance in self._set_aside:
            return "spare"
        return "probing" if instance in self.lent else "stopping"
