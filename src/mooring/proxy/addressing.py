"""For whom a request is, by what it says itself: for those who stand between clients and sessions. Pure."""

from urllib.parse import parse_qs

import msgspec
from msgspec import Struct

from mooring.errors import RemoteProtocolError
from mooring.proxy.batches import is_batch
from mooring.wire import jsonrpc
from mooring.wire.http import Request
from mooring.wire.surrogates import MALFORMED

__all__ = ["SESSION_FIELD", "begins_session", "is_call", "request_state_of", "session_id_of"]

SESSION_FIELD = b"mcp-session-id"
STATE = b'"requestState"'


class _Params(Struct, rename="camel"):
    request_state: str = ""


class _GoingOn(Struct):
    params: _Params


_read_going_on = msgspec.json.Decoder(_GoingOn).decode


def session_id_of(request: Request) -> str | None:
    """The session that a request is for; None: none, or one that begins with it."""
    named = request.header(SESSION_FIELD)
    if named is not None:
        return named.decode("latin-1")
    values = parse_qs(request.query).get("session_id") if "session_id" in request.query else None
    return values[0] if values else None


def request_state_of(request: Request) -> str:
    """What a client says again to go on with a call that waits for its answers; empty: nothing."""
    if STATE not in request.body:
        return ""
    try:
        return _read_going_on(request.body).params.request_state
    except MALFORMED:
        return ""


def begins_session(request: Request) -> bool:
    """Of one that names none: is it to begin one that its client comes back to? No batch does."""
    if request.method != "POST" or is_batch(request.body):
        return False
    try:
        return jsonrpc.parse(request.body).method == "initialize"
    except RemoteProtocolError:
        return False


def is_call(request: Request) -> bool:
    """Something would be executed. What cannot be read is refused by whoever reads it."""
    if request.method != "POST":
        return False
    body = request.body
    try:
        if is_batch(body):
            return any(message.is_request for message, _ in jsonrpc.parse_batch(body))
        return jsonrpc.parse(body).is_request
    except RemoteProtocolError:
        return False
