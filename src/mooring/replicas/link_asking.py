"""Our end of a link to a replica that has sessions for which we are asked: calls go out, answers come back.

    open → left by the other (it said goodbye: what was sent before that is answered) → closed

A call on it ends exactly once: answered, not looked at, or, if the link is gone, who knows.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from mooring.errors import RemoteProtocolError
from mooring.replicas.link_frames import (
    HEAD_NAMES,
    HEADS_KEPT,
    MAX_MESSAGE_BYTES,
    Batch,
    Frame,
    Kind,
    parts_of,
    read_frames,
)
from mooring.wire.websocket import POLICY_VIOLATION, WebSocket

__all__ = ["Asker", "AskingLink"]

log = logging.getLogger("mooring.replicas")

MAX_UNDER_WAY = 4096
"""Of calls on one link; for more there are connections."""
# A member of an enum takes ten times as long to look up as these.
HELLO, HEAD, CALL, CREDIT, CANCEL = Kind.HELLO, Kind.HEAD, Kind.CALL, Kind.CREDIT, Kind.CANCEL
ANSWER, BEGIN, PIECE, END, CUT, GOODBYE = (
    Kind.ANSWER,
    Kind.BEGIN,
    Kind.PIECE,
    Kind.END,
    Kind.CUT,
    Kind.GOODBYE,
)


class Asker(Protocol):
    """Who waits for the answer to a call. One of `on_answer`, `on_end`, `on_not_done` and `on_lost` is the
    last that it hears; unless it cancels."""

    is_begun: bool
    """It has heard `on_begin`."""

    def on_answer(self, status: int, head: bytes, body: bytes) -> None:
        """All of it."""
        ...

    def on_begin(self, status: int, head: bytes) -> None:
        """The rest comes in pieces."""
        ...

    def on_piece(self, data: bytes) -> None:
        """Some of it; `AskingLink.credit` makes room for more."""
        ...

    def on_end(self) -> None:
        """That was all."""
        ...

    def on_not_done(self) -> None:
        """The other did not look at it."""
        ...

    def on_lost(self) -> None:
        """No more comes, and what was done is not known."""
        ...


class AskingLink:
    """On a WebSocket that was just opened."""

    def __init__(self, socket: WebSocket, on_closed: Callable[["AskingLink"], None]) -> None:
        self._socket = socket
        self._on_closed = on_closed
        self._batch = Batch(socket.send, asyncio.get_running_loop().call_soon)
        self._under_way: dict[int, Asker] = {}
        self._calls = 0
        self._heads = 0
        self._is_left = False
        socket.expect_binary(MAX_MESSAGE_BYTES, reads_on=True)
        socket.on_message = self._on_message
        socket.on_closed = self._on_socket_closed
        self._batch.put(HELLO, 0)

    @property
    def is_usable(self) -> bool:
        """May a call go out now?"""
        return not self._is_left and len(self._under_way) < MAX_UNDER_WAY and self._socket.writable

    def knows_head(self, number: int) -> bool:
        """Can it still be named?"""
        return number > self._heads - HEADS_KEPT

    def put_head(self, head: bytes) -> int:
        """The head of calls to come; its number."""
        self._heads += 1
        self._batch.put(HEAD, self._heads, 0, head)
        return self._heads

    def call(self, head: int, body: bytes, asker: Asker) -> int:
        """Ask; the number of the call. From here on it counts as sent."""
        self._calls = number = self._calls + 1
        self._under_way[number] = asker
        self._batch.put(CALL, number, head % HEAD_NAMES, body)
        return number

    def credit(self, number: int, count: int) -> None:
        """So much of its answer is with whom it is for."""
        if number in self._under_way:
            self._batch.put(CREDIT, number, count)

    def cancel(self, number: int) -> None:
        """Nobody waits for it any more."""
        if self._under_way.pop(number, None) is not None:
            self._batch.put(CANCEL, number)

    def _on_message(self, message: bytes) -> None:
        try:
            for frame in read_frames(message):
                self._take(frame)
        except RemoteProtocolError as error:
            log.warning("a link to another replica ends: %s", error.message, extra={"event": "bad_link"})
            self._socket.close(POLICY_VIOLATION, error.message)
            self._lose_all()

    def _take(self, frame: Frame) -> None:
        kind, number, value, payload = frame
        if kind == ANSWER:
            if (asker := self._under_way.get(number)) is not None:
                if asker.is_begun:
                    raise _out_of_order()
                del self._under_way[number]
                status, head_bytes = parts_of(value)
                asker.on_answer(status, payload[:head_bytes], payload[head_bytes:])
        elif kind == GOODBYE:
            self._is_left = True
            for later in [one for one in self._under_way if one > number]:
                self._under_way.pop(later).on_not_done()
        elif kind in (END, CUT):
            if (asker := self._under_way.get(number)) is not None:
                if not asker.is_begun and kind == END:
                    raise _out_of_order()
                del self._under_way[number]
                asker.on_end() if kind == END else asker.on_lost()
        elif kind in (BEGIN, PIECE):
            if (asker := self._under_way.get(number)) is not None:
                if asker.is_begun is (kind == BEGIN):
                    raise _out_of_order()
                asker.on_begin(parts_of(value)[0], payload) if kind == BEGIN else asker.on_piece(payload)
        elif kind != HELLO:
            raise RemoteProtocolError(f"it says what only we say ({kind})", code="bad_link")

    def _on_socket_closed(self, code: int, reason: str) -> None:
        log.debug("a link to another replica is closed (%d %s)", code, reason)
        self._lose_all()
        self._on_closed(self)

    def _lose_all(self) -> None:
        self._is_left = True
        under_way, self._under_way = self._under_way, {}
        for asker in under_way.values():
            asker.on_lost()


def _out_of_order() -> RemoteProtocolError:
    """Otherwise whoever waits for the answer would be told that it has it, and wait for ever."""
    return RemoteProtocolError("an answer begins twice, or not at all", code="bad_link")
