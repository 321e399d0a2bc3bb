"""`mooring sessions`: what it takes, and how sessions are told; without what may be a secret."""

import json
from typing import Any

import click
import pytest

from mooring.cli.sessions.command import parse_beginning, sessions
from mooring.cli.sessions.telling import as_values, described, detailed, introduction, row, shown_uri
from mooring.cli.terminal.tables import Rolling
from mooring.replicas.inspecting import Details, KeptStream, Owner, Seen
from mooring.replicas.records import (
    Keys,
    Replica,
    SessionRecord,
    pattern_of_sessions,
    session_of_key,
)
from mooring.replicas.shared_store import Place
from mooring.wire import jsonrpc
from mooring.wire.memory import Handshake, Memory, Replay

ID = "abcdefgh-canary-canary-canary"
ALIVE = Owner("pod-0-0123456789", Replica("http://10.0.0.1:4670", "pod-0", 1.0, "1.2.3"), is_alive=True)
SAID = {
    "protocolVersion": "2025-11-25",
    "clientInfo": {"name": "ide", "version": "1", "websiteUrl": "https://u:canary@x"},
    "capabilities": {"roots": {"listChanged": True}, "experimental": {"acme": {"key": "canary"}}},
    "_meta": {"token": "canary"},
    "more": "canary",
}


def memory_of(params: Any) -> Memory:
    memory = Memory()
    line = jsonrpc.request(1, "initialize", json.dumps(params).encode())
    memory.opened(Replay(line, 1), Handshake("2025-11-25"))
    answer = jsonrpc.parse(b'{"jsonrpc":"2.0","id":2,"result":{}}')
    memory.answered("logging/setLevel", b'{"level":"debug"}', answer)
    memory.answered("resources/subscribe", b'{"uri":"db://u:canary@h/t?key=canary"}', answer)
    return memory


def seen_as(owner: Owner = ALIVE, params: Any = SAID, **record: Any) -> Seen:
    values = {
        "principal": "alice",
        "transport": "streamable-http",
        "client": "ide 1",
        "memory": memory_of(params).dump(),
        "created_at": 100.0,
        "upstream": "canary",
        "backend": "http://u:canary@up/mcp?key=canary",
        **record,
    }
    return Seen("search", ID, Place(owner.name, 3, SessionRecord(**values), 200.0, 2), owner)


DETAILS = Details(60.0, [KeptStream("p1", 7, True, 30.0)])


def test_what_a_row_has() -> None:
    server, id, principal, client, revision, owner, *_ = row(seen_as(), long=False)
    assert (server, id, principal, client) == ("search", "abcdefgh", "alice", "ide 1")
    assert (revision, owner) == ("2025-11-25", "pod-0")
    assert row(seen_as(), long=True)[1] == ID
    assert row(seen_as(), long=True)[5] == "pod-0-0123456789"


@pytest.mark.parametrize(
    ("owner", "shown"),
    [
        (Owner("", None, is_alive=False), "-"),
        (ALIVE._replace(is_alive=False), "pod-0 (gone)"),
        (Owner("pod-0-0123456789", None, is_alive=False), "pod-0 (gone)"),
    ],
)
def test_owners_that_do_not_live(owner: Owner, shown: str) -> None:
    assert row(seen_as(owner), long=False)[5] == shown


def test_names_of_strangers_cannot_spoil_a_table() -> None:
    _, _, principal, client, revision, *_ = row(
        seen_as(principal="x\x1b[2J", client="y" * 80, memory=b"\xff"), long=False
    )
    assert principal == "x\\x1b[2J"
    assert len(client) == 32
    assert revision == "-"


def test_values_for_programs() -> None:
    values = as_values(seen_as(), 260.5, long=False)
    assert values == {
        "server": "search",
        "id": "abcdefgh",
        "principal": "alice",
        "client": "ide 1",
        "revision": "2025-11-25",
        "owner": "pod-0-0123456789",
        "host": "pod-0",
        "alive": True,
        "opened_at": 100.0,
        "used_at": 200.0,
        "idle_s": 60.5,
    }


def test_nothing_that_may_be_a_secret_is_told() -> None:
    about = detailed(seen_as(), DETAILS, 260.0, long=False)
    assert "canary" not in json.dumps(about)
    assert "canary" not in str(list(described(about)))
    assert about["subscriptions"] == ["db://h/t?…"]
    assert about["upstream"] == "http://up/mcp?…"
    assert about["log_level"] == "debug"
    assert about["initialize"] == {
        "protocolVersion": "2025-11-25",
        "clientInfo": {"name": "ide", "version": "1"},
        "capabilities": {"roots": {"listChanged": True}, "experimental": {"acme": {}}},
    }


