"""What an HTTP answer means for a message."""

import json

import pytest

from mooring.wire import failures, jsonrpc
from mooring.wire.verdicts import (
    Meaning,
    describe_status,
    is_read,
    judge,
    means_forgotten,
    parse_retry_after,
    words_of_refusal,
)

JSON, EVENTS = b"application/json; charset=utf-8", b"Text/Event-Stream"


@pytest.mark.parametrize(
    ("status", "kind", "retry_after", "in_session", "meaning"),
    [
        (200, JSON, None, True, Meaning.JSON),
        (200, EVENTS, None, True, Meaning.EVENTS),
        (200, b"text/html", None, True, Meaning.REFUSED),
        (200, b"", None, False, Meaning.REFUSED),
        (202, b"", None, True, Meaning.ACCEPTED),
        (204, b"", None, True, Meaning.ACCEPTED),
        (404, JSON, None, True, Meaning.SESSION_LOST),
        (404, JSON, None, False, Meaning.REFUSED),
        (503, JSON, b"2", True, Meaning.LATER),
        (429, b"", b"0", False, Meaning.LATER),
        (503, JSON, None, True, Meaning.REFUSED),
        (503, JSON, b"soon", True, Meaning.REFUSED),
        (500, JSON, b"2", True, Meaning.REFUSED),
        (301, b"", None, True, Meaning.REFUSED),
    ],
)
def test_judge(
    status: int, kind: bytes, retry_after: bytes | None, in_session: bool, meaning: Meaning
) -> None:
    assert judge(status, kind, retry_after, in_session=in_session).meaning is meaning


def test_when_to_come_back() -> None:
    assert parse_retry_after(b" 7 ") == 7
    assert parse_retry_after(b"Wed, 21 Oct 2026 07:28:00 GMT") == 1
    for nothing in (None, b"", b"-1", b"1.5", b"9" * 10, b"soon"):
        assert parse_retry_after(nothing) is None
    assert judge(503, b"", b"7", in_session=True).after_s == 7
    said_at = b"Wed, 21 Oct 2026 07:27:00 GMT"
    assert parse_retry_after(b"Wed, 21 Oct 2026 07:28:00 GMT", said_at) == 60
    assert parse_retry_after(b"Wed, 21 Oct 2026 07:26:00 GMT", said_at) == 0
    for not_a_date in (b"GMT", b"Wed, 99 Oct 2026 07:28:00 GMT"):
        assert parse_retry_after(not_a_date, said_at) == 1
    assert parse_retry_after(b"Wed, 21 Oct 2026 07:28:00 GMT", b"Wed, 21 Oct 2026 07:27:00 -0000") == 1
    assert judge(503, b"", b"Wed, 21 Oct 2026 07:28:00 GMT", said_at, in_session=True).after_s == 60


def test_reads() -> None:
    for method in ("ping", "tools/list", "resources/read", "initialize", "server/discover", "tasks/get"):
        assert is_read(method)
    for method in ("tools/call", "logging/setLevel", "sampling/createMessage", "x/y"):
        assert not is_read(method)


@pytest.mark.parametrize(
    ("status", "reason", "retryable", "words"),
    [
        (200, "not_mcp", False, "text/html"),
        (401, "unauthorized", True, "--token-file"),
        (403, "forbidden", True, "token"),
        (404, "not_mcp", True, "/mcp"),
        (405, "not_mcp", True, "/mcp"),
        (300, "redirected", False, "tools/call may have been executed"),
        (301, "redirected", False, "https://other/mcp"),
        (302, "redirected", False, "may have been executed"),
        (303, "redirected", False, "may have been executed"),
        (307, "redirected", True, "https://other/mcp"),
        (308, "redirected", True, "https://other/mcp"),
        (400, "http_400", True, "400"),
        (500, "http_500", False, "may have been executed"),
        (502, "http_502", False, "may have been executed"),
    ],
)
def test_words_for_a_refusal(status: int, reason: str, retryable: bool, words: str) -> None:
    failure = describe_status(status, b"text/html", b"https://other/mcp", "tools/call")
    assert (failure.reason, failure.retryable) == (reason, retryable)
    assert words in failure.message
    assert describe_status(500, b"", None, "tools/list").retryable
    assert "elsewhere" in describe_status(302, b"", None, "ping").message
    assert describe_status(303, b"", None, "tools/list").retryable


