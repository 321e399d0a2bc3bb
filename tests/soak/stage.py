"""The frame of every soak: targets that run and are sampled, loads and rests, and a report in the end."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from tests.soak.command import Target
from tests.soak.report import Report
from tests.soak.sampling import Sample, Sampler

__all__ = ["Stage"]

REST_LOOKS = 3


class Stage:
    """Use as a context manager; at its end Mooring is stopped, and must end cleanly."""

    def __init__(
        self, title: str, out: Path, targets: Sequence[Target], *, every_s: float, settle_s: float
    ) -> None:
        self.targets = targets
        self.marks: list[tuple[float, str]] = []
        """Moments for the picture: seconds, and what was done."""
        self._report = Report(title, out)
        self._sampler = Sampler(targets, every_s, self._report.progress)
        self._sampling: asyncio.Task[None] | None = None
        self._every_s = every_s
        self._settle_s = settle_s
        self._rests: list[list[Sample]] = []

    async def __aenter__(self) -> Self:
        try:
            for target in self.targets:
                await target.start()
        except BaseException:
            self._clear_up()
            raise
        self._sampling = asyncio.create_task(self._sampler.run())
        return self

    async def __aexit__(self, kind: object, error: object, _traceback: object) -> None:
        assert self._sampling is not None
        self._sampling.cancel()
        await asyncio.wait((self._sampling,))
        try:
            if error is None:
                for target in self.targets:
                    await target.terminate()
        finally:
            self._clear_up()

    def _clear_up(self) -> None:
        for target in self.targets:
            target.clear_up()

    def begin(self, phase: str) -> None:
        """Samples belong to this phase from now on; `load 2` is the one that is judged."""
        self._sampler.phase = phase

    def mark(self, what: str) -> None:
        """Something is done now."""
        self.marks.append((self._sampler.now_s, what))

    async def rest(self) -> None:
        """Nobody comes: let everything settle, then see what is there."""
        self.begin("settling")
        await asyncio.sleep(self._settle_s)
        began = len(self._sampler.samples)
        self.begin("rest")
        await asyncio.sleep(REST_LOOKS * self._every_s)
        self.begin("")
        self._rests.append(self._sampler.samples[began:])

    def conclude(self) -> Report:
        """Judge two loads and two rests."""
        report, middle, end = self._report, *self._rests
        every = [self._sampler.of(target) for target in self.targets]
        loads = [[one for one in samples if one.phase == "load 2"] for samples in every]
        report.calls(self.targets)
        for target, samples in zip(self.targets, every, strict=True):
            report.bound(samples, target.max_sessions)
        report.growth(loads, [(_of(target, middle), _of(target, end)) for target in self.targets])
        report.write(self._sampler, loads, self.marks)
        report.conclude()
        return report


def _of(target: Target, samples: Sequence[Sample]) -> list[Sample]:
    return [one for one in samples if one.target == target.name]
