"""What many clients say to one server."""

import json

import msgspec
import pytest

from mooring.wire.shared import covers, initialize_result, is_as_grave, level_of, most_verbose, shared_params


@pytest.mark.parametrize(
    ("said", "kept", "token"),
    [
        (b"", b"", None),
        (b'{"a": 1}', b'{"a": 1}', None),
        (b'{"name":"x","arguments":{"t":"a\\nb"}}', b'{"name":"x","arguments":{"t":"a\\nb"}}', None),
        (b'{"_meta":{"progressToken":7,"o":1}}', b'{"_meta":{"o":1}}', 7),
        (b'{"_meta":{"progressToken":"7"}}', b'{"_meta":{}}', "7"),
        (b'{"_meta":{"progress\\u0054oken":7}}', b'{"_meta":{}}', 7),
        (b'{"\\u005fmeta":{"progressToken":7}}', b'{"_meta":{}}', 7),
        (b'{"_meta":{"progressToken":{}}}', b'{"_meta":{}}', None),
        (b'{"_meta":null,"progressToken":1}', b'{"_meta":null,"progressToken":1}', None),
        (b'{"_meta":{"progressToken":1},"_meta":{}}', b'{"_meta":{}}', None),
        (b'{"task":{"ttl":1},"a":18446744073709551617}', b'{"a":18446744073709551617}', None),
        (b'{"\\u0074ask":{},"a":1e400}', b'{"a":1e400}', None),
    ],
)
def test_nothing_that_names_a_client_is_left_in_params(said: bytes, kept: bytes, token: object) -> None:
    assert shared_params(said) == (kept, token)


def test_params_that_are_no_object_are_told_of() -> None:
    with pytest.raises(msgspec.DecodeError):
        shared_params(b'["progressToken"]')


SAID = b'{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"tasks":{}},"future":[1]}'


@pytest.mark.parametrize(
    ("requested", "granted"),
    [
        ("2025-06-18", "2025-06-18"),
        ("2024-11-05", "2024-11-05"),
        ("2025-11-25", "2025-06-18"),
        ("2026-07-28", "2025-06-18"),
        ("1999-01-01", "2025-06-18"),
        ("", "2025-06-18"),
    ],
)
def test_the_answer_to_initialize_is_for_who_asks(requested: str, granted: str) -> None:
    assert json.loads(initialize_result(SAID, requested)) == {
        "protocolVersion": granted,
        "capabilities": {"tools": {}},
        "future": [1],
    }


def test_levels() -> None:
    assert level_of(b'{"level":"notice","data":1}') == "notice"
    for params in (b"", b"{}", b'{"level":"loud"}', b'{"level":7}', b"[1]"):
        assert level_of(params) is None
    assert is_as_grave("error", "warning") and is_as_grave("warning", "warning")
    assert not is_as_grave("info", "warning")
    assert is_as_grave(None, "emergency"), "what is of no level that we know is not held back"
    assert most_verbose(["error", "info", "alert"]) == "info"
    assert most_verbose([]) is None


@pytest.mark.parametrize(
    ("subscribed", "updated", "answer"),
    [
        ("res://a", "res://a", True),
        ("res://a", "res://a/b", True),
        ("res://a/", "res://a/b", True),
        ("res://a", "res://a?q=1", True),
        ("res://a", "res://ab", False),
        ("res://a/b", "res://a", False),
        ("", "res://a", False),
    ],
)
def test_a_subscription_covers_what_is_inside(subscribed: str, updated: str, answer: bool) -> None:
    assert covers(subscribed, updated) is answer
