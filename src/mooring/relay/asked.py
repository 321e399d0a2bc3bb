"""Calls on a WebSocket that are not answered: of its messages the envelope is read, no more."""

from collections.abc import Iterator

from mooring.errors import RemoteProtocolError
from mooring.wire import jsonrpc
from mooring.wire.jsonrpc import Envelope, Id

__all__ = ["MAX_ASKED", "Asked"]

MAX_ASKED = 1000
"""Calls under way on one WebSocket that are told of a cut; more are told by the close."""


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
        """It may be a call."""
        envelope = _envelope(message)
        if envelope is not None and envelope.is_request and len(self._ids) < MAX_ASKED:
            self._ids[envelope.request_id] = None

    def hear_server(self, message: bytes) -> None:
        """It may be the answer to one."""
        if self._ids and (envelope := _envelope(message)) is not None and envelope.is_response:
            self._ids.pop(envelope.request_id, None)


def _envelope(message: bytes) -> Envelope | None:
    try:
        return jsonrpc.parse(message)
    except RemoteProtocolError:
        return None
