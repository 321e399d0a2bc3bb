"""Answers to requests that reach no session: one place for their status, body and words."""

import math

from mooring.errors import MooringError, Unavailable
from mooring.proxy.calls import JSON_HEADERS
from mooring.wire import jsonrpc
from mooring.wire.http import Headers, Response
from mooring.wire.jsonrpc import INVALID_REQUEST, Id

__all__ = [
    "bad_request",
    "not_acceptable",
    "only_post",
    "session_missing",
    "session_unknown",
    "unavailable",
    "unsupported_media",
]


def bad_request(error: MooringError, id: Id | None = None) -> Response:
    """The message breaks the rules."""
    return Response(400, jsonrpc.error_response(id, jsonrpc.error_code(error), error.message), JSON_HEADERS)


def session_missing(id: Id | None) -> Response:
    """There is no session id, and this is not an `initialize`."""
    text = "Mcp-Session-Id is missing: open a session with initialize first"
    return Response(
        400,
        jsonrpc.error_response(id, INVALID_REQUEST, text, {"reason": "session_id_missing"}),
        JSON_HEADERS,
    )


def session_unknown(id: Id | None) -> Response:
    """The session has ended, never was, or is somebody else's: which one is not told."""
    text = "Session not found: open a new one with initialize"
    return Response(
        404,
        jsonrpc.error_response(id, INVALID_REQUEST, text, {"reason": "session_not_found"}),
        JSON_HEADERS,
    )


def unavailable(error: Unavailable, id: Id | None) -> Response:
    """Not now."""
    headers: Headers = list(JSON_HEADERS)
    if error.retry_after_s is not None:
        headers.append((b"retry-after", b"%d" % max(1, math.ceil(error.retry_after_s))))
    data = {"reason": error.code, "retryable": True}
    return Response(503, jsonrpc.error_response(id, jsonrpc.error_code(error), error.message, data), headers)


def only_post() -> Response:
    """2026-07-28 has no streams of a session, and no sessions."""
    text = "this revision has POST only"
    body = jsonrpc.error_response(None, INVALID_REQUEST, text)
    return Response(405, body, [*JSON_HEADERS, (b"allow", b"POST")])


def not_acceptable(wanted: str) -> Response:
    """The Accept header excludes what we would answer."""
    text = f"Accept must allow {wanted}"
    return Response(406, jsonrpc.error_response(None, INVALID_REQUEST, text), JSON_HEADERS)


def unsupported_media() -> Response:
    """The body is not declared to be JSON."""
    text = "Content-Type must be application/json"
    return Response(415, jsonrpc.error_response(None, INVALID_REQUEST, text), JSON_HEADERS)