def test_servers_that_say_400_where_404_belongs() -> None:
    def error(text: str) -> jsonrpc.Envelope:
        return jsonrpc.parse(jsonrpc.error_response(None, -32000, text))

    for said in (
        "Bad Request: No valid session ID provided",
        "Bad Request: Missing session ID",
        "Bad Request: Mcp-Session-Id header is required",
        "Bad Request: Server not initialized",
        "Invalid or missing session ID",
        "Session not found",
        "session expired or not found",
        "Session has expired; initialize again",
    ):
        assert means_forgotten(400, error(said), 7), said
        assert not means_forgotten(500, error(said), 7)
        assert not means_forgotten(400, jsonrpc.parse(jsonrpc.error_response(7, -32000, said)), 7)
        of_nobody = jsonrpc.parse(jsonrpc.error_response("server-error", -32600, said))
        assert means_forgotten(400, of_nobody, 7)
    for said in (
        "Bad Request",
        "charged the card, but the payment session expired",
        "the card was charged: no valid session",
        "No payment session",
        "Invalid session token of the bank",
        "Session expired in the shop after the order was placed",
    ):
        assert not means_forgotten(400, error(said), 7), said


@pytest.mark.parametrize(
    ("body", "is_error"),
    [
        (b'{"jsonrpc":"2.0","error":{"code":-32000,"message":"No valid session ID provided"}}', True),
        (b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}', True),
        (b'{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"x"}}', True),
        (b'{"jsonrpc":"2.0","id":7,"result":{}}', False),
        (b'{"jsonrpc":"2.0","method":"x","error":{"code":1}}', False),
        (b'{"error":"invalid_token"}', False),
        (b'{"jsonrpc":"2.0"}', False),
        (b"<html>", False),
        (b"", False),
    ],
)
def test_an_error_in_the_body_of_a_refusal_may_come_without_an_id(body: bytes, is_error: bool) -> None:
    found = jsonrpc.parse_refusal(body)
    assert (found is not None) == is_error
    if found is not None:
        assert jsonrpc.parse(jsonrpc.with_id(found, 3)).id == 3


def test_failures_say_whether_the_call_may_be_done_again() -> None:
    for failure, retryable in (
        (failures.lost("tools/call", "cut", reads=False), False),
        (failures.lost("tools/list", "cut", reads=True), True),
        (failures.cancelled(sent=True), False),
        (failures.cancelled(sent=False), True),
        (failures.shutting_down("SIGTERM", taken=True), False),
        (failures.shutting_down("SIGTERM", taken=False), True),
        (failures.too_many_calls(1), True),
        (failures.too_busy(1), True),
        (failures.id_in_use(), False),
        (failures.already_initialized(), False),
    ):
        error = json.loads(failure.response("x"))["error"]
        assert error["data"] == {"reason": failure.reason, "retryable": retryable}
    assert "may have been executed" in failures.lost("tools/call", "cut", reads=False).message


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"error":{"code":"x","message":"it sleeps\\u0007","hint":"wake it"}}', "it sleeps; wake it"),
        (b'{"error":{"message":"it sleeps"}}', "it sleeps"),
        (b'{"error":"no"}', ""),
        (b"busy", ""),
        (b'{"error":{"message":"%b"}}' % (b"x" * 1000), "x" * 1000),
    ],
)
def test_what_a_server_says_that_turns_a_call_away(body: bytes, words: str) -> None:
    assert words_of_refusal(body) == words
