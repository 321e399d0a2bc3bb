"""Progress of many servers on a terminal: one line each, rewritten in place when something has changed."""

import os
import sys
from shutil import get_terminal_size

from mooring.cli.servers.waiting import Job, Progress
from mooring.cli.terminal.words import GREEN, RED, colourful, painted, printable

__all__ = ["LiveView", "progress_of"]

CLEAR_TO_END_OF_LINE, CLEAR_BELOW = "\x1b[K", "\x1b[J"
WAITING, BEGUN = "waits for its turn", "begun"


def progress_of(jobs: list[Job], *, quiet: bool) -> Progress:
    """What suits stderr: lines that change on a terminal, a line for each change elsewhere."""
    return Progress(quiet=quiet) if quiet or not sys.stderr.isatty() else LiveView(jobs)


class LiveView(Progress):
    """See the module. What is on the screen is written anew only if it differs, in one piece: no flicker."""

    def __init__(self, jobs: list[Job]) -> None:
        super().__init__()
        self._jobs = jobs
        self._states: dict[str, str] = {}
        self._lines: list[str] = []

    def show(self, states: dict[str, str]) -> None:
        """How each server is now; those that are not in `states` are done, or not there."""
        self._states |= states
        columns, rows = get_terminal_size()
        longest = max((len(job.name) for job in self._jobs), default=0)
        lines = [self._line(job, longest, columns - 1) for job in self._jobs]
        room = max(1, rows - 1)
        if len(lines) > room:
            lines = [*lines[: room - 1], f"… {len(lines) - room + 1} more"]
        if lines != self._lines:
            text = "".join(f"{line}{CLEAR_TO_END_OF_LINE}\n" for line in lines)
            sys.stderr.write(self._upwards() + text + CLEAR_BELOW)
            sys.stderr.flush()
            self._lines = lines

    def clear(self) -> None:
        """Nothing goes on any more: what happened is told elsewhere."""
        if self._lines:
            sys.stderr.write(self._upwards() + CLEAR_BELOW)
            sys.stderr.flush()
            self._lines = []

    def _upwards(self) -> str:
        return f"\x1b[{len(self._lines)}A\r" if self._lines else ""

    def _line(self, job: Job, longest: int, width: int) -> str:
        colour, text = "", self._states.get(job.name, BEGUN if job.begun else WAITING)
        if job.done.is_set():
            colour, text = (GREEN, "done") if job.error is None else (RED, _why(job.name, job.error))
        line = f"{job.name:{longest}}  {printable(text)}"[:width]
        return painted(line, colour if colourful(sys.stderr, os.environ) else "")


def _why(name: str, error: Exception) -> str:
    return str(error).removeprefix(name).lstrip(" :")
