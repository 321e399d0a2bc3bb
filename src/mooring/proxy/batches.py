"""A client's batch taken apart: what every transport asks of one (2025-03-26 alone has them)."""

from mooring.errors import RemoteProtocolError
from mooring.wire import jsonrpc
from mooring.wire.jsonrpc import MAX_BATCH_BYTES, Envelope
from mooring.wire.revisions import rules_for

__all__ = ["is_batch", "read_batch"]


def is_batch(body: bytes) -> bool:
    """Is it meant as one?"""
    return body[:1] != b"{" and body.lstrip()[:1] == b"["


def read_batch(body: bytes, revision: str) -> list[tuple[Envelope, bytes]]:
    """Its messages, each with its line. Raises RemoteProtocolError."""
    if not rules_for(revision).batches:
        raise _invalid(f"batches are not part of revision {revision}")
    if len(body) > MAX_BATCH_BYTES:
        raise _invalid(f"a batch may have {MAX_BATCH_BYTES} bytes; send its messages one by one")
    messages = jsonrpc.parse_batch(body)
    ids = [message.request_id for message, _ in messages if message.is_request]
    if len(set(ids)) < len(ids) or any(message.method == "initialize" for message, _ in messages):
        raise _invalid("a batch must not repeat an id, nor contain initialize")
    return [(message, jsonrpc.one_line(item)) for message, item in messages]


def _invalid(text: str) -> RemoteProtocolError:
    return RemoteProtocolError(text, code="invalid_request")
