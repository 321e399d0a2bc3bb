"""What a new server is told, in which order, and which calls may run twice."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from mooring.errors import RemoteProtocolError
from mooring.wire import jsonrpc, memory
from mooring.wire.jsonrpc import Envelope
from mooring.wire.memory import MAX_SUBSCRIPTIONS, Handshake, Memory, Replay, read_handshake

INITIALIZE = Replay(b'{"jsonrpc":"2.0","id":0,"method":"initialize"}', 0)
INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'


def result(value: object = None) -> Envelope:
    body = {"jsonrpc": "2.0", "id": 1, "result": {} if value is None else value}
    return jsonrpc.parse(json.dumps(body).encode())


def failure() -> Envelope:
    return jsonrpc.parse(jsonrpc.error_response(1, -32602, "no"))


def opened(**capabilities: object) -> Memory:
    remembered = Memory()
    remembered.opened(INITIALIZE, Handshake("2025-11-25", dict(capabilities)))
    return remembered


def subscribe(remembered: Memory, uri: str, response: Envelope | None = None) -> None:
    remembered.answered("resources/subscribe", json.dumps({"uri": uri}).encode(), response or result())


def unsubscribe(remembered: Memory, uri: str, response: Envelope | None = None) -> None:
    remembered.answered("resources/unsubscribe", json.dumps({"uri": uri}).encode(), response or result())


def set_level(remembered: Memory, level: str, response: Envelope | None = None) -> None:
    remembered.answered("logging/setLevel", json.dumps({"level": level}).encode(), response or result())


def list_tools(remembered: Memory, *tools: object) -> None:
    remembered.answered("tools/list", b"", result({"tools": list(tools)}))


def said(steps: Iterator[Replay]) -> list[tuple[str, Any]]:
    """(method, params) of each step; and that each is a request with its id, or a notification."""
    found = []
    for step in steps:
        message = json.loads(step.line)
        assert message.get("id") == step.id
        found.append((message["method"], message.get("params")))
    return found


def may_call(remembered: Memory, name: str) -> bool:
    return remembered.may_repeat("tools/call", json.dumps({"name": name, "arguments": {}}).encode())


# Replay -------------------------------------------------------------------------------------


def test_before_the_handshake_there_is_nothing_to_say() -> None:
    remembered = Memory()
    remembered.initialized(INITIALIZED)
    set_level(remembered, "debug")
    assert list(remembered.replay("m")) == []
    assert remembered.handshake is None


def test_everything_is_said_again_in_order() -> None:
    remembered = opened()
    subscribe(remembered, "a:1")
    set_level(remembered, "debug")
    remembered.initialized(INITIALIZED)
    subscribe(remembered, "a:2")
    steps = list(remembered.replay("m"))
    assert steps[:2] == [INITIALIZE, Replay(INITIALIZED, None)]
    assert [step.id for step in steps[2:]] == ["m-level", "m-subscribe-0", "m-subscribe-1"]
    assert said(iter(steps))[2:] == [
        ("logging/setLevel", {"level": "debug"}),
        ("resources/subscribe", {"uri": "a:1"}),
        ("resources/subscribe", {"uri": "a:2"}),
    ]
    assert remembered.handshake == Handshake("2025-11-25")
    assert list(remembered.replay("m")) == steps


@pytest.mark.parametrize("id", [0, "über", 2**70])
def test_what_is_written_down_is_said_again_by_another(id: Any) -> None:
    first = Replay(jsonrpc.request(id, "initialize", b'{"capabilities":{}}'), id)
    remembered = Memory()
    assert remembered.dump() == b"", "there is nothing to go on with"
    remembered.opened(first, Handshake("2025-11-25", {"tools": {"listChanged": True}, "x": 2**60}))
    for step in ("handshake", "the rest"):
        again = Memory.load(remembered.dump())
        assert list(again.replay("m")) == list(remembered.replay("m")), step
        assert again.handshake == remembered.handshake
        remembered.initialized(INITIALIZED)
        set_level(remembered, "debug")
        subscribe(remembered, "a:1")
    for damaged in (b"", b"{}", b"[", remembered.dump()[:-2]):
        with pytest.raises(msgspec.DecodeError):
            Memory.load(damaged)


def test_what_the_client_says_while_it_is_said_again_is_not_missed() -> None:
    remembered = opened()
    steps = remembered.replay("m")
    assert next(steps) is INITIALIZE
    remembered.initialized(INITIALIZED)
    set_level(remembered, "info")
    assert said(steps) == [("notifications/initialized", None), ("logging/setLevel", {"level": "info"})]


def test_a_late_confirmation_is_passed_on_last_and_once() -> None:
    remembered = opened()
    set_level(remembered, "info")
    steps = remembered.replay("m")
    assert [next(steps).id, next(steps).id] == [0, "m-level"]
    remembered.initialized(INITIALIZED)
    assert list(steps) == [Replay(INITIALIZED, None)]


def test_without_a_confirmation_none_is_made_up() -> None:
    assert list(opened().replay("m")) == [INITIALIZE]


def test_the_last_level_counts_and_a_refused_one_does_not() -> None:
    remembered = opened()
    set_level(remembered, "debug")
    set_level(remembered, "error")
    set_level(remembered, "nonsense", failure())
    assert said(remembered.replay("m"))[1:] == [("logging/setLevel", {"level": "error"})]


def test_subscriptions_come_and_go_only_by_success() -> None:
    remembered = opened()
    for uri in ("a", "b", "c", "b"):
        subscribe(remembered, uri)
    subscribe(remembered, "refused", failure())
    unsubscribe(remembered, "a")
    unsubscribe(remembered, "c", failure())
    unsubscribe(remembered, "never")
    assert [params["uri"] for _, params in said(remembered.replay("m"))[1:]] == ["b", "c"]


def test_params_are_said_again_byte_for_byte_but_on_one_line() -> None:
    remembered = opened()
    odd = rb'{ "uri" : "a\ud800\u0062", "n":18446744073709551615 }'
    remembered.answered("resources/subscribe", odd, result())
    remembered.answered("logging/setLevel", b'{"level":\n{"jsonrpc":"2.0","method":"x"}\r\n}', result())
    level, subscription = [step.line for step in remembered.replay("m")][1:]
    assert odd in subscription
    assert b"\n" not in level
    assert b"\r" not in level
    assert json.loads(level)["params"]["level"]["method"] == "x"


def test_an_unsubscribe_finds_its_subscription_by_value() -> None:
    remembered = opened()
    remembered.answered("resources/subscribe", rb'{"uri":"\u0061\ud800"}', result())
    remembered.answered("resources/subscribe", rb'{"uri":"a\ud801"}', result())
    remembered.answered("resources/unsubscribe", rb'{"uri":"a\ud800"}', result())
    assert [rb"a\ud801" in step.line for step in remembered.replay("m")] == [False, True]


def test_the_oldest_subscription_gives_way() -> None:
    remembered = opened()
    for n in range(MAX_SUBSCRIPTIONS + 2):
        subscribe(remembered, f"a:{n}")
    uris = [params["uri"] for _, params in said(remembered.replay("m"))[1:]]
    assert len(uris) == MAX_SUBSCRIPTIONS
    assert (uris[0], uris[-1]) == ("a:2", f"a:{MAX_SUBSCRIPTIONS + 1}")


def test_subscriptions_are_bounded_in_bytes_too() -> None:
    remembered = opened()
    long = "x" * (memory.MAX_SUBSCRIPTION_BYTES // 3)
    for n in range(4):
        subscribe(remembered, f"{n}:{long}")
    uris = [params["uri"] for _, params in said(remembered.replay("m"))[1:]]
    assert [uri[0] for uri in uris] == ["2", "3"]
    subscribe(remembered, long * 4)
    assert len(said(remembered.replay("m"))) == 3, "it alone is too long, and takes nobody's place"


def test_what_is_needlessly_long_is_said_again_in_short() -> None:
    remembered = opened()
    remembered.initialized(jsonrpc.notification("notifications/initialized", {"x": "x" * 5000}))
    level = {"level": "debug", "x": "x" * 5000}
    remembered.answered("logging/setLevel", json.dumps(level).encode(), result({}))
    assert [step.line for step in remembered.replay("m")][1:] == [
        jsonrpc.notification("notifications/initialized")
    ]


def test_an_initialize_that_is_too_long_to_be_remembered_is_refused() -> None:
    memory.check_initialize(b"x" * memory.MAX_INITIALIZE_BYTES)
    with pytest.raises(RemoteProtocolError, match="may have 262144"):
        memory.check_initialize(b"x" * (memory.MAX_INITIALIZE_BYTES + 1))
    with pytest.raises(RemoteProtocolError, match="may have 262144"):
        read_handshake(b'{"protocolVersion":"2025-11-25","instructions":"' + b"x" * 300_000 + b'"}')
    assert read_handshake(b'{"protocolVersion":"2025-11-25","instructions":"' + b"x" * 200_000 + b'"}')
    with pytest.raises(RemoteProtocolError, match="may have 32768"):
        read_handshake(b'{"protocolVersion":"2025-11-25","capabilities":{"x":"' + b"x" * 33_000 + b'"}}')


def test_other_answers_are_not_remembered() -> None:
    remembered = opened()
    for method in ("tools/call", "resources/read", "ping"):
        assert method not in Memory.WATCHED
        remembered.answered(method, b'{"uri":"a","level":"debug"}', result())
    assert list(remembered.replay("m")) == [INITIALIZE]


@pytest.mark.parametrize("params", [b"", b"[]", b'{"uri":5}', b"{}"])
def test_subscriptions_that_name_nothing_readable_do_no_harm(params: bytes) -> None:
    remembered = opened()
    subscribe(remembered, "a")
    remembered.answered("resources/subscribe", params, result())
    remembered.answered("resources/unsubscribe", params, result())
    assert [params["uri"] for _, params in said(remembered.replay("m"))[1:]] == ["a"]


def test_watched_is_exactly_what_matters() -> None:
    remembered = opened()
    before = list(remembered.replay("m"))
    set_level(remembered, "info")
    subscribe(remembered, "a")
    assert len(list(remembered.replay("m"))) == len(before) + 2
    assert set(Memory.WATCHED) == {
        "tools/list",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
    }


# What may run twice ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "allowed"),
    [
        ("initialize", True),
        ("ping", True),
        ("tools/list", True),
        ("prompts/list", True),
        ("prompts/get", True),
        ("resources/list", True),
        ("resources/templates/list", True),
        ("resources/read", True),
        ("completion/complete", True),
        ("tools/call", False),
        ("logging/setLevel", False),
        ("resources/subscribe", False),
        ("tasks/cancel", False),
        ("made/up", False),
        ("", False),
    ],
)
def test_only_reads_may_be_repeated(method: str, allowed: bool) -> None:
    assert Memory().may_repeat(method, b"{}") is allowed


@pytest.mark.parametrize(
    ("annotations", "allowed"),
    [
        ({"readOnlyHint": True}, True),
        ({"idempotentHint": True}, True),
        ({"readOnlyHint": False, "idempotentHint": True}, True),
        ({"readOnlyHint": True, "destructiveHint": True}, True),
        ({"readOnlyHint": False}, False),
        ({"idempotentHint": None}, False),
        ({}, False),
        (None, False),
    ],
)
def test_a_tool_may_be_repeated_if_it_says_so(annotations: object, allowed: bool) -> None:
    remembered = opened()
    list_tools(remembered, {"name": "t", "annotations": annotations}, {"name": "bare"})
    assert may_call(remembered, "t") is allowed
    assert not may_call(remembered, "bare")
    assert not may_call(remembered, "unknown")


def test_pages_add_up_and_a_later_word_counts() -> None:
    remembered = opened()
    list_tools(remembered, {"name": "a", "annotations": {"readOnlyHint": True}})
    list_tools(remembered, {"name": "b", "annotations": {"readOnlyHint": True}})
    assert (may_call(remembered, "a"), may_call(remembered, "b")) == (True, True)
    list_tools(remembered, {"name": "a"})
    assert (may_call(remembered, "a"), may_call(remembered, "b")) == (False, True)


def test_a_list_that_failed_or_cannot_be_read_changes_nothing() -> None:
    remembered = opened()
    list_tools(remembered, {"name": "a", "annotations": {"readOnlyHint": True}})
    remembered.answered("tools/list", b"", failure())
    remembered.answered("tools/list", b"", result({"tools": [{"name": "a"}, {"name": 5}]}))
    remembered.answered("tools/list", b"", result([]))
    assert may_call(remembered, "a")


def test_half_a_character_in_a_description_does_not_hide_the_hints() -> None:
    remembered = opened()
    body = rb'{"tools":[{"name":"a","description":"\ud83d","annotations":{"readOnlyHint":true}}]}'
    remembered.answered("tools/list", b"", jsonrpc.parse(b'{"jsonrpc":"2.0","id":1,"result":' + body + b"}"))
    assert may_call(remembered, "a")


@pytest.mark.parametrize("params", [b"", b"{}", b"[]", b'{"name":5}', b'{"name":"\xff"}'])
def test_a_call_that_names_no_tool_is_not_repeated(params: bytes) -> None:
    remembered = opened()
    list_tools(remembered, {"name": "a", "annotations": {"readOnlyHint": True}})
    assert not remembered.may_repeat("tools/call", params)


def test_the_number_of_tools_is_bounded() -> None:
    remembered = opened()
    hints = {"readOnlyHint": True}
    list_tools(remembered, *({"name": f"t{n}", "annotations": hints} for n in range(memory.MAX_TOOLS + 2)))
    known = [may_call(remembered, f"t{n}") for n in (0, 1, 2, memory.MAX_TOOLS + 1)]
    assert known == [False, False, True, True]


def test_a_tool_of_a_long_name_or_of_a_huge_list_counts_as_one_that_may_not_be_repeated() -> None:
    remembered = opened()
    hints = {"readOnlyHint": True}
    names = ["x" * memory.MAX_TOOL_NAME, "x" * (memory.MAX_TOOL_NAME + 1)]
    list_tools(remembered, *({"name": name, "annotations": hints} for name in names))
    assert [may_call(remembered, name) for name in names] == [True, False]
    list_tools(remembered, {"name": "y", "annotations": hints, "description": "x" * memory.MAX_TOOLS_BYTES})
    assert not may_call(remembered, "y")


# The handshake --------------------------------------------------------------------------------


def test_an_initialize_result_is_read() -> None:
    found = read_handshake(
        b'{"protocolVersion":"2025-06-18","capabilities":{"logging":{}},'
        rb'"serverInfo":{"name":"n","version":"1","title":"t"},"instructions":"cut \ud83d"}'
    )
    assert (found.protocol_version, found.capabilities) == ("2025-06-18", {"logging": {}})
    assert (found.server_info.name, found.server_info.version) == ("n", "1")


def test_what_is_missing_has_a_default() -> None:
    found = read_handshake(b'{"protocolVersion":"1"}')
    assert (found.capabilities, found.server_info.name, found.server_info.version) == ({}, "", "")
    assert found.changed_lists() == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b'{"protocolVersion":1}',
        b'{"protocolVersion":""}',
        b'{"protocolVersion":"2025-11-25\\r\\nX: y"}',
        b'{"protocolVersion":"2025\\u201311"}',
        b'{"protocolVersion":"%b"}' % (b"1" * 65),
        b'{"protocolVersion":"1","capabilities":[]}',
        b'{"protocolVersion":"1","capabilities":{"\xff":1}}',
        b'{"protocolVersion":"1","capabilities":{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
    ],
)
def test_what_is_no_initialize_result_is_the_servers_fault(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        read_handshake(body)
    assert caught.value.code == "bad_initialize_result"


@pytest.mark.parametrize(
    ("capabilities", "kinds"),
    [
        ({}, []),
        ({"tools": {"listChanged": True}}, ["tools"]),
        (
            {kind: {"listChanged": True} for kind in ("resources", "prompts", "tools")},
            ["tools", "prompts", "resources"],
        ),
        ({"tools": {"listChanged": False}, "prompts": {}, "resources": {"subscribe": True}}, []),
        ({"tools": True, "prompts": None, "resources": ["listChanged"]}, []),
        ({"logging": {"listChanged": True}}, []),
    ],
)
def test_the_lists_that_a_client_must_read_again(capabilities: dict[str, Any], kinds: list[str]) -> None:
    wanted = [f"notifications/{kind}/list_changed" for kind in kinds]
    assert Handshake("1", capabilities).changed_lists() == wanted


def test_a_client_is_told_of_a_restart_only_in_ways_the_server_has_declared() -> None:
    assert Handshake("1").news_of_restart("exit 1") == []
    lists = Handshake("1", {"tools": {"listChanged": True}}).news_of_restart("exit 1")
    assert lists == [jsonrpc.notification("notifications/tools/list_changed")]
    both = Handshake("1", {"prompts": {"listChanged": True}, "logging": {}}).news_of_restart('a "b"\nc')
    assert both[0] == jsonrpc.notification("notifications/prompts/list_changed")
    assert len(both) == 2
    message = json.loads(both[1])
    assert (message["method"], message["params"]["level"]) == ("notifications/message", "warning")
    assert 'a "b"\nc' in message["params"]["data"]
    assert b"\n" not in both[1]
