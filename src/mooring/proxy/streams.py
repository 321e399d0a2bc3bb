"""Event streams to one client, and the messages kept for when it comes back.

Invariants:
- A message is on one stream only, once.
- `sent` ≤ `log.last`; messages after `sent` are written, in order, as the client takes them.
- A stream outlives its connection: it is attached to at most one exchange at a time, and a
  client that names an event of it is attached again, right behind that event.
- Where events are stored elsewhere too (`EventVault`), none is sent before that.
- Messages still to be sent to an attached client are never forgotten; others are, oldest
  first, when the session keeps more than its bound. While all sessions together keep too much, its
  bound is its share, and a client that does not keep up is attached no longer.
"""

import secrets
from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from msgspec import Struct

from mooring.proxy.policy import SessionPolicy
from mooring.wire import sse
from mooring.wire.budget import Budget
from mooring.wire.events import EventLog
from mooring.wire.http import Exchange, Headers
from mooring.wire.jsonrpc import Id

__all__ = [
    "SSE_HEADERS",
    "EventStream",
    "EventVault",
    "Outlet",
    "PassedStream",
    "PassedStreams",
    "SocketStream",
    "Streams",
]

SSE_HEADERS: Headers = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    # Proxies of the nginx kind hold streams back without it.
    (b"x-accel-buffering", b"no"),
]


class Outlet(Protocol):
    """What a stream needs of the connection it is attached to: some of an `Exchange`."""

    on_disconnect: Callable[[], None] | None
    on_writable: Callable[[], None] | None

    @property
    def writable(self) -> bool:
        """The client keeps up."""
        ...

    def write(self, data: bytes) -> None:
        """Send a piece."""
        ...

    def end(self) -> None:
        """There is no more."""
        ...


class EventVault(Protocol):
    """Where the events of a session are stored before they are sent, so that others can go on with them.

    It calls `EventStream.on_stored`, later, when an event may be sent.
    """

    def begin(self, stream: "EventStream") -> None:
        """A stream that answers calls has begun."""
        ...

    def put(self, stream: "EventStream", n: int, data: bytes) -> None:
        """Its n-th event."""
        ...

    def finish(self, stream: "EventStream") -> None:
        """It has no more."""
        ...

    def forget(self, stream: "EventStream") -> None:
        """Its oldest events are not kept any more."""
        ...


class PassedStream(Struct, array_like=True):
    """A stream, for another Mooring."""

    kind: int
    name: str
    last: int
    kept: list[bytes]
    sent: int
    finished: bool
    ended_at: float | None
    ids: list[Id]


class PassedStreams(Struct, array_like=True):
    """All streams of a session."""

    count: int
    tag: str
    streams: list[PassedStream]


