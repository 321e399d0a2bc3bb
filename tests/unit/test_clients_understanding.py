"""Entries of clients' files, as their client means them."""

import pytest

from mooring.clients.editing.edits import Refused, Value
from mooring.clients.table import load_table
from mooring.clients.understanding import Found, servers_in

TABLE = load_table()


def found(client_id: str, entry: Value, name: str = "time") -> Found:
    """What a client with that entry alone has."""
    client = TABLE[client_id]
    value: Value = [entry] if client.section.is_list else {name: entry}
    for key in reversed(client.section.keys):
        value = {key: value}
    [one] = servers_in(client, value)
    return one


def test_a_command_with_its_arguments() -> None:
    entry: dict[str, Value] = {"command": "npx", "args": ["-y", "x"], "env": {"A": "1"}, "cwd": "/srv"}
    one = found("cursor", entry)
    assert one == Found("time", ("npx", "-y", "x"), {"A": "1"}, "/srv", None, {}, False, entry)


def test_a_command_without_arguments() -> None:
    assert found("cursor", {"command": "mcp-time"}).argv == ("mcp-time",)
    assert found("cursor", {"command": "mcp-time", "args": None, "env": None}).argv == ("mcp-time",)


def test_a_command_as_one_list() -> None:
    one = found("opencode", {"type": "local", "command": ["npx", "x"], "environment": {"A": "1"}})
    assert (one.argv, one.env) == (("npx", "x"), {"A": "1"})
    assert found("opencode", {"command": ["npx"], "env": {"A": "1"}}).env == {"A": "1"}


def test_keys_that_one_client_has() -> None:
    goose = found(
        "goose", {"type": "stdio", "cmd": "uvx", "args": ["x"], "envs": {"A": "1"}, "env_keys": ["KEY"]}
    )
    assert (goose.argv, goose.env, goose.refers) == (("uvx", "x"), {"A": "1"}, ("env_keys",))
    assert found("warp", {"command": "x", "working_directory": "/w"}).cwd == "/w"
    jetbrains: Value = {"url": "https://x/mcp", "requestInit": {"headers": {"A": "1"}}}
    assert found("copilot-jetbrains", jetbrains).headers == {"A": "1"}


def test_a_url_with_headers() -> None:
    one = found("vscode", {"type": "http", "url": "https://x/mcp", "headers": {"A": "1"}})
    assert (one.url, one.headers, one.argv, one.is_sse) == ("https://x/mcp", {"A": "1"}, (), False)


@pytest.mark.parametrize(
    ("client_id", "key"),
    [
        ("windsurf", "serverUrl"),
        ("gemini-cli", "httpUrl"),
        ("gemini-cli", "url"),
        ("goose", "uri"),
        ("mcporter", "baseUrl"),
        ("mcporter", "url"),
        ("devin", "url"),
        ("junie", "url"),
    ],
)
def test_a_url_under_each_key_of_its_client(client_id: str, key: str) -> None:
    assert found(client_id, {key: "https://x/mcp"}).url == "https://x/mcp"


@pytest.mark.parametrize(
    ("client_id", "entry"),
    [
        ("vscode", {"type": "sse", "url": "u"}),
        ("kimi-cli", {"transport": "sse", "url": "u"}),
        ("qwen-code", {"url": "u"}),
        ("cline", {"url": "u"}),
        ("librechat", {"url": "u"}),
    ],
)
def test_a_url_of_the_old_transport_is_told_apart(client_id: str, entry: Value) -> None:
    assert found(client_id, entry).is_sse


@pytest.mark.parametrize(
    ("client_id", "entry"),
    [
        ("cursor", {"url": "u"}),
        ("qwen-code", {"httpUrl": "u"}),
        ("cline", {"type": "streamableHttp", "url": "u"}),
        ("kimi-cli", {"transport": "http", "url": "u"}),
    ],
)
def test_a_url_of_the_new_transport_is_not_taken_for_an_old_one(client_id: str, entry: Value) -> None:
    assert not found(client_id, entry).is_sse


def test_forms_of_older_and_other_versions() -> None:
    cline = found("cline", {"transport": {"type": "streamableHttp", "url": "u", "headers": {"A": "1"}}})
    assert (cline.url, cline.headers, cline.is_sse) == ("u", {"A": "1"}, False)
    zed = found("zed", {"command": {"path": "npx", "args": ["x"], "env": {"A": "1"}}, "settings": {}})
    assert (zed.argv, zed.env) == (("npx", "x"), {"A": "1"})
    local = found("cline", {"transport": {"type": "stdio", "command": "npx", "args": ["x"]}})
    assert local.argv == ("npx", "x")


def test_a_required_command_that_is_empty_is_none() -> None:
    one = found("jan", {"type": "http", "command": "", "args": [], "url": "https://x/mcp", "active": True})
    assert (one.url, one.argv, one.is_disabled) == ("https://x/mcp", (), False)


