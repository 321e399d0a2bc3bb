"""What an import would do, and what it shows: hostile and odd entries. Nothing is run here."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mooring.cli.clients import importing
from mooring.cli.clients.import_words import as_json_of, show_plan
from mooring.cli.clients.intake import Circumstances, Intake, Newcomer, Origin, plan_import, should_move
from mooring.clients.detecting import Site
from mooring.clients.outcomes import Change
from mooring.clients.table import load_table
from mooring.clients.understanding import Found, servers_in
from mooring.errors import UserError
from mooring.secrets.vault import MAX_VALUE_BYTES, Vault
from mooring.workloads.definition import ServerOptions, dump_options
from tests.client_home import CLIENTS, ClientHome, target

HOME = Path.home()
SH = {"command": "sh", "args": ["-c", "true"]}


def origins(client: str, servers: Mapping[str, Any]) -> list[Origin]:
    one = load_table()[client]
    document: Any = servers
    for key in reversed(one.section.keys):
        document = {key: document}
    return [Origin(Site(one, Path(f"/home/sam/{client}")), found) for found in servers_in(one, document)]


CIRCUMSTANCES = Circumstances(
    known={},
    urls=frozenset(),
    look_up_secret=lambda _: None,
    environ={"PATH": "/usr/bin:/bin", "HOME": str(HOME)},
    home=Path("/tmp"),
)


def planned(
    found: list[Origin],
    *,
    known: Mapping[str, ServerOptions | None] | None = None,
    secrets: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Intake:
    circumstances = replace(
        CIRCUMSTANCES,
        known=known or {},
        look_up_secret=(secrets or {}).get,
        environ={**CIRCUMSTANCES.environ, **(environ or {})},
    )
    return plan_import(found, circumstances)


def given(newcomers: list[Newcomer], secrets: Mapping[str, str] | None = None) -> list[dict[str, str]]:
    """What each of them is given, once all secrets are kept as planned, in their order."""
    vault = dict(secrets or {})
    for newcomer in newcomers:
        vault |= newcomer.secrets
    return [{variable: vault[name] for variable, name in one.moved.items()} for one in newcomers]


@pytest.mark.parametrize(
    "servers",
    [
        {"github-github": {"TOKEN": "one"}, "github": {"GITHUB_TOKEN": "two"}},
        {"srv": {"API_KEY": "one", "API-KEY": "two", "api_key": "three"}},
        {"srv": {"A" * 70 + "_TOKEN": "one", "A" * 70 + "_SECRET": "two"}},
        {"srv": {"КЛЮЧ": "sk-abcdefghijklmnopqrstuvwxyz", "ПАРОЛЬ": "sk-ABCDEFGHIJKLMNOPQRSTUVWXYZ"}},
    ],
)
def test_nobody_is_given_the_secret_of_another(servers: dict[str, dict[str, str]]) -> None:
    found = origins("cursor", {name: {**SH, "env": env} for name, env in servers.items()})
    first = planned(found).newcomers
    assert given(first) == list(servers.values())
    kept = {name: value for one in first for name, value in one.secrets.items()}
    again = planned(found, known={one.name: one.options for one in first}, secrets=kept).newcomers
    assert given(again, kept) == list(servers.values())
    assert [(one.name, one.is_new) for one in again] == [(one.name, False) for one in first]


def test_a_secret_that_a_server_waits_for_is_not_made_of_what_is_another_s() -> None:
    [waiting] = planned(origins("cursor", {"github": {**SH, "env": {"GITHUB_TOKEN": "x"}}})).newcomers
    found = origins("zed", {"github-github": {**SH, "env": {"TOKEN": "other"}}})
    [newcomer] = planned(found, known={"github": waiting.options}).newcomers
    assert newcomer.secrets == {"github-github-token-2": "other"}


def test_a_secret_that_came_to_be_kept_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    vault = Vault(tmp_path / "secrets.json")
    plan = planned(origins("cursor", {"a": {**SH, "env": {"A_TOKEN": "x", "B_TOKEN": "y"}}}))
    vault.put("a-b-token", "of somebody else")
    with pytest.raises(UserError, match="a-b-token"):
        importing._keep(vault, plan.newcomers, "again")
    assert {name: vault.look_up(name) for name in vault.all()} == {"a-b-token": "of somebody else"}


class Daemon:
    """Answers as the API would, for servers that are there."""

    def __init__(self, servers: list[Newcomer]) -> None:
        self.servers = {one.name: one.options for one in servers}

    def ask(self, method: str, path: str, **_: object) -> Any:
        if method == "DELETE":
            del self.servers[path.removeprefix("/servers/").partition("?")[0]]
        if path == "/definitions":
            return [
                {"name": name, "origin": None, "options": json.loads(dump_options(options))}
                for name, options in self.servers.items()
            ]
        return []


def test_forgetting_a_server_keeps_the_secrets_of_others(tmp_path: Path) -> None:
    vault = Vault(tmp_path / "secrets.json")
    env = {"API_KEY": "same", "OTHER_KEY": "mine"}
    found = origins("cursor", {"a": {**SH, "env": env}, "a-api": {**SH, "env": {"KEY": "same"}}})
    newcomers = planned(found).newcomers
    assert [one.moved for one in newcomers][1] == {"KEY": "a-api-key"}, "one value, one name"
    importing._keep(vault, newcomers, "again")
    daemon: Any = Daemon(newcomers)
    importing._forget(daemon, vault, newcomers[0])
    assert list(vault.all()) == ["a-api-key"]
    importing._forget(daemon, vault, newcomers[1])
    assert not vault.all()


def found_in(home: ClientHome, client: str) -> Found:
    """The only entry."""
    site = home.site(client)
    [found] = servers_in(site.client, home.registry().document(site))
    return found


@pytest.mark.parametrize("client", CLIENTS)
def test_what_is_replaced_is_what_was_planned(client: str, tmp_path: Path) -> None:
    home = ClientHome.at(tmp_path)
    path = home.write(client)
    found = found_in(home, client)
    path.write_text(path.read_text().replace("npx", "uvx").replace("http://h/", "http://other/"))
    changed = path.read_bytes()
    site = home.site(client)
    [outcome] = home.registry().replace(
        site, [(found.name, target("web"))], planned={found.name: found.entry}
    )
    assert (outcome.change, outcome.code) == (Change.REFUSED, "entry_changed")
    assert outcome.hint == f"mooring client import {client}"
    assert path.read_bytes() == changed
    found = found_in(home, client)
    [outcome] = home.registry().replace(
        site, [(found.name, target("web"))], planned={found.name: found.entry}
    )
    assert outcome.change is Change.UPDATED and list(home.entries(client)) == ["web"]


HALF = "\ud800"


@pytest.mark.parametrize(
    ("name", "entry", "why"),
    [
        ("x", {"url": "http://[::1"}, "another address"),
        ("x", {**SH, "cwd": "~nosuchuser/x"}, "~nosuchuser/x"),
        ("x", {"command": "sh", "args": [HALF]}, "cannot be written"),
        ("x", {"command": HALF}, "cannot be written"),
        (HALF, SH, "cannot be written"),
        ("x", {**SH, "env": {"A_TOKEN": f"{HALF}abc"}}, "cannot be written"),
        ("x", {**SH, "env": {HALF: "abc"}}, "cannot be written"),
        ("x", {**SH, "env": {"A": "${env:BYTES}"}}, "cannot be written"),
        ("x", {**SH, "cwd": HALF}, "cannot be written"),
        ("x", {**SH, "cwd": "a\0b"}, "cannot be written"),
        ("x", {"command": "sh", "args": ["a\0b"]}, "cannot be written"),
        ("x", {**SH, "env": {"A_TOKEN": "a\0b"}}, "cannot be written"),
        ("x", {**SH, "env": {"A=B_TOKEN": "abc"}}, "a name that none can have"),
        ("x", {**SH, "env": {"A_TOKEN": "x" * (MAX_VALUE_BYTES + 1)}}, "too large"),
    ],
)
def test_an_odd_entry_is_left_and_no_other(
    name: str, entry: dict[str, Any], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = planned(origins("cursor", {name: entry, "fine": SH}), environ={"BYTES": "\udcff"})
    assert [one.name for one in plan.newcomers] == ["fine"]
    [left] = plan.left
    assert why in left.why
    show_plan(plan, [left.origin.site])
    capsys.readouterr().out.encode()
    assert json.loads(json.dumps(as_json_of(plan, [])))


def told(plan: Intake, capsys: pytest.CaptureFixture[str]) -> str:
    """All that a plan shows, to people and to programs."""
    show_plan(plan, [])
    return capsys.readouterr().out + json.dumps(as_json_of(plan, []))


@pytest.mark.parametrize(
    "args",
    [
        ["-e", "TOKEN=hush"],
        ["--header", "X-API-Key:hush"],
        ["--header", "X-API-Key: hush hush"],
        ["--header=X-Key: hush"],
        ["Authorization: Basic hush"],
        ["https://h.example/mcp?a=b&api_key=hush&c=d"],
        ["--pw", "hush"],
        ["--password", "-hush"],
        ["-password", "hush"],
        ["--env=API_KEY=hush"],
        ['{"password": "hush hush"}'],
        ["Server=db;Password=hush!;"],
        ["--header", "X-Key: ${env:MY_KEY}"],
        ["${env:DBPW}"],
        ["--level", "${env:MY_KEY}"],
    ],
)
def test_a_secret_of_a_command_line_is_warned_of_and_not_shown(
    args: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    entry = {"command": "sh", "args": args}
    plan = planned(origins("cursor", {"x": entry}), environ={"MY_KEY": "hush", "DBPW": "hush"})
    [newcomer] = plan.newcomers
    assert newcomer.has_open_secret and "hush" in " ".join(newcomer.options.argv)
    seen = told(plan, capsys)
    assert "looks like a secret" in seen and "hush" not in seen


def test_what_is_looked_up_is_not_shown_even_if_it_looks_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    entry = {"command": "sh", "args": ["${env:WHERE}"], "cwd": "${env:FOLDER}"}
    plan = planned(origins("cursor", {"x": entry}), environ={"WHERE": "hush", "FOLDER": "/"})
    assert plan.newcomers[0].options.argv == ("sh", "hush")
    seen = told(plan, capsys)
    assert "hush" not in seen and "${env:WHERE}" in seen


@pytest.mark.parametrize("entry", [{"command": "${env:WHERE}"}, {**SH, "cwd": "/x/${env:WHERE}"}])
def test_what_is_looked_up_is_in_no_reason_either(
    entry: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    plan = planned(origins("cursor", {"x": entry}), environ={"WHERE": "hush-hush"})
    assert not plan.newcomers
    seen = told(plan, capsys)
    assert "hush" not in seen and "${env:WHERE}" in seen


@pytest.mark.parametrize(
    ("variable", "value", "moves"),
    [
        ("CONNECTION_STRING", "Server=db;User=sa;Password=hunter2!;", True),
        ("HEADERS", '{"Authorization": "Basic dXNlcjpwYXNz"}', True),
        ("CONFIG", '{"password":"hunter2"}', True),
        ("KUBECONFIG_DATA", "a: b\ntoken: xyz", True),
        ("WEBHOOK_URL", "https://hooks.slack.com/services/T000/B000/abcdEFGH1234", True),
        ("MCP_URL", "https://x.example/mcp?api_key=abc123def", True),
        ("DATABASE_URL", "postgres://h/db?password=hunter2", True),
        ("MYSQL_PWD", ".hunter2!x", True),
        ("DB_PWD", "~tilde", True),
        ("X_AUTH", "/abc9f8sdf", True),
        ("SESSION_COOKIE", "/s:abc", True),
        ("ACCESSKEY", "abcd efgh", True),
        ("OPENAIKEY", "my pass phrase", True),
        ("ENCRYPTIONKEY", "0xdeadbeef", True),
        ("JWT", "../abc", True),
        ("PIN", "123456", True),
        ("SSH_AUTH_SOCK", "/dev/null", False),
        ("AUTH_DIR", "/not/there/at/all", False),
        ("AUTH_URL", "https://login.example.com/", False),
        ("AUTH_VERSION", "1.2.3", False),
        ("KEYBOARD", "de", False),
        ("PWD", "/tmp", False),
        ("NOTE", "levels: 1", False),
    ],
)
def test_the_least_sign_of_a_secret_is_enough(variable: str, value: str, moves: bool) -> None:
    assert should_move(variable, value) is moves


def test_a_default_that_may_be_a_secret_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    entry = {"command": "sh", "args": ["${MY_KEY:-hush}", "${LEVEL:-nine}"]}
    plan = planned(origins("claude-code", {"x": entry}))
    assert plan.newcomers[0].options.argv == ("sh", "hush", "nine")
    seen = told(plan, capsys)
    assert "hush" not in seen and "${LEVEL:-nine}" in seen and "looks like a secret" in seen


def test_what_decides_is_shown_and_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    env = {"LD_PRELOAD": "/tmp/evil.so", "PATH": "/usr/bin", "LEVEL": "seven", "A_TOKEN": "hush"}
    plan = planned(origins("cursor", {"x": {**SH, "cwd": "/usr", "env": env}}))
    show_plan(plan, [])
    seen = capsys.readouterr().out
    assert "in the folder /usr" in seen and "with the variables LD_PRELOAD, LEVEL, PATH" in seen
    assert "warning: LD_PRELOAD decides" in seen and "warning: PATH decides" in seen
    assert "evil" not in seen and "seven" not in seen, "values are not shown"
    [told] = as_json_of(plan, [])
    assert (told["folder"], told["variables"]) == ("/usr", ["A_TOKEN", "LD_PRELOAD", "LEVEL", "PATH"])
    assert len(told["warnings"]) == 2


@pytest.mark.parametrize(
    ("name", "warns"),
    [
        ("DYLD_INSERT_LIBRARIES", True),
        ("NODE_OPTIONS", True),
        ("PYTHONPATH", True),
        ("PYTHONSTARTUP", True),
        ("BASH_ENV", True),
        ("ENVIRONMENT", False),
        ("WORLD_MAP", False),
    ],
)
def test_variables_that_decide_what_is_run(name: str, warns: bool) -> None:
    [newcomer] = planned(origins("cursor", {"x": {**SH, "env": {name: "1"}}})).newcomers
    assert bool(newcomer.warnings) is warns


def test_what_another_entry_of_the_file_is_called_is_taken() -> None:
    other = {"command": "sh", "args": ["-c", "false"]}
    found = origins("cursor", {"foo!": SH, "foo": other, "foo?": {"url": "http://h/"}, "bar!": SH})
    elsewhere = origins("zed", {"bar": {"command": "true"}})
    names = [(one.origins[0].found.name, one.name) for one in planned([*found, *elsewhere]).newcomers]
    assert names == [("foo!", "foo-2"), ("foo", "foo"), ("bar!", "bar"), ("bar", "bar-2")]
    [only] = plan_import(found[:1], CIRCUMSTANCES, found).newcomers
    assert only.name == "foo-2", "it stays there, if it is not asked for"


def test_a_change_of_name_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    show_plan(planned(origins("cursor", {"My x": SH, "y": SH})), [])
    lines = capsys.readouterr().out.splitlines()
    assert """    in place of Cursor's "My x"; its name there changes from My x to my-x""" in lines
    assert """    in place of Cursor's "y\"""" in lines


def test_what_is_to_be_asked_for_again_is_never_more() -> None:
    command = importing._command
    assert command([], every=False, entries=[], project=None) == "mooring client import"
    assert command([], every=True, entries=[], project=None) == "mooring client import --all"
    asked = command(["zed", "cursor"], every=False, entries=["a b", "c"], project=Path("/x y"))
    assert asked == "mooring client import zed cursor --server 'a b' --server c --project '/x y'"
