"""Many connections on one link, which goes on when its WebSocket is lost. Sans-IO: no sockets, no clock.

The same at both ends, and in the relay twice. Its owner feeds it with what came (`receive`), sends what
`take` gives for as long as its socket takes it, and is told by `on_wanted` when there is something again.

Invariants:
- What is counted (from OPEN on) is handed on exactly once and in order, however often the socket under the
  link is replaced: each envelope is kept until the other end has said that it came, sent again after a loss,
  and recognized by its sequence if it had come before.
- Who has something to send takes turns, by bytes: a connection gets `MAX_DATA_BYTES` and goes to the end of
  the line. What is urgent (credit, resets) goes first: it is short, and somebody waits for it.
- Bounded in bytes: what a connection has under way, by the peer's credit, and what costs none by number (one
  head, `MAX_UNREAD_MESSAGES`); what is kept for sending again, by `MAX_UNACKNOWLEDGED_BYTES`; what waits in a
  connection's queue is its owner's (`Stream.writable`).
- A connection is over when both halves have ended, or either side has reset it. What still comes for it is
  dropped, and counted as stray. A reset overtakes what waits, unless it says how all of that ends (`close`).
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import Protocol

from mooring.relay import envelope
from mooring.relay.envelope import (
    HEAD_BYTES,
    MAX_DATA_BYTES,
    MAX_WORDS_BYTES,
    MORE,
    BadEnvelope,
    Envelope,
    Gap,
    Kind,
    pack_head,
    read_json,
    read_number,
    write_json,
    write_number,
)
from mooring.relay.words import WINDOW_BYTES, Head, Opening, Reset, clipped

__all__ = ["DEAF", "Ear", "Link", "Stream"]

log = logging.getLogger("mooring.relay")

MAX_UNACKNOWLEDGED_BYTES = 4 * 1024 * 1024
"""Kept to be sent again: 40 MB a second at 100 ms of distance."""
MESSAGE_BYTES = 64 * 1024
"""Of one `take`; more would only wait in the socket, where nothing can overtake it."""
HIGH_WATER_BYTES = 64 * 1024
"""In a connection's queue; beyond it `writable` is false. As of the listener's connections."""
MAX_UNREAD_MESSAGES = 16 * 1024
"""Of a WebSocket: an empty one costs no credit, and a short one holds more memory than that. The window has
room for half as many of the shortest that JSON-RPC knows."""
ACKNOWLEDGE_ENVELOPES = 32
ACKNOWLEDGE_BYTES = 64 * 1024
"""After so much the other end is told without being asked, so that it need not keep more."""
ACKNOWLEDGE_BESIDE = 8
"""And after so many envelopes if something is sent anyway."""
LAST_ID = 0xFFFF_FFFF

OPEN, HEAD, DATA, END, RESET, CREDIT = (
    int(kind) for kind in (Kind.OPEN, Kind.HEAD, Kind.DATA, Kind.END, Kind.RESET, Kind.CREDIT)
)
ACK = int(Kind.ACK)
DAMAGED = Reset("link_damaged", "the other end of the link left something out", close=1011)
UNFIT = Reset("bad_answer", "the answer cannot be passed on", close=1011)
TOO_LONG = Reset("too_large", "the head of the request is too long", close=1009, not_executed=True)
BROKEN = Reset("internal_error", "it failed inside Mooring; the log says why", close=1011)


class Ear(Protocol):
    """Who hears what comes on a connection. Nothing is called after `on_reset`, nor after both ends."""

    def on_head(self, head: Head) -> None:
        """The answer begins."""
        ...

    def on_data(self, data: bytes, more: bool) -> None:
        """A piece; `more`: of a message that goes on. `Stream.consumed` says when all is done with."""
        ...

    def on_end(self) -> None:
        """The other end has said all."""
        ...

    def on_reset(self, reset: Reset) -> None:
        """It is over."""
        ...

    def on_writable(self) -> None:
        """`Stream.writable` is true again."""
        ...


class Deaf:
    """The ear of a connection that nobody listens to yet, or any more."""

    def on_head(self, head: Head) -> None:
        """Nobody wants it."""

    def on_data(self, data: bytes, more: bool) -> None:
        """Nobody wants it."""

    def on_end(self) -> None:
        """Nobody wants it."""

    def on_reset(self, reset: Reset) -> None:
        """Nobody wants it."""

    def on_writable(self) -> None:
        """Nobody wants it."""


DEAF = Deaf()


class Stream:
    """One connection on a link."""

    __slots__ = (
        "_credit",
        "_has_begun",
        "_hears",
        "_is_in_line",
        "_is_opened",
        "_is_own",
        "_link",
        "_owed_bytes",
        "_queue",
        "_room_bytes",
        "_said_all",
        "_speaks",
        "_unread_bytes",
        "_unread_messages",
        "_was_full",
        "brings_answers",
        "ear",
        "id",
        "is_call",
        "is_over",
        "is_socket",
        "on_asked",
        "passed_bytes",
        "queued_bytes",
    )

    def __init__(self, link: "Link", id: int, *, window: int, credit: int) -> None:
        self.id = id
        self.ear: Ear = DEAF
        self.is_over = False
        self.is_call = True
        """Somebody waits for an answer on it; otherwise it is a stream that may stand still for a while."""
        self.is_socket = False
        """A WebSocket: any of its messages may be a call (`note_asked`)."""
        self.brings_answers = False
        """To calls that are none of its own, so that one may be under way on it (`passed_bytes`)."""
        self.passed_bytes = 0
        """What came, and what was put on the link: whoever looks twice sees whether anything happens."""
        self.on_asked: Callable[[Stream], None] | None = None
        """Hears of it when a WebSocket becomes a call."""
        self.queued_bytes = 0
        """Of what was not put on the link yet, as envelopes: an empty message is one too."""
        self._link = link
        self._queue: deque[tuple[int, int, bytes | bytearray | memoryview]] = deque()
        self._credit = credit
        self._room_bytes = window
        """What the peer may still send."""
        self._unread_bytes = self._unread_messages = 0
        """What came, and is not done with."""
        self._owed_bytes = 0
        """What was consumed, and the peer not told of."""
        self._is_own = False
        """It was opened here: the answer is the other end's to give."""
        self._has_begun = False
        """Its head has come: there is only one."""
        self._speaks = self._hears = True
        self._is_in_line = self._was_full = False
        self._is_opened = False
        """Something of it was put on the link."""
        self._said_all = False
        """Its end was put on the link."""

    def __repr__(self) -> str:
        return f"<Stream {self.id}{' over' if self.is_over else ''}>"

    @property
    def writable(self) -> bool:
        """Less than the high-water mark waits."""
        return self.queued_bytes < HIGH_WATER_BYTES

    def note_opening(self, opening: Opening) -> None:
        """What it was opened for."""
        self.is_call, self.is_socket = opening.is_call, opening.websocket
        self.brings_answers = opening.brings_answers

    def note_asked(self, is_asked: bool) -> None:
        """Of a WebSocket: something that was said on it is not answered, or all of it is."""
        was_call, self.is_call = self.is_call, is_asked
        if is_asked and not was_call and self.on_asked is not None:
            self.on_asked(self)

    def with_what_is_known(self, reset: Reset) -> Reset:
        """The same reset, and whether it can have been done: nothing is that was not sent whole.

        Of a WebSocket's messages nobody notes which were sent: from its beginning on any may have been done.
        """
        is_unsent = not (self._is_opened if self.is_socket else self._said_all)
        done = "; the call was not executed" if is_unsent else ""
        return Reset(reset.reason, reset.message + done, reset.close or 1011, not_executed=is_unsent)

    # What the owner says.

    def head(self, head: Head) -> None:
        """The answer begins."""
        payload = write_json(head)
        if len(payload) > MAX_WORDS_BYTES:
            self.give_up(UNFIT)
        else:
            self._put(HEAD, payload)

    def send(self, data: bytes, more: bool = False) -> None:
        """A piece of a body, or of a message; with `more` it goes on in the next."""
        if self._speaks:
            queue, flags = self._queue, MORE if more else 0
            if queue and self._goes_on(queue[-1], data, flags):
                self._note_queued(len(data))
            else:
                queue.append((DATA, flags, data))
                self._note_queued(HEAD_BYTES + len(data))
            if not self._is_in_line:
                self._line_up()

    def end(self) -> None:
        """All is said. Idempotent."""
        if self._speaks:
            self._put(END, b"")
            self._speaks = False
            self._settle()

    def reset(self, reset: Reset) -> None:
        """It is over, whatever waits. Idempotent; nothing is heard of it any more."""
        if self.is_over:
            return
        if self._is_opened:
            self._link.urgent(RESET, self.id, write_json(clipped(reset)))
        self._forget()

    def close(self, reset: Reset) -> None:
        """It is over when all that was said is with the peer; nothing is heard of it any more."""
        if not self._queue or not self._speaks:
            self.reset(reset)
        else:
            self.ear = DEAF
            self._put(RESET, write_json(clipped(reset)))
            self._speaks = False

    def give_up(self, reset: Reset) -> None:
        """It is over: both ends are told."""
        if not self.is_over:
            ear = self.ear
            self.reset(reset)
            self._tell_over(ear, reset)

    def consumed(self) -> None:
        """All data that came is done with: the peer may send as much again."""
        self._owed_bytes += self._unread_bytes
        self._unread_bytes = self._unread_messages = 0
        if 2 * self._owed_bytes >= self._link.window and self._hears and not self.is_over:
            self._link.urgent(CREDIT, self.id, write_number(self._owed_bytes))
            self._room_bytes += self._owed_bytes
            self._owed_bytes = 0

    def _goes_on(
        self, last: tuple[int, int, bytes | bytearray | memoryview], data: bytes, flags: int
    ) -> bool:
        """Join it to what waits before it, if both are short and of one message: pieces of a few bytes would
        hold far more memory than they are long."""
        kind, before, payload = last
        size = len(payload) + len(data)
        if kind != DATA or size > MAX_DATA_BYTES or (self.is_socket and not before & MORE):
            return False
        if isinstance(payload, bytearray):
            payload += data
        else:
            payload = bytearray().join((payload, data))
        self._queue[-1] = DATA, flags, payload
        return True

    def _note_queued(self, count: int) -> None:
        self.queued_bytes += count
        if self.queued_bytes >= HIGH_WATER_BYTES:
            self._was_full = True

    def _put(self, kind: int, payload: bytes) -> None:
        if self._speaks and not self.is_over:
            self._note_queued(HEAD_BYTES + len(payload))
            self._queue.append((kind, 0, payload))
            self._line_up()

    def _line_up(self) -> None:
        """If something waits, and the peer has room for it."""
        queue = self._queue
        if not self._is_in_line and queue and (self._credit > 0 or queue[0][0] != DATA or not queue[0][2]):
            self._is_in_line = True
            self._link.line_up(self)

    def _settle(self) -> None:
        if not self._speaks and not self._hears and not self._queue:
            self._forget()

    def _forget(self) -> None:
        self.is_over = True
        self._speaks = self._hears = False
        self._queue.clear()
        self.queued_bytes = 0
        self.ear = DEAF
        self._link.forget(self)

    # What the link asks.

    def give(self, parts: list[bytes]) -> int:
        """A turn: put at most `MAX_DATA_BYTES` into `parts`; how many."""
        link, queue, count = self._link, self._queue, 0
        self._is_opened = True
        is_closed = False
        while queue and count < MAX_DATA_BYTES:
            kind, flags, payload = queue[0]
            if kind == DATA:
                size, fits = len(payload), min(self._credit, MAX_DATA_BYTES)
                if size > fits:
                    if not fits:
                        break
                    view = memoryview(payload)  # of a long one the rest is not copied for each piece
                    queue[0] = DATA, flags, view[fits:]
                    payload, flags, size = view[:fits], flags | MORE, fits
                else:
                    queue.popleft()
                    self.queued_bytes -= HEAD_BYTES
                self._credit -= size
                self.queued_bytes -= size
                self.passed_bytes += size
            else:
                queue.popleft()
                self.queued_bytes -= HEAD_BYTES + len(payload)
                if kind == END:
                    self._said_all = True
                elif kind == RESET:
                    is_closed = True
            count += link.put(kind, flags, self.id, payload, parts)
        self._is_in_line = False
        if is_closed:
            self._forget()
        elif queue:
            self._line_up()
        elif not self._speaks:
            self._settle()
        return count

    def is_relieved(self) -> bool:
        """It was full, and is not any more; told once."""
        if not self._was_full or self.queued_bytes >= HIGH_WATER_BYTES // 2:
            return False
        self._was_full = False
        return True

    # What the peer says.

    def hear(self, kind: int, flags: int, payload: bytes) -> None:
        """Raises BadEnvelope."""
        if kind == DATA:
            if not self._hears:
                raise BadEnvelope("data after its end")
            is_whole = self.is_socket and not flags & MORE
            if not payload and not is_whole:
                return  # a piece of nothing
            self._room_bytes -= len(payload)
            self._unread_bytes += len(payload)
            self.passed_bytes += len(payload)
            self._unread_messages += is_whole
            if self._room_bytes < 0 or self._unread_messages > MAX_UNREAD_MESSAGES:
                self.give_up(Reset("flow_control", "more was sent than there was room for", close=1011))
                raise BadEnvelope("more data than there was room for")
            self.ear.on_data(payload, bool(flags & MORE))
        elif kind == HEAD:
            if self._hears:
                self._hear_head(payload)
        elif kind == END:
            if self._hears:
                self._hears = False
                self.ear.on_end()
                self._settle()
        elif kind == RESET:
            self.hear_reset(clipped(read_json(payload, Reset)))
        elif kind == CREDIT:
            self._credit += read_number(payload)
            self._line_up()

    def _hear_head(self, payload: bytes) -> None:
        if not self._is_own:
            raise BadEnvelope("a head from the end that asks")
        head = read_json(payload, Head)
        has_begun, self._has_begun = self._has_begun, True
        if has_begun or len(payload) > MAX_WORDS_BYTES or not 100 <= head.status <= 599:
            self.give_up(UNFIT)
            raise BadEnvelope("a head that cannot be passed on")
        self.ear.on_head(head)

    def hear_reset(self, reset: Reset) -> None:
        """Over, by the peer's word or by the link's end."""
        ear = self.ear
        self._forget()
        self._tell_over(ear, reset)

    def _tell_over(self, ear: Ear, reset: Reset) -> None:
        """Whoever cannot be told is no reason to tell nobody else."""
        try:
            ear.on_reset(reset)
        except Exception:
            log.exception("the end of %r could not be told", self)


