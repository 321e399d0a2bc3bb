"""The ledger: which entries in clients' files are ours. One file, `ledger.json`, the user's alone.

Invariants:
- It is whole at every moment: written beside its place, synced, then put there in one step. Who is killed in
  between leaves the one before, and at most `ledger.json.new`, which the next writer removes.
- One at a time acts on it and on the files that it tells of (`held`), by a lock on `ledger.lock`, which the
  system gives back when its holder dies. Readers need none.
- One that is damaged is kept under another name and told, and a new one begun: entries of which nothing is
  known are then others' entries, until they are recognised. One of a newer Mooring is left alone.
"""

import fcntl
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from mooring.clients.records import Contents
from mooring.errors import UserError

__all__ = ["LOCK_S", "MAX_LEDGER_BYTES", "Ledger", "LedgerTrouble"]

logger = logging.getLogger(__name__)

MAX_LEDGER_BYTES = 16 * 1024 * 1024
"""Thousands of entries; what would make it larger is refused before any file is touched."""
LOCK_S = 10.0
"""For whoever acts on clients' files at this moment, the daemon or another command."""
LOOK_AGAIN_S = 0.01
VERSION = 1


class LedgerTrouble(UserError):
    """It is about the ledger, not about one client's file."""


class Ledger:
    """See the module; `folder` is there. Every method waits for a disk."""

    def __init__(self, folder: Path, patience_s: float = LOCK_S) -> None:
        self.path = folder / "ledger.json"
        self.damaged: Path | None = None
        """Where a damaged one was put aside."""
        self._patience_s = patience_s

    def read(self) -> Contents:
        """As it is now; a damaged one says nothing. Raises LedgerTrouble."""
        try:
            return self._read()
        except msgspec.DecodeError:
            return Contents()

    @contextmanager
    def held(self) -> Iterator[Contents]:
        """Nobody else acts meanwhile. What is in it, to be changed and written. Raises LedgerTrouble."""
        with self._locked():
            try:
                contents = self._read()
            except msgspec.DecodeError as error:
                self._set_aside(error)
                contents = Contents()
            yield contents

    def write(self, contents: Contents) -> None:
        """For who holds it. Raises LedgerTrouble: then it is as it was."""
        data = msgspec.json.format(msgspec.json.encode(contents), indent=1) + b"\n"
        if len(data) > MAX_LEDGER_BYTES:
            raise LedgerTrouble(
                f"there is no room for more entries: {self.path} may have {MAX_LEDGER_BYTES:,} bytes",
                code="ledger_full",
                hint="remove servers from clients: mooring client rm CLIENT",
            )
        begun = self.path.with_name(f"{self.path.name}.new")
        try:
            begun.unlink(missing_ok=True)  # of somebody who was killed
            descriptor = os.open(begun, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(begun, self.path)  # noqa: PTH105 - as the other steps, by the name that tests stop at
            _sync_directory(self.path.parent)
        except OSError as error:
            with suppress(OSError):
                begun.unlink(missing_ok=True)
            raise self._unusable(error) from None

    def _read(self) -> Contents:
        """Raises msgspec.DecodeError too: it is damaged."""
        try:
            with self.path.open("rb") as file:
                data = file.read(MAX_LEDGER_BYTES + 1)
        except FileNotFoundError:
            return Contents()
        except OSError as error:
            raise self._unusable(error) from None
        try:
            version = msgspec.json.decode(data, type=_Version).version
            if version > VERSION:
                raise LedgerTrouble(
                    f"{self.path} was written by a newer Mooring",
                    code="ledger_too_new",
                    hint="upgrade Mooring, or set MOORING_STATE_DIR to another directory",
                )
            return msgspec.json.decode(data, type=Contents)
        except UnicodeDecodeError:
            raise msgspec.DecodeError("this is not UTF-8") from None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            lock = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._unusable(error) from None
        try:
            self._wait_for(lock)
            yield
        finally:
            os.close(lock)

    def _wait_for(self, lock: int) -> None:
        give_up_at = time.monotonic() + self._patience_s
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() >= give_up_at:
                    raise LedgerTrouble(
                        "another command, or the daemon, is changing clients' files and does not finish",
                        code="ledger_busy",
                        hint="try again",
                    ) from None
            time.sleep(LOOK_AGAIN_S)

    def _set_aside(self, error: Exception) -> None:
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        names = (f"ledger.damaged-{stamp}{more}" for more in ("", *(f"-{n}" for n in range(2, 100))))
        aside = next(aside for name in names if not (aside := self.path.with_name(name)).exists())
        try:
            self.path.replace(aside)
        except OSError as problem:
            raise self._unusable(problem) from None
        self.damaged = aside
        logger.warning(
            "%s was damaged (%s), and is kept as %s: mooring client sync recognises the entries again",
            self.path,
            type(error).__name__,
            aside,
            extra={"event": "client_ledger_damaged"},
        )

    def _unusable(self, error: OSError) -> LedgerTrouble:
        return LedgerTrouble(
            f"{self.path} cannot be used: {error.strerror}",
            code="ledger_unusable",
            hint="make it readable and writable for you, and see whether its disk has room",
        )


class _Version(msgspec.Struct):
    version: int


def _sync_directory(directory: Path) -> None:
    """So that the new name outlives a crash of the system."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
