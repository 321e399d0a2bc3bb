"""The state of one directory, and who may write it.

Rules:
- Whoever writes has claimed the store before, and says its nonce with every write; a claim by another
  makes all later writes of the first fail (`Fenced`), whatever they are and whenever they come.
- What is written about a workload names the generation it is about. If the workload has another one by
  now, or is gone, nothing is written: `StaleGeneration`.
- Generations come from one counter that only grows, so none ever returns, not after `rm` either.
- Reading never writes.
"""

import secrets
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mooring.errors import UserError
from mooring.store.database import FILE_NAME, StoreError, open_database, reading, transaction
from mooring.store.records import Desired, Era, Event, Owner, Session, Workload

__all__ = ["Fenced", "StaleGeneration", "Store"]

MAX_EVENTS = 1000
"""Kept of each workload, and of all that is about none together; the oldest give way."""
MAX_EVENTS_READ = 1000
"""At once; whoever wants more asks again, after the last."""
MAX_SESSIONS = 1000
"""Kept of each workload; the least recently used give way."""
SESSION_DAYS = 7.0
DAY_S = 86400.0
MAX_ERAS = 1000
"""Commands of which it is known which era their servers speak; what was found out first gives way."""
ERA_DAYS = 7.0
"""After that it is found out anew: a server may have changed without saying so."""
_WORKLOADS = (
    "SELECT name, generation, definition, desired, created_at, changed_at, origin, why_stopped FROM workload "
)
_SESSIONS = "SELECT id, name, principal, transport, client, memory, opened_at, used_at FROM session "
_EVENTS = "SELECT number, at, name, generation, kind, text FROM event "
_OLD_OF_ONE = (
    "DELETE FROM event WHERE name = ? AND number <= "
    "(SELECT number FROM event WHERE name = ? ORDER BY number DESC LIMIT 1 OFFSET ?)"
)
_OLD_OF_NOBODY = (
    "DELETE FROM event WHERE name NOT IN (SELECT name FROM workload) AND number <= "
    "(SELECT number FROM event WHERE name NOT IN (SELECT name FROM workload) "
    "ORDER BY number DESC LIMIT 1 OFFSET ?)"
)


class Fenced(StoreError):
    """Another owner has taken over: this one may write no more."""


class StaleGeneration(StoreError):
    """The workload has been removed or begun anew since."""


