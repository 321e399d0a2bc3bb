"""What a client is told when no replica can serve its request, or nobody knows what became of it."""

from mooring.errors import RemoteProtocolError, Unavailable
from mooring.proxy import refusals
from mooring.proxy.calls import JSON_HEADERS
from mooring.wire import jsonrpc
from mooring.wire.http import Request, Response
from mooring.wire.jsonrpc import INTERNAL_ERROR, Id
from mooring.wire.memory import READS

__all__ = ["lost", "nobody_there", "stopping", "too_many", "unavailable"]

HELD_LOST = "the replica that had the call was lost; it may have been executed"


def unavailable(request: Request, trouble: Unavailable) -> Response:
    """Nothing was done."""
    return refusals.unavailable(trouble, _call_of(request)[0])


def lost(request: Request) -> Response:
    """It was passed on, and no answer came."""
    id, method = _call_of(request)
    if id is None:
        text = "the replica that was asked is gone"
        return unavailable(request, Unavailable(text, code="replica_lost", hint="ask again", retry_after_s=1))
    data = {"reason": "replica_lost", "retryable": method in READS}
    return Response(200, jsonrpc.error_response(id, INTERNAL_ERROR, HELD_LOST, data), JSON_HEADERS)


def nobody_there() -> Unavailable:
    """Whoever has the session cannot be asked, and nobody else may have it yet."""
    text = "the replica that has the session does not answer, and its lease has not run out"
    return Unavailable(text, code="replica_unreachable", hint="try again", retry_after_s=2)


def stopping() -> Unavailable:
    """Whoever has the session lets it go when the last of its calls has ended."""
    text = "the replica that has the session is stopping, and a call of the session still runs there"
    return Unavailable(text, code="replica_stopping", hint="try again", retry_after_s=2)


def too_many() -> Unavailable:
    """A bound on those who wait."""
    text = "too many requests look for their session"
    return Unavailable(text, code="too_many_requests", hint="try again", retry_after_s=2)


def _call_of(request: Request) -> tuple[Id | None, str]:
    """The id and the method of the call in a request; None: it is no single call."""
    try:
        message = jsonrpc.parse(request.body) if request.method == "POST" else None
    except RemoteProtocolError:
        return None, ""
    if message is None or not message.is_request:
        return None, ""
    return message.request_id, message.method or ""
