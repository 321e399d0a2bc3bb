"""Our end of a link from a replica that passes calls on to us: each is served as if it had come by itself.

    open → leaving (goodbye is said; what came before it is answered) → closed

Whoever speaks on it has shown that he is a replica; and so does each head of a call, by its seal.
"""

import asyncio
import logging
from collections.abc import Callable

from mooring.errors import LocalProtocolError, RemoteProtocolError
from mooring.http.exchange import ANSWERED, HttpExchange
from mooring.http.limits import Limits
from mooring.http.problems import Refusal
from mooring.http.reader import RequestReader
from mooring.replicas.link_frames import (
    HEAD_NAMES,
    HEADS_KEPT,
    MAX_BODY_BYTES,
    MAX_MESSAGE_BYTES,
    PIECE_BYTES,
    WINDOW_BYTES,
    Batch,
    Frame,
    Kind,
    parts,
    read_frames,
)
from mooring.wire.http import App, Head, Request, Response
from mooring.wire.websocket import GOING_AWAY, POLICY_VIOLATION, WebSocket

__all__ = ["AnsweringLink", "Unread"]

log = logging.getLogger("mooring.replicas")

MAX_UNDER_WAY = 8192
"""Twice what we would ask of another: more is no replica's way."""
MAX_UNREAD_BYTES = 256 * 1024 * 1024
"""Of answers on all links, kept for clients of other replicas that do not read: what a listener keeps of its
own (`Limits.max_unsent_bytes`). Beyond that the largest are cut, unless there is but one."""
LIMITS = Limits(max_headers=Limits().max_headers + 4)
"""Of a head. It had to be within the usual ones where it came in, and has a seal since."""
# A member of an enum takes ten times as long to look up as these.
HELLO, HEAD, CALL, CREDIT, CANCEL = Kind.HELLO, Kind.HEAD, Kind.CALL, Kind.CREDIT, Kind.CANCEL
ANSWER, BEGIN, PIECE, END, CUT = Kind.ANSWER, Kind.BEGIN, Kind.PIECE, Kind.END, Kind.CUT


class AnsweringLink:
    """On a WebSocket that a replica has asked for, by `opened`."""

    def __init__(
        self,
        socket: WebSocket,
        opened: Request,
        app: App,
        vouch: Callable[[Request], str | None],
        on_closed: Callable[["AnsweringLink"], None],
        *,
        unread: "Unread | None" = None,
    ) -> None:
        """`vouch`: for whom a request is passed on, if whoever does that is believed. `unread`: of all."""
        self.unread = unread or Unread()
        self._socket = socket
        self._peer, self._tls = opened.peer, opened.tls
        self._app = app
        self._vouch = vouch
        self._on_closed = on_closed
        self.batch = Batch(socket.send, asyncio.get_running_loop().call_soon)
        self.under_way: dict[int, _Answer] = {}
        self._heads: dict[int, Head | Refusal] = {}
        self._last = 0
        self._is_leaving = False
        socket.expect_binary(MAX_MESSAGE_BYTES, is_of_many=True)
        socket.on_message = self._on_message
        socket.on_closed = self._on_socket_closed
        # The first answer may take longer than a WebSocket waits for its first message.
        self.batch.put(HELLO, 0)

    def leave(self) -> None:
        """What comes from now on is not looked at, and the other knows it. Idempotent."""
        if not self._is_leaving:
            self._is_leaving = True
            self.batch.put(Kind.GOODBYE, self._last)
            self.close_if_left()

    def close_if_left(self) -> None:
        """After the last answer."""
        if self._is_leaving and not self.under_way:
            self.batch.flush()
            self._socket.close(GOING_AWAY, "the replica ends")

    def _on_message(self, message: bytes) -> None:
        try:
            for frame in read_frames(message):
                self._take(frame)
        except RemoteProtocolError as error:
            log.warning("a link from %s ends: %s", self._peer, error.message, extra={"event": "bad_link"})
            self._socket.close(POLICY_VIOLATION, error.message)
            self._lose_all()

    def _take(self, frame: Frame) -> None:
        kind, number, value, payload = frame
        if kind == CALL:
            self._serve(number, value, payload)
        elif kind == HEAD:
            self._heads[number % HEAD_NAMES] = _read_head(payload)
            self._heads.pop((number - HEADS_KEPT) % HEAD_NAMES, None)
            if len(self._heads) > HEADS_KEPT:
                raise RemoteProtocolError("heads are not numbered one by one", code="bad_link")
        elif kind == CREDIT:
            if (answer := self.under_way.get(number)) is not None:
                answer.grant(value)
        elif kind == CANCEL:
            if (answer := self.under_way.pop(number, None)) is not None:
                answer.lose()
                self.close_if_left()
        elif kind != HELLO:
            raise RemoteProtocolError(f"it says what only we say ({kind})", code="bad_link")

    def _serve(self, number: int, head_number: int, body: bytes) -> None:
        if self._is_leaving:
            return
        head = self._heads.get(head_number)
        if head is None or number <= self._last or len(body) > MAX_BODY_BYTES:
            raise RemoteProtocolError("a call has no head, no number or no bound", code="bad_link")
        if len(self.under_way) >= MAX_UNDER_WAY:
            raise RemoteProtocolError("too many calls at once", code="bad_link")
        self._last = number
        answer = _Answer(self, number)
        refusal = head if isinstance(head, Refusal) else None
        request = Request(Head() if isinstance(head, Refusal) else head, body, self._peer, self._tls)
        exchange = answer.exchange = HttpExchange(answer, request, False, False)
        self.under_way[number] = answer
        if refusal is not None:
            exchange.respond(refusal.response())
            return
        principal = self._vouch(request)
        if principal is None:
            exchange.respond(Response(401))
            return
        request.principal = principal
        try:
            self._app(exchange)
        except Exception:
            log.exception("the answer to %r failed", request)
            exchange.fail()

    def _on_socket_closed(self, code: int, reason: str) -> None:
        log.debug("a link from %s is closed (%d %s)", self._peer, code, reason)
        self._lose_all()
        self._on_closed(self)

    def _lose_all(self) -> None:
        self._is_leaving = True
        under_way, self.under_way = self.under_way, {}
        for answer in under_way.values():
            answer.lose()


