"""The entry of a client: what it says, what of it is ours, and what happens next."""

import json

import pytest

from mooring.clients.client import Client
from mooring.clients.editing.edits import Value
from mooring.clients.entries import Target, entry_for, is_as_wanted, merged, snippet, what_next
from mooring.clients.table import load_table

TABLE = load_table()
PLAIN = Target("time", "http://127.0.0.1:4670/time/mcp", ("/opt/mooring", "stdio", "time"))
MOVED = PLAIN._replace(name="my-time-2", env={"MOORING_STATE_DIR": "/srv/state"})


def wanted(name: str, target: Target = PLAIN) -> dict[str, Value]:
    return entry_for(TABLE[name], target)


@pytest.mark.parametrize("client", TABLE.values(), ids=lambda client: client.id)
def test_an_entry_has_the_url_or_the_command_and_no_secret(client: Client) -> None:
    text = json.dumps(entry_for(client, MOVED))
    assert (MOVED.url in text) != (MOVED.argv[0] in text)
    assert "{" not in text.strip("{}").replace('{"MOORING_STATE_DIR"', "")


def test_a_client_that_takes_urls_gets_nothing_of_the_command() -> None:
    assert wanted("cursor", MOVED) == {"url": MOVED.url}


def test_a_client_that_runs_commands_gets_what_they_need() -> None:
    assert wanted("claude-desktop", MOVED) == {
        "command": "/opt/mooring",
        "args": ["stdio", "time"],
        "env": {"MOORING_STATE_DIR": "/srv/state"},
    }
    assert "env" not in wanted("claude-desktop")


def test_a_command_may_be_one_list() -> None:
    import msgspec

    kilo = msgspec.structs.replace(TABLE["kilo-code"], http=None)
    assert entry_for(kilo, MOVED) == {
        "type": "local",
        "command": ["/opt/mooring", "stdio", "time"],
        "environment": {"MOORING_STATE_DIR": "/srv/state"},
    }


def test_names_are_filled_in() -> None:
    assert wanted("goose", MOVED)["name"] == "my-time-2"
    assert wanted("fiveire", MOVED)["key"] == "mytime2"


def test_an_entry_of_its_own_is_made_each_time() -> None:
    first = wanted("copilot-cli")
    tools = first["tools"]
    assert isinstance(tools, list)
    tools.append("changed")
    assert wanted("copilot-cli")["tools"] == ["*"]


def test_unknown_keys_are_kept() -> None:
    there: dict[str, Value] = {"url": "old", "disabled": True, "headers": {"X": "1"}, "timeout": 5}
    new = merged(TABLE["cursor"], there, wanted("cursor"))
    assert new == {**there, "url": PLAIN.url}
    assert list(new) == list(there), "in their order"
    assert there["url"] == "old", "what was given is not changed"


def test_keys_of_the_other_transport_go() -> None:
    there: dict[str, Value] = {
        "type": "stdio",
        "command": "npx",
        "args": [],
        "env": {"TOKEN": "x"},
        "cwd": "/",
    }
    assert merged(TABLE["cursor"], {**there, "note": "mine"}, wanted("cursor")) == {
        "note": "mine",
        "url": PLAIN.url,
    }
    http: dict[str, Value] = {"type": "http", "url": "u", "headers": {"Authorization": "x"}, "note": "mine"}
    assert merged(TABLE["claude-desktop"], http, wanted("claude-desktop")) == {
        "note": "mine",
        **wanted("claude-desktop"),
    }


def test_another_key_for_the_url_goes() -> None:
    there: dict[str, Value] = {"url": "http://old/sse", "type": "sse", "trust": True}
    assert merged(TABLE["gemini-cli"], there, wanted("gemini-cli")) == {"trust": True, "httpUrl": PLAIN.url}


def test_keys_that_both_transports_have_are_as_wanted() -> None:
    there: dict[str, Value] = {"type": "stdio", "command": "npx", "args": ["x"], "active": False}
    assert merged(TABLE["jan"], there, wanted("jan")) == {**wanted("jan"), "active": False}


def test_a_nested_form_is_replaced_by_ours() -> None:
    there: dict[str, Value] = {"transport": {"type": "sse", "url": "u"}, "oauth": {"tokens": {}}}
    assert merged(TABLE["cline"], there, wanted("cline")) == {"oauth": {"tokens": {}}, **wanted("cline")}


