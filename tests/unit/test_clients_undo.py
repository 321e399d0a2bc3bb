"""Undoing changes of clients' files: to the byte if nobody wrote since, by the entries otherwise."""

import os
from pathlib import Path

import pytest

from mooring.clients.backups import MOST_BACKUPS
from mooring.clients.outcomes import Change
from tests.client_home import CLIENTS, FOREIGN, ClientHome, changes, target


@pytest.fixture
def home(tmp_path: Path) -> ClientHome:
    return ClientHome.at(tmp_path)


@pytest.mark.parametrize("client", CLIENTS)
def test_adding_is_undone_to_the_byte(home: ClientHome, client: str) -> None:
    path = home.write(client)
    path.chmod(0o640)
    home.registry().add(home.site(client), [target(), target("mail")])

    outcomes = home.registry().undo(client)

    assert changes(outcomes) == ["restored", "restored"]
    assert not any(outcome.hint for outcome in outcomes)
    assert path.read_bytes() == FOREIGN[client].encode()
    assert path.stat().st_mode & 0o777 == 0o640
    assert home.states() == {}
    assert home.registry().undo(client) == []


@pytest.mark.parametrize("client", CLIENTS)
def test_where_there_was_no_file_there_is_none_again(home: ClientHome, client: str) -> None:
    site = home.site(client)
    home.registry().add(site, [target()])

    home.registry().undo()

    assert not os.path.lexists(site.path)
    assert home.states() == {}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_blank_file_is_blank_again(home: ClientHome, client: str) -> None:
    path = home.write(client, " \n\n")
    home.registry().add(home.site(client), [target()])

    home.registry().undo(client)

    assert path.read_text() == " \n\n"


@pytest.mark.parametrize("client", CLIENTS)
def test_removing_is_undone_and_the_entry_is_ours_again(home: ClientHome, client: str) -> None:
    path = home.write(client)
    home.registry().add(home.site(client), [target()])
    before = path.read_bytes()
    home.registry().remove(home.site(client), None)

    home.registry().undo(client)

    assert path.read_bytes() == before
    assert home.states() == {(client, "notes"): "in"}
    assert changes(home.registry().remove(home.site(client), None)) == ["removed"]


def test_a_file_that_was_deleted_with_our_last_entry_comes_back(home: ClientHome) -> None:
    site = home.site("cursor")
    home.registry().add(site, [target()])
    before = site.path.read_bytes()
    home.registry().remove(site, None)
    assert not site.path.exists()

    home.registry().undo("cursor")

    assert site.path.read_bytes() == before
    assert home.states() == {("cursor", "notes"): "in"}
    home.registry().undo("cursor")
    assert not site.path.exists()


def test_what_was_overwritten_by_force_comes_back_as_somebody_elses(home: ClientHome) -> None:
    path = home.write("cursor")
    home.registry().add(home.site("cursor"), [target("other")], force=True)

    home.registry().undo("cursor")

    assert path.read_text() == FOREIGN["cursor"]
    assert home.states() == {}
    assert changes(home.registry().remove(home.site("cursor"), ["other"])) == ["refused"]


def test_an_import_is_undone_with_the_old_name(home: ClientHome) -> None:
    path = home.write("goose")
    home.registry().replace(home.site("goose"), [("other", target())])

    home.registry().undo("goose")

    assert path.read_text() == FOREIGN["goose"]
    assert home.states() == {}


def test_each_undo_goes_one_change_further_back(home: ClientHome) -> None:
    path = home.write("codex")
    versions = [path.read_bytes()]
    for name in ("a", "b", "c"):
        home.registry().add(home.site("codex"), [target(name)])
        versions.append(path.read_bytes())
    home.registry().remove(home.site("codex"), ["b"])

    for version, names in zip(reversed(versions), (["a", "b", "c"], ["a", "b"], ["a"], []), strict=True):
        assert changes(home.registry().undo("codex")) == ["restored"]
        assert path.read_bytes() == version
        assert home.registry().servers() == names
    assert home.registry().undo("codex") == []


def test_the_same_change_made_twice_is_undone_one_at_a_time(home: ClientHome) -> None:
    site = home.site("cursor")
    for _ in range(2):
        home.registry().add(site, [target()])
        home.registry().remove(site, None)

    seen = []
    while home.registry().undo("cursor"):
        seen.append(site.path.exists())

    assert seen == [True, False, True, False]


