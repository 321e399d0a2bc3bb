"""What a Mooring uses at a moment: from /proc, and from its own /metrics."""

import asyncio
import csv
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.soak.command import Target

__all__ = ["SERIES", "Sample", "Sampler"]

MIB = 1 << 20
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Sample:
    """One look at one target."""

    target: str
    phase: str
    at_s: float
    rss_mib: float
    guardian_mib: float
    descriptors: int
    threads: int
    processes: int
    """Itself, its guardian, and everything that runs on its behalf, orphans included."""
    tasks: int
    objects: int
    """Blocks of memory that are in use: unlike RSS, not what the allocator keeps."""
    sessions: int
    connections: int
    held_mib: float
    """Messages that it keeps on purpose, within the bounds of its sessions."""


SERIES = tuple(field.name for field in fields(Sample) if field.name not in ("target", "phase", "at_s"))


class Sampler:
    """Looks at all targets every few seconds, and tells whoever wants to know."""

    def __init__(
        self, targets: Sequence[Target], every_s: float, on_look: Callable[["Sampler"], None]
    ) -> None:
        self.samples: list[Sample] = []
        self.phase = "load"
        self.targets = targets
        self._every_s = every_s
        self._on_look = on_look
        self._began = time.monotonic()

    @property
    def now_s(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._began

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            for target in self.targets:
                await self._look(target)
            self._on_look(self)
            await asyncio.sleep(self._every_s)

    def of(self, target: Target) -> list[Sample]:
        """All samples of one target."""
        return [sample for sample in self.samples if sample.target == target.name]

    def write(self, path: Path) -> None:
        """As CSV."""
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(field.name for field in fields(Sample))
            writer.writerows(vars(sample).values() for sample in self.samples)

    async def _look(self, target: Target) -> None:
        status, page = await target.page("/metrics")
        pid = target.pid
        if status != 200 or pid is None:
            return  # it is being restarted
        gauges = _gauges(page)
        try:
            self.samples.append(self._sample(target, pid, gauges))
        except OSError:
            return  # it ended just now

    def _sample(self, target: Target, pid: int, gauges: dict[str, float]) -> Sample:
        guardian = target.guardian()
        return Sample(
            target=target.name,
            phase=self.phase,
            at_s=round(self.now_s, 1),
            rss_mib=_rss_mib(pid),
            guardian_mib=_rss_mib(guardian) if guardian is not None else 0.0,
            descriptors=len(os.listdir(f"/proc/{pid}/fd")),  # noqa: PTH208 - only the number
            threads=len(os.listdir(f"/proc/{pid}/task")),  # noqa: PTH208
            processes=1 + (guardian is not None) + len(target.servers()),
            tasks=int(gauges["tasks"]),
            objects=int(gauges["objects"]),
            sessions=int(gauges["sessions"]),
            connections=int(gauges["connections"]) - 1,  # ours
            held_mib=round(gauges["held_bytes"] / MIB, 3),
        )


def _rss_mib(pid: int) -> float:
    return round(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES / MIB, 3)


def _gauges(page: str) -> dict[str, float]:
    """Name → value, summed over the labels."""
    families = text_string_to_metric_families(page)
    return {
        family.name.removeprefix("mooring_"): sum(sample.value for sample in family.samples)
        for family in families
        if family.type == "gauge"
    }
