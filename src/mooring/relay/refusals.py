"""What a caller hears in place of an answer: one place for status, body and words.

A request that has an id gets a JSON-RPC error with status 200: that is what every client hands to whoever
made the call, where another status would often be lost in a log. `data.reason` is a stable code,
`data.retryable` true where it is known that nothing was done.
"""

from mooring.errors import RemoteProtocolError
from mooring.http.problems import problem
from mooring.relay.tokens import is_name
from mooring.relay.words import Reset
from mooring.wire import jsonrpc, sse
from mooring.wire.http import Headers, Request, Response
from mooring.wire.jsonrpc import INTERNAL_ERROR, Id

__all__ = ["call_id", "error_event", "error_message", "may_not_call", "refusal"]

JSON: Headers = [(b"content-type", b"application/json")]
RETRY_AFTER_S = 5
STATUS = {
    "bad_request": 400,
    "no_such_server": 404,
    "not_allowed": 403,
    "too_large": 413,
    "too_many": 429,
    "bad_answer": 502,
    "answer_lost": 502,
}
"""Without an id; of all others 503: come again."""


def call_id(request: Request) -> Id | None:
    """The id of the call in its body, if it is one."""
    if request.method != "POST":
        return None
    try:
        message = jsonrpc.parse(request.body)
    except RemoteProtocolError:
        return None
    return message.request_id if message.is_request else None


def refusal(reset: Reset, id: Id | None) -> Response:
    """The answer to a request that got none."""
    message = reset.message or reset.reason
    if id is not None:
        return Response(200, error_message(reset, id), JSON)
    status = STATUS.get(reset.reason, 503)
    headers: Headers = [(b"retry-after", b"%d" % RETRY_AFTER_S)] if status in (429, 503) else []
    return problem(status, reset.reason, message, headers=headers)


def may_not_call(agent: str, server: str, *, with_remedy: bool = False) -> str:
    """Of a token. Whoever asks has named them; what is no name is not said again.

    `with_remedy`: and which token may, where there is room for more than the reason of a close."""
    if not (is_name(agent) and is_name(server)):
        return "this token may not call that server"
    remedy = f": mooring relay token create NAME --call {agent}/{server}" if with_remedy else ""
    return f"this token may not call {agent}/{server}{remedy}"


def error_event(reset: Reset, id: Id) -> bytes:
    """The same on a stream of events that had begun."""
    return sse.encode_event(error_message(reset, id))


def error_message(reset: Reset, id: Id) -> bytes:
    """The JSON-RPC error itself."""
    data = {"reason": reset.reason, "retryable": reset.not_executed}
    message = reset.message or reset.reason
    if not reset.not_executed:
        message += "; the call may have been executed"
    return jsonrpc.error_response(id, INTERNAL_ERROR, message, data)
