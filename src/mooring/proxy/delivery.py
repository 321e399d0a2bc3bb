"""Towards the client: where each message of the server goes, and what waits until it can.

A pipe does not say to which call a message belongs. The rule:

1. Progress goes to the call that gave the token (the session knows that one).
2. News of lists and resources concern no call: a GET stream, or the backlog until there is one.
3. Anything else goes to the call in flight if there is exactly one; else to a GET stream that is
   being read; else to the oldest call in flight. If nobody is there this very moment, then to
   whatever stream can be resumed, in the same order; else to the backlog.

So every message has one place, and no message two.
"""

import logging
from collections.abc import Iterable

from mooring.proxy.calls import Call, ReplyPort
from mooring.proxy.policy import SessionPolicy
from mooring.proxy.streams import EventStream, Streams
from mooring.wire import jsonrpc
from mooring.wire.jsonrpc import Envelope, Id

__all__ = ["Delivery"]

log = logging.getLogger("mooring.session")

NEWS = frozenset(
    {
        "notifications/tools/list_changed",
        "notifications/prompts/list_changed",
        "notifications/resources/list_changed",
        "notifications/resources/updated",
    }
)

Place = ReplyPort | EventStream | None


class Delivery:
    """The client's side of one session: its streams and its backlog."""

    __slots__ = ("_backlog_bytes", "_policy", "backlog", "streams")

    def __init__(self, streams: Streams, policy: SessionPolicy) -> None:
        self.streams = streams
        self._policy = policy
        self.backlog: list[tuple[Envelope, bytes]] = []
        """What waits for a stream."""
        self._backlog_bytes = 0

    def has_room(self, line: bytes) -> bool:
        """Does the backlog have room for it?"""
        fits = self._backlog_bytes + len(line) <= self.streams.bound_bytes
        return fits and len(self.backlog) < self._policy.backlog_messages

    def place(self, message: Envelope, calls: Iterable[Call]) -> Place:
        """Rules 2 and 3; None is the backlog."""
        listening = self.streams.listening()
        if message.method in NEWS:
            return listening or self.streams.awaited()
        in_flight = [call.reply for call in calls if call.sent]
        heard = [reply for reply in in_flight if reply.heard and reply.can_deliver]
        if len(in_flight) == 1 and heard:
            return heard[0]
        if listening is not None:
            return listening
        if heard:
            return heard[0]
        resumable = [reply for reply in in_flight if reply.can_deliver]
        return resumable[0] if resumable else self.streams.awaited()

    def put(self, place: Place, message: Envelope, line: bytes, now: float) -> None:
        """Deliver a message, or keep it."""
        if isinstance(place, EventStream):
            self.streams.deliver(place, line, now)
        elif place is not None:
            place.deliver(line, now)
        elif message.method not in NEWS or all(line != kept for _, kept in self.backlog):
            self._put_by(message, line)

    def _put_by(self, message: Envelope, line: bytes) -> None:
        if len(line) > self.streams.bound_bytes:
            log.debug("nobody listens: %s dropped, of %d bytes", message.method, len(line))
            return
        while self.backlog and not self.has_room(line):
            self._drop_oldest()
        self._keep([*self.backlog, (message, line)])

    def _drop_oldest(self) -> None:
        """A note rather than a question; and if there are only questions, the server is not ours to save."""
        for item in self.backlog:
            if item[0].is_notification:
                break
        else:
            item = self.backlog[0]
        log.debug("nobody listens: %s dropped", item[0].method)
        self._keep(kept for kept in self.backlog if kept is not item)

    def _keep(self, items: Iterable[tuple[Envelope, bytes]]) -> None:
        self.backlog = list(items)
        before, self._backlog_bytes = self._backlog_bytes, sum(len(line) for _, line in self.backlog)
        self.streams.count(self._backlog_bytes - before)

    def load(self, backlog: list[bytes]) -> None:
        """What waited for a stream at another Mooring."""
        self._keep([(jsonrpc.parse(line), line) for line in backlog])

    def announce(self, note: Envelope, line: bytes, now: float) -> None:
        """News of our own: they concern no call."""
        self.put(self.streams.listening() or self.streams.awaited(), note, line, now)

    def put_questions(self, reply: ReplyPort, now: float) -> None:
        """What the server asks cannot wait for a GET stream that may never be opened."""
        if not reply.can_deliver:
            return
        questions = [line for message, line in self.backlog if message.is_request]
        self._keep([item for item in self.backlog if not item[0].is_request])
        for line in questions:
            reply.deliver(line, now)

    def withdraw(self, id: Id) -> bool:
        """Take a question back; true if the client never saw it."""
        before = len(self.backlog)
        self._keep([item for item in self.backlog if not (item[0].is_request and item[0].id == id)])
        return len(self.backlog) < before

    def listen(self, stream: EventStream, now: float) -> None:
        """A GET stream has been opened: it takes what waited for one."""
        for surplus in self.streams.attached[: -self._policy.max_streams]:
            surplus.hang_up(self._policy.retry_ms)
        self.streams.adopt(stream, now)
        self.go_on(stream, now)

    def go_on(self, stream: EventStream, now: float) -> None:
        """A GET stream that another Mooring had is known here from now on: it takes what waited for one."""
        backlog = list(self.backlog)
        self._keep([])
        for _, line in backlog:
            self.streams.deliver(stream, line, now)

    def close(self) -> None:
        """Nobody will ask for anything any more."""
        self._keep([])
        self.streams.close()