def test_what_is_the_users_stays_as_it_is() -> None:
    there = {**wanted("goose"), "enabled": False, "timeout": 900, "description": "tells the time"}
    assert merged(TABLE["goose"], there, wanted("goose")) == there


def test_variables_that_were_added_stay_and_ours_are_as_wanted() -> None:
    there: dict[str, Value] = {**wanted("claude-desktop"), "env": {"LANG": "C", "MOORING_STATE_DIR": "/old"}}
    assert merged(TABLE["claude-desktop"], there, wanted("claude-desktop", MOVED))["env"] == {
        "LANG": "C",
        "MOORING_STATE_DIR": "/srv/state",
    }


@pytest.mark.parametrize("client", TABLE.values(), ids=lambda client: client.id)
def test_what_was_merged_is_as_wanted_and_stays_so(client: Client) -> None:
    entry = entry_for(client, MOVED)
    both: dict[str, Value] = {
        "command": "x",
        "args": ["y"],
        "url": "z",
        "type": "sse",
        "env": {"A": "1"},
        "more": 1,
    }
    for there in ({}, both):
        new = merged(client, there, entry)
        assert is_as_wanted(client, new, entry)
        assert merged(client, new, entry) == new


def test_an_entry_with_more_in_it_is_as_wanted() -> None:
    entry = wanted("goose")
    assert is_as_wanted(TABLE["goose"], {**entry, "bundled": None, "enabled": False, "timeout": 1}, entry)
    entry = wanted("claude-desktop", MOVED)
    assert is_as_wanted(TABLE["claude-desktop"], {**entry, "env": {"A": "1", **MOVED.env}}, entry)


@pytest.mark.parametrize(
    "there",
    [
        None,
        [],
        "http://127.0.0.1:4670/time/mcp",
        {},
        {"type": "http"},
        {"type": "sse", "url": PLAIN.url},
        {"type": "http", "url": PLAIN.url + "/"},
        {"type": "http", "url": PLAIN.url, "command": "npx"},
        {"type": "http", "url": PLAIN.url, "serverUrl": "x"},
    ],
)
def test_an_entry_that_somebody_changed_is_not_as_wanted(there: Value) -> None:
    assert not is_as_wanted(TABLE["claude-code"], there, wanted("claude-code"))


@pytest.mark.parametrize(
    "change", [{"command": "x"}, {"args": []}, {"env": {}}, {"env": {"MOORING_STATE_DIR": "/"}}, {"url": "u"}]
)
def test_a_command_that_somebody_changed_is_not_as_wanted(change: dict[str, Value]) -> None:
    entry = wanted("claude-desktop", MOVED)
    assert not is_as_wanted(TABLE["claude-desktop"], {**entry, **change}, entry)


@pytest.mark.parametrize("client", TABLE.values(), ids=lambda client: client.id)
def test_something_is_said_about_what_happens_next(client: Client) -> None:
    said = {
        what_next(client, is_project=project, is_removal=removal)
        for project in (False, True)
        for removal in (False, True)
    }
    assert all(words and words[0].islower() and not words.endswith(".") for words in said)


def test_what_happens_next_is_what_that_client_needs() -> None:
    assert what_next(TABLE["zed"], is_project=False) == "picked up by itself"
    assert what_next(TABLE["codex"], is_project=False) == "start a new session"
    assert what_next(TABLE["opencode"], is_project=False) == "restart OpenCode"
    assert what_next(TABLE["kiro"], is_project=False) == "if it does not notice, restart Kiro"
    assert "asks whether you trust" in what_next(TABLE["vscode"], is_project=False)
    assert "/mcp reload" in what_next(TABLE["gemini-cli"], is_project=False, is_removal=True)


def test_a_project_has_to_be_trusted_but_not_to_lose_an_entry() -> None:
    assert what_next(TABLE["codex"], is_project=True) == "start a new session; trust the project when it asks"
    assert what_next(TABLE["codex"], is_project=True, is_removal=True) == "start a new session"
    assert what_next(TABLE["vscode"], is_project=True, is_removal=True) == "picked up by itself"


def test_a_snippet_is_a_whole_document() -> None:
    assert snippet(TABLE["codex"], "time", wanted("codex")) == f'[mcp_servers.time]\nurl = "{PLAIN.url}"\n'
