"""Calls on a WebSocket that are not answered: of its messages the envelope is read, no more."""

from collections.abc import Callable, Iterator

from mooring.errors import RemoteProtocolError
from mooring.relay.bodies import Share
from mooring.wire import jsonrpc
from mooring.wire.jsonrpc import Envelope, Id
from mooring.wire.modern import LISTEN
from mooring.wire.params import cancelled_id

__all__ = ["MAX_ASKED", "Asked", "Overheard"]

MAX_ASKED = 1000
"""Calls under way on one WebSocket that are told of a cut; more are told by the close."""
MAX_OVERHEARD_BYTES = 1024 * 1024
"""Of a message that passes in pieces, and is put together only to see whether it asks or answers."""


class Asked:
    """By their ids. Batches, and what is no JSON-RPC, are nobody's but the two ends'."""

    __slots__ = ("_ids",)

    def __init__(self) -> None:
        self._ids: dict[Id, None] = {}

    def __bool__(self) -> bool:
        return bool(self._ids)

    def __iter__(self) -> Iterator[Id]:
        return iter(self._ids)

    def hear_caller(self, message: bytes) -> None:
        """It may be a call, or take one back: then nobody waits for an answer, and there may be none."""
        envelope = _envelope(message)
        if envelope is None:
            return
        if envelope.method == "notifications/cancelled":
            if (id := cancelled_id(envelope.params)) is not None:
                self._ids.pop(id, None)
        elif envelope.is_request and envelope.method != LISTEN and len(self._ids) < MAX_ASKED:
            self._ids[envelope.request_id] = None

    def hear_server(self, message: bytes) -> None:
        """It may be the answer to one."""
        if self._ids and (envelope := _envelope(message)) is not None and envelope.is_response:
            self._ids.pop(envelope.request_id, None)


class Overheard:
    """One direction of a WebSocket that passes by in pieces. `hear` gets its messages; `share` counts what of
    them is kept, until `end`."""

    __slots__ = ("_begun", "_hear", "_share", "is_missed")

    def __init__(self, hear: Callable[[bytes], None], share: Share) -> None:
        self._hear = hear
        self._share = share
        self._begun = bytearray()
        self.is_missed = False
        """One was too long, or there was no room for it. Whether it asked or answered, nobody knows from now
        on."""

    def pass_by(self, data: bytes, more: bool) -> None:
        """A piece of a message; `more`: it goes on in the next."""
        is_piece = more or bool(self._begun)
        if len(self._begun) + len(data) > MAX_OVERHEARD_BYTES or (
            is_piece and not self._share.grow(len(data))
        ):
            self.is_missed = True
        if self.is_missed:
            self.end()
            return
        if is_piece:
            self._begun += data
        if not more:
            message = bytes(self._begun) if self._begun else data
            self.end()
            self._hear(message)

    def end(self) -> None:
        """Nothing is kept any more."""
        self._begun.clear()
        self._share.shrink_to(0)


def _envelope(message: bytes) -> Envelope | None:
    try:
        return jsonrpc.parse(message)
    except RemoteProtocolError:
        return None
