"""What is told of a request that may have been done: never to send it again, if that could do harm."""

import json
from typing import Any

import pytest

from mooring.replicas.answers import lost
from mooring.wire.http import Head, Request
from mooring.wire.jsonrpc import MAX_BATCH_BYTES

CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}'
PING = b'{"jsonrpc":"2.0","id":"p","method":"ping"}'
NOTE = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
RESPONSE = b'{"jsonrpc":"2.0","id":1,"result":{}}'
OF_A_SESSION = (b"mcp-session-id", b"s1")


def posted(body: bytes, *headers: tuple[bytes, bytes], path: str = "/mcp", query: str = "") -> Request:
    return Request(Head("POST", path, query, headers=headers), body)


def told(error: dict[str, Any]) -> tuple[Any, bool]:
    assert error["error"]["data"]["reason"] == "replica_lost"
    return error["id"], error["error"]["data"]["retryable"]


@pytest.mark.parametrize(("body", "expected"), [(CALL, (1, False)), (PING, ("p", True))])
def test_a_call(body: bytes, expected: tuple[Any, bool]) -> None:
    answer = lost(posted(body, OF_A_SESSION))
    assert (answer.status, told(json.loads(answer.body))) == (200, expected)


def test_each_call_of_a_batch() -> None:
    answer = lost(posted(b" [%b]" % b",".join([CALL, NOTE, PING]), OF_A_SESSION))
    assert (answer.status, [told(one) for one in json.loads(answer.body)]) == (200, [(1, False), ("p", True)])


@pytest.mark.parametrize(
    "body",
    [NOTE, RESPONSE, b"[%b]" % NOTE, b"[]", b"{", b"[" + CALL + b" " * MAX_BATCH_BYTES + b"]"],
    ids=["notification", "response", "batch of notes", "empty batch", "no JSON", "too long a batch"],
)
def test_what_is_not_answered_by_itself(body: bytes) -> None:
    assert_untold_when_to_come_back(posted(body, OF_A_SESSION))


@pytest.mark.parametrize("body", [CALL, PING, NOTE, b"[%b]" % CALL])
def test_whose_answers_come_on_a_stream(body: bytes) -> None:
    assert_untold_when_to_come_back(posted(body, path="/messages", query="session_id=s1.replica"))


def assert_untold_when_to_come_back(request: Request) -> None:
    answer = lost(request)
    assert answer.status == 502
    assert b"retry-after" not in dict(answer.headers)
    assert told(json.loads(answer.body)) == (None, False)


def test_to_listen_again_does_no_harm() -> None:
    answer = lost(Request(Head("GET", "/mcp", headers=[OF_A_SESSION])))
    assert answer.status == 503
    assert b"retry-after" in dict(answer.headers)
