"""What a soak came to: told on the terminal, written to files, and the exit status."""

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.soak.chart import draw
from tests.soak.command import Target
from tests.soak.sampling import Sample, Sampler
from tests.soak.trend import UNDER_LOAD, Rest, Trend, line_of, rests, trends

__all__ = ["Report"]

RAMP = 0.1
"""This part of a span of load is left out: its clients are just coming."""
TELL_EVERY_S = 5.0


class Report:
    """Collects what is wrong while it tells what there is."""

    def __init__(self, title: str, out: Path) -> None:
        self.wrong: list[str] = []
        """Calls that nobody can explain, unclean endings, complaints, bounds that did not hold."""
        self.grown: list[Trend | Rest] = []
        self._title = title
        self._out = out
        self._lines: list[str] = []
        self._told_s = 0.0
        self._told_calls = 0
        self._told_troubles: Counter[str] = Counter()
        out.mkdir(parents=True, exist_ok=True)

    @property
    def status(self) -> int:
        """The exit status."""
        return 1 if self.wrong or self.grown else 0

    def say(self, text: str) -> None:
        """A line for the terminal, and for the file."""
        print(text, flush=True)
        self._lines.append(text)

    def progress(self, sampler: Sampler) -> None:
        """How it goes, every few seconds."""
        now_s = sampler.now_s
        if now_s - self._told_s < TELL_EVERY_S:
            return
        calls = sum(target.ledger.calls for target in sampler.targets)
        wrong = sum(target.ledger.unexplained.total() for target in sampler.targets)
        rate = (calls - self._told_calls) / (now_s - self._told_s)
        self._told_s, self._told_calls = now_s, calls
        seen = [_words(samples[-1]) for target in sampler.targets if (samples := sampler.of(target))]
        done = f"{now_s:6.0f} s  {sampler.phase:8}  {calls:,} calls, {rate:.0f}/s, {wrong} unexplained"
        self.say(" · ".join([done, *seen]))
        for target in sampler.targets:
            for trouble in target.troubles[self._told_troubles[target.name] :]:
                self.say(f"          WRONG {target.name}: {trouble}")
            self._told_troubles[target.name] = len(target.troubles)

    def calls(self, targets: Sequence[Target]) -> None:
        """Every call, and what became of it."""
        for target in targets:
            ledger = target.ledger
            self.say(f"\n{target.name}: {ledger.calls:,} calls, {ledger.right.total():,} answered right")
            self.say(f"  answered     {_counts(ledger.right)}")
            self.say(f"  by our doing {_counts(ledger.explained)}")
            self.say(f"  unexplained  {_counts(ledger.unexplained)}")
            self.say(f"  we did       {_counts(ledger.done)}")
            self.say(f"  it logged    {_counts(target.events)}")
            self.wrong += [f"{target.name}: {trouble}" for trouble in target.troubles]

    def bound(self, samples: Sequence[Sample], max_sessions: int) -> None:
        """Sessions may sleep, as many as allowed."""
        most = max(sample.sessions for sample in samples)
        self.say(f"\n{samples[0].target}: at most {most} sessions, {max_sessions} allowed")
        if most > max_sessions:
            self.wrong.append(f"{samples[0].target}: {most} sessions, {max_sessions} allowed")

    def growth(
        self, loads: Sequence[Sequence[Sample]], rested: Sequence[tuple[Sequence[Sample], ...]]
    ) -> None:
        """The lines through the samples under load, and the two rests; one item for each target."""
        self.say("\nunder load, over the second half:")
        for samples in loads:
            self._judge(trends(_steady(samples)))
        self.say("\nat rest, earlier and at the end:")
        for before, after in rested:
            self._judge(rests(before, after))

    def _judge(self, found: Sequence[Trend | Rest]) -> None:
        for one in found:
            self.say(f"  {one}")
            if one.grows:
                self.grown.append(one)

    def write(
        self, sampler: Sampler, loads: Sequence[Sequence[Sample]], marks: Sequence[tuple[float, str]]
    ) -> None:
        """The samples and their picture."""
        lines = {
            (samples[0].target, series): (samples[0].at_s, samples[-1].at_s, line_of(samples, series))
            for samples in map(_steady, loads)
            for series in UNDER_LOAD
        }
        title = f"soak: {self._title}, {time.strftime('%Y-%m-%d %H:%M')}"
        sampler.write(self._out / f"{self._title}.csv")
        (self._out / f"{self._title}.svg").write_text(draw(title, sampler.samples, lines=lines, marks=marks))

    def conclude(self) -> None:
        """The last words."""
        wrong = [*self.wrong, *map(str, self.grown)]
        self.say("\n" + ("\n".join(["WRONG:", *wrong]) if wrong else "nothing grew, nothing is unexplained"))
        (self._out / f"{self._title}.txt").write_text("\n".join(self._lines) + "\n")


def _steady(samples: Sequence[Sample]) -> Sequence[Sample]:
    begin_s = samples[0].at_s + RAMP * (samples[-1].at_s - samples[0].at_s)
    return [sample for sample in samples if sample.at_s >= begin_s]


def _words(sample: Sample) -> str:
    return (
        f"{sample.target}: {sample.rss_mib:.1f} MiB, {sample.descriptors} descriptors, "
        f"{sample.processes} processes, {sample.tasks} tasks, {sample.sessions} sessions"
    )


def _counts(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in counts.most_common()) or "none"
