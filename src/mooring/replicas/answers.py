"""What a client is told when no replica can serve its request, or nobody knows what became of it."""

from mooring.errors import RemoteProtocolError, Unavailable
from mooring.proxy import refusals
from mooring.proxy.addressing import SESSION_FIELD, session_id_of
from mooring.proxy.batches import is_batch
from mooring.proxy.calls import JSON_HEADERS
from mooring.wire import jsonrpc
from mooring.wire.http import Request, Response
from mooring.wire.jsonrpc import INTERNAL_ERROR, MAX_BATCH_BYTES, Envelope, Id
from mooring.wire.memory import READS

__all__ = ["lost", "nobody_there", "stopping", "too_many", "unavailable"]

HELD_LOST = "the replica that had the call was lost; it may have been executed"


def unavailable(request: Request, trouble: Unavailable) -> Response:
    """Nothing was done."""
    return refusals.unavailable(trouble, _id_of(request))


def lost(request: Request) -> Response:
    """It was passed on, and no answer came: what it asks for may have been done, each call of a batch too."""
    if request.method != "POST":
        text = "the replica that was asked is gone"
        return unavailable(request, Unavailable(text, code="replica_lost", hint="ask again", retry_after_s=1))
    calls = _calls_of(request)
    if not calls or _is_answered_on_a_stream(request):
        data = {"reason": "replica_lost", "retryable": False}
        return Response(502, jsonrpc.error_response(None, INTERNAL_ERROR, HELD_LOST, data), JSON_HEADERS)
    errors = [_call_lost(message) for message in calls]
    body = b"[%b]" % b",".join(errors) if is_batch(request.body) else errors[0]
    return Response(200, body, JSON_HEADERS)


def _call_lost(message: Envelope) -> bytes:
    data = {"reason": "replica_lost", "retryable": message.method in READS}
    return jsonrpc.error_response(message.request_id, INTERNAL_ERROR, HELD_LOST, data)


def _is_answered_on_a_stream(request: Request) -> bool:
    """HTTP+SSE names the session in the address: nobody looks for an answer in the body of ours."""
    return request.header(SESSION_FIELD) is None and session_id_of(request) is not None


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


def _calls_of(request: Request) -> list[Envelope]:
    """What in it is answered. What cannot be read, whoever had it refuses."""
    body = request.body
    try:
        if not is_batch(body):
            messages = [jsonrpc.parse(body)]
        elif len(body) <= MAX_BATCH_BYTES:
            messages = [message for message, _ in jsonrpc.parse_batch(body)]
        else:
            messages = []
    except RemoteProtocolError:
        return []
    return [message for message in messages if message.is_request]


def _id_of(request: Request) -> Id | None:
    """Of the call in it; None: it is no single call."""
    calls = [] if request.method != "POST" or is_batch(request.body) else _calls_of(request)
    return calls[0].request_id if calls else None
