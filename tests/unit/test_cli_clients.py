"""`mooring client`: what it shows, and what an import would do. Nothing is run here."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest

from mooring.cli.clients import refreshing
from mooring.cli.clients.ids import ClientIds
from mooring.cli.clients.intake import (
    Circumstances,
    Intake,
    Origin,
    mapped_name,
    plan_import,
    should_move,
)
from mooring.cli.clients.showing import shortened_names, shortened_path, table
from mooring.cli.clients.telling import shown_difference
from mooring.cli.servers.changing import INTERRUPTED
from mooring.cli.values import parse_name
from mooring.clients import decisions
from mooring.clients.bookkeeping import Verdict
from mooring.clients.detecting import Site
from mooring.clients.drafts import Draft
from mooring.clients.ledger import Ledger
from mooring.clients.outcomes import EntryStanding, Standing
from mooring.clients.records import Owned
from mooring.clients.table import load_table
from mooring.clients.understanding import servers_in
from mooring.host.places import Places
from mooring.workloads.definition import ServerOptions
from tests.client_home import ClientHome, target

HOME = Path("/home/sam")
LONG_PATH = "~/.config/Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json"


class Test_ids_of_clients:
    @pytest.mark.parametrize(
        ("text", "ids"),
        [("cursor", ("cursor",)), ("cursor, zed,cursor", ("cursor", "zed")), ("all", ("all",))],
    )
    def test_are_words_with_commas_between(self, text: str, ids: tuple[str, ...]) -> None:
        assert ClientIds().convert(text, None, None) == ids

    @pytest.mark.parametrize("text", ["", ",", "all,cursor", "cursor,none"])
    def test_that_mean_nothing_are_refused(self, text: str) -> None:
        with pytest.raises(click.BadParameter):
            ClientIds().convert(text, None, None)


class Test_a_row_of_the_list:
    @pytest.mark.parametrize("width", [64, 80, 120])
    def test_is_no_wider_than_the_terminal(self, width: int) -> None:
        names = tuple(EntryStanding(f"server-{n}", "in") for n in range(20))
        standings = [
            Standing("roo-code", "Roo Code", Path(LONG_PATH), reload="watch", entries=names),
            Standing("claude-code", "Claude Code", None, reload="session", follows_all=True),
        ]
        lines = table(standings, width=width, colours=False)
        assert max(map(len, lines)) <= width
        assert "settings.json" in lines[1]
        assert "server-0" in lines[1] and "+" in lines[1]

    def test_is_whole_where_nobody_looks(self) -> None:
        names = tuple(EntryStanding(f"server-{n}", "in") for n in range(20))
        [_, line] = table(
            [Standing("roo-code", "", Path(LONG_PATH), reload="watch", entries=names)],
            width=None,
            colours=False,
        )
        assert LONG_PATH in line and "server-19" in line

    def test_marks_what_is_not_as_it_should_be(self) -> None:
        entries = (EntryStanding("time", "in"), EntryStanding("git", "out", "it failed"))
        [_, line] = table(
            [Standing("zed", "Zed", Path("/z"), reload="watch", entries=entries, follows_all=True)],
            width=80,
            colours=True,
        )
        assert "all: time, git (out)" in line and "\x1b[33m" in line

    def test_of_a_file_in_trouble_claims_nothing(self) -> None:
        [_, line] = table(
            [Standing("zed", "Zed", Path("/z"), reload="watch", trouble="line 1")], width=80, colours=True
        )
        assert " ? " in line and "\x1b[31m" in line


def test_names_that_do_not_fit_are_counted() -> None:
    names = ["time", "git", "github"]
    assert shortened_names(names, None) == "time, git, github"
    assert shortened_names(names, 13) == "time, git, +1"
    assert shortened_names(names, 12) == "time, +2"
    for room in range(7, 20):
        assert len(shortened_names(names, room)) <= room
        assert len(shortened_names(["a-very-long-name-of-a-server"], room)) <= room


def test_a_path_loses_its_middle_first() -> None:
    assert shortened_path("/a/b", 4) == "/a/b"
    assert shortened_path(LONG_PATH, 40) == "~/.config/Code/User/…/mcp_settings.json"
    for room in range(12, 90):
        assert len(shortened_path(LONG_PATH, room)) <= room


def test_a_difference_shows_neither_neighbours_nor_secrets() -> None:
    told = (
        '-    "a": {"args": ["--api-key", "hush"]}\n+    "a": {"args": ["--api-key", "hush"]},\n'
        '+    "b": {"args": ["--api-key", "hush", "--token=hush", "--level=9", "ghp_0123456789abcdefghij"]}'
    )
    assert shown_difference(told) == '+    "b": {"args": ["--api-key", "…", "--token=…", "--level=9", "…"]}'


@pytest.mark.parametrize(
    ("name", "mapped"),
    [
        ("GitHub Copilot_x", "github-copilot-x"),
        ("time", "time"),
        ("@scope/server", "scope-server"),
        ("x" * 60, "x" * 40),
        ("a" * 39 + "  b", "a" * 39),
        ("日本", "server"),
    ],
)
def test_names_become_ours(name: str, mapped: str) -> None:
    assert mapped_name(name) == mapped
    assert parse_name(mapped) == mapped


@pytest.mark.parametrize(
    ("variable", "value", "moves"),
    [
        ("GITHUB_TOKEN", "x", True),
        ("LINEAR_API_KEY", "lin", True),
        ("BASIC_AUTH", "sam:pass", True),
        ("WHATEVER", "ghp_0123456789abcdefghijABCDEFGHIJ", True),
        ("WHATEVER", "7f3a9c0e5b1d4f6a8c2e", True),
        ("ACCOUNT", "2b1c6f1e-4d2b-4b1e-9c57-0d6b2f3e4a5b", True),
        ("DATABASE_URL", "postgres://sam:pass@db/x", True),
        ("SESSION_COOKIE", "abc", True),
        ("SECRET", "secret:other", True),  # which is no reference in a client's file
        ("LOG_LEVEL", "debug", False),
        ("AUTH_ENABLED", "true", False),
        ("ROOT", "/srv/projects/number1/and-more", False),
        ("TOKEN_FILE", "/run/secrets/token", False),
        ("BASE_URL", "https://api.example.com/v2/things", False),
        ("VERSION", "2025.11.25.17.30.00", False),
        ("EMPTY_TOKEN", "", False),
    ],
)
def test_what_may_be_a_secret_is_moved(variable: str, value: str, moves: bool) -> None:
    assert should_move(variable, value) is moves


def origins(client: str, servers: Mapping[str, Any], *, path: str = "") -> list[Origin]:
    one = load_table()[client]
    document: Any = servers
    for key in reversed(one.section.keys):
        document = {key: document}
    site = Site(one, Path(path or f"/home/sam/{client}"))
    return [Origin(site, found) for found in servers_in(one, document)]


def planned(
    found: list[Origin],
    *,
    known: Mapping[str, ServerOptions | None] | None = None,
    secrets: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Intake:
    return plan_import(
        found,
        Circumstances(
            known=known or {},
            urls=frozenset({"http://127.0.0.1:4670/time/mcp"}),
            look_up_secret=(secrets or {}).get,
            environ={"PATH": "/usr/bin:/bin", "HOME": str(HOME), **(environ or {})},
            home=Path("/tmp"),
        ),
    )


SH = {"command": "sh", "args": ["-c", "true"]}


def test_an_entry_becomes_a_server() -> None:
    [newcomer] = planned(origins("cursor", {"My Server": SH})).newcomers
    options = newcomer.options
    assert (newcomer.name, options.argv, options.cwd) == ("my-server", ("sh", "-c", "true"), Path("/tmp"))
    assert options.env == {"PATH": "/usr/bin:/bin", "HOME": str(HOME)}, "as `mooring run` would have it"
    assert newcomer.is_new and not newcomer.moved


def test_the_same_in_two_clients_is_one_server() -> None:
    found = [*origins("cursor", {"a": SH}), *origins("claude-code", {"B": {**SH, "type": "stdio"}})]
    [newcomer] = planned(found).newcomers
    assert newcomer.name == "a"
    assert [origin.site.client.id for origin in newcomer.origins] == ["cursor", "claude-code"]


def test_the_same_twice_in_one_file_stays_two() -> None:
    assert [one.name for one in planned(origins("cursor", {"a": SH, "b": SH})).newcomers] == ["a", "b"]


def test_a_name_that_is_taken_gets_a_number() -> None:
    other = {"command": "sh", "args": ["-c", "false"]}
    found = [*origins("cursor", {"My a": SH, "my-a": other, "api": SH}), *origins("zed", {"my_a": other})]
    names = [one.name for one in planned(found, known={"my-a-2": None}).newcomers]
    assert names == ["my-a-3", "my-a", "api-2"], "the third is not Mooring's to give: it is part of its URLs"


def test_what_mooring_has_already_is_not_made_again() -> None:
    token = {**SH, "env": {"TOKEN": "hush"}}
    [first] = planned(origins("cursor", {"a": token})).newcomers
    assert first.secrets == {"a-token": "hush"}
    [again] = planned(
        origins("cursor", {"a": token}), known={"a": first.options}, secrets=first.secrets
    ).newcomers
    assert (again.name, again.is_new, again.secrets) == ("a", False, {})
    [other] = planned(origins("cursor", {"a": SH}), known={"a": first.options}).newcomers
    assert (other.name, other.is_new) == ("a-2", True)


def test_secrets_are_moved_and_shown_nowhere() -> None:
    entry = {**SH, "env": {"GITHUB_TOKEN": "hush-hush", "LEVEL": "secret:no-reference"}}
    plan = planned(origins("cursor", {"GitHub": entry}))
    [newcomer] = plan.newcomers
    assert newcomer.options.env_references == {"GITHUB_TOKEN": "secret:github-github-token"}
    assert newcomer.moved == {"GITHUB_TOKEN": "github-github-token"}
    assert newcomer.options.env["LEVEL"] == "secret:no-reference", "text of a client is text"
    assert "hush" not in repr(newcomer.options) and "hush" not in repr(newcomer.secrets.keys())
    [second] = planned(
        origins("cursor", {"GitHub": entry}), secrets={"github-github-token": "other"}
    ).newcomers
    assert second.secrets == {"github-github-token-2": "hush-hush"}, "nobody else's secret is overwritten"


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"url": "https://mcp.example.com/mcp?key=hush"}, "at mcp.example.com"),
        ({"command": "no-such-program-at-all"}, "no-such-program-at-all"),
        ({"command": "sh", "env": {"X": "${env:NOT_SET_AT_ALL}"}}, "NOT_SET_AT_ALL, which is not set"),
        ({"command": "sh", "args": ["${workspaceFolder}"]}, "${workspaceFolder}, which only Cursor knows"),
        ({"command": "sh", "envFile": "/x"}, "envFile"),
        ({}, "neither"),
    ],
)
def test_what_cannot_be_run_is_left_and_told(entry: dict[str, Any], why: str) -> None:
    plan = planned(origins("cursor", {"x": entry, "fine": SH}))
    assert [one.name for one in plan.newcomers] == ["fine"]
    [left] = plan.left
    assert why in left.why and "hush" not in left.why and not left.is_ours


def test_what_is_switched_off_is_left() -> None:
    [left] = planned(origins("cline", {"x": {**SH, "disabled": True}})).left
    assert "switched off" in left.why


@pytest.mark.parametrize(
    "entry",
    [
        {"url": "http://127.0.0.1:4670/time/mcp"},
        {"command": "/opt/venv/bin/mooring", "args": ["stdio", "time"]},
        {"command": sys.executable, "args": ["-m", "mooring", "stdio", "time"]},
    ],
)
def test_what_leads_to_mooring_is_not_imported(entry: dict[str, Any]) -> None:
    [left] = planned(origins("cursor", {"x": entry})).left
    assert left.is_ours


def test_variables_are_looked_up_where_the_command_runs() -> None:
    entry = {"command": "sh", "args": ["${env:WHERE}/x"], "env": {"API_TOKEN": "${env:MINE}"}}
    [newcomer] = planned(origins("cursor", {"x": entry}), environ={"WHERE": "/srv", "MINE": "hush"}).newcomers
    assert newcomer.options.argv == ("sh", "/srv/x")
    assert newcomer.secrets == {"x-api-token": "hush"}


def test_a_secret_in_a_command_line_is_warned_of() -> None:
    entry = {"command": "sh", "args": ["--token", "hush"]}
    [newcomer] = planned(origins("cursor", {"x": entry})).newcomers
    assert newcomer.has_open_secret


def test_a_refresh_that_is_interrupted_while_entries_go_out_puts_them_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = ClientHome.at(tmp_path)
    monkeypatch.setenv("MOORING_STATE_DIR", str(tmp_path / "other"))
    server = {"name": "notes", "url": target().url, "state": "ready"}
    monkeypatch.setattr(refreshing, "reach", lambda **_: SimpleNamespace(ask=lambda *_: server))
    monkeypatch.setattr(refreshing, "find_registry", home.registry)
    for client in ("cursor", "vscode"):
        home.registry().add(home.site(client), [target()])
    before = {client: home.site(client).path.read_bytes() for client in ("cursor", "vscode")}
    take_out, gone = decisions.take_out, list[str]()

    def interrupted(draft: Draft, owned: Owned, why: str) -> Verdict:
        if gone:
            gone.extend(client for client, server in home.states() if home.entries(client) == {})
            raise KeyboardInterrupt
        gone.append("")
        return take_out(draft, owned, why)

    monkeypatch.setattr(decisions, "take_out", interrupted)
    assert refreshing.refresh("notes", as_json=True) == INTERRUPTED
    assert gone == ["", "cursor"], "the first of them was out"
    assert {client: home.site(client).path.read_bytes() for client in before} == before
    assert set(home.states().values()) == {"in"}
    assert [one["client"] for one in json.loads(capsys.readouterr().out)] == ["cursor"]


def test_the_ledger_is_where_everybody_looks_for_it(tmp_path: Path) -> None:
    places = Places(tmp_path, 0)
    assert Ledger(places.clients).path == places.client_ledger