def test_changes_can_be_undone_as_far_as_backups_go(home: ClientHome) -> None:
    path = home.write("cursor")
    for number in range(MOST_BACKUPS + 3):
        home.registry().add(home.site("cursor"), [target(port=5000 + number)])

    count = 0
    while home.registry().undo("cursor"):
        count += 1

    assert count == MOST_BACKUPS
    assert ":5002/" in path.read_text()


@pytest.mark.parametrize("client", CLIENTS)
def test_what_others_wrote_since_stays_and_that_is_said(home: ClientHome, client: str) -> None:
    site = home.site(client)
    home.write(client)
    home.registry().add(site, [target(), target("mail")])
    since = site.client.editor.put(site.path.read_bytes(), site.client.section, "since", {"a": 1})
    site.path.write_bytes(since)

    outcomes = home.registry().undo(client)

    assert changes(outcomes) == ["restored", "restored"]
    assert all("changed since" in outcome.hint for outcome in outcomes)
    assert list(home.entries(client)) == ["other", "since"]
    assert home.states() == {}


def test_what_was_overwritten_comes_back_by_its_entry_when_others_wrote_since(home: ClientHome) -> None:
    path = home.write("cursor")
    home.registry().add(home.site("cursor"), [target("other")], force=True)
    path.write_text(path.read_text() + "\n")

    assert changes(home.registry().undo("cursor")) == ["restored"]

    assert home.entries("cursor") == {"other": {"command": "npx", "env": {"T": "hush-hush"}}}


def test_an_entry_that_somebody_changed_since_is_left_and_told(home: ClientHome) -> None:
    site = home.site("cursor")
    home.registry().add(site, [target(), target("mail")])
    site.path.write_text(site.path.read_text().replace("4737/notes", "1/notes"))

    outcomes = home.registry().undo("cursor")

    assert [(one.server, one.change) for one in outcomes] == [("notes", "refused"), ("mail", "restored")]
    assert home.entries("cursor") == {"notes": {"url": "http://127.0.0.1:1/notes/mcp"}}


def test_a_change_is_undone_while_the_entry_is_out(home: ClientHome) -> None:
    path = home.write("cursor")
    home.registry().add(home.site("cursor"), [target()])
    home.registry().take_out("notes", "x")

    home.registry().undo("cursor")

    assert path.read_text() == FOREIGN["cursor"]
    assert home.registry().put_back(target()) == []
    assert home.registry().undo("cursor") == []


def test_a_change_is_undone_to_the_byte_after_the_entry_was_out_and_is_back(home: ClientHome) -> None:
    path = home.write("vscode")
    home.registry().add(home.site("vscode"), [target()])
    home.registry().take_out("notes", "x")
    home.registry().put_back(target())

    [outcome] = home.registry().undo("vscode")

    assert not outcome.hint
    assert path.read_text() == FOREIGN["vscode"]


def test_a_backup_that_is_gone_is_made_up_for_by_the_entries(home: ClientHome) -> None:
    path = home.write("cursor")
    home.registry().add(home.site("cursor"), [target()])
    for backup in (home.state / "backups").glob("*/*"):
        backup.unlink()

    [outcome] = home.registry().undo("cursor")

    assert outcome.change == "restored"
    assert path.read_text() == FOREIGN["cursor"]


def test_a_backup_that_is_damaged_is_not_restored(home: ClientHome) -> None:
    path = home.write("cursor")
    home.registry().add(home.site("cursor"), [target()])
    for backup in (home.state / "backups").glob("*/*"):
        backup.write_text("{}")

    home.registry().undo("cursor")

    assert path.read_text() == FOREIGN["cursor"]


def test_whether_a_site_follows_all_is_undone_too(home: ClientHome) -> None:
    home.write("cursor")
    home.registry().add(home.site("cursor"), [target()], follows_all=True)
    assert home.registry().followers("new")

    home.registry().undo()
    assert home.registry().followers("new") == []

    home.registry().add(home.site("cursor"), [target()], follows_all=True)
    home.registry().remove(home.site("cursor"), None)
    home.registry().undo()
    assert [site.client.id for site in home.registry().followers("new")] == ["cursor"]


