"""What one Mooring tells the next of a generation that goes on there, and of sessions that follow it."""

from typing import Any

from msgspec import Struct

from mooring.proxy.era import Discovery
from mooring.supervise.snapshot import SupervisedSoFar
from mooring.workloads.recollection import Ended
from mooring.workloads.workload import Workload

__all__ = ["Learnt", "PassedGeneration"]


class Learnt(Struct):
    """What was found out about the server, and would have to be found out again."""

    revision: str
    takes_handshakes: bool | None
    discovery: bytes | None
    """What it says of itself in the era without handshakes; empty: it is not of that, None: nobody asked."""
    answers_pings: bool

    @classmethod
    def of(cls, workload: Workload) -> "Learnt":
        """All of it."""
        stateless = workload.proxy.stateless
        known = stateless.discovery
        return cls(
            workload.trial.revision,
            stateless.takes_handshakes,
            None if known is None or known.later else known.result,
            workload.proxy.health.is_used_to_pings,
        )

    def tell(self, workload: Workload) -> None:
        """To a workload that has just been made."""
        workload.trial.revision = self.revision
        stateless = workload.proxy.stateless
        stateless.takes_handshakes = self.takes_handshakes
        if self.discovery is not None:
            stateless.known(Discovery(self.discovery))
        if self.answers_pings:
            workload.proxy.health.heard()


class PassedGeneration(Struct):
    """A generation that runs."""

    name: str
    number: int
    began_at: float
    so_far: SupervisedSoFar
    learnt: Learnt
    counts: dict[str, Any]
    exits: list[Ended]
    elsewhere: list[str]
    """Its sessions that come later, or end where they are."""
    parked_key: bytes
    """Of the seal of calls that wait there for their clients to answer a question; empty: there are none."""
    values: list[tuple[str, str]]
    """What its processes were given that must not be shown, and what is shown instead."""
