"""Going on with a stream that another replica had, from its events in Redis."""

import msgspec

from mooring.proxy.session import Session
from mooring.proxy.streams import PassedStream
from mooring.replicas.shared_store import StoredStream
from mooring.wire import jsonrpc
from mooring.wire.jsonrpc import INTERNAL_ERROR, Id

__all__ = ["go_on_with"]

STREAM_LOST = "the replica that had the call was lost before it was answered; it may have been executed"


def go_on_with(session: Session, name: str, stored: StoredStream, seen: int, now: float) -> None:
    """Put it into the session that was taken over, as if it had been there all the time.

    `seen`: the last event that its client has. One that was sent without being stored is not given a second
    meaning.
    """
    last, messages = stored.first + len(stored.messages) - 1, stored.messages
    if seen > last:
        last, messages = seen, []
    ids = msgspec.json.decode(stored.ids, type=list[Id]) if stored.ids else []
    is_standalone = name.startswith("g")
    kind = 0 if is_standalone else 2 if stored.finished else 1
    ended_at = now if stored.finished else None
    stream = session.streams.load_stream(
        PassedStream(kind, name, last, messages, last, stored.finished, ended_at, ids)
    )
    if is_standalone:
        session.delivery.go_on(stream, now)  # said here before its client came back
    elif not stored.finished:
        # Its replica is gone, and with it whatever answered.
        data = {"reason": "replica_lost", "retryable": False}
        for id in ids:
            answer = jsonrpc.error_response(id, INTERNAL_ERROR, STREAM_LOST, data)
            session.streams.deliver(stream, answer, now)
        session.streams.finish(stream, now)