class Store:
    """Open it, claim it, then write. One thread at a time."""

    def __init__(self, directory: Path, now: Callable[[], float]) -> None:
        self.path = directory / FILE_NAME
        self._now = now
        self._nonce = ""
        self._connection, self.set_aside = open_database(self.path, now())
        """The damaged file in whose place this one was begun, if it was so."""

    def close(self) -> None:
        """Idempotent."""
        self._connection.close()

    # Ownership

    @property
    def owner(self) -> Owner | None:
        """Who has claimed it last, and not given it up."""
        row = self._read("SELECT nonce, pid, boot, since FROM owner").fetchone()
        return Owner(*row) if row is not None else None

    def claim(self, pid: int, boot: str) -> Owner:
        """Be the one who writes. The caller has made sure that nobody else should be.

        Once more: be it again, under the same name.
        """
        owner = Owner(self._nonce or secrets.token_urlsafe(16), pid, boot, self._now())
        with transaction(self._connection, self.path) as change:
            change.execute("INSERT OR REPLACE INTO owner VALUES (1, ?, ?, ?, ?)", owner)
        self._nonce = owner.nonce
        return owner

    def release(self) -> None:
        """Own it no more: a successor that finds no owner knows that this one ended as it should."""
        with self._writing() as change:
            change.execute("DELETE FROM owner")

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """A change by the owner; raises Fenced if that is somebody else by now."""
        with transaction(self._connection, self.path) as change:
            row = change.execute("SELECT nonce FROM owner").fetchone()
            if row is None or row[0] != self._nonce:
                text = "another Mooring has taken over this state; this one may write no more"
                raise Fenced(text, code="fenced", hint="mooring daemon status says who it is")
            yield change

    def _read(self, query: str, values: Iterable[object] = ()) -> sqlite3.Cursor:
        with reading(self.path):
            return self._connection.execute(query, tuple(values))

    # Workloads

    def workloads(self) -> list[Workload]:
        """All of them, by name."""
        rows = self._read(_WORKLOADS + "ORDER BY name").fetchall()
        return [_workload(row) for row in rows]

    def workload(self, name: str) -> Workload | None:
        """The one of that name."""
        row = self._read(_WORKLOADS + "WHERE name = ?", (name,)).fetchone()
        return _workload(row) if row is not None else None

    def add(self, name: str, definition: bytes, origin: str = "") -> Workload:
        """A new one, to be run. Raises UserError if the name is taken."""
        now = self._now()
        with self._writing() as change:
            if change.execute("SELECT 1 FROM workload WHERE name = ?", (name,)).fetchone():
                raise UserError(f"there is a server named {name}", code="name_taken", hint="use --replace")
            record = Workload(name, _next_generation(change), definition, Desired.RUNNING, now, now, origin)
            change.execute("INSERT INTO workload VALUES (?, ?, ?, ?, ?, ?, ?, ?)", record)
        return record

    def begin(
        self, name: str, *, after: int, definition: bytes | None = None, origin: str | None = None
    ) -> Workload:
        """Its next generation, to be run; with another definition and origin if they are given."""
        with self._writing() as change:
            self._check(change, name, after)
            values = (_next_generation(change), definition, origin, Desired.RUNNING, self._now(), name)
            change.execute(
                "UPDATE workload SET generation = ?, definition = coalesce(?, definition), "
                "origin = coalesce(?, origin), desired = ?, changed_at = ?, why_stopped = '' WHERE name = ?",
                values,
            )
            row = change.execute(_WORKLOADS + "WHERE name = ?", (name,)).fetchone()
        return _workload(row)

    def want(self, name: str, generation: int, desired: Desired, why: str = "") -> None:
        """What is to become of it, and why if nobody asked for that."""
        with self._writing() as change:
            self._check(change, name, generation)
            change.execute(
                "UPDATE workload SET desired = ?, why_stopped = ?, changed_at = ? WHERE name = ?",
                (desired, why, self._now(), name),
            )

    def adopt(self, name: str, generation: int, origin: str) -> None:
        """From now on it belongs to another file, or to none."""
        with self._writing() as change:
            self._check(change, name, generation)
            change.execute(
                "UPDATE workload SET origin = ?, changed_at = ? WHERE name = ?", (origin, self._now(), name)
            )

    def remove(self, name: str, generation: int) -> None:
        """Forget it, its sessions and its history, but for one line that says so."""
        with self._writing() as change:
            self._check(change, name, generation)
            change.execute("DELETE FROM workload WHERE name = ?", (name,))
            change.execute("DELETE FROM event WHERE name = ?", (name,))
            _insert(change, Event(0, self._now(), name, generation, "removed", "by request"))
            change.execute(_OLD_OF_NOBODY, (MAX_EVENTS,))

    @staticmethod
    def _check(change: sqlite3.Connection, name: str, generation: int) -> None:
        row = change.execute("SELECT generation FROM workload WHERE name = ?", (name,)).fetchone()
        if row is None or row[0] != generation:
            what = "removed" if row is None else f"begun anew (generation {row[0]})"
            raise StaleGeneration(f"{name}: generation {generation} was {what}", code="stale_generation")

    # Sessions

    def sessions(self, name: str) -> list[Session]:
        """Those of a workload, the most recently used last."""
        rows = self._read(_SESSIONS + "WHERE name = ? ORDER BY used_at", (name,)).fetchall()
        return [Session(*row) for row in rows]

    def keep_sessions(
        self, name: str, generation: int, changed: Iterable[Session], ended: Iterable[str]
    ) -> None:
        """Write those that changed, forget those that ended, and those that are too old or too many."""
        with self._writing() as change:
            self._check(change, name, generation)
            change.executemany("INSERT OR REPLACE INTO session VALUES (?, ?, ?, ?, ?, ?, ?, ?)", changed)
            change.executemany("DELETE FROM session WHERE id = ? AND name = ?", ((id, name) for id in ended))
            oldest = self._now() - SESSION_DAYS * DAY_S
            change.execute("DELETE FROM session WHERE name = ? AND used_at < ?", (name, oldest))
            change.execute(
                "DELETE FROM session WHERE name = ? AND id NOT IN "
                "(SELECT id FROM session WHERE name = ? ORDER BY used_at DESC LIMIT ?)",
                (name, name, MAX_SESSIONS),
            )

    # Eras

    def era(self, command: str) -> Era | None:
        """What is known of the servers of that command."""
        query = "SELECT command, version, discovery FROM era WHERE command = ? AND found_at > ?"
        row = self._read(query, (command, self._now() - ERA_DAYS * DAY_S)).fetchone()
        return Era(*row) if row is not None else None

    def keep_era(self, name: str, generation: int, era: Era) -> None:
        """A workload has found out which era its server speaks."""
        with self._writing() as change:
            self._check(change, name, generation)
            change.execute("INSERT OR REPLACE INTO era VALUES (?, ?, ?, ?)", (*era, self._now()))
            change.execute(
                "DELETE FROM era WHERE command NOT IN "
                "(SELECT command FROM era ORDER BY found_at DESC LIMIT ?)",
                (MAX_ERAS,),
            )

    # History

    def tell(self, name: str, generation: int, kind: str, text: str, at: float | None = None) -> None:
        """Something has happened to a workload; to the owner itself, if the name is empty."""
        with self._writing() as change:
            if name:
                self._check(change, name, generation)
            _insert(change, Event(0, self._now() if at is None else at, name, generation, kind, text))
            if name:
                change.execute(_OLD_OF_ONE, (name, name, MAX_EVENTS))
            else:
                change.execute(_OLD_OF_NOBODY, (MAX_EVENTS,))

    def events(self, name: str = "", *, after: int = 0, since: float = 0.0) -> list[Event]:
        """What has happened, in order; to all of them if no name is given."""
        where = "WHERE number > ? AND at >= ? AND ? IN (name, '') ORDER BY number LIMIT ?"
        rows = self._read(_EVENTS + where, (after, since, name, MAX_EVENTS_READ)).fetchall()
        return [Event(*row) for row in rows]

    @property
    def last_number(self) -> int:
        """Of all events that there ever were in this file, forgotten ones included."""
        row = self._read("SELECT seq FROM sqlite_sequence WHERE name = 'event'").fetchone()
        return int(row[0]) if row is not None else 0

    @property
    def is_ours(self) -> bool:
        """Nobody else has claimed it since."""
        owner = self.owner
        return owner is not None and owner.nonce == self._nonce

    def last_event(self, name: str) -> Event | None:
        """The newest of that very name."""
        row = self._read(_EVENTS + "WHERE name = ? ORDER BY number DESC LIMIT 1", (name,)).fetchone()
        return Event(*row) if row is not None else None


def _insert(change: sqlite3.Connection, event: Event) -> None:
    change.execute("INSERT INTO event (at, name, generation, kind, text) VALUES (?, ?, ?, ?, ?)", event[1:])


def _next_generation(change: sqlite3.Connection) -> int:
    change.execute("UPDATE counter SET generation = generation + 1")
    return int(change.execute("SELECT generation FROM counter").fetchone()[0])


def _workload(row: tuple[str, int, bytes, str, float, float, str, str]) -> Workload:
    name, generation, definition, desired, created_at, changed_at, origin, why_stopped = row
    return Workload(
        name, generation, definition, Desired(desired), created_at, changed_at, origin, why_stopped
    )
