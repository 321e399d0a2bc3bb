"""How entries stand: what `mooring client ls` shows, and what the daemon notices when it looks again."""

import os
from pathlib import Path

import pytest

from mooring.clients.files import Files
from mooring.clients.machine import Machine, Platform
from mooring.clients.outcomes import Standing
from mooring.clients.registry import Registry
from mooring.clients.table import load_table
from tests.client_home import CLIENTS, ClientHome, target


@pytest.fixture
def home(tmp_path: Path) -> ClientHome:
    return ClientHome.at(tmp_path)


def standing(home: ClientHome, client: str) -> Standing:
    [found] = [one for one in home.registry().standings() if one.client == client]
    return found


def test_nothing_is_shown_on_an_empty_machine(home: ClientHome) -> None:
    assert home.registry().standings() == []
    assert home.registry().installed() == []
    assert home.registry().drifted() == []


def test_a_client_that_is_installed_is_shown_without_a_file(home: ClientHome) -> None:
    (home.home / ".cursor").mkdir()

    found = standing(home, "cursor")

    assert (found.installed, found.exists, found.path) == (True, False, home.home / ".cursor/mcp.json")
    assert (found.name, found.reload, found.entries, found.trouble) == ("Cursor", "watch", (), "")
    assert [site.client.id for site in home.registry().installed()] == ["cursor"]


def test_a_client_that_is_not_installed_is_shown_if_it_has_entries_of_ours(home: ClientHome) -> None:
    path = home.home / "elsewhere.json"
    machine = Machine(Platform.LINUX, home.home, {"CLINE_MCP_SETTINGS_PATH": str(path)})
    registry = Registry(home.state, machine)
    registry.add(registry.site("cline"), [target()])

    [found] = home.registry().standings()

    assert (found.client, found.path, found.exists) == ("cline", path, True)
    assert [(entry.server, entry.state) for entry in found.entries] == [("notes", "in")]


def test_everything_that_is_known_is_shown_when_asked(home: ClientHome) -> None:
    found = home.registry().standings(everything=True)

    assert [one.client for one in found] == list(load_table())
    assert all(one.path or one.trouble for one in found)


def test_entries_are_shown_as_they_stand(home: ClientHome) -> None:
    names = ("in", "out", "changed", "missing")
    site = home.site("cursor")
    home.write("cursor")
    home.registry().add(site, [target(name) for name in names])
    home.registry().take_out("out", "the server has failed")
    data = site.path.read_bytes().replace(b"/changed/mcp", b"/mine")
    site.path.write_bytes(site.client.editor.remove(data, site.client.section, "missing"))

    found = standing(home, "cursor")

    assert [(entry.server, entry.state, entry.why) for entry in found.entries] == [
        ("changed", "changed", ""),
        ("in", "in", ""),
        ("missing", "missing", ""),
        ("out", "out", "the server has failed"),
    ]
    assert found.others == 1


def test_an_entry_of_the_same_name_that_is_not_ours_is_shown_as_such(home: ClientHome) -> None:
    home.registry().add(home.site("cursor"), [target("other")])
    home.write("vscode")

    found = standing(home, "vscode")

    assert [(entry.server, entry.state) for entry in found.entries] == [("other", "foreign")]
    assert found.others == 1


def test_a_file_that_cannot_be_read_is_told_and_does_not_hide_what_is_known(home: ClientHome) -> None:
    for client in ("cursor", "vscode"):
        home.registry().add(home.site(client), [target()])
    home.write("cursor", '{\n "mcpServers": {,')

    found = standing(home, "cursor")

    assert "line 2, column 17" in found.trouble
    assert [entry.server for entry in found.entries] == ["notes"]
    assert standing(home, "vscode").trouble == ""


def test_files_of_projects_are_shown(home: ClientHome, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    registry = home.registry()
    registry.add(registry.site("claude-code", project), [target()], follows_all=True)

    [found] = registry.standings()
    assert (found.client, found.project, found.path) == ("claude-code", project, project / ".mcp.json")
    assert found.follows_all
    assert [(entry.server, entry.state) for entry in found.entries] == [("notes", "in")]

    (home.home / ".cursor").mkdir()
    inside = registry.standings(project=project)
    assert {(one.client, one.project) for one in inside} == {("claude-code", project), ("cursor", project)}


def test_who_only_looks_writes_nothing(home: ClientHome) -> None:
    home.registry().add(home.site("cursor"), [target()])
    before = {path: path.stat().st_mtime_ns for path in home.state.rglob("*")}

    home.registry().standings(everything=True)
    home.registry().drifted()
    home.registry().followers("notes")

    assert {path: path.stat().st_mtime_ns for path in home.state.rglob("*")} == before


# Drift


def test_nothing_drifts_while_nobody_writes(home: ClientHome) -> None:
    registry = home.registry()
    for client in CLIENTS:
        home.write(client)
        registry.add(home.site(client), [target()])
    registry.take_out("notes", "x", only=lambda client: client.id == "cursor")

    assert registry.drifted() == []


@pytest.mark.parametrize("client", CLIENTS)
def test_what_a_client_wiped_is_noticed_each_time_until_it_is_right(home: ClientHome, client: str) -> None:
    registry = home.registry()
    home.write(client)
    registry.add(home.site(client), [target()])
    assert registry.drifted() == []

    path = home.write(client)

    for _ in range(2):
        [drift] = registry.drifted()
        assert (drift.client, drift.path, drift.server, drift.state) == (client, path, "notes", "missing")
    registry.mend(target())
    assert registry.drifted() == []


def test_what_somebody_changed_is_noticed(home: ClientHome) -> None:
    registry = home.registry()
    site = home.site("cursor")
    registry.add(site, [target()])
    site.path.write_text(site.path.read_text().replace("4737", "1"))

    assert [(drift.server, drift.state) for drift in registry.drifted()] == [("notes", "changed")]


def test_a_file_that_is_gone_is_noticed(home: ClientHome) -> None:
    registry = home.registry()
    registry.add(home.site("cursor"), [target()])
    home.site("cursor").path.unlink()

    assert [(drift.server, drift.state) for drift in registry.drifted()] == [("notes", "missing")]


def test_half_a_file_is_no_drift(home: ClientHome) -> None:
    registry = home.registry()
    site = home.site("cursor")
    registry.add(site, [target()])
    site.path.write_text(site.path.read_text()[:20])

    assert registry.drifted() == []


def test_a_file_is_read_again_only_when_it_may_be_another(
    home: ClientHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = home.registry()
    path = home.write("cursor")
    registry.add(home.site("cursor"), [target()])
    text = path.read_text()
    read: list[Path] = []

    def counted(self: Files, at: Path) -> bytes | None:
        read.append(at)
        return at.read_bytes() if at.exists() else None

    monkeypatch.setattr(Files, "read", counted)
    registry.drifted()
    registry.drifted()
    assert read == [path, path], "written a moment ago: its time does not tell"

    os.utime(path, ns=(1, 1))
    registry.drifted()
    read.clear()
    for _ in range(5):
        assert registry.drifted() == []
    assert read == []

    path.write_text(text.replace("4737", "4738"))
    assert len(registry.drifted()) == 1
    assert read == [path]


def test_a_change_of_ours_is_looked_at_again_although_the_file_is_the_same(home: ClientHome) -> None:
    registry = home.registry()
    path = home.write("cursor")
    registry.add(home.site("cursor"), [target()])
    path = home.write("cursor")
    os.utime(path, ns=(1, 1))
    assert len(registry.drifted()) == 1

    registry.forget("notes")

    assert registry.drifted() == []