def test_without_a_client_all_that_the_last_command_changed_goes_back_and_then_the_one_before(
    home: ClientHome,
) -> None:
    paths = {client: home.write(client) for client in CLIENTS}
    home.registry().add(home.site("cursor"), [target("first")])
    first = paths["cursor"].read_bytes()
    command = home.registry()
    for client in CLIENTS:
        command.add(home.site(client), [target()])

    outcomes = home.registry().undo()

    assert [outcome.client for outcome in outcomes] == list(CLIENTS)
    assert paths.pop("cursor").read_bytes() == first
    assert all(path.read_bytes() == FOREIGN[client].encode() for client, path in paths.items())

    home.registry().undo()
    assert home.site("cursor").path.read_bytes() == FOREIGN["cursor"].encode()
    assert home.registry().undo() == []


def test_only_the_named_client_goes_back(home: ClientHome) -> None:
    for client in ("cursor", "vscode"):
        home.registry().add(home.site(client), [target()])

    home.registry().undo("vscode")

    assert home.states() == {("cursor", "notes"): "in"}


def test_a_client_that_came_to_share_an_entry_keeps_it(home: ClientHome, tmp_path: Path) -> None:
    registry = home.registry()
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    one, other = (registry.site("claude-code", project) for project in (real, link))
    registry.add(one, [target()])
    registry.add(other, [target()])

    registry.undo("claude-code")

    assert "notes" in other.path.read_text()
    assert [standing.path for standing in registry.standings() if standing.entries] == [other.path]


def test_a_file_in_trouble_is_told_and_can_be_undone_later(home: ClientHome) -> None:
    path = home.write("cursor")
    home.registry().add(home.site("cursor"), [target()])
    whole = path.read_text()
    path.write_text("{")

    [outcome] = home.registry().undo("cursor")
    assert (outcome.change, outcome.server) == ("refused", "notes")

    path.write_text(whole)
    assert changes(home.registry().undo("cursor")) == ["restored"]
    assert path.read_text() == FOREIGN["cursor"]


def test_what_was_changed_by_nobodys_command_is_not_undone(home: ClientHome) -> None:
    home.registry().add(home.site("cursor"), [target()])
    home.registry().undo("cursor")
    home.registry().forget("notes")

    assert home.registry().undo() == []


def test_what_could_not_be_kept_of_an_entry_comes_back_with_the_whole_file_alone(home: ClientHome) -> None:
    text = "[mcp_servers.notes]\ncommand = 'npx'\nlimit = nan\n"
    path = home.write("codex", text)
    home.registry().add(home.site("codex"), [target()], force=True)
    path.write_text(path.read_text() + "\n")

    [outcome] = home.registry().undo("codex")
    assert (outcome.change, outcome.code) == ("refused", "entry_not_kept")

    path.write_text(text)
    home.registry().add(home.site("codex"), [target()], force=True)
    assert changes(home.registry().undo("codex")) == ["restored"]
    assert path.read_text() == text


@pytest.mark.parametrize("is_written_since", [False, True])
def test_what_gives_way_to_somebody_elses_entry_is_told_from_the_rest(
    home: ClientHome, is_written_since: bool
) -> None:
    path = home.write("cursor", '{"mcpServers": {"same": {"command": "a"}, "Old": {"command": "b"}}}')

    def given_way() -> set[str]:
        if is_written_since:
            path.write_bytes(path.read_bytes() + b"\n")
        outcomes = home.registry().undo()
        assert outcomes and set(changes(outcomes)) == {Change.RESTORED}
        return {one.server for one in outcomes if one.gives_way}

    home.registry().replace(home.site("cursor"), [("same", target("same")), ("Old", target("new"))])
    assert given_way() == {"same", "new"}, "which an import has made"
    home.registry().add(home.site("cursor"), [target("same"), target("notes")], force=True)
    assert given_way() == {"same"}
    home.registry().add(home.site("cursor"), [target()])
    home.registry().add(home.site("cursor"), [target(port=5000)])
    assert given_way() == set(), "both are ours"
    home.registry().remove(home.site("cursor"), ["notes"])
    assert given_way() == set(), "and it is there again"
    assert given_way() == set(), "there was nothing"
