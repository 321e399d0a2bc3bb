"""The tables, and how older ones become them.

`user_version` of the file says which step it has seen. A step is never changed once it was released;
each is one transaction, so that a file has seen a step or has not.
"""

import sqlite3

from mooring.errors import UserError

__all__ = ["NEWEST", "STEPS", "bring_up_to_date"]

STEPS = (
    """
    CREATE TABLE owner (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        nonce TEXT NOT NULL,
        pid INTEGER NOT NULL,
        boot TEXT NOT NULL,
        since REAL NOT NULL
    ) STRICT;
    CREATE TABLE counter (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        generation INTEGER NOT NULL
    ) STRICT;
    INSERT INTO counter VALUES (1, 0);
    CREATE TABLE workload (
        name TEXT PRIMARY KEY,
        generation INTEGER NOT NULL UNIQUE,
        definition BLOB NOT NULL,
        desired TEXT NOT NULL CHECK (desired IN ('running', 'stopped')),
        created_at REAL NOT NULL,
        changed_at REAL NOT NULL
    ) STRICT;
    CREATE TABLE session (
        id TEXT PRIMARY KEY,
        name TEXT NOT NULL REFERENCES workload (name) ON DELETE CASCADE,
        principal TEXT NOT NULL,
        transport TEXT NOT NULL,
        client TEXT NOT NULL,
        memory BLOB NOT NULL,
        opened_at REAL NOT NULL,
        used_at REAL NOT NULL
    ) STRICT;
    CREATE INDEX session_by_use ON session (name, used_at);
    CREATE TABLE event (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        at REAL NOT NULL,
        name TEXT NOT NULL,
        generation INTEGER NOT NULL,
        kind TEXT NOT NULL,
        text TEXT NOT NULL
    ) STRICT;
    CREATE INDEX event_by_name ON event (name, number);
    """,
    """
    CREATE TABLE era (
        command TEXT PRIMARY KEY,
        version TEXT NOT NULL,
        discovery BLOB NOT NULL,
        found_at REAL NOT NULL
    ) STRICT;
    """,
    """
    ALTER TABLE workload ADD COLUMN origin TEXT NOT NULL DEFAULT '';
    """,
    """
    ALTER TABLE workload ADD COLUMN why_stopped TEXT NOT NULL DEFAULT '';
    """,
)
NEWEST = len(STEPS)


def bring_up_to_date(connection: sqlite3.Connection) -> None:
    """Take the steps that are missing. Raises UserError if the file is of a newer Mooring."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > NEWEST:
        raise UserError(
            "the state was written by a newer Mooring",
            code="state_too_new",
            hint="upgrade Mooring, or set MOORING_STATE_DIR to another directory",
        )
    for number, step in enumerate(STEPS[version:], version + 1):
        connection.executescript(f"BEGIN IMMEDIATE;{step}PRAGMA user_version = {number};COMMIT;")