class EventStream:
    """One stream of events; `resumable` ones number them."""

    __slots__ = (
        "_on_pressure",
        "_on_size",
        "_retry_ms",
        "_vault",
        "_written_at",
        "ended_at",
        "exchange",
        "finished",
        "ids",
        "log",
        "oldest_stored",
        "priming",
        "resumable",
        "sent",
        "stored",
        "unsent_bytes",
    )

    def __init__(
        self,
        name: str,
        *,
        resumable: bool,
        priming: bool,
        retry_ms: int,
        on_pressure: Callable[[], None],
        on_size: Callable[[int], None],
        vault: EventVault | None = None,
    ) -> None:
        self.log = EventLog(name)
        self.resumable = resumable
        self.priming = priming
        self.exchange: Outlet | None = None
        self.sent = 0
        self.stored = 0
        """With a vault: up to which event it has them."""
        self.oldest_stored = 1
        """With a vault: it may still have this one, and has none of those before."""
        self.unsent_bytes = 0
        self.finished = False
        self.ended_at: float | None = None
        self.ids: tuple[Id, ...] = ()
        self._written_at = 0.0
        self._retry_ms = retry_ms
        self._on_pressure = on_pressure
        self._on_size = on_size
        self._vault = vault

    @property
    def attached(self) -> bool:
        """A client is reading."""
        return self.exchange is not None

    def attach(self, exchange: Exchange, *, headers: Headers, after: int, now: float) -> None:
        """Send to this client from now on, beginning behind event `after`."""
        self.detach()
        exchange.start(200, SSE_HEADERS + headers if headers else SSE_HEADERS)
        self._join(exchange, now)
        self.sent = max(after, self.log.oldest - 1)  # what was forgotten cannot be sent
        self.unsent_bytes = sum(map(len, self.log.after(after)))
        if self.priming and after == 0:
            exchange.write(sse.encode_position(self.log.id_of(0), retry_ms=self._retry_ms, with_data=True))
        self._pump()

    def _join(self, outlet: Outlet, now: float) -> None:
        self.exchange = outlet
        outlet.on_disconnect = self._lost
        outlet.on_writable = self._pump
        self._written_at = now

    def detach(self) -> None:
        """The client has gone, or is being replaced; what it was sent can be asked for again."""
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            exchange.on_disconnect = exchange.on_writable = None
            exchange.end()
            # Nobody is slow here any more: what was not sent must not hold the server back.
            self.unsent_bytes = 0
            self._on_pressure()

    def deliver(self, data: bytes, now: float) -> None:
        """Send a message, now or when the client can take it."""
        self.append(data)
        self._written_at = now
        if self.exchange is None:
            return
        if self._vault is None and self.sent + 1 == self.log.last and self.exchange.writable:
            self._write(self.exchange, data)
        else:
            self.unsent_bytes += len(data)
            self._on_pressure()

    def append(self, data: bytes) -> None:
        """Record a message."""
        n = self.log.append(data)
        self._on_size(len(data))
        if self._vault is not None:
            self._vault.put(self, n, data)

    def announce(self, ids: tuple[Id, ...]) -> None:
        """It answers these calls."""
        self.ids = ids
        if self._vault is not None:
            self._vault.begin(self)

    def on_stored(self, n: int) -> None:
        """Up to here the vault has them, or need not."""
        self.stored = max(self.stored, n)
        self._pump()

    @property
    def is_stored(self) -> bool:
        """Has the vault, if there is one, all that was said?"""
        return self._vault is None or self.stored >= self.log.last

    def forget_oldest(self) -> int:
        """Give up the oldest message; returns its size, 0 if there is none."""
        freed = self.log.forget_oldest()
        self._on_size(-freed)
        if freed and self._vault is not None:
            self._vault.forget(self)
        return freed

    def finish(self, now: float) -> None:
        """Nothing more will come: end the stream once everything has been sent."""
        self.finished = True
        self.ended_at = now
        if self._vault is not None:
            self._vault.finish(self)
        if self.sent == self.log.last:
            self.detach()

    def hang_up(self, retry_ms: int) -> None:
        """Ask the client to come back: say where the stream stands, when to return, and end it."""
        if self.exchange is None:
            return
        if self.resumable:
            position = self.log.id_of(self.sent)
            self.exchange.write(sse.encode_position(position, retry_ms=retry_ms, with_data=self.priming))
        else:
            self.write_rest()
        self.detach()

    def write_rest(self) -> None:
        """What a slow client has not taken, at once: nobody will be there to send it later."""
        if self.exchange is not None:
            self.exchange.write(b"".join(map(self._next_event, self.log.after(self.sent))))

    def keep_alive(self, now: float, interval_s: float) -> None:
        """Write a comment if nothing was written for a while."""
        if self.exchange is not None and now - self._written_at >= interval_s:
            self._written_at = now
            if self.exchange.writable:
                self.exchange.write(sse.KEEP_ALIVE)

    def _pump(self) -> None:
        if self.exchange is None:
            return
        for data in self.log.after(self.sent):
            if not self.exchange.writable or (self._vault is not None and self.sent >= self.stored):
                break
            self.unsent_bytes -= len(data)
            self._write(self.exchange, data)
        self._on_pressure()
        if self.finished and self.sent == self.log.last:
            self.detach()

    def _write(self, exchange: Outlet, data: bytes) -> None:
        exchange.write(self._next_event(data))

    def _next_event(self, data: bytes) -> bytes:
        """The message behind the last one that was sent, which it is now itself."""
        self.sent += 1
        if not self.resumable:
            self.forget_oldest()
            return sse.encode_event(data)
        return sse.encode_event(data, id=self.log.id_of(self.sent))

    def _lost(self) -> None:
        self.exchange = None
        self.unsent_bytes = 0
        self._on_pressure()


