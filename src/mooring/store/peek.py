"""A look into the store by somebody who does not own it, and writes nothing: a command, say."""

import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from mooring.store.database import BUSY_S, reading

__all__ = ["read_definitions"]


def read_definitions(directory: Path) -> dict[str, bytes]:
    """Of all workloads, by name; none if there is no store. Raises StoreError."""
    path = directory / "state.db"
    if not path.exists():
        return {}
    with (
        reading(path),
        closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=BUSY_S)) as connection,
    ):
        return dict(connection.execute("SELECT name, definition FROM workload ORDER BY name"))
