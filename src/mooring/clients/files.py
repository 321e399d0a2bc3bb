"""Reading and changing one file of another program, which may be running and rewriting it. See docs/adr/0013.

Invariants:
- At every moment the file is whole: as it was, or as it is to be. Links, mode and owner stay.
- An update of its owner is never lost: a version that was not seen by our edit is put back, and the edit made
  again on it, MOST_ROUNDS times at most.
- Whoever is killed leaves a note of what was under way; the next operation finishes or undoes it.
- Locks, notes and backups are in our own folder. Beside the file is, for a moment, one temporary file.

What is in a file is opaque here: bytes.
"""

import contextlib
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from mooring.clients import disk
from mooring.clients.backups import Backups, key_of
from mooring.clients.looking import (
    Seen,
    check_size,
    check_writable,
    fingerprint,
    fingerprint_of,
    look,
    real_path,
    unusable,
)
from mooring.clients.replacing import BeingWritten, Replacing
from mooring.errors import UserError

__all__ = ["LOCK_S", "MOST_ROUNDS", "Changed", "Files"]

MOST_ROUNDS = 8
"""With a program that writes its file again whenever we have read it."""
LOCK_S = 5.0
"""For another Mooring that is changing the same file."""
PAUSE_S = 0.01
"""After the first round that came to nothing; twice that after the next."""
NOTE = ".note"

Edit = Callable[[bytes | None], bytes | None]


class Changed(NamedTuple):
    """What became of a file. `before == after`: nothing was written."""

    path: Path
    """The real one."""
    before: bytes | None
    after: bytes | None
    backup: str | None
    """By which `Files.backup` has `before`."""


class Files:
    """See the module. `state` is the folder of ours for all that; every method waits for disks."""

    def __init__(self, state: Path) -> None:
        state = state.resolve()  # temporary files are named after it
        self._locks, self._notes = state / "locks", state / "exchanges"
        try:
            for folder in (state, self._locks, self._notes, state / "backups"):
                disk.make_folders(folder)
        except OSError as error:
            raise unusable(state, error) from None
        self._backups = Backups(state / "backups")

    def read(self, path: Path) -> bytes | None:
        """What is in the file; None: there is none. Raises UserError."""
        seen = look(real_path(path))
        return None if seen is None else seen.data

    def check(self, path: Path) -> None:
        """Raises UserError if it cannot be changed, so far as that can be told by looking."""
        real = real_path(path)
        if (seen := look(real)) is not None:
            check_writable(real, seen.status)

    def change(self, path: Path, edit: Edit, *, keep: bool = True) -> Changed:
        """Have in the file what `edit` makes of what is in it; None is no file, on either side.

        `edit` may be asked more than once, and may raise: then the file is as it was. Raises UserError.
        """
        real = real_path(path)
        try:
            self.recover()
            with self._locked(key_of(real), LOCK_S):
                replacing = Replacing(real, self._notes / f"{key_of(real)}{NOTE}", self._backups)
                replacing.recover()
                try:
                    return self._change(real, replacing, edit, keep)
                finally:
                    with contextlib.suppress(OSError):  # the next change does it
                        self._backups.prune(real)
        except disk.Busy:
            raise _busy(real, "another Mooring is changing it, and does not finish") from None
        except BeingWritten:
            raise _busy(real, "another program has it open for writing") from None
        except OSError as error:
            raise unusable(real, error) from None

    def backup(self, path: Path, backup: str) -> bytes | None:
        """What was in the file then; None: that version gave way to later ones. Raises UserError."""
        return self._backups.read(real_path(path), backup)

    def recover(self) -> None:
        """Finish or undo what somebody left who was killed. What is in trouble waits for the next time."""
        names = [one.name.removesuffix(disk.BEGUN) for one in self._notes.iterdir()]
        for key in {name.removesuffix(NOTE) for name in names}:
            with contextlib.suppress(OSError, UserError, disk.Busy), self._locked(key, 0):
                note = self._notes / f"{key}{NOTE}"
                disk.not_written_over(note)
                Replacing(Replacing.path_of(note), note, self._backups).recover()

    def _change(self, real: Path, replacing: Replacing, edit: Edit, keep: bool) -> Changed:
        done: Changed | None = None
        for number in range(MOST_ROUNDS):
            if number:
                time.sleep(PAUSE_S * 2 ** (number - 1))
            seen = replacing.look()
            try:
                after = _edited(replacing, seen, edit)
            except _ReadHalf:
                continue
            before = None if seen is None else seen.data
            if after == before:
                return done or Changed(real, before, before, None)
            if seen is not None:
                check_writable(real, seen.status)
            if after is not None:
                check_size(real, after)
            backup = self._backups.next_number(real) if keep and seen is not None else None
            if not replacing.replace(seen, after, backup):
                continue
            if done is not None and done.backup is not None:
                self._backups.drop(real, done.backup)  # what it has was replaced by another program since
            done = Changed(real, before, after, backup)
            if fingerprint_of(real) == fingerprint(after):
                return done
        raise _busy(real, "another program writes it again and again")

    def _locked(self, key: str, patience_s: float) -> AbstractContextManager[None]:
        return disk.locked(self._locks / f"{key}.lock", patience_s)


class _ReadHalf(Exception):
    """It was read in the middle of a write."""


def _edited(replacing: Replacing, seen: Seen | None, edit: Edit) -> bytes | None:
    """Raises _ReadHalf: it cannot be edited, but it is another one by now."""
    before = None if seen is None else seen.data
    try:
        return edit(before)
    except Exception:
        time.sleep(PAUSE_S)  # a program that writes in place may be in the middle of it
        again = replacing.look()
        if (None if again is None else again.data) == before:
            raise
    raise _ReadHalf


def _busy(real: Path, why: str) -> UserError:
    return UserError(
        f"{real} cannot be changed now: {why}",
        code="file_busy",
        hint="try again, or close the program whose file it is",
    )
