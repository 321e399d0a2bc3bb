"""The ledger: which entries in clients' files are ours. One file, `ledger.json`, the user's alone.

Invariants:
- It is whole at every moment: written beside its place, synced, then put there in one step. Who is killed in
  between leaves the one before, and at most `ledger.json.new`, which the next writer removes.
- One at a time acts on it and on the files that it tells of (`held`), by a lock on `ledger.lock`, which the
  system gives back when its holder dies. Readers need none.
- One that is damaged is kept under another name and told, and a new one begun: entries of which nothing is
  known are then others' entries, until they are recognised. One of a newer Mooring is left alone.
"""

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from mooring.clients import disk
from mooring.clients.records import Contents
from mooring.errors import UserError

__all__ = ["LOCK_S", "MAX_LEDGER_BYTES", "Ledger", "LedgerTrouble"]

logger = logging.getLogger(__name__)

MAX_LEDGER_BYTES = 16 * 1024 * 1024
"""Thousands of entries; what would make it larger is refused before any file is touched."""
LOCK_S = 10.0
"""For whoever acts on clients' files at this moment, the daemon or another command."""
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
        try:
            disk.write_over(self.path, data, is_synced=True)
        except OSError as error:
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
        except (UnicodeDecodeError, RecursionError):
            raise msgspec.DecodeError("this is not UTF-8, or too deep") from None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with ExitStack() as stack:
            try:
                stack.enter_context(disk.locked(self.path.with_suffix(".lock"), self._patience_s))
            except disk.Busy:
                raise LedgerTrouble(
                    "another command, or the daemon, is changing clients' files and does not finish",
                    code="ledger_busy",
                    hint="try again",
                ) from None
            except OSError as error:
                raise self._unusable(error) from None
            yield

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
