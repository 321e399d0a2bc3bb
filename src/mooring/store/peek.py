"""A look into the store by somebody who does not own it, and writes nothing: a command, say."""

import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from mooring.store.database import BUSY_S, FILE_NAME, is_damage, reading

__all__ = ["look_for_damage", "read_definitions"]


def read_definitions(directory: Path) -> dict[str, bytes]:
    """Of all workloads, by name; none if there is no store. Raises StoreError."""
    path = directory / FILE_NAME
    if not path.exists():
        return {}
    with reading(path), closing(_look_into(path)) as connection:
        return dict(connection.execute("SELECT name, definition FROM workload ORDER BY name"))


def look_for_damage(directory: Path) -> tuple[int, str]:
    """Its version, and what is wrong with it, if anything is. Raises StoreError if it cannot be looked at."""
    path = directory / FILE_NAME
    try:
        with closing(_look_into(path)) as connection:
            version = int(connection.execute("PRAGMA user_version").fetchone()[0])
            problem = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.Error as error:
        if is_damage(error):
            return 0, str(error)
        with reading(path):
            raise
    return version, "" if problem == "ok" else problem


def _look_into(path: Path) -> sqlite3.Connection:
    # Nobody has it open unless there is a journal: then nothing need be locked, nor be written for that.
    how = "mode=ro" if Path(f"{path}-wal").exists() else "mode=ro&immutable=1"
    return sqlite3.connect(f"file:{quote(str(path))}?{how}", uri=True, timeout=BUSY_S)