class Link:
    """See the module. `on_open` is given at the end that does not open connections."""

    __slots__ = (
        "_acknowledged",
        "_in_line",
        "_last_id",
        "_resending",
        "_sent",
        "_unacknowledged",
        "_unacknowledged_bytes",
        "_untold",
        "_urgent",
        "_urgent_bytes",
        "bad",
        "is_wanted",
        "on_open",
        "on_wanted",
        "on_word",
        "peer_window",
        "received",
        "stray",
        "streams",
        "window",
    )

    def __init__(
        self,
        on_wanted: Callable[[], None],
        on_open: Callable[[Stream, Opening], None] | None = None,
        *,
        window: int = WINDOW_BYTES,
        peer_window: int = WINDOW_BYTES,
    ) -> None:
        self.on_wanted = on_wanted
        self.on_open = on_open
        self.on_word: Callable[[Envelope], None] | None = None
        """Hears what is said about the link itself; may raise BadEnvelope."""
        self.window = window
        self.peer_window = peer_window
        self.streams: dict[int, Stream] = {}
        self.received = 0
        """The last sequence that came."""
        self.bad = 0
        """Envelopes that could not be understood."""
        self.stray = 0
        """Envelopes for connections that are over."""
        self._sent = 0
        self._last_id = 0
        self._acknowledged = 0
        """The last sequence of the peer's that we told it of."""
        self._untold = 0
        """Bytes that came since."""
        self._in_line: deque[Stream] = deque()
        self._urgent: deque[tuple[int, int, bytes]] = deque()
        self._urgent_bytes = 0
        self._resending: deque[bytes] = deque()
        self._unacknowledged: deque[bytes] = deque()
        """The last of them has the sequence that was sent last."""
        self._unacknowledged_bytes = 0
        self.is_wanted = False
        """`take` may give something; whoever gives it to the socket was told so."""

    def __repr__(self) -> str:
        return f"<Link {len(self.streams)} open, sent {self._sent}, received {self.received}>"

    # The owner's side.

    def open(self, opening: Opening, ear: Ear) -> Stream:
        """A new connection."""
        stream = self._make(self._next_id())
        stream.ear, stream._is_own = ear, True
        stream.note_opening(opening)
        stream._put(OPEN, write_json(opening))
        return stream

    def say(self, kind: int, payload: bytes = b"") -> None:
        """Something about the link itself, which is not sent again if it is lost."""
        self.urgent(kind, 0, payload)

    def take(self, limit_bytes: int = MESSAGE_BYTES) -> bytes:
        """The next message for the socket; empty: there is none now."""
        parts: list[bytes] = []
        size = 0
        while self._resending and size < limit_bytes:  # before all that has a later sequence
            again = self._resending.popleft()
            parts.append(again)
            size += len(again)
        while self._urgent and size < limit_bytes:
            kind, connection, payload = self._urgent.popleft()
            self._urgent_bytes -= HEAD_BYTES + len(payload)
            size += self.put(kind, 0, connection, payload, parts)
        relieved: list[Stream] = []
        while self._in_line and size < limit_bytes and self._unacknowledged_bytes < MAX_UNACKNOWLEDGED_BYTES:
            stream = self._in_line.popleft()
            size += stream.give(parts)
            if stream.is_relieved():
                relieved.append(stream)
        if parts and self.received - self._acknowledged >= ACKNOWLEDGE_BESIDE:
            parts.append(self._acknowledgement())
        self.is_wanted = bool(parts) and not self.has_nothing_to_send
        for stream in relieved:
            stream.ear.on_writable()
        return b"".join(parts)

    def receive(self, message: bytes, *, strict: bool) -> None:
        """What came. What is bad is left out and counted; if `strict`, it is told: raises BadEnvelope.

        Raises Gap in any case: nothing that follows would be the next.
        """
        try:
            for got in envelope.fields(message):
                try:
                    self._hear(*got)
                except BadEnvelope as error:
                    if strict or isinstance(error, Gap):
                        raise
                    self.bad += 1
        except BadEnvelope as error:
            self.bad += 1
            if strict or isinstance(error, Gap):
                raise
        self._untold += len(message)
        if self._untold >= ACKNOWLEDGE_BYTES or self.received - self._acknowledged >= ACKNOWLEDGE_ENVELOPES:
            self.acknowledge()

    def acknowledge(self) -> None:
        """Tell the peer what came, if it does not know."""
        if self.received > self._acknowledged:
            self._acknowledged = self.received
            self._untold = 0
            self.say(ACK, write_number(self.received))

    def lose(self) -> None:
        """The socket is gone. What was to be said about the link itself is void."""
        self._urgent = deque(item for item in self._urgent if item[0] >= Kind.OPEN)
        self._urgent_bytes = sum(HEAD_BYTES + len(payload) for _, _, payload in self._urgent)
        self._resending.clear()
        self.is_wanted = True  # nobody could send anything; `resume` asks again

    def resume(self, peer_received: int) -> None:
        """Another socket; the peer has got so much. Raises BadEnvelope if that cannot be."""
        if not self._sent - len(self._unacknowledged) <= peer_received <= self._sent:
            raise BadEnvelope("it received what was never sent, or has forgotten what it received")
        self._forget_until(peer_received)
        self._resending = deque(self._unacknowledged)
        self._acknowledged = self.received
        self._untold = 0
        self.is_wanted = False
        self._want()

    def fail(self, reset: Reset) -> None:
        """The link is over: so are all its connections."""
        for stream in tuple(self.streams.values()):
            stream.hear_reset(stream.with_what_is_known(reset))
        for queue in (self._urgent, self._in_line, self._resending, self._unacknowledged):
            queue.clear()
        self._unacknowledged_bytes = self._urgent_bytes = 0

    def hand_over(self, to: "Link") -> None:
        """Connections of which nothing was said yet begin on another link: here nobody has heard of them."""
        for stream in tuple(self.streams.values()):
            if not stream._is_opened:
                self.forget(stream)
                stream._link, stream.id = to, to._next_id()
                to.streams[stream.id] = stream
                stream._line_up()

    @property
    def is_ignored(self) -> bool:
        """The peer acknowledges nothing, or does not read. What is urgent is not held back, so there would be
        no end to it."""
        return self._unacknowledged_bytes + self._urgent_bytes > 2 * MAX_UNACKNOWLEDGED_BYTES

    @property
    def unacknowledged_bytes(self) -> int:
        """What is kept to be sent again."""
        return self._unacknowledged_bytes

    @property
    def has_nothing_to_send(self) -> bool:
        """Whatever was said is with the socket, but for what has no credit."""
        return not (self._urgent or self._resending or self._in_line)

    @property
    def is_idle(self) -> bool:
        """Nothing waits to be sent, and nothing to be told of."""
        return self.has_nothing_to_send and not self._unacknowledged

    # The peer's side.

    def _hear(self, kind: int, flags: int, connection: int, sequence: int, payload: bytes) -> None:
        if kind < OPEN:
            if kind == ACK:
                self._forget_until(read_number(payload))
            elif self.on_word is not None:
                self.on_word(Envelope(kind, flags, connection, sequence, payload))
            return
        if sequence != self.received + 1:
            self._judge(sequence)
            return
        self.received = sequence
        stream = self.streams.get(connection)
        if kind == OPEN:
            self._hear_open(connection, payload, stream)
        elif stream is None:
            self.stray += 1
        else:
            try:
                stream.hear(kind, flags, payload)
            except BadEnvelope:
                raise
            except Exception:
                # What goes wrong at one connection is its own trouble, never that of the others.
                log.exception("what came for %r could not be taken", stream)
                stream.give_up(BROKEN)

    def _judge(self, sequence: int) -> None:
        """It is not the one that is next."""
        if not sequence:
            raise BadEnvelope("no sequence where there must be one")
        if sequence <= self.received:
            return  # it came before
        self._close_all(DAMAGED)
        raise Gap("a gap in the sequence")

    def _hear_open(self, connection: int, payload: bytes, stream: Stream | None) -> None:
        if self.on_open is None or stream is not None or not connection:
            raise BadEnvelope("a connection that cannot be opened")
        if len(payload) > MAX_WORDS_BYTES:
            self.bad += 1
            self.urgent(RESET, connection, write_json(TOO_LONG))
            return
        opening: Opening = read_json(payload, Opening)
        stream = self._make(connection)
        stream._is_opened = True
        stream.note_opening(opening)
        try:
            self.on_open(stream, opening)
        except Exception:
            log.exception("%r could not be opened", stream)
            stream.reset(BROKEN)

    def _close_all(self, reset: Reset) -> None:
        for stream in tuple(self.streams.values()):
            stream.give_up(reset)

    def _forget_until(self, sequence: int) -> None:
        kept = self._unacknowledged
        was_full = self._unacknowledged_bytes >= MAX_UNACKNOWLEDGED_BYTES
        for _ in range(min(len(kept), sequence - self._sent + len(kept))):
            self._unacknowledged_bytes -= len(kept.popleft())
        if was_full and self._in_line:
            self._want()

    # The connections' side.

    def _next_id(self) -> int:
        id = self._last_id % LAST_ID + 1
        while id in self.streams:
            id = id % LAST_ID + 1
        self._last_id = id
        return id

    def _make(self, id: int) -> Stream:
        stream = self.streams[id] = Stream(self, id, window=self.window, credit=self.peer_window)
        return stream

    def forget(self, stream: Stream) -> None:
        """It is over."""
        if self.streams.get(stream.id) is stream:
            del self.streams[stream.id]
        if stream._is_in_line:
            self._in_line.remove(stream)
            stream._is_in_line = False

    def urgent(self, kind: int, connection: int, payload: bytes) -> None:
        """Before all that waits."""
        self._urgent_bytes += HEAD_BYTES + len(payload)
        self._urgent.append((kind, connection, payload))
        self._want()

    def line_up(self, stream: Stream) -> None:
        """It has something to send."""
        self._in_line.append(stream)
        if not self.is_wanted:
            self._want()

    def put(
        self,
        kind: int,
        flags: int,
        connection: int,
        payload: bytes | bytearray | memoryview,
        parts: list[bytes],
    ) -> int:
        """One envelope onto the link; its length."""
        if kind < OPEN:
            data = pack_head(len(payload), kind, flags, connection, 0) + payload
            size = len(data)
        else:
            self._sent += 1
            data = pack_head(len(payload), kind, flags, connection, self._sent) + payload
            size = len(data)
            self._unacknowledged.append(data)
            self._unacknowledged_bytes += size
        parts.append(data)
        return size

    def _acknowledgement(self) -> bytes:
        self._acknowledged = self.received
        self._untold = 0
        return envelope.encode(ACK, payload=write_number(self.received))

    def _want(self) -> None:
        if not self.is_wanted:
            self.is_wanted = True
            self.on_wanted()


assert HEAD_BYTES + MAX_DATA_BYTES < MESSAGE_BYTES  # noqa: S101 - of constants
# What `take` gives ends at the most with a turn of a connection, and that with words. 1 KiB: the heads of
# envelopes, an acknowledgement, and the name of a caller that a relay adds to an opening.
assert MESSAGE_BYTES + MAX_DATA_BYTES + MAX_WORDS_BYTES + 1024 <= envelope.MAX_MESSAGE_BYTES  # noqa: S101
