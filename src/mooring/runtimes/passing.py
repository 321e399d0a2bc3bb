"""A child that is passed from one Mooring to the next: what is told of it, and its descriptors.

It goes on as if nothing had been: the same process, the same pipes. Only its parent stays who it was, so that
the next one learns of its exit (by the pidfd) and not how it ended.
"""

import os
from typing import NamedTuple

from msgspec import Struct

from mooring.runtimes.proctable import Session
from mooring.runtimes.stopping import end_session_now

__all__ = ["PassedProcess", "Passport", "end_passed"]


class Passport(Struct, array_like=True):
    """What is told of it."""

    pid: int
    started: str
    """As the system tells it: with the pid, it names this very process."""
    marker: str
    started_at: float
    """By the system's monotonic clock, which all processes share."""
    stdout: bytes
    """Of a line that has not ended."""
    stderr: bytes


class PassedProcess(NamedTuple):
    """The same with its descriptors: stdin, stdout, stderr, pidfd."""

    about: Passport
    descriptors: tuple[int, ...]


def end_passed(passed: PassedProcess) -> None:
    """End one that came and that nobody wants any more; blocks for the moment that this takes."""
    about = passed.about
    for number in passed.descriptors:
        os.close(number)
    end_session_now(Session(about.pid, about.started, about.marker, anchored=False))
