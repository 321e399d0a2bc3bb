"""One SQLite file: opened, looked at, set aside if it is damaged; its errors in words.

Invariants:
- Every change is one transaction: after a crash at any point the file has all of it or nothing.
- Nobody but the user can read it.
- A damaged file is kept under another name, never deleted.
"""

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from mooring.errors import MooringError
from mooring.store.schema import bring_up_to_date

__all__ = [
    "DAMAGED",
    "FILE_NAME",
    "Opened",
    "StoreError",
    "is_damage",
    "open_database",
    "reading",
    "transaction",
]

FILE_NAME = "state.db"
DAMAGED = f"{FILE_NAME}.damaged-"
"""Before the time at which a damaged one was put aside."""
BUSY_S = 5.0
"""How long to wait for another process that writes."""
_FULL, _CORRUPT, _NOT_A_DATABASE, _READ_ONLY, _BUSY, _CANNOT_OPEN, _IO = 13, 11, 26, 8, 5, 14, 10

_FULL_DISK = ("disk_full", "the disk is full", "make room; servers that run go on running")
_UNWRITABLE = (
    "state_unwritable",
    "it cannot be written",
    "make the directory writable, or set MOORING_STATE_DIR to another one",
)


class StoreError(MooringError):
    """The state could not be read or written; whatever runs goes on."""


class Opened(NamedTuple):
    """A file that can be used; `aside` is the name of the damaged one that it replaces, if there was one."""

    connection: sqlite3.Connection
    aside: Path | None = None


def open_database(path: Path, now: float) -> Opened:
    """Open it, make it if it is not there, replace it if it is damaged.

    Raises StoreError, or UserError for one of a newer Mooring.
    """
    with reading(path):
        try:
            return Opened(_open(path))
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
        aside = _set_aside(path, now)
        connection = _open(path)
        # Only the damaged file knew how many generations there were; none may return.
        connection.execute("UPDATE counter SET generation = ?", (int(now),))
        return Opened(connection, aside)


def _open(path: Path) -> sqlite3.Connection:
    connection = _connect(path)
    try:
        _set_up(connection)
        bring_up_to_date(connection)
        problem = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if problem != "ok":
            raise sqlite3.DatabaseError(str(problem))
    except BaseException:
        connection.close()
        raise
    return connection


def _connect(path: Path) -> sqlite3.Connection:
    # The journal files take the mode of the file, so it must be right before anything is written.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    return sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)


def _set_up(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA journal_mode = WAL")
    # A crash of the system may cost the last moments, never the file.
    connection.execute("PRAGMA synchronous = NORMAL")


def _set_aside(path: Path, now: float) -> Path:
    """Rename a damaged file and its journals; returns its new name."""
    stamp = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
    names = (f"{DAMAGED}{stamp}{more}" for more in ("", *(f"-{n}" for n in range(2, 100))))
    aside = next(aside for name in names if not (aside := path.with_name(name)).exists())
    # The file last: a journal that was left would be taken for that of the next one.
    for suffix in ("-wal", "-shm", ""):
        with suppress(FileNotFoundError):
            Path(f"{path}{suffix}").replace(f"{aside}{suffix}")
    return aside


@contextmanager
def transaction(connection: sqlite3.Connection, path: Path) -> Iterator[sqlite3.Connection]:
    """One change: all of it or nothing. Raises StoreError."""
    with reading(path):
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Whatever goes wrong is a StoreError that says what to do."""
    try:
        yield
    except sqlite3.Error as error:
        code, text, hint = _describe(error)
        raise StoreError(f"{path}: {text}", code=code, hint=hint) from error
    except OSError as error:
        code, _, hint = _FULL_DISK if error.errno in (errno.ENOSPC, errno.EDQUOT) else _UNWRITABLE
        raise StoreError(f"{path}: {error.strerror}", code=code, hint=hint) from error


def _describe(error: sqlite3.Error) -> tuple[str, str, str]:
    match _primary(error):
        case code if code == _FULL:
            return _FULL_DISK
        case code if code in (_READ_ONLY, _CANNOT_OPEN):
            return _UNWRITABLE
        case code if code == _BUSY:
            return "state_busy", "another process is writing to it and does not finish", "try again"
        case code if code in (_CORRUPT, _NOT_A_DATABASE):
            hint = "mooring daemon stop, and start it again: the file is kept aside, and a new one begun"
            return "state_damaged", "it is damaged", hint
        case code if code == _IO:
            return (
                "state_unusable",
                f"the disk has failed: {error}",
                "see whether the disk works, and has room",
            )
    return "state_unusable", f"{error}", "mooring daemon status says who uses it"


def is_damage(error: sqlite3.Error) -> bool:
    """Does it say that the file is not what it should be?"""
    code = _primary(error)
    return code in (_CORRUPT, _NOT_A_DATABASE) or code is None


def _primary(error: sqlite3.Error) -> int | None:
    """The result code without its details; None for one that we raised ourselves."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF
