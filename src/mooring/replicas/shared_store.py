"""What replicas share, in Redis: one method for each thing that is asked or said, each within its bound.

Every method may be repeated without harm: a command whose answer was lost is said again. Whatever Redis
cannot do now is a `StoreUnavailable`; a write of somebody who is not the owner any more is told by its
result.
"""

import asyncio
import os
import re
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterable, Iterator
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar, cast

from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    MovedError,
    NoPermissionError,
    RedisClusterException,
    RedisError,
)

from mooring.errors import UserError
from mooring.replicas.latency import Latency
from mooring.replicas.records import (
    Keys,
    Replica,
    SessionRecord,
    read_record,
    read_replica,
    write_record,
    write_replica,
)
from mooring.replicas.redis_client import RedisClient
from mooring.replicas.store_errors import NO_DATABASE, StoreUnavailable

__all__ = ["Event", "Kept", "Place", "SharedStore", "StoredStream", "Title", "refusal_of"]

Got = TypeVar("Got")

PAGE = 500
"""Sessions looked at in one go by whoever lists them all: Redis serves others in between."""
PAGE_S = 0.5
"""So long do they wait for that many, where sessions are few among other keys."""
TOMBSTONE_MS = 3_600_000
"""How long it is remembered that somebody has ended a session: its owner may not have heard of it."""

WHERE = re.compile(r" (connecting to|from) \S+:\d+\.?")
"""In what the client of Redis says."""
FAILED = re.compile(r"Err(?:no|or) (\d+)\]? Connect call failed")
"""The same, in words of asyncio."""
FIELDS = ["o", "f", "r", "u", "g", "x"]

_CLAIM = """
local seen = redis.call('HMGET', KEYS[1], 'o', 'f', 'x')
if not seen[2] or seen[3] then return 0 end
if seen[1] == ARGV[3] then return tonumber(seen[2]) end
if seen[1] ~= ARGV[1] or seen[2] ~= ARGV[2] then return -1 end
redis.call('HSET', KEYS[1], 'o', ARGV[3], 'u', ARGV[5])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return redis.call('HINCRBY', KEYS[1], 'f', 1)
"""
# KEYS: session. ARGV: owner, fence, record or '', used, ttl, next owner, '1' if it may be missing.
_KEEP = """
local seen = redis.call('HMGET', KEYS[1], 'o', 'f', 'x')
if seen[3] then return 'ended' end
if not seen[2] then
  if ARGV[7] ~= '1' then return 'missing' end
elseif seen[2] ~= ARGV[2] or (seen[1] ~= ARGV[1] and seen[1] ~= ARGV[6]) then
  return 'fenced'
end
redis.call('HSET', KEYS[1], 'o', ARGV[6], 'f', ARGV[2], 'u', ARGV[4])
if ARGV[6] == '' then redis.call('HSET', KEYS[1], 'g', ARGV[2]) end
if ARGV[3] ~= '' then redis.call('HSET', KEYS[1], 'r', ARGV[3]) end
redis.call('PEXPIRE', KEYS[1], ARGV[5])
return 'kept'
"""
_REMOVE = """
local seen = redis.call('HMGET', KEYS[1], 'o', 'f', 'x')
if seen[3] then return 0 end
if seen[1] == ARGV[1] and seen[2] == ARGV[2] then return redis.call('DEL', KEYS[1]) end
return 0
"""
_END = """
local owner = redis.call('HGET', KEYS[1], 'o')
if not owner then return false end
redis.call('HSET', KEYS[1], 'x', '1', 'r', '')
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return owner
"""


class Place(NamedTuple):
    """Whose a session is."""

    owner: str
    """The incarnation of a replica; empty: nobody's."""
    fence: int
    record: SessionRecord
    used_at: float
    released: int
    """The last fence whose owner has let go of it: of its calls, none was left."""


class Title(NamedTuple):
    """By which a session is owned: whoever shows an older fence owns it no longer."""

    owner: str
    fence: int


class Kept(StrEnum):
    """What became of a write."""

    KEPT = "kept"
    FENCED = "fenced"
    """Another owns it."""
    MISSING = "missing"
    """It has expired, or Redis has lost it."""
    ENDED = "ended"
    """Somebody has ended it."""


class Event(NamedTuple):
    """One event of a stream, on its way; the 0th says that there is a stream."""

    session: str
    stream: str
    n: int
    data: bytes
    ids: str = ""
    """Of the calls that the stream answers, as JSON: told with its first event."""
    is_last: bool = False


class StoredStream(NamedTuple):
    """What is kept of a stream: the messages from `first` on."""

    first: int
    messages: list[bytes]
    ids: str
    finished: bool


class SharedStore:
    """Of one workload."""

    def __init__(self, client: RedisClient, keys: Keys, wait_s: float) -> None:
        self._client = client
        self._keys = keys
        self._wait_s = wait_s
        self.latency = Latency()
        self._claim = client.register_script(_CLAIM)
        self._keep = client.register_script(_KEEP)
        self._remove = client.register_script(_REMOVE)
        self._end = client.register_script(_END)

    async def _ask(self, answer: Awaitable[Got], wait_s: float | None = None) -> Got:
        begun = time.perf_counter()
        try:
            async with asyncio.timeout(wait_s or self._wait_s):
                return await answer
        except TimeoutError:
            raise self.late(wait_s or self._wait_s) from None
        except (RedisError, RedisClusterException, OSError) as error:
            raise self._failed(_in_words(error)) from error
        finally:
            self.latency.took(time.perf_counter() - begun)

    def _failed(self, why: str) -> StoreUnavailable:
        self.latency.failures += 1
        return StoreUnavailable(why)

    def late(self, wait_s: float) -> StoreUnavailable:
        """It was given up after so long; here, or by whoever cannot wait as long as we do."""
        return self._failed(f"no answer within {wait_s:g} s")

    async def check(self) -> None:
        """Can it be used at all? Raises UserError if that is not a matter of time, else StoreUnavailable."""
        try:
            await self.probe()
        except StoreUnavailable as error:
            if (refusal := refusal_of(error)) is not None:
                raise refusal from None
            raise

    async def probe(self) -> None:
        """Does it take what it is told?"""
        await self._ask(self._client.set(self._keys.secret + b":check", b"1", px=1000))

    async def may_evict(self) -> bool:
        """When its memory is full, does it forget what it was told? If it does not say, no."""
        try:
            said = cast("dict[str, Any]", await self._ask(self._client.info("memory")))
        except StoreUnavailable:
            return False
        return bool(said.get("maxmemory")) and said.get("maxmemory_policy") != "noeviction"

    async def secret(self, candidate: bytes) -> bytes:
        """With which replicas know each other: the first one's, for as long as Redis keeps it."""
        if (kept := await self.known_secret()) is None:
            await self._ask(self._client.set(self._keys.secret, candidate, nx=True))
            kept = await self.known_secret()
        if kept is None:
            raise StoreUnavailable("it does not keep what it is given")
        return kept

    async def known_secret(self) -> bytes | None:
        """The same, without making one known; None: there is none, or an empty one."""
        return cast("bytes | None", await self._ask(self._client.get(self._keys.secret))) or None

    async def epoch(self, candidate: str) -> str:
        """The same for as long as Redis keeps what it is given."""
        await self._ask(self._client.set(self._keys.epoch, candidate, nx=True))
        kept = cast("bytes | None", await self._ask(self._client.get(self._keys.epoch)))
        return (kept or b"").decode()

    async def seen_epoch(self) -> str:
        """The same, without beginning one."""
        kept = cast("bytes | None", await self._ask(self._client.get(self._keys.epoch)))
        return (kept or b"").decode()

    # Replicas

    async def begin(self, incarnation: str, replica: Replica, lease_s: float) -> None:
        """A new incarnation."""
        lease_ms = int(lease_s * 1000)
        await self._ask(self._client.hset(self._keys.replicas, incarnation, write_replica(replica)))
        await self._ask(self._client.set(self._keys.lease(incarnation), b"1", px=lease_ms))

    async def tell_address(self, incarnation: str, replica: Replica) -> None:
        """Where it is."""
        await self._ask(self._client.hset(self._keys.replicas, incarnation, write_replica(replica)))

    async def renew(self, incarnation: str, lease_s: float) -> bool:
        """It lives on; false: it was found dead, for ever."""
        renewed = self._client.set(self._keys.lease(incarnation), b"1", px=int(lease_s * 1000), xx=True)
        return bool(await self._ask(renewed))

    async def retire(self, incarnation: str) -> None:
        """It is gone, as it says itself."""
        await self._ask(self._client.delete(self._keys.lease(incarnation)))
        await self._ask(self._client.hdel(self._keys.replicas, incarnation))

    async def forget(self, incarnation: str) -> None:
        """Where it was is of no interest any more."""
        await self._ask(self._client.hdel(self._keys.replicas, incarnation))

    async def is_alive(self, incarnation: str) -> bool:
        """Has it a lease?"""
        return bool(await self._ask(self._client.exists(self._keys.lease(incarnation))))

    async def replicas(self) -> dict[str, Replica]:
        """All that are known, alive or not."""
        found = cast("dict[bytes, bytes]", await self._ask(self._client.hgetall(self._keys.replicas)))
        read = {name.decode(): read_replica(data) for name, data in found.items()}
        return {name: replica for name, replica in read.items() if replica is not None}

    # Sessions

    async def open(self, id: str, owner: str, record: SessionRecord, used_at: float, ttl_s: float) -> Title:
        """A session begins."""
        await self.keep(id, Title(owner, 1), record, used_at, ttl_s, may_be_missing=True)
        return Title(owner, 1)

    async def find(self, id: str) -> Place | None:
        """Whose it is; None: there is no such session."""
        asked = self._client.hmget(self._keys.session(id), FIELDS)
        return _place(cast("list[bytes | None]", await self._ask(asked)))

    async def claim(self, id: str, seen: Place, owner: str, used_at: float, ttl_s: float) -> Title | None:
        """Own what was found so, as it is used; None if it has become another's meanwhile, or has ended."""
        used, ttl = str(int(used_at * 1000)), str(int(ttl_s * 1000))
        arguments = [seen.owner, str(seen.fence), owner, ttl, used]
        fence = int(await self._run(self._claim, id, arguments))
        return Title(owner, fence) if fence > 0 else None

    async def keep(
        self,
        id: str,
        title: Title,
        record: SessionRecord | None,
        used_at: float,
        ttl_s: float,
        *,
        next_owner: str | None = None,
        may_be_missing: bool = False,
    ) -> Kept:
        """Write down what is new, as its owner; `next_owner`: from now on it is another's, or nobody's."""
        arguments = [
            title.owner,
            str(title.fence),
            write_record(record) if record is not None else b"",
            str(int(used_at * 1000)),
            str(int(ttl_s * 1000)),
            title.owner if next_owner is None else next_owner,
            "1" if may_be_missing else "",
        ]
        return Kept((await self._run(self._keep, id, arguments)).decode())

    async def remove(self, id: str, title: Title) -> None:
        """It has ended. A mark that others have ended it stays."""
        await self._run(self._remove, id, [title.owner, str(title.fence)])

    async def end(self, id: str) -> str | None:
        """Somebody ends it who is not its owner; returns that one, None if there is no such session."""
        owner = await self._run(self._end, id, [str(TOMBSTONE_MS)])
        return None if owner is None else owner.decode()

    async def sessions(self) -> AsyncIterator[tuple[str, Place]]:
        """All of them, some at a time."""
        async for keys in self.pages_of_keys(self._keys.sessions):
            for found in await self.places(keys):
                yield found

    async def pages_of_keys(self, pattern: bytes) -> AsyncGenerator[list[bytes], None]:
        """Keys that fit, of whichever workload, some at a time; if keys come and go, one may come twice."""
        keys: list[bytes] = []
        begun = time.monotonic()
        try:
            # Bounded by the client's own patience with each answer.
            async for key in self._client.scan_iter(match=pattern, count=PAGE):
                keys.append(key)
                if len(keys) >= PAGE or time.monotonic() - begun > PAGE_S:
                    yield keys
                    keys, begun = [], time.monotonic()
        except (RedisError, RedisClusterException, OSError) as error:
            raise self._failed(_in_words(error)) from error
        if keys:
            yield keys

    async def places(self, keys: list[bytes]) -> list[tuple[str, Place]]:
        """The sessions of these keys, without those that have ended meanwhile."""
        if not keys:
            return []
        pipe = self._client.pipeline(transaction=False)
        for key in keys:
            pipe.hmget(key, FIELDS)
        found = await self._ask(pipe.execute(), 5 * self._wait_s)
        places = [(self._keys.id_of(key), _place(values)) for key, values in zip(keys, found, strict=True)]
        return [(id, place) for id, place in places if place is not None]

    async def _run(self, script: Any, id: str, arguments: list[str] | list[Any]) -> Any:
        return await self._ask(script(keys=[self._keys.session(id)], args=arguments))

    # Events

    async def append(
        self,
        events: Iterable[Event],
        forgotten: Iterable[tuple[str, str, range]],
        ttl_s: float,
        open_ttl_s: float | None = None,
    ) -> None:
        """Store events, in order; `forgotten`: session, stream and the numbers of those not kept any more.

        A stream is kept for `ttl_s` after its end, and for `open_ttl_s` while it may still have one.
        """
        pipe = self._client.pipeline(transaction=False)
        touched: dict[bytes, float] = {}
        for event in events:
            key = self._keys.stream(event.session, event.stream)
            fields: dict[Any, Any] = {b"d": event.data} if event.data else {}
            if event.ids:
                fields[b"i"] = event.ids
            if event.is_last:
                fields[b"l"] = b"1"
            # Its end may be said alone, after the last event.
            pipe.xadd(key, fields or {b"b": b"1"}, id=f"{event.n}-{1 if event.data or not event.n else 2}")
            touched[key] = ttl_s if event.is_last or open_ttl_s is None else open_ttl_s
        for session, stream, numbers in forgotten:
            # Not all before a number: the 0th says which calls the stream answers.
            pipe.xdel(self._keys.stream(session, stream), *(f"{n}-1" for n in numbers))
        for key, kept_s in touched.items():
            pipe.pexpire(key, int(kept_s * 1000))
        results = await self._ask(pipe.execute(raise_on_error=False))
        for result in results:
            # Said twice, because the first answer was lost: it is there.
            if isinstance(result, Exception) and "equal or smaller" not in str(result):
                raise self._failed(_in_words(result)) from result

    async def stream(self, session: str, stream: str) -> StoredStream | None:
        """All that is kept of a stream; None: nothing."""
        asked = self._client.xrange(self._keys.stream(session, stream))
        entries = cast("list[tuple[bytes, dict[bytes, bytes]]]", await self._ask(asked, 5 * self._wait_s))
        return _stream(entries)

    async def aclose(self) -> None:
        """Let go of all connections."""
        await self._client.aclose()


