"""For people who look at what replicas share: all sessions in a Redis, whose they are, and the end of one.

Nothing here is a replica: it has no lease, and owns nothing. Looking writes nothing, so that a user of Redis
will do who may only read; and it never asks for more than a page at a time.
"""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from mooring.errors import MooringError, UserError
from mooring.replicas.forwarding import UNTRUSTED, Forwarding
from mooring.replicas.policy import ReplicaPolicy
from mooring.replicas.records import Keys, Replica, pattern_of_sessions, session_of_key
from mooring.replicas.redis_client import RedisClient
from mooring.replicas.seal import INSPECTOR, Seal
from mooring.replicas.shared_store import Place, SharedStore
from mooring.wire.http import Head, Request
from mooring.wire.memory import Memory

__all__ = ["Details", "Ending", "Inspector", "KeptStream", "Owner", "Seen"]

ENDPOINT = "/mcp"
"""Of every replica: the one transport whose sessions are shared."""
TELL_S = 5.0
"""For an owner to answer."""
GONE = frozenset({204, 404})
"""What an owner answers that has the session no longer."""
MOST_STREAMS = 1000
"""Looked at, of one session."""
MOST_NAMED = 5
"""Of those that are meant, perhaps."""
SHORT = 8


class Owner(NamedTuple):
    """Who has a session."""

    name: str
    """Of the incarnation; empty: nobody has it, and whoever is asked for it next will."""
    replica: Replica | None
    """Where it is; None: that is not known any more."""
    is_alive: bool
    has_neighbours: bool = False
    """Others have the same host."""

    @property
    def host(self) -> str:
        """The machine, or pod; from its name if nothing else is left."""
        return (self.replica.host if self.replica is not None else "") or self.name.rpartition("-")[0]

    @property
    def shown(self) -> str:
        """The host; with the port where that alone does not say who is meant."""
        if self.replica is None or not self.has_neighbours:
            return self.host
        try:
            port = urlsplit(self.replica.address).port
        except ValueError:
            port = None
        return self.host if port is None else f"{self.host}:{port}"


class Seen(NamedTuple):
    """A session, as it was found."""

    server: str
    id: str
    place: Place
    owner: Owner

    @property
    def short_id(self) -> str:
        """As in logs; the whole one is a key."""
        return self.id[:SHORT]

    @property
    def memory(self) -> Memory | None:
        """What its client has said; None: that cannot be read here, a newer Mooring has written it."""
        try:
            return Memory.load(self.place.record.memory)
        except msgspec.DecodeError:
            return None


class KeptStream(NamedTuple):
    """Events of a session that can be asked for at any replica."""

    name: str
    events: int
    is_finished: bool
    expires_in_s: float


class Details(NamedTuple):
    """What else is known of a session."""

    expires_in_s: float
    """Unless it is used."""
    streams: list[KeptStream]


class Ending(NamedTuple):
    """What became of the end of a session."""

    owner: Owner
    """When it ended."""
    untold: str
    """Why its owner does not know yet; empty: it does, or there is none that lives."""


