"""The tokens that are good now, as a running relay knows them.

A relay looks at the file once a second or so (`changed`, one system call) and reads it again when it is
another (`reload`). So tokens are made and revoked beside it, by whoever may write its folder. One that is
unknown is looked for at once (`find_new`): whoever has just made it uses it in the next moment.
"""

import hmac
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from mooring.errors import MooringError
from mooring.relay.token_file import TokenRecord, read_tokens
from mooring.relay.tokens import Grant, digest, id_in

__all__ = ["TokenBook"]

NOBODYS = "0" * 64
"""Compared with in place of a hash that there is not. No text has this one that anybody could find."""


MAX_NEW_BYTES = 1024 * 1024
"""Of a file that is looked into while somebody waits, some 3,000 tokens: that takes milliseconds, in which
nobody else is served. In a larger one a new token is found within a second or so."""


class _Known(NamedTuple):
    """What was read. It is exchanged as a whole, so that whoever looks meanwhile sees one state."""

    records: Mapping[str, TokenRecord]
    by_name: Mapping[str, TokenRecord]
    grants: dict[str, Grant]
    """Of tokens that were presented, made when they were first."""


class TokenBook:
    """Of one file. `reload` may be called in a thread, everything else is quick."""

    def __init__(self, path: Path, wall: Callable[[], float] = time.time) -> None:
        self.path = path
        self._wall = wall
        self._seen: object = None
        self._looked: object = None
        """What `find_new` has looked into."""
        self._reading = threading.Lock()
        self._known = _Known({}, {}, {})

    @classmethod
    def load(cls, path: Path, wall: Callable[[], float] = time.time) -> "TokenBook":
        """The tokens in that file; none if there is none yet. Raises TokensDamaged, UserError."""
        book = cls(path, wall)
        book.reload()
        return book

    def __len__(self) -> int:
        return len(self._known.records)

    def __contains__(self, token_id: str) -> bool:
        """Is there one with that id?"""
        return token_id in self._known.records

    def __repr__(self) -> str:
        return f"<TokenBook of {len(self)} tokens>"

    def find(self, presented: bytes) -> Grant | None:
        """What it allows; None if it is no token, or none that is good."""
        known = self._known
        token_id = id_in(presented)
        if token_id is None:
            return None  # not even its shape, which is no secret
        record = known.records.get(token_id)
        # One that is unknown takes as long: how long it took tells nobody which ids there are.
        is_same = hmac.compare_digest(digest(presented), NOBODYS if record is None else record.sha256)
        if record is None or not is_same or record.is_over(self._wall()):
            return None
        return self._grant(known, record)

    def find_new(self, presented: bytes) -> Grant | None:
        """The same of one that `find` does not know, if it was made since the file was read: once for each
        state of the file, so that who guesses has nothing read."""
        if id_in(presented) is None or self._size() > MAX_NEW_BYTES:
            return None
        with self._reading:
            stamp = self._stamp()
            if stamp not in (self._seen, self._looked):
                self._looked = stamp
                with suppress(MooringError):  # `reload` tells of it
                    self._add(read_tokens(self.path))
        return self.find(presented)

    def _add(self, records: list[TokenRecord]) -> None:
        """Those that are new. What became of the others is for `reload` to find out."""
        known = self._known
        new = [record for record in records if record.id not in known.records]
        self._known = known._replace(
            records={**known.records, **{record.id: record for record in new}},
            by_name={**known.by_name, **{record.name: record for record in new}},
        )

    def is_good(self, grant: Grant) -> bool:
        """Is it still what its token allows? Not after it was revoked, changed in the file, or expired."""
        known = self._known
        record = known.records.get(grant.id)
        if record is None or record.is_over(self._wall()):
            return False
        # Asked of every link once a second: mostly it is the one that was given out.
        now = self._grant(known, record)
        return now is grant or now == grant

    def _grant(self, known: _Known, record: TokenRecord) -> Grant:
        grant = known.grants.get(record.id)
        if grant is None:
            grant = known.grants[record.id] = _granted(record)
        return grant

    def may_come(self, agent: str, server: str) -> bool:
        """Is there a token with which an agent of that name could offer that server?"""
        record = self._known.by_name.get(agent)
        if record is None or record.is_over(self._wall()):
            return False
        return _granted(record).may_connect(server)

    def changed(self) -> bool:
        """Is the file another than the one that was read last, or tried to be? Quick."""
        return self._stamp() != self._seen

    def reload(self) -> dict[str, str]:
        """Read it again. Returns those that are not good any more, or not for the same: by ids, what they
        were called.

        Raises TokensDamaged, UserError: then all is as it was, and `changed` is false until the file is
        another, so that trouble is told once.
        """
        with self._reading:
            self._seen = self._stamp()  # before it is read: what is written meanwhile is seen the next time
            before = self._known.records
            records = {record.id: record for record in read_tokens(self.path)}
            self._known = _Known(records, {record.name: record for record in records.values()}, {})
        return {id: record.name for id, record in before.items() if records.get(id) != record}

    def _size(self) -> int:
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def _stamp(self) -> object:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            return error.errno
        # Each write makes another file. Its number may be one that was used before, but not its times too.
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _granted(record: TokenRecord) -> Grant:
    return Grant(
        id=record.id,
        name=record.name,
        servers=frozenset(record.servers),
        calls=frozenset(record.calls),
        expires=record.expires,
    )