def _place(values: list[bytes | None]) -> Place | None:
    owner, fence, record, used, released, ended = values
    if fence is None or record is None or ended is not None:
        return None
    read = read_record(record)
    if read is None:
        return None
    return Place((owner or b"").decode(), int(fence), read, int(used or 0) / 1000, int(released or 0))


def _stream(entries: list[tuple[bytes, dict[bytes, bytes]]]) -> StoredStream | None:
    """What can be replayed: what comes before a hole cannot, since nobody must get a stream with one."""
    if not entries:
        return None
    first, messages, ids, finished = 1, list[bytes](), "", False
    for id, fields in entries:
        n = int(id.partition(b"-")[0])
        if b"d" in fields:
            if n != first + len(messages):
                first, messages = n, []
            messages.append(fields[b"d"])
        ids = fields[b"i"].decode() if b"i" in fields else ids
        finished = finished or b"l" in fields
    return StoredStream(first, messages, ids, finished)


def refusal_of(error: StoreUnavailable) -> UserError | None:
    """For whoever gave address and password: Redis will never let us in; None: it may, later."""
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return UserError(
                f"the certificate of Redis is not trusted: {cause.verify_message}",
                code="sessions_untrusted",
                hint="--sessions-ca names the authorities that Redis has its certificate from",
            )
        if isinstance(cause, MovedError):
            return UserError(
                "this Redis is one node of a cluster",
                code="sessions_refused",
                hint="write --sessions redis+cluster://HOST,HOST",
            )
        refusals = AuthenticationError | AuthorizationError | NoPermissionError
        if isinstance(cause, refusals) or _is_refusal(cause):
            return UserError(
                f"Redis refuses us: {cause}",
                code="sessions_refused",
                hint="see --sessions-password, and the user in the address for --sessions",
            )
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """What it came from: a cluster's client tells of its nodes in words of its own."""
    cause = error.__cause__
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _is_refusal(error: BaseException) -> bool:
    """Not of who we are, but of what we may do, or where."""
    text = str(error)
    return text.startswith(("NOPERM", "NOAUTH", "WRONGPASS")) or bool(NO_DATABASE.search(text))


def _in_words(error: BaseException) -> str:
    """For callers, too: where Redis is, is none of their business."""
    text = WHERE.sub("", " ".join(str(error).split()))
    if numbers := FAILED.findall(text):  # one for each address of a name
        text = ", ".join(dict.fromkeys(os.strerror(int(number)).lower() for number in numbers))
    return text[:200] or type(error).__name__