class SocketStream(EventStream):
    """The messages of a session on a WebSocket: each is sent as it is, none is sent again."""

    __slots__ = ()

    def join(self, outlet: Outlet, now: float) -> None:
        """Send to this client from now on."""
        self._join(outlet, now)

    def write_rest(self) -> None:
        """What a slow client has not taken, each by itself: there is nothing around a message."""
        if self.exchange is not None:
            for data in self.log.after(self.sent):
                self._write(self.exchange, data)

    def keep_alive(self, now: float, interval_s: float) -> None:
        """Nothing to do: the connection has its own."""

    def _next_event(self, data: bytes) -> bytes:
        self.sent += 1
        self.forget_oldest()
        return data


def _passed(stream: EventStream, kind: int) -> PassedStream:
    log = stream.log
    return PassedStream(
        kind, log.stream, log.last, log.after(0), stream.sent, stream.finished, stream.ended_at, [*stream.ids]
    )


Kind = TypeVar("Kind", bound=EventStream)


class Streams:
    """All streams of one session."""

    __slots__ = (
        "_count",
        "_ended",
        "_kept",
        "_on_cut",
        "_on_pressure",
        "_policy",
        "_standalone",
        "_tag",
        "_under_way",
        "_vault",
        "priming",
        "resumable",
        "retained_bytes",
    )

    def __init__(
        self,
        policy: SessionPolicy,
        kept: Budget,
        on_pressure: Callable[[], None],
        on_cut: Callable[[EventStream], None],
        vault: EventVault | None = None,
    ) -> None:
        self._policy = policy
        self._vault = vault
        self._kept = kept
        self._on_pressure = on_pressure
        self._on_cut = on_cut
        self._standalone: dict[str, EventStream] = {}
        self._under_way: dict[str, EventStream] = {}
        self._ended: dict[str, EventStream] = {}
        self._count = 0
        # In every name: a position of another session is nobody's here.
        self._tag = secrets.token_hex(3)
        self.retained_bytes = 0
        self.priming = False
        self.resumable = True

    def __iter__(self) -> Iterator[EventStream]:
        return iter([*self._standalone.values(), *self._under_way.values(), *self._ended.values()])

    def __len__(self) -> int:
        return len(self._standalone) + len(self._under_way) + len(self._ended)

    def open(self, *, standalone: bool) -> EventStream:
        """A new stream; its name tells which kind it is."""
        return self._open(EventStream, standalone=standalone)

    def open_socket(self) -> SocketStream:
        """The only stream of a session that is bound to one connection, which needs no events."""
        self.resumable = False
        return self._open(SocketStream, standalone=True)

    def _open(self, kind: type[Kind], *, standalone: bool) -> Kind:
        self._count += 1
        stream = self._make(kind, f"{'g' if standalone else 'p'}{self._count}x{self._tag}")
        (self._standalone if standalone else self._under_way)[stream.log.stream] = stream
        return stream

    def _make(self, kind: type[Kind], name: str) -> Kind:
        return kind(
            name,
            resumable=self.resumable,
            priming=self.priming and self.resumable,
            retry_ms=self._policy.retry_ms,
            on_pressure=self._on_pressure,
            on_size=self.count,
            vault=self._vault if self.resumable else None,
        )

    def dump(self) -> PassedStreams:
        """All that is kept, for another Mooring whose clients will ask for it."""
        kinds = (self._standalone, self._under_way, self._ended)
        passed = [_passed(stream, n) for n, streams in enumerate(kinds) for stream in streams.values()]
        return PassedStreams(self._count, self._tag, passed)

    def load(self, kept: PassedStreams) -> None:
        """What `dump` has told; nobody is attached to any of them."""
        self._count, self._tag = kept.count, kept.tag
        for passed in kept.streams:
            self.load_stream(passed)

    def load_stream(self, passed: PassedStream) -> EventStream:
        """One of them."""
        stream = self._make(EventStream, passed.name)
        stream.log = EventLog.resumed(passed.name, passed.last, passed.kept)
        stream.sent, stream.ids, stream.stored = passed.sent, tuple(passed.ids), passed.last
        stream.oldest_stored = stream.log.oldest
        stream.finished, stream.ended_at = passed.finished, passed.ended_at
        kinds = (self._standalone, self._under_way, self._ended)
        kinds[passed.kind][passed.name] = stream
        self.count(stream.log.size_bytes)
        return stream

    def find(self, name: str) -> EventStream | None:
        """The stream of that name, if it is still kept."""
        return self._standalone.get(name) or self._under_way.get(name) or self._ended.get(name)

    def deliver(self, stream: EventStream, data: bytes, now: float) -> None:
        """Send a message on a stream, and keep the whole within its bound."""
        stream.deliver(data, now)
        if (surplus := self.retained_bytes - self.bound_bytes) > 0:
            self._forget(surplus)

    def finish(self, stream: EventStream, now: float) -> None:
        """A call's stream has said all; it is kept for a while, in case its client lost the end."""
        stream.finish(now)
        if self._under_way.pop(stream.log.stream, None) is not None:
            self._ended[stream.log.stream] = stream
            for name in list(self._ended)[: -self._policy.retained_streams]:
                if not self._ended[name].attached:
                    self.drop(self._ended[name])

    @property
    def bound_bytes(self) -> int:
        """What this session may keep at this moment."""
        mine, kept = self._policy.retained_bytes, self._kept
        return min(mine, kept.share_bytes) if kept.taken_bytes > kept.limit_bytes else mine

    @property
    def attached(self) -> list[EventStream]:
        """GET streams that a client reads, oldest first."""
        return [stream for stream in self._standalone.values() if stream.attached]

    @property
    def answers(self) -> bool:
        """A client reads the answer to a call on one of the streams, which may have ended since."""
        return any(stream.attached for stream in (*self._under_way.values(), *self._ended.values()))

    @property
    def in_use(self) -> bool:
        """A client reads one of the streams."""
        return len(self) > 0 and any(stream.attached for stream in self)

    @property
    def are_stored(self) -> bool:
        """Whoever has the session next finds all that was said."""
        return all(stream.is_stored for stream in self)

    @property
    def unsent_bytes(self) -> int:
        """What waits for clients that read slowly."""
        return sum(stream.unsent_bytes for stream in self)

    def listening(self) -> EventStream | None:
        """The GET stream for messages that belong to no call: the newest that is being read."""
        return next((stream for stream in reversed(self._standalone.values()) if stream.attached), None)

    def awaited(self) -> EventStream | None:
        """A GET stream whose client was cut off and may come back for more."""
        return next((stream for stream in reversed(self._standalone.values()) if not stream.attached), None)

    def adopt(self, heir: EventStream, now: float) -> None:
        """A client that opened a new GET stream instead of resuming gets what the old ones never sent."""
        for stream in list(self._standalone.values()):
            if stream is not heir and not stream.attached:
                unsent = stream.log.after(stream.sent)
                self.drop(stream)
                for data in unsent:
                    self.deliver(heir, data, now)

    def drop(self, stream: EventStream) -> None:
        """Forget a stream altogether."""
        for streams in (self._standalone, self._under_way, self._ended):
            if streams.pop(stream.log.stream, None) is not None:
                self.count(-stream.log.size_bytes)
        stream.detach()

    def tick(self, now: float) -> None:
        """Keep connections alive, and forget what ended long ago."""
        for stream in self:
            stream.keep_alive(now, self._policy.keep_alive_s)
        for stream in list(self._ended.values()):
            if not stream.attached and now - (stream.ended_at or now) > self._policy.retained_s:
                self.drop(stream)

    def close(self) -> None:
        """End them all. A client that reads slowly gets what it waits for: the answers to its calls, say."""
        for stream in self:
            stream.write_rest()
            self.drop(stream)

    def count(self, change: int) -> None:
        """So many bytes more are kept for the client, here or elsewhere."""
        self.retained_bytes += change
        self._kept.taken_bytes += change

    def _forget(self, surplus: int) -> None:
        """Forget the oldest messages, of ended streams first, never what an attached client waits for."""
        surplus = self._forget_oldest(surplus)
        if surplus > 0 and self._kept.is_exceeded:
            for stream in self:
                if stream.unsent_bytes:
                    stream.detach()
                    self._on_cut(stream)
            self._forget_oldest(surplus)

    def _forget_oldest(self, surplus: int) -> int:
        for stream in [*self._ended.values(), *self._standalone.values(), *self._under_way.values()]:
            while surplus > 0:
                if stream.attached and stream.log.oldest > stream.sent:
                    break
                freed = stream.forget_oldest()
                if not freed:
                    break
                surplus -= freed
        return surplus