class Inspector:
    """Of all workloads below a prefix."""

    def __init__(self, client: RedisClient, prefix: str, policy: ReplicaPolicy | None = None) -> None:
        self._client = client
        self._prefix = prefix
        self._policy = policy or ReplicaPolicy()
        self._stores: dict[str, _Store] = {}
        self._owners: dict[tuple[str, str], Owner] = {}

    async def pages(self, server: str | None = None, beginning: str = "") -> AsyncGenerator[list[Seen], None]:
        """All sessions, or those of one server, whose ids begin so: some at a time, each once.

        Raises StoreUnavailable.
        """
        told: set[int] = set()  # hashes, which are small: there may be a million
        pattern = pattern_of_sessions(self._prefix, server, beginning)
        async with aclosing(self._store("-").pages_of_keys(pattern)) as pages:
            async for keys in pages:
                by_server: dict[str, list[bytes]] = {}
                for key in keys:
                    found = session_of_key(self._prefix, key)
                    if found is not None and hash(key) not in told:
                        told.add(hash(key))
                        by_server.setdefault(found[0], []).append(key)
                if page := [seen for name, of in by_server.items() for seen in await self._look(name, of)]:
                    yield sorted(page, key=_order)

    async def _look(self, server: str, keys: list[bytes]) -> list[Seen]:
        places = await self._store(server).places(keys)
        return [Seen(server, id, place, await self._owner(server, place.owner)) for id, place in places]

    async def find(self, beginning: str, server: str | None = None) -> Seen:
        """The one session whose id begins so. Raises UserError if there is not one; StoreUnavailable."""
        found: list[Seen] = []
        count = 0
        async with aclosing(self.pages(server, beginning)) as pages:
            async for page in pages:
                for seen in page:
                    if seen.id == beginning:
                        return seen
                    count += 1
                    if len(found) < MOST_NAMED:
                        found.append(seen)
        if count == 1:
            return found[0]
        if not found:
            raise await self._missing(beginning, server)
        length = max(SHORT, len(beginning) + 4)
        named = ", ".join(f"{seen.id[:length]} ({seen.server})" for seen in found)
        raise UserError(
            f"{count} sessions begin with {beginning}: {named}{', …' if count > len(found) else ''}",
            code="ambiguous_session",
            hint="give more of its id, or --server NAME",
        )

    async def _missing(self, beginning: str, server: str | None) -> UserError:
        pattern = pattern_of_sessions(self._prefix, server, beginning)
        async with aclosing(self._store("-").pages_of_keys(pattern)) as pages:
            async for keys in pages:
                ours = [key for key in keys if session_of_key(self._prefix, key) is not None]
                for key in await self._store("-").ended(ours):
                    workload, id = session_of_key(self._prefix, key) or ("", "")
                    return _has_ended(workload, id)
        return _unknown(beginning)

    async def details(self, seen: Seen) -> Details:
        """Raises StoreUnavailable."""
        store = self._store(seen.server)
        return Details(await store.expires_in_s(seen.id), await store.streams(seen.id))

    async def end(self, seen: Seen, key: str | None = None) -> Ending:
        """End it for everybody, and tell its owner. `key`: of the replicas, if they were given one.

        Raises UserError if it has ended already; StoreUnavailable.
        """
        store = self._store(seen.server)
        name = await store.end(seen.id)
        if name is None:
            raise _unknown(seen.short_id)
        # It may have become another's since it was seen; whoever has it when it ends is the last.
        owner = await self._owner(seen.server, name)
        if not owner.is_alive:
            return Ending(owner, "")  # without a lease it does nothing, and when it wakes up it hears of it
        if owner.replica is None:
            return Ending(owner, "where it is is not known")
        known = key.encode() if key is not None else await store.known_secret()
        if known is None:
            return Ending(owner, "its replicas have a key of their own (--replica-key)")
        return Ending(owner, await self._tell(seen, owner.replica, known))

    async def _tell(self, seen: Seen, replica: Replica, key: bytes) -> str:
        """Why it could not be told."""
        forwarding = Forwarding(Seal(key, time.time), self._policy, lambda: INSPECTOR)
        headers = [(b"mcp-session-id", seen.id.encode())]
        request = Request(Head("DELETE", ENDPOINT, headers=headers), principal=seen.place.record.principal)
        try:
            async with asyncio.timeout(TELL_S):
                response = await forwarding.send(request, replica)
                response.close()
        except TimeoutError:
            return f"it does not answer at {replica.address}"
        except MooringError as error:
            return error.message
        finally:
            await forwarding.aclose()
        if response.status in UNTRUSTED:
            return "it does not believe us: its replicas have another key (--replica-key)"
        return "" if response.status in GONE else f"it answers with status {response.status}"

    async def _owner(self, server: str, name: str) -> Owner:
        """Asked once for each: a listing takes seconds, and has few of them."""
        if not name:
            return Owner("", None, is_alive=False)
        owner = self._owners.get((server, name))
        if owner is None:
            store = self._store(server)
            replicas = await store.replicas()
            replica = replicas.get(name)
            hosts = {other.address: other.host for other in replicas.values()}
            has_neighbours = replica is not None and list(hosts.values()).count(replica.host) > 1
            alive = await store.is_alive(name)
            owner = self._owners[server, name] = Owner(name, replica, alive, has_neighbours)
        return owner

    def _store(self, server: str) -> "_Store":
        store = self._stores.get(server)
        if store is None:
            store = self._stores[server] = _Store(
                self._client, Keys(self._prefix, server), self._policy.store_s
            )
        return store

    async def aclose(self) -> None:
        """Let go of all connections."""
        await self._client.aclose()


class _Store(SharedStore):
    """What no replica asks."""

    async def ended(self, keys: list[bytes]) -> list[bytes]:
        """Those of sessions that somebody has ended, and not their owners."""
        pipe = self._client.pipeline(transaction=False)
        for key in keys:
            pipe.hexists(key, "x")
        found = await self._ask(pipe.execute()) if keys else []
        return [key for key, is_marked in zip(keys, found, strict=True) if is_marked]

    async def expires_in_s(self, id: str) -> float:
        """Until a session is forgotten."""
        return max(0, await self._ask(self._client.pttl(self._keys.session(id)))) / 1000

    async def streams(self, id: str) -> list[KeptStream]:
        """What is kept of its events."""
        found: dict[bytes, None] = {}
        async with aclosing(self.pages_of_keys(self._keys.streams(id))) as pages:
            async for keys in pages:
                found.update(dict.fromkeys(keys))
        kept = [await self._stream_at(id, key) for key in sorted(found)[:MOST_STREAMS]]
        return [stream for stream in kept if stream is not None]

    async def _stream_at(self, id: str, key: bytes) -> KeptStream | None:
        pipe = self._client.pipeline(transaction=False)
        pipe.xlen(key)
        pipe.pttl(key)
        pipe.xrange(key, count=1)
        pipe.xrevrange(key, count=1)
        length, left_ms, oldest, newest = await self._ask(pipe.execute())
        if not length:
            return None  # it has expired since
        # Its beginning and its end may be entries of their own, which are no events.
        bare = {entry for entry, fields in (*oldest, *newest) if b"d" not in fields}
        finished = any(b"l" in fields for _, fields in newest)
        events, name = length - len(bare), self._keys.stream_of(id, key)
        return KeptStream(name, events, finished, max(0, left_ms) / 1000)


def _order(seen: Seen) -> tuple[str, float, str]:
    return seen.server, seen.place.record.created_at, seen.id


def _has_ended(server: str, id: str) -> UserError:
    return UserError(
        f"the session {id[:SHORT]} of {server} has ended, by request (mooring sessions end)",
        code="unknown_session",
        hint="mooring sessions ls shows those there are",
    )


def _unknown(beginning: str) -> UserError:
    return UserError(
        f"there is no session whose id begins with {beginning}",
        code="unknown_session",
        hint="mooring sessions ls shows those there are; see --sessions-prefix and the database, too",
    )