@pytest.mark.parametrize(
    ("client_id", "entry"),
    [
        ("cline", {"command": "x", "disabled": True}),
        ("codex", {"command": "x", "enabled": False}),
        ("jan", {"command": "x", "active": False}),
        ("kiro", {"disabled": True}),
    ],
)
def test_an_entry_that_is_switched_off(client_id: str, entry: Value) -> None:
    assert found(client_id, entry).is_disabled


def test_a_switch_of_another_client_switches_nothing() -> None:
    assert not found("cursor", {"command": "x", "disabled": True}).is_disabled
    assert not found("codex", {"command": "x", "enabled": True}).is_disabled


def test_what_is_put_in_by_the_client_is_left_and_told() -> None:
    one = found("cursor", {"command": "${env:BIN}/x", "args": ["${env:A}", "$B", "${env:A}"]})
    assert one.argv == ("${env:BIN}/x", "${env:A}", "$B", "${env:A}")
    assert one.refers == ("${env:BIN}", "${env:A}"), "once each, and nothing that this client does not know"


@pytest.mark.parametrize(
    ("client_id", "text", "refers"),
    [
        ("vscode", "Bearer ${input:token}", ("${input:token}",)),
        ("claude-code", "${TOKEN:-none} ${OTHER}", ("${TOKEN:-none}", "${OTHER}")),
        ("gemini-cli", "$TOKEN ${OTHER} %THIRD%", ("$TOKEN", "${OTHER}", "%THIRD%")),
        ("opencode", "{env:TOKEN}{file:~/t}", ("{env:TOKEN}", "{file:~/t}")),
        ("continue", "${{ secrets.TOKEN }}", ("${{ secrets.TOKEN }}",)),
        ("windsurf", "${env:TOKEN} $TOKEN", ()),
    ],
)
def test_each_client_has_its_own_way_to_refer(client_id: str, text: str, refers: tuple[str, ...]) -> None:
    entry: Value = {"name": "time", "url": "https://x/mcp", "headers": {"Authorization": text}}
    one = found(client_id, entry)
    assert (one.headers["Authorization"], one.refers) == (text, refers)


def test_numbers_and_the_like_are_what_they_are_written_as() -> None:
    one = found("hermes", {"command": "x", "args": ["--port", 8080, True], "env": {"N": 1.5, "NOT": None}})
    assert (one.argv, one.env) == (("x", "--port", "8080", "true"), {"N": "1.5"})


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("npx x", "not a map"),
        ({}, "neither a command nor a URL"),
        ({"command": "", "url": ""}, "neither a command nor a URL"),
        ({"command": "x", "url": "u"}, "both a command and a URL"),
        ({"command": "x", "args": "y"}, "args are not a list"),
        ({"command": "x", "args": [["y"]]}, "no text"),
        ({"command": "x", "args": [None]}, "no text"),
        ({"command": "x", "env": ["A=1"]}, "env is not a map"),
        ({"command": "x", "env": {"A": {}}}, "no text"),
        ({"url": {"href": "u"}}, "no text"),
        ({"url": "u", "headers": "A: 1"}, "headers is not a map"),
        ({"command": {"args": []}}, "neither a command nor a URL"),
    ],
)
def test_an_entry_that_cannot_be_understood_says_why(entry: Value, says: str) -> None:
    one = found("cursor", entry)
    assert says in one.trouble
    assert (one.name, one.argv, one.url) == ("time", (), None)
    assert one.entry == (entry if isinstance(entry, dict) else {})


def test_what_goose_is_made_of_is_no_server() -> None:
    assert found("goose", {"type": "builtin", "name": "developer"}).trouble == "it is a part of Goose"


def test_one_entry_in_trouble_does_not_hide_the_others() -> None:
    document: Value = {"mcpServers": {"a": {"command": "x"}, "b": 1, "c": {"url": "u"}}}
    names = [(one.name, bool(one.trouble)) for one in servers_in(TABLE["cursor"], document)]
    assert names == [("a", False), ("b", True), ("c", False)]


def test_a_list_has_names_in_its_items() -> None:
    items: Value = [{"name": "a", "command": "x"}, {"command": "y"}, "z"]
    said = [(one.name, one.trouble) for one in servers_in(TABLE["continue"], {"mcpServers": items})]
    assert said == [("a", ""), ("", "it has no name"), ("", "it is not a map")]


@pytest.mark.parametrize("document", [{}, {"mcp": None}, {"mcp": {}}, {"mcp": {"servers": None}}, None])
def test_a_document_without_entries_has_none(document: Value) -> None:
    assert servers_in(TABLE["openclaw"], document) == []


@pytest.mark.parametrize("document", [[], {"mcp": []}, {"mcp": {"servers": []}}, {"mcp": {"servers": "x"}}])
def test_entries_that_are_not_where_they_must_be_are_refused(document: Value) -> None:
    with pytest.raises(Refused, match="servers"):
        servers_in(TABLE["openclaw"], document)


def test_a_type_that_is_no_text_is_no_reason_to_fail() -> None:
    [found] = servers_in(load_table()["cursor"], {"mcpServers": {"a": {"command": "x", "type": []}}})
    assert found.argv == ("x",) and not found.trouble