def test_all_of_it_for_people() -> None:
    told = dict(described(detailed(seen_as(), DETAILS, 260.0, long=True)))
    assert told["id"] == ID
    assert told["owner"] == "pod-0 (pod-0-0123456789, Mooring 1.2.3), alive"
    assert told["address"] == "http://10.0.0.1:4670"
    assert told["fence"] == "3"
    assert told["streams"] == "p1: 7 events, finished, kept for 30s"


@pytest.mark.parametrize(
    ("seconds", "left"),
    [
        (7 * 86400 - 0.1, "7d"),
        (86400, "1d"),
        (86399, "24h"),
        (5400, "2h"),
        (60, "1m"),
        (59.7, "60s"),
        (-1, "0s"),
    ],
)
def test_what_is_left_is_rounded(seconds: float, left: str) -> None:
    told = dict(described(detailed(seen_as(), Details(seconds, []), 260.0, long=True)))
    assert told["idle"].endswith(f"; forgotten if it stays so for {left}")


@pytest.mark.parametrize("said", [[], "x", {"clientInfo": 1, "capabilities": [], "protocolVersion": {}}, {}])
def test_a_client_may_have_said_anything(said: Any) -> None:
    assert introduction(memory_of(said)) == {}
    assert introduction(None) == {}


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("file:///a/b", "file:///a/b"),
        ("x:y", "x:y"),
        ("https://u:p@h:1/a?b#c", "https://h:1/a?…"),
        ("https://h#c?d", "https://h#…"),
        ("https://u:p/w@h/", "https://u:p/w@h/"),  # no user: a slash ends the host
        ("", ""),
    ],
)
def test_addresses_are_shown_without_secrets(uri: str, shown: str) -> None:
    assert shown_uri(uri) == shown


def parsed(command: str, *words: str) -> dict[str, Any]:
    return sessions.commands[command].make_context(command, list(words)).params


def test_an_id_may_begin_with_a_dash() -> None:
    url = ("--sessions", "redis://h")
    assert parsed("show", "-abcd_-9", *url)["id"] == "-abcd_-9"
    assert parsed("end", *url, "-abcd_-9", "--json")["as_json"]
    assert parsed("end", *url, "--", "--bcd-9-x")["id"] == "--bcd-9-x"
    with pytest.raises(click.UsageError):
        parsed("end", "abc", "--sesions", "redis://h")


@pytest.mark.parametrize("text", ["", "*", "a?", "[a]", "a{b}", "a b", "a:b", "é", "a" * 201])
def test_what_is_no_beginning_of_an_id(text: str) -> None:
    with pytest.raises(ValueError, match="letters"):
        parse_beginning(text)


@pytest.mark.parametrize("prefix", ["mooring", "a:b", "a.b_c-d"])
def test_keys_lead_back_to_their_session(prefix: str) -> None:
    key = Keys(prefix, "search").session(ID)
    assert session_of_key(prefix, key) == ("search", ID)
    assert Keys(prefix, "search").stream_of(ID, Keys(prefix, "search").stream(ID, "p7")) == "p7"


def test_keys_of_a_longer_prefix_are_not_ours() -> None:
    assert session_of_key("a", Keys("a:b", "search").session(ID)) is None
    assert session_of_key("a", Keys("a", "search").stream(ID, "p1")) is None
    assert session_of_key("a", b"a:search:s:{" + ID.encode()) is None
    assert session_of_key("a", b"a:\xff") is None


def test_patterns() -> None:
    assert pattern_of_sessions("a") == b"a:*:s:{*}"
    assert pattern_of_sessions("a", "search") == Keys("a", "search").sessions
    assert pattern_of_sessions("a", None, "xy") == b"a:*:s:{xy*}"


def test_a_table_that_goes_on() -> None:
    table = Rolling(("A", "BEE", "C"), ("BEE",), None)
    assert table.add([("1", "2", "3")]) == ["A  BEE  C", "1  2    3"]
    assert table.add([("111", "2", "3"), ("1", "2", "3")]) == ["111  2    3", "1    2    3"]


def test_a_table_that_goes_on_in_a_narrow_terminal() -> None:
    table = Rolling(("A", "BEE", "C"), ("BEE",), 5)
    assert table.add([("1", "2", "3")]) == ["A  C", "1  3"]
    assert table.add([("1", "a long one", "3")]) == ["1  3"]