class Unread:
    """What answers on links keep for those who do not read."""

    def __init__(self, limit_bytes: int = MAX_UNREAD_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._bytes = 0
        self._answers: set[_Answer] = set()
        self._is_weighing = False

    def note(self, answer: "_Answer", size_bytes: int) -> None:
        """So much it keeps now. Looked at in the next turn: nobody hears of an end from inside an answer."""
        self._bytes += size_bytes - answer.kept_bytes
        answer.kept_bytes = size_bytes
        if not size_bytes:
            self._answers.discard(answer)
            return
        self._answers.add(answer)
        if self._bytes > self._limit_bytes and not self._is_weighing:
            self._is_weighing = True
            asyncio.get_running_loop().call_soon(self._weigh)

    def _weigh(self) -> None:
        self._is_weighing = False
        for answer in sorted(self._answers, key=lambda each: each.kept_bytes, reverse=True):
            if self._bytes <= self._limit_bytes or len(self._answers) == 1:
                return
            log.warning("an answer on a link is cut: too much waits for clients that do not read")
            answer.drop()


class _Answer:
    """To one call: see `mooring.http.exchange.Outlet`, which this is."""

    __slots__ = (
        "_credit_bytes",
        "_is_ended",
        "_link",
        "_number",
        "_unsent",
        "exchange",
        "gone",
        "kept_bytes",
    )

    def __init__(self, link: AnsweringLink, number: int) -> None:
        self.gone = False
        self.exchange: HttpExchange | None = None
        self.kept_bytes = 0
        self._link = link
        self._number = number
        self._credit_bytes = WINDOW_BYTES
        self._unsent = bytearray()
        self._is_ended = False

    # For its exchange.

    def begin(self, exchange: HttpExchange) -> None:
        """See `Outlet`."""
        head, body = b"".join(exchange.head), b"".join(exchange.held)
        exchange.held.clear()
        status = int(head[9:12])  # HTTP/1.1 200 …
        if exchange.state == ANSWERED and len(body) <= PIECE_BYTES:
            self._link.batch.put(ANSWER, self._number, parts(status, len(head)), head + body)
            self._forget()
            return
        self._link.batch.put(BEGIN, self._number, parts(status, len(head)), head)
        self._unsent += body
        self._is_ended = exchange.state == ANSWERED
        self._send()

    def more(self, exchange: HttpExchange, data: bytes) -> None:
        """See `Outlet`."""
        self._unsent += data
        self._send()

    def finish(self, exchange: HttpExchange) -> None:
        """See `Outlet`."""
        self._is_ended = True
        self._send()

    def is_writable(self, exchange: HttpExchange) -> bool:
        """See `Outlet`."""
        return not self.gone and len(self._unsent) < PIECE_BYTES

    def cut(self) -> None:
        """See `Outlet`."""
        if not self.gone:
            self.gone = True
            self._link.batch.put(CUT, self._number)
            self._forget()

    def put_back(self, exchange: HttpExchange) -> None:
        """See `Outlet`."""
        raise LocalProtocolError("a call on a link is nobody else's", code="bad_exchange_state")

    def switch(self, exchange: HttpExchange, head: bytes) -> WebSocket | None:
        """See `Outlet`."""
        self.cut()
        return None

    # For its link.

    def grant(self, count: int) -> None:
        """So much more may be sent."""
        was_full = len(self._unsent) >= PIECE_BYTES
        self._credit_bytes += count
        self._send()
        if was_full and self.exchange is not None:
            self.exchange.tell_writable()

    def lose(self) -> None:
        """Nobody waits for it."""
        self.gone = True
        self._keep(0)
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            exchange.lose()

    def drop(self) -> None:
        """It keeps too much. Whoever answers hears that nobody reads it."""
        exchange = self.exchange
        self.cut()
        if exchange is not None:
            exchange.lose()

    def _send(self) -> None:
        unsent, put = self._unsent, self._link.batch.put
        while unsent and self._credit_bytes > 0:
            count = min(PIECE_BYTES, self._credit_bytes, len(unsent))
            put(PIECE, self._number, 0, bytes(unsent[:count]))
            del unsent[:count]
            self._credit_bytes -= count
        if self._is_ended and not unsent:
            put(END, self._number)
            self._forget()
        else:
            self._keep(len(unsent))

    def _keep(self, size_bytes: int) -> None:
        if size_bytes != self.kept_bytes:
            self._link.unread.note(self, size_bytes)

    def _forget(self) -> None:
        """It is over. The exchange, which has us, is let go: nothing is left for Python to look for."""
        self.exchange = None
        if self.kept_bytes:
            self._keep(0)
        if self._link.under_way.pop(self._number, None) is not None:
            self._link.close_if_left()


def _read_head(data: bytes) -> Head | Refusal:
    """As a listener reads it. One that it refuses is refused to whoever has it, and nobody else."""
    read: list[Request] = []
    reader = RequestReader(LIMITS, lambda request, _keep, _old: read.append(request), lambda: None)
    try:
        reader.feed(data)
    except Refusal as refusal:
        return refusal
    if len(read) != 1:
        raise RemoteProtocolError("a head is not whole, or not alone", code="bad_link")
    reader.close()
    return read[0].head
