"""The roll: which children there are, written down for a Mooring that comes after this one was killed.

One small file for each child in a directory of the roll's own. Its name is the child's marker (without the
name of the variable), and it has up to two lines:

    BOOT ID              written before the child is started
    PID START_TIME       written once it is there

So whenever we are killed, whoever reads the roll misses no child; and one that is not on it is not ours. Not
being able to write it is a warning, once, and no error: the guardian does its duty without it.
"""

import contextlib
import logging
import os
from pathlib import Path
from typing import NamedTuple

from mooring.runtimes.environment import MARKER_NAME
from mooring.runtimes.proctable import Session

__all__ = ["Entry", "Roll", "boot_id", "read_entry"]

logger = logging.getLogger(__name__)

MAX_ENTRY_BYTES = 200
"""A boot id is 36 characters long, the rest are two numbers; more is nothing that we wrote."""


class Entry(NamedTuple):
    """One child, as it is written down."""

    marker: str
    boot: str
    """Empty: it could not be written."""
    pid: int | None = None
    """None: it could not be written, or we were killed before that."""
    started: str = ""

    @property
    def name(self) -> str:
        """Of the server."""
        return self.marker.split(":")[1]


def read_entry(name: str, text: str) -> Entry | None:
    """What a file of that name and content says; None: it is no file of a roll."""
    if name.count(":") != 2:
        return None
    marker, lines = f"{MARKER_NAME}={name}", text.split("\n")
    lines.pop()  # nothing, or a line that was not written to its end
    boot, there = (*lines, "", "")[:2]
    pid, _, started = there.partition(" ")
    return Entry(marker, boot, int(pid), started) if pid.isdecimal() and started else Entry(marker, boot)


class Roll:
    """The roll of this Mooring, in `directory`, where those of earlier ones may still be."""

    def __init__(self, directory: Path, boot: str) -> None:
        self._directory = directory
        self._boot = boot
        self._warned = False

    def entries(self) -> list[Entry]:
        """All that is written down, by whomever."""
        found = []
        with contextlib.suppress(OSError):
            for path in sorted(self._directory.iterdir()):
                with contextlib.suppress(OSError), path.open("rb") as file:
                    found.append(read_entry(path.name, file.read(MAX_ENTRY_BYTES).decode("ascii", "replace")))
        return [entry for entry in found if entry is not None]

    def files(self) -> list[Path]:
        """Where that is."""
        return [self._path(entry.marker) for entry in self.entries()]

    def may_live(self, entry: Entry) -> bool:
        """No process survives its system."""
        return entry.boot in ("", self._boot)

    def expect(self, marker: str) -> None:
        """A child with that marker is about to be started."""
        self._write(marker, f"{self._boot}\n", os.O_CREAT | os.O_TRUNC)

    def enter(self, session: Session) -> None:
        """It is there."""
        self._write(session.marker, f"{session.leader} {session.started}\n", os.O_APPEND)

    def strike(self, marker: str) -> None:
        """It is no more."""
        with contextlib.suppress(OSError):
            self._path(marker).unlink(missing_ok=True)

    def _path(self, marker: str) -> Path:
        return self._directory / marker.partition("=")[2]

    def _write(self, marker: str, text: str, how: int) -> None:
        try:
            descriptor = os.open(self._path(marker), os.O_WRONLY | os.O_CLOEXEC | how, 0o600)
            try:
                os.write(descriptor, text.encode())
            finally:
                os.close(descriptor)
        except OSError as error:
            if not self._warned:
                self._warned = True
                logger.warning(
                    "%s cannot be written (%s): killed together with its guardian, Mooring may leave servers",
                    self._directory,
                    error.strerror,
                    extra={"event": "roll_unwritable"},
                )


def boot_id() -> str:
    """Another one after each start of the system; empty where the system does not tell."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""
