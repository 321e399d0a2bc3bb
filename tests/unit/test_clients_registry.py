"""Servers in and out of clients' files: what is ours and nothing else, whatever state the file is in."""

import os
from pathlib import Path

import pytest

from mooring.clients import bookkeeping
from mooring.clients.detecting import Site
from mooring.clients.differences import MASK, MOST_LINES, ChangedEntry, difference
from mooring.clients.editing.edits import Value
from mooring.clients.entries import Target
from mooring.clients.looking import fingerprint_of
from mooring.clients.machine import Machine, Platform
from mooring.clients.outcomes import Change
from mooring.clients.records import ABSENT, MAX_ENTRY_BYTES, There
from mooring.clients.registry import Registry
from mooring.errors import UserError
from tests.client_home import CLIENTS, FOREIGN, ClientHome, changes, target

OURS = '{"mcpServers": {"notes": {"url": "http://127.0.0.1:4737/notes/mcp"}}}\n'


@pytest.fixture
def home(tmp_path: Path) -> ClientHome:
    return ClientHome.at(tmp_path)


# In and out


@pytest.mark.parametrize("client", CLIENTS)
def test_a_server_is_put_beside_what_is_there_and_taken_out_again(home: ClientHome, client: str) -> None:
    path = home.write(client)

    [added] = home.registry().add(home.site(client), [target()])

    assert (added.client, added.path, added.server, added.change) == (client, path, "notes", "added")
    assert added.next
    assert list(home.entries(client)) == ["other", "notes"]
    assert home.states() == {(client, "notes"): "in"}

    [removed] = home.registry().remove(home.site(client), ["notes"])

    assert (removed.change, removed.error) == ("removed", "")
    assert path.read_bytes() == FOREIGN[client].encode()
    assert home.states() == {}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_file_that_we_made_and_nobody_used_goes_with_our_last_entry(home: ClientHome, client: str) -> None:
    site = home.site(client)
    home.registry().add(site, [target(), target("mail")])
    assert set(home.entries(client)) == {"notes", "mail"}

    home.registry().remove(site, ["notes"])
    assert site.path.exists()
    home.registry().remove(site, None)

    assert not os.path.lexists(site.path)


def test_a_file_that_we_made_stays_when_others_have_put_something_there(home: ClientHome) -> None:
    site = home.site("cursor")
    home.registry().add(site, [target()])
    site.path.write_text(site.path.read_text().rstrip() + "\n\n")

    home.registry().remove(site, None)

    assert site.path.read_text() == '{\n  "mcpServers": {}\n}\n\n'


def test_a_file_that_we_did_not_make_stays_even_when_it_says_nothing(home: ClientHome) -> None:
    path = home.write("cursor", '{\n  "mcpServers": {}\n}\n')
    home.registry().add(home.site("cursor"), [target()])

    home.registry().remove(home.site("cursor"), None)

    assert path.read_text() == '{\n  "mcpServers": {}\n}\n'


def test_adding_again_changes_nothing(home: ClientHome) -> None:
    path = home.write("cursor")
    home.registry().add(home.site("cursor"), [target()])
    before, ledger = path.stat(), (home.state / "ledger.json").read_bytes()

    assert changes(home.registry().add(home.site("cursor"), [target()])) == ["unchanged"]

    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert (home.state / "ledger.json").read_bytes() == ledger


def test_several_servers_are_one_change_of_the_file(home: ClientHome) -> None:
    home.write("cursor")

    outcomes = home.registry().add(home.site("cursor"), [target(), target("mail"), target("web")])

    assert changes(outcomes) == ["added"] * 3
    assert [bool(outcome.difference) for outcome in outcomes] == [True, False, False]
    assert len(list((home.state / "backups").glob("*/*"))) == 1


def test_removing_without_names_is_for_all_of_ours_and_for_nobody_elses(home: ClientHome) -> None:
    path = home.write("codex")
    home.registry().add(home.site("codex"), [target(), target("mail")])

    outcomes = home.registry().remove(home.site("codex"), None)

    assert [(one.server, one.change) for one in outcomes] == [("notes", "removed"), ("mail", "removed")]
    assert path.read_text() == FOREIGN["codex"]


def test_removing_what_is_not_there_changes_nothing(home: ClientHome) -> None:
    path = home.write("cursor")

    assert changes(home.registry().remove(home.site("cursor"), ["notes"])) == ["unchanged"]
    assert home.registry().remove(home.site("cursor"), None) == []
    assert path.read_text() == FOREIGN["cursor"]


def test_what_the_user_removed_is_forgotten_when_it_is_to_be_removed(home: ClientHome) -> None:
    home.write("cursor")
    home.registry().add(home.site("cursor"), [target()])
    home.write("cursor")

    assert changes(home.registry().remove(home.site("cursor"), ["notes"])) == ["unchanged"]
    assert home.states() == {}


def test_a_server_that_moved_is_updated_and_what_others_added_stays(home: ClientHome) -> None:
    site = home.site("cursor")
    home.registry().add(site, [target()])
    site.path.write_text(site.path.read_text().replace('mcp"', 'mcp",\n      "disabled": true'))

    [outcome] = home.registry().add(site, [target(port=5000)])

    assert outcome.change is Change.UPDATED
    assert home.entries("cursor") == {"notes": {"url": "http://127.0.0.1:5000/notes/mcp", "disabled": True}}


def test_a_client_that_runs_commands_gets_one(home: ClientHome) -> None:
    wanted = Target("notes", "http://h/", ("/bin/mooring", "stdio", "notes"), {"MOORING_STATE_DIR": "/s"})

    home.registry().add(home.site("claude-desktop"), [wanted])

    assert home.entries("claude-desktop")["notes"] == {
        "command": "/bin/mooring",
        "args": ["stdio", "notes"],
        "env": {"MOORING_STATE_DIR": "/s"},
    }


def test_nothing_is_done_in_a_dry_run(home: ClientHome) -> None:
    path = home.write("cursor")
    before = path.stat()
    site = home.site("cursor")

    [added] = home.registry().add(site, [target()], dry_run=True)

    assert added.change is Change.ADDED
    assert '+    "notes": {' in added.difference
    assert path.stat() == before
    assert home.states() == {}
    home.registry().add(site, [target()])
    [removed] = home.registry().remove(site, None, dry_run=True)
    assert removed.change is Change.REMOVED
    assert "notes" in home.entries("cursor")


def test_a_file_behind_links_stays_behind_them(home: ClientHome) -> None:
    site = home.site("cursor")
    real = home.home / "dotfiles" / "cursor.json"
    real.parent.mkdir()
    real.write_text(FOREIGN["cursor"])
    site.path.parent.mkdir()
    site.path.symlink_to(real)

    home.registry().add(site, [target()])

    assert site.path.is_symlink()
    assert "notes" in real.read_text()
    home.registry().remove(site, None)
    assert real.read_text() == FOREIGN["cursor"]


def test_a_mark_of_byte_order_stays(home: ClientHome) -> None:
    path = home.write("cursor", "\ufeff" + FOREIGN["cursor"])

    home.registry().add(home.site("cursor"), [target()])
    assert path.read_bytes().startswith(b"\xef\xbb\xbf{")
    home.registry().remove(home.site("cursor"), None)

    assert path.read_bytes() == ("\ufeff" + FOREIGN["cursor"]).encode()


# Not ours


@pytest.mark.parametrize("client", CLIENTS)
def test_an_entry_of_somebody_else_is_neither_overwritten_nor_removed(home: ClientHome, client: str) -> None:
    path = home.write(client)

    [added] = home.registry().add(home.site(client), [target("other")])
    [removed] = home.registry().remove(home.site(client), ["other"])

    assert (added.change, added.code) == (Change.REFUSED, "entry_foreign")
    assert f"mooring client add {client} --server other --force" in added.hint
    assert "other" in added.snippet
    assert (removed.change, removed.code) == (Change.REFUSED, "entry_foreign")
    assert f"mooring client rm {client} --server other --force" in removed.hint
    assert path.read_bytes() == FOREIGN[client].encode()


def test_one_that_is_refused_does_not_stop_the_others(home: ClientHome) -> None:
    home.write("cursor")

    outcomes = home.registry().add(home.site("cursor"), [target("other"), target("notes")])

    assert changes(outcomes) == ["refused", "added"]
    assert outcomes[1].difference
    assert list(home.entries("cursor")) == ["other", "notes"]


def test_with_force_an_entry_becomes_ours_and_keeps_what_it_had_beside(home: ClientHome) -> None:
    home.write("cursor", '{"mcpServers": {"notes": {"command": "npx", "args": ["x"], "color": "red"}}}')

    [outcome] = home.registry().add(home.site("cursor"), [target()], force=True)

    assert outcome.change is Change.UPDATED
    assert home.entries("cursor")["notes"] == {"url": "http://127.0.0.1:4737/notes/mcp", "color": "red"}
    assert changes(home.registry().remove(home.site("cursor"), None)) == ["removed"]


def test_with_force_an_entry_is_removed_whosever_it_is(home: ClientHome) -> None:
    home.write("cursor")

    [outcome] = home.registry().remove(home.site("cursor"), ["other"], force=True)

    assert outcome.change is Change.REMOVED
    assert "hush" not in outcome.difference
    assert MASK in outcome.difference
    assert home.entries("cursor") == {}


@pytest.mark.parametrize("force", [False, True])
def test_an_entry_that_the_user_changed_is_left_unless_forced(home: ClientHome, force: bool) -> None:
    site = home.site("cursor")
    home.registry().add(site, [target()])
    site.path.write_text(site.path.read_text().replace("4737", "1"))
    assert home.states() == {("cursor", "notes"): "changed"}

    [removed] = home.registry().remove(site, ["notes"], force=force, dry_run=True)
    [added] = home.registry().add(site, [target()], force=force)

    if force:
        assert (removed.change, added.change) == ("removed", "updated")
        assert home.states() == {("cursor", "notes"): "in"}
    else:
        assert (removed.change, removed.code) == ("refused", "entry_changed")
        assert (added.change, added.code) == ("refused", "entry_changed")
        assert ":1/" in site.path.read_text()


def test_an_entry_that_is_no_mapping_is_somebody_elses(home: ClientHome) -> None:
    home.write("cursor", '{"mcpServers": {"notes": 5}}')

    assert changes(home.registry().add(home.site("cursor"), [target()])) == ["refused"]
    assert changes(home.registry().add(home.site("cursor"), [target()], force=True)) == ["updated"]


# Trouble


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('{\n  "mcpServers": {,}\n}', "line 2, column 18"),
        ('{"mcpServers": {}, "mcpServers": {}}', "line 1, column 20"),
        ('{"mcpServers": []}', "line 1"),
    ],
)
def test_a_file_that_cannot_be_edited_is_told_with_the_place_and_what_to_paste(
    home: ClientHome, text: str, error: str
) -> None:
    path = home.write("claude-desktop", text)

    [outcome] = home.registry().add(home.site("claude-desktop"), [target()])

    assert (outcome.change, outcome.code) == ("refused", "edit_refused")
    assert error in outcome.error
    assert '"notes"' in outcome.snippet
    assert outcome.hint
    assert path.read_text() == text
    assert home.states() == {}


def test_a_folder_in_the_place_of_a_file_is_refused_for_that_client_alone(home: ClientHome) -> None:
    home.site("cursor").path.mkdir(parents=True)
    registry = home.registry()

    outcomes = [one for client in ("cursor", "vscode") for one in registry.add(home.site(client), [target()])]

    assert changes(outcomes) == ["refused", "added"]
    assert outcomes[0].snippet
    assert home.states() == {("vscode", "notes"): "in"}


def test_the_daemon_is_not_stopped_by_a_file_in_trouble(home: ClientHome) -> None:
    registry = home.registry()
    for client in ("cursor", "vscode"):
        registry.add(home.site(client), [target()])
    whole = home.site("cursor").path.read_text()
    home.write("cursor", whole[:-5])

    outcomes = registry.take_out("notes", "it failed")

    assert [(one.client, one.change) for one in outcomes] == [("cursor", "refused"), ("vscode", "removed")]
    assert outcomes[0].code == "edit_refused"
    home.write("cursor", whole)
    assert changes(registry.take_out("notes", "it failed")) == ["removed"]
    assert home.states() == {("cursor", "notes"): "out", ("vscode", "notes"): "out"}


def test_an_unknown_client_is_told_with_those_that_are_meant(home: ClientHome) -> None:
    with pytest.raises(UserError) as raised:
        home.registry().site("curser")

    assert raised.value.code == "unknown_client"
    assert "cursor" in raised.value.hint


def test_a_client_without_a_file_in_projects_is_told(home: ClientHome, tmp_path: Path) -> None:
    with pytest.raises(UserError) as raised:
        home.registry().site("claude-desktop", tmp_path)

    assert raised.value.code == "no_project_file"


# Out for a while


@pytest.mark.parametrize("client", CLIENTS)
def test_an_entry_is_taken_out_and_put_back_with_all_that_it_had(home: ClientHome, client: str) -> None:
    home.write(client)
    site = home.site(client)
    home.registry().add(site, [target()])
    wanted = home.entries(client)["notes"]
    edited = {**wanted, "x-mine": {"a": [1, "two"]}}
    site.path.write_bytes(
        site.client.editor.put(site.path.read_bytes(), site.client.section, "notes", edited)
    )

    [out] = home.registry().take_out("notes", "it failed")

    assert (out.change, out.path) == ("removed", site.path)
    assert list(home.entries(client)) == ["other"]
    assert home.states() == {(client, "notes"): "out"}
    assert home.registry().servers() == ["notes"]
    assert changes(home.registry().take_out("notes", "it failed")) == []

    [back] = home.registry().put_back(target())

    assert (back.change, back.error) == ("restored", "")
    assert home.entries(client)["notes"] == edited
    assert home.states() == {(client, "notes"): "in"}
    assert home.registry().put_back(target()) == []


def test_what_the_daemon_does_leaves_no_backups(home: ClientHome) -> None:
    home.write("cursor")
    home.registry().add(home.site("cursor"), [target()])
    before = sorted((home.state / "backups").glob("*/*"))

    home.registry().take_out("notes", "it failed")
    home.registry().put_back(target())
    home.registry().renew(target(port=5000))

    assert sorted((home.state / "backups").glob("*/*")) == before


def test_it_comes_back_to_where_the_server_is_now(home: ClientHome) -> None:
    home.registry().add(home.site("cursor"), [target()])
    home.registry().take_out("notes", "it failed")

    home.registry().put_back(target(port=5000))

    assert home.entries("cursor")["notes"]["url"].startswith("http://127.0.0.1:5000/")


def test_only_some_clients_entries_are_taken_out(home: ClientHome) -> None:
    for client in ("cursor", "codex"):
        home.registry().add(home.site(client), [target()])

    home.registry().take_out("notes", "lost", only=lambda client: client.reload.mode == "watch")

    assert home.states() == {("cursor", "notes"): "out", ("codex", "notes"): "in"}
    assert [site.client.id for site in home.registry().followers("notes")] == ["cursor", "codex"]


def test_an_entry_that_the_user_changed_is_not_taken_out_and_that_is_told_once(home: ClientHome) -> None:
    site = home.site("cursor")
    home.registry().add(site, [target()])
    site.path.write_text(site.path.read_text().replace("4737", "1"))

    first, second = home.registry().take_out("notes", "x"), home.registry().take_out("notes", "x")

    assert (changes(first), changes(second)) == (["refused"], ["unchanged"])
    assert first[0].hint.endswith("mooring client add cursor --server notes --force")
    assert ":1/" in site.path.read_text()
    site.path.write_text(site.path.read_text().replace(":1/", ":4737/"))
    assert changes(home.registry().take_out("notes", "x")) == ["removed"]


def test_an_entry_that_the_user_removed_is_not_put_back_by_a_refresh(home: ClientHome) -> None:
    home.registry().add(home.site("cursor"), [target()])
    home.write("cursor")

    assert changes(home.registry().take_out("notes", "x")) == ["unchanged"]
    assert home.registry().put_back(target()) == []
    assert home.states() == {("cursor", "notes"): "missing"}


def test_nothing_is_put_back_over_what_somebody_put_there_meanwhile(home: ClientHome) -> None:
    home.registry().add(home.site("cursor"), [target()])
    home.registry().take_out("notes", "x")
    home.write("cursor", '{"mcpServers": {"notes": {"url": "http://mine/"}}}')

    [outcome] = home.registry().put_back(target())

    assert (outcome.change, outcome.code) == ("refused", "entry_changed")
    assert home.states() == {("cursor", "notes"): "changed"}
    assert home.entries("cursor") == {"notes": {"url": "http://mine/"}}
    assert home.registry().put_back(target()) == [], "it is not out any more"


def test_what_somebody_put_back_the_same_is_ours(home: ClientHome) -> None:
    site = home.site("cursor")
    home.registry().add(site, [target()])
    text = site.path.read_text()
    home.registry().take_out("notes", "x")
    site.path.write_text(text)

    assert changes(home.registry().put_back(target())) == ["unchanged"]
    assert home.states() == {("cursor", "notes"): "in"}


def test_an_entry_that_is_too_large_to_be_kept_stays(home: ClientHome) -> None:
    site = home.site("cursor")
    home.registry().add(site, [target()])
    edited = {**home.entries("cursor")["notes"], "more": "x" * MAX_ENTRY_BYTES}
    site.path.write_bytes(site.client.editor.put(b"", site.client.section, "notes", edited))

    [outcome] = home.registry().take_out("notes", "x")

    assert (outcome.change, outcome.code) == ("refused", "entry_not_kept")
    assert home.states() == {("cursor", "notes"): "in"}


def test_what_is_out_can_be_removed_for_good(home: ClientHome) -> None:
    home.write("cursor")
    home.registry().add(home.site("cursor"), [target()])
    home.registry().take_out("notes", "x")

    assert changes(home.registry().remove(home.site("cursor"), ["notes"])) == ["removed"]
    assert home.registry().put_back(target()) == []


# For good


@pytest.mark.parametrize("is_out", [False, True])
def test_a_server_that_is_gone_is_forgotten_everywhere(home: ClientHome, is_out: bool) -> None:
    for client in CLIENTS:
        home.write(client)
        home.registry().add(home.site(client), [target(), target("mail")])
    if is_out:
        home.registry().take_out("notes", "x")

    outcomes = home.registry().forget("notes")

    assert changes(outcomes) == ["removed"] * len(CLIENTS)
    assert all(set(home.entries(client)) == {"other", "mail"} for client in CLIENTS)
    assert home.registry().servers() == ["mail"]


def test_a_changed_entry_of_a_server_that_is_gone_is_left_and_no_longer_ours(home: ClientHome) -> None:
    site = home.site("cursor")
    home.registry().add(site, [target()])
    text = site.path.read_text().replace("4737", "1")
    site.path.write_text(text)

    [outcome] = home.registry().forget("notes")

    assert (outcome.change, outcome.code) == ("refused", "entry_changed")
    assert outcome.hint.endswith("mooring client rm cursor --server notes --force")
    assert site.path.read_text() == text
    assert home.registry().servers() == []
    assert home.registry().forget("notes") == []


def test_entries_are_renewed_where_they_stand_as_we_wrote_them(home: ClientHome) -> None:
    for client in ("cursor", "vscode", "codex"):
        home.registry().add(home.site(client), [target()])
    changed, missing = home.site("vscode").path, home.site("codex").path
    changed.write_text(changed.read_text().replace("4737", "1"))
    missing.write_text("")

    outcomes = home.registry().renew(target(port=5000))

    assert [(one.client, one.change) for one in outcomes] == [
        ("cursor", "updated"),
        ("vscode", "refused"),
        ("codex", "unchanged"),
    ]
    assert ":5000/" in home.entries("cursor")["notes"]["url"]
    assert changes(home.registry().renew(target(port=5000))) == ["unchanged"] * 3


def test_what_is_missing_is_mended_where_it_is_meant(home: ClientHome) -> None:
    for client in ("cursor", "vscode"):
        home.registry().add(home.site(client), [target()])
        home.write(client)

    mended = home.registry().mend(target(), client="cursor", path=home.site("cursor").path)

    assert [(one.client, one.change) for one in mended] == [("cursor", "added")]
    assert home.states() == {("cursor", "notes"): "in", ("vscode", "notes"): "missing"}


def test_syncing_puts_right_what_drifted(home: ClientHome) -> None:
    registry = home.registry()
    registry.add(home.site("cursor"), [target(), target("gone"), target("moved"), target("mine")])
    registry.add(home.site("vscode"), [target()])
    registry.take_out("notes", "x", only=lambda client: client.id == "vscode")
    text = home.site("cursor").path.read_text()
    text = text.replace("/mine/mcp", "/my-own/mcp")
    home.write("cursor", text)
    editor, section = home.site("cursor").client.editor, home.site("cursor").client.section
    home.site("cursor").path.write_bytes(editor.remove(text.encode(), section, "notes"))

    outcomes = registry.sync({"notes": target(), "moved": target("moved", 5000), "mine": target("mine")})

    assert {(one.client, one.server): str(one.change) for one in outcomes} == {
        ("cursor", "notes"): "added",
        ("cursor", "gone"): "removed",
        ("cursor", "moved"): "updated",
        ("cursor", "mine"): "refused",
    }
    assert home.states() == {
        ("cursor", "notes"): "in",
        ("cursor", "moved"): "in",
        ("cursor", "mine"): "changed",
        ("vscode", "notes"): "out",
    }


# Import


def test_an_entry_of_somebody_else_becomes_ours_as_a_whole(home: ClientHome) -> None:
    home.write("cursor")

    [outcome] = home.registry().replace(home.site("cursor"), [("other", target("other"))])

    assert outcome.change is Change.UPDATED
    assert home.entries("cursor") == {"other": {"url": "http://127.0.0.1:4737/other/mcp"}}
    assert "hush" not in outcome.difference
    assert home.states() == {("cursor", "other"): "in"}


def test_it_may_get_another_name(home: ClientHome) -> None:
    home.write("goose")

    home.registry().replace(home.site("goose"), [("other", target("notes"))])

    assert list(home.entries("goose")) == ["notes"]
    assert home.states() == {("goose", "notes"): "in"}


def test_it_gets_no_name_that_is_taken(home: ClientHome) -> None:
    text = '{"mcpServers": {"a b": {"command": "x"}, "a-b": {"command": "y"}}}'
    path = home.write("cursor", text)

    [outcome] = home.registry().replace(home.site("cursor"), [("a b", target("a-b"))])

    assert (outcome.change, outcome.code) == ("refused", "entry_foreign")
    assert path.read_text() == text


def test_one_that_is_gone_by_then_is_told(home: ClientHome) -> None:
    home.write("cursor")

    [outcome] = home.registry().replace(home.site("cursor"), [("nothing", target())])

    assert (outcome.change, outcome.code) == ("refused", "entry_gone")


# Shared by clients


def test_two_clients_may_share_an_entry_of_a_project(home: ClientHome, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    registry = home.registry()
    one, other = (registry.site(client, project) for client in ("claude-code", "copilot-cli"))
    assert one.path == other.path

    assert changes(registry.add(one, [target()])) == ["added"]
    assert changes(registry.add(other, [target()])) == ["updated"], "it wants something beside it"
    assert home.states() == {("claude-code", "notes"): "in", ("copilot-cli", "notes"): "in"}
    [removed] = registry.remove(one, ["notes"])

    assert removed.change is Change.REMOVED
    assert "GitHub Copilot CLI" in removed.hint
    assert "notes" in one.path.read_text()
    [refused] = registry.remove(one, ["notes"])
    assert (refused.code, refused.hint) == (
        "entry_shared",
        f"mooring client rm copilot-cli --server notes --project {project}",
    )
    assert changes(registry.remove(other, ["notes"])) == ["removed"]
    assert not other.path.exists()


def test_a_shared_entry_goes_out_and_comes_back_for_both(home: ClientHome, tmp_path: Path) -> None:
    registry = home.registry()
    sites = [registry.site(client, tmp_path) for client in ("claude-code", "copilot-cli")]
    for site in sites:
        registry.add(site, [target()])

    assert changes(registry.take_out("notes", "x")) == ["removed"]
    assert home.states() == {("claude-code", "notes"): "out", ("copilot-cli", "notes"): "out"}
    assert changes(registry.put_back(target(port=5000))) == ["restored"]

    assert home.states() == {("claude-code", "notes"): "in", ("copilot-cli", "notes"): "in"}
    assert changes(registry.renew(target(port=5001))) == ["updated", "unchanged"]
    assert changes(registry.forget("notes")) == ["removed"]
    assert registry.servers() == []


def test_one_file_under_two_names_is_shared_too(home: ClientHome, tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    registry = home.registry()
    one, other = (registry.site("claude-code", project) for project in (real, link))

    registry.add(one, [target()])
    assert changes(registry.add(other, [target()])) == ["unchanged"]
    registry.remove(one, None)
    assert "notes" in one.path.read_text()

    registry.remove(other, None)
    assert "notes" not in one.path.read_text()


# Old files


def test_an_entry_in_an_old_file_of_a_client_is_removed_with_the_new(home: ClientHome) -> None:
    old_home = home.home / ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings"
    old_home.mkdir(parents=True)
    old = old_home / "cline_mcp_settings.json"
    (home.home / ".cline" / "data").mkdir(parents=True)
    site = home.site("cline")
    assert site.path != old
    home.registry().add(site, [target()])
    old.write_bytes(site.path.read_bytes())

    outcomes = home.registry().remove(site, ["notes"])

    assert [(one.path, str(one.change)) for one in outcomes] == [(site.path, "removed"), (old, "removed")]
    assert "notes" not in old.read_text()


def test_an_old_file_in_which_nothing_is_ours_is_not_touched(home: ClientHome) -> None:
    old_home = home.home / ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings"
    old_home.mkdir(parents=True)
    old = old_home / "cline_mcp_settings.json"
    (home.home / ".cline" / "data").mkdir(parents=True)
    old.write_text('{"mcpServers": {"notes": {"command": "mine"}}}')
    home.registry().add(home.site("cline"), [target()])

    outcomes = home.registry().remove(home.site("cline"), ["notes"])

    assert changes(outcomes) == ["removed"]
    assert "mine" in old.read_text()


def test_an_entry_is_removed_from_where_it_was_written_wherever_the_file_is_now(home: ClientHome) -> None:
    elsewhere = home.home / "elsewhere"
    moved = Registry(home.state, Machine(Platform.LINUX, home.home, {"CODEX_HOME": str(elsewhere)}))
    moved.add(moved.site("codex"), [target()])
    home.registry().add(home.site("codex"), [target()])

    outcomes = home.registry().remove(home.site("codex"), ["notes"])

    assert [one.path for one in outcomes] == [home.site("codex").path, elsewhere / "config.toml"]
    assert changes(outcomes) == ["removed", "removed"]
    assert "notes" not in (elsewhere / "config.toml").read_text()
    assert home.registry().servers() == []


def test_an_entry_of_a_client_that_is_not_known_any_more_can_be_forgotten(home: ClientHome) -> None:
    home.registry().add(home.site("cursor"), [target(), target("mail")])
    ledger = home.state / "ledger.json"
    ledger.write_text(ledger.read_text().replace('"cursor"', '"bygone"'))
    assert home.registry().servers() == ["mail", "notes"]

    assert home.registry().forget("notes") == []

    assert home.registry().servers() == ["mail"]


# Following


def test_a_site_may_follow_all_until_all_is_removed(home: ClientHome) -> None:
    registry = home.registry()
    registry.add(home.site("cursor"), [target()], follows_all=True)
    registry.add(home.site("vscode"), [target()])

    assert [site.client.id for site in registry.followers("new")] == ["cursor"]
    assert [site.client.id for site in registry.followers("notes")] == ["cursor", "vscode"]

    registry.remove(home.site("cursor"), None)
    assert registry.followers("new") == []


def test_a_copy_in_an_old_file_that_somebody_changes_meanwhile_is_left(
    home: ClientHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = home.site("devin")
    old = home.home / ".config/devin/config.json"
    home.registry().add(site, [target(), target("mail")])
    old.write_bytes(site.path.read_bytes())
    registry = home.registry()
    there = registry._there

    def changed_since(of: Site) -> dict[str, Value]:
        found = there(of)
        old.write_text(old.read_text().replace("127.0.0.1:4737/notes", "mine.example"))
        return found

    monkeypatch.setattr(registry, "_there", changed_since)
    outcomes = registry.remove(site, None)

    assert [(one.path, one.server, one.change) for one in outcomes] == [
        (site.path, "notes", "removed"),
        (site.path, "mail", "removed"),
        (old, "mail", "removed"),
        (old, "notes", "refused"),
    ]
    assert "mine.example" in old.read_text() and "mail" not in old.read_text()


# Links out of projects


@pytest.mark.parametrize("link", ["file", "folder"])
def test_nothing_is_written_out_of_a_project_unless_forced(home: ClientHome, link: str) -> None:
    project, outside = home.home / "project", home.home / "outside"
    project.mkdir()
    outside.mkdir()
    real = outside / "mcp.json"
    real.write_text('{"mcpServers": {}}')
    if link == "file":
        (project / ".cursor").mkdir()
        (project / ".cursor/mcp.json").symlink_to("../../outside/mcp.json")
    else:
        (project / ".cursor").symlink_to("../outside")
    site = home.registry().site("cursor", project)

    for dry_run in (True, False):
        [refused] = home.registry().add(site, [target()], dry_run=dry_run)
        assert refused.code == "outside_project"
        assert str(real) in refused.hint and "--force" in refused.hint
    assert real.read_text() == '{"mcpServers": {}}'

    assert changes(home.registry().add(site, [target()], force=True)) == ["added"]
    assert changes(home.registry().add(site, [target(port=5000)])) == ["updated"], "known since"
    assert changes(home.registry().take_out("notes", "x")) == ["removed"]
    assert changes(home.registry().put_back(target())) == ["restored"]
    assert changes(home.registry().remove(site, None)) == ["removed"]


def test_a_link_that_leads_elsewhere_since_is_not_followed(home: ClientHome) -> None:
    project = home.home / "project"
    (project / ".cursor").mkdir(parents=True)
    site = home.registry().site("cursor", project)
    home.registry().add(site, [target()])
    home.registry().take_out("notes", "x")
    outside = home.home / "outside.json"
    outside.write_text("{}")
    site.path.unlink()
    site.path.symlink_to(outside)

    home.registry().remove(site, ["other"])
    [refused] = home.registry().put_back(target())

    assert (refused.code, outside.read_text()) == ("outside_project", "{}")


def test_links_inside_a_project_and_to_a_project_are_followed(home: ClientHome) -> None:
    project = home.home / "project"
    (project / "settings").mkdir(parents=True)
    (project / ".cursor").symlink_to("settings")
    (home.home / "link").symlink_to("project")

    site = home.registry().site("cursor", home.home / "link")
    assert changes(home.registry().add(site, [target()])) == ["added"]
    assert (project / "settings/mcp.json").exists()


# Differences


def test_the_difference_has_changed_lines_alone(home: ClientHome) -> None:
    home.write("goose")

    [outcome] = home.registry().add(home.site("goose"), [target()])

    assert outcome.difference.splitlines()[:2] == ["+  notes:", "+    type: streamable_http"]
    assert all(line.startswith("+") for line in outcome.difference.splitlines())


def test_an_entry_that_stays_is_named_over_what_changed_in_it(home: ClientHome) -> None:
    home.registry().add(home.site("cursor"), [target()])

    [outcome] = home.registry().add(home.site("cursor"), [target(port=5000)])

    assert outcome.difference.splitlines() == [
        '     "notes": {',
        '-      "url": "http://127.0.0.1:4737/notes/mcp"',
        '+      "url": "http://127.0.0.1:5000/notes/mcp"',
    ]


def test_neighbours_in_the_same_line_are_not_shown(home: ClientHome) -> None:
    home.write("cursor", '{"mcpServers":{"other":{"command":"npx","env":{"T":"hush-hush"}}}}')

    [outcome] = home.registry().add(home.site("cursor"), [target()])

    assert outcome.difference.splitlines() == [
        '+    "notes": {',
        '+      "url": "http://127.0.0.1:4737/notes/mcp"',
        "+    },",
    ]


SECRETIVE = {
    "cursor": """{
  "mcpServers": {
    "notes": {
      "command": "/hush/npx",
      "args": [
        "--token",
        "hush-1",
        ["hush-2", 5318008]
      ],
      "url2": "https://h/mcp?key=hush-3",
      "passphrase": "hush-4",
      "env": {"A": "\\u0068ush-5", "B": "hu\\/sh", "C": 5318008, "D": null}
    }
  }
}
""",
    "goose": """extensions:
  notes:
    cmd: hush-0
    envs:
      A: >
        hush-1
        hush-2
      B: "\\x68ush-3"
      C: hush-4
        hush-5
      D: 'it''s hush'
      E: |-
        hush-6
""",
    "codex": """[mcp_servers.notes]
command = "hush-0"
args = [
  "hush-1",
]
[mcp_servers.notes.env]
A = "\\u0068ush-2"
B = \"\"\"
hush-3 \\
  hush-4\"\"\"
""",
}


@pytest.mark.parametrize("client", SECRETIVE)
def test_of_an_entry_that_is_not_ours_keys_alone_are_shown(home: ClientHome, client: str) -> None:
    path = home.write(client, SECRETIVE[client])
    site = home.site(client)
    secrets = ("hush", "x68ush", "u0068", "sh-", "5318008", "sh")

    [forced] = home.registry().add(site, [target()], force=True)
    [undone] = home.registry().undo(client)
    assert path.read_text() == SECRETIVE[client]
    [replaced] = home.registry().replace(site, [("notes", target())])
    home.registry().undo(client)
    [removed] = home.registry().remove(site, ["notes"], force=True)

    for outcome in (forced, undone, replaced, removed):
        assert "A" in outcome.difference and "notes" in outcome.difference
        assert MASK in outcome.difference
        assert [text for text in secrets if text in outcome.difference] == [], outcome.difference
    for outcome in (forced, undone, replaced):
        assert ":4737/notes/mcp" in outcome.difference


@pytest.mark.parametrize("client", CLIENTS)
def test_what_a_user_added_to_our_entry_is_masked(home: ClientHome, client: str) -> None:
    site = home.site(client)
    home.registry().add(site, [target()])
    edited = {**home.entries(client)["notes"], "headers": {"Authorization": 'hush "hush" é'}}
    site.path.write_bytes(
        site.client.editor.put(site.path.read_bytes(), site.client.section, "notes", edited)
    )

    [outcome] = home.registry().remove(site, None, force=True)

    assert "hush" not in outcome.difference
    assert "Authorization" in outcome.difference
    assert "notes" in outcome.difference
    assert "/notes/mcp" in outcome.difference or "/opt/mooring" in outcome.difference


def test_an_entry_that_is_no_mapping_is_shown_too(home: ClientHome) -> None:
    home.write("cursor", '{"mcpServers": {"notes": "hush"}}')

    [outcome] = home.registry().remove(home.site("cursor"), ["notes"], force=True)

    assert '-    "notes": {' in outcome.difference
    assert "hush" not in outcome.difference


def test_the_daemon_makes_no_differences(home: ClientHome) -> None:
    home.registry().add(home.site("cursor"), [target()])
    registry = home.registry()

    assert [one.difference for one in registry.take_out("notes", "x")] == [""]
    assert [one.difference for one in registry.put_back(target())] == [""]


def test_a_difference_is_made_when_nobody_waits_for_the_ledger(
    home: ClientHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def asks(*_: object) -> str:
        with home.registry()._books.ledger.held():
            asked.append(home.states())
        return "this"

    monkeypatch.setattr(bookkeeping, "difference", asks)
    [outcome] = home.registry().add(home.site("cursor"), [target()])

    assert (outcome.difference, asked) == ("this", [{("cursor", "notes"): "in"}])


def test_a_difference_is_bounded(home: ClientHome) -> None:
    client = home.site("cursor").client
    large: Value = {f"k{n}": ["x", {"y": "z" * 10_000}] for n in range(50_000)}

    def lines(before: There, after: There) -> list[str]:
        return difference(client, [ChangedEntry("notes", before, after, [])]).splitlines()

    shown = lines(large, {"a": "b"})
    assert len(shown) == MOST_LINES + 1
    assert shown[-1].endswith("lines more")
    changed = lines({f"a{n}": 1 for n in range(1000)}, {f"b{n}": 1 for n in range(1001)})
    assert changed[0] == '     "notes": {'
    assert changed[-1] == f"… and {2 * 1001 - MOST_LINES + 3 - 2:,} lines more", "shown as a whole"
    assert max(map(len, lines(ABSENT, {"k" * 100_000: "x"}))) < 200
    many = [ChangedEntry(f"n{n}", ABSENT, {"a": "b"}, []) for n in range(1000)]
    assert len(difference(client, many).splitlines()) == MOST_LINES + 1


def test_what_cannot_be_shown_is_named(home: ClientHome, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> bytes:
        raise ZeroDivisionError

    client = home.site("cursor").client
    monkeypatch.setattr(type(client.editor), "put", fails)

    assert difference(client, [ChangedEntry("notes", {"a": "hush"}, ABSENT, [])]) == f'-"notes": {MASK}'


# One file is never the trouble of another


HOSTILE = {
    "codex": [
        "n = " + "9" * 5000 + "\n",
        "[mcp_servers.other]\nn = 0x" + "f" * 5000 + "\n",
        "[mcp_servers.notes]\nn = 0x" + "f" * 5000 + "\n",
        "d = 2024-02-31\n",
    ],
    "goose": [
        "extensions:\n  notes: {n: 0x" + "f" * 5000 + "}\n",
        "extensions:\n  other: {n: " + "9" * 5000 + "}\n",
    ],
    "openclaw": [
        "{mcp: {servers: {other: {n: 0x" + "f" * 5000 + "}}}}",
        "{mcp: {servers: {notes: {n: -0x" + "f" * 5000 + "}}}}",
    ],
}


@pytest.mark.parametrize(("client", "text"), [(one, text) for one in HOSTILE for text in HOSTILE[one]])
@pytest.mark.parametrize("force", [False, True])
def test_a_hostile_number_in_one_file_stops_nobody(
    home: ClientHome, client: str, text: str, force: bool
) -> None:
    for one in (client, "cursor"):
        home.registry().add(home.site(one), [target()])
    home.write(client, text)
    registry = home.registry()

    assert home.states()["cursor", "notes"] == "in"
    registry.drifted()
    registry.add(home.site(client), [target()], force=force)
    registry.sync({"notes": target()})
    assert {one.client: one.change for one in registry.take_out("notes", "x")}["cursor"] == "removed"
    assert {one.client: one.change for one in registry.put_back(target())}["cursor"] == "restored"
    assert {one.client: one.change for one in registry.forget("notes")}["cursor"] == "removed"


def test_what_nobody_has_thought_of_is_the_trouble_of_that_file(
    home: ClientHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    for client in ("codex", "cursor"):
        home.registry().add(home.site(client), [target()])

    def fails(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("mooring.clients.editing.toml_tree.tomllib.loads", fails)
    registry = home.registry()

    [codex, cursor] = sorted(registry.standings(), key=lambda one: one.client)
    assert "unexpected" in codex.trouble and not cursor.trouble
    assert registry.drifted() == []
    outcomes = registry.take_out("notes", "x")
    assert [(one.client, one.change, one.code) for one in outcomes] == [
        ("codex", "refused", "file_unreadable"),
        ("cursor", "removed", ""),
    ]
    assert changes(registry.remove(home.site("codex"), None)) == ["refused"]


def test_an_intent_that_cannot_be_settled_stops_nobody(
    home: ClientHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def killed(*_: object) -> None:
        raise Killed

    def fails(*_: object) -> bool:
        raise ZeroDivisionError

    home.write("codex")
    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(bookkeeping.Books, "_finish", killed)
        home.registry().add(home.site("codex"), [target()])
    monkeypatch.setattr(bookkeeping.Books, "_is_done", fails)

    assert changes(home.registry().add(home.site("cursor"), [target()])) == ["added"]
    [refused] = home.registry().add(home.site("codex"), [target()])
    assert refused.code == "file_unsettled"


# Interrupted


def test_a_change_that_fails_half_way_leaves_no_intent(
    home: ClientHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = home.write("cursor")
    registry = home.registry()

    def fail(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr("mooring.clients.replacing.Replacing.replace", fail)
        [outcome] = registry.add(home.site("cursor"), [target()])

    assert outcome.change is Change.REFUSED
    assert path.read_text() == FOREIGN["cursor"]
    assert (
        "intent" not in (home.state / "ledger.json").read_text()
        if (home.state / "ledger.json").exists()
        else True
    )
    assert changes(registry.add(home.site("cursor"), [target()])) == ["added"]


def test_a_client_that_rewrites_its_file_just_after_us_is_no_reason_to_forget_the_change(
    home: ClientHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is read again then, and found right: what counts is the change that was made."""
    path = home.write("cursor")
    calls = []

    def busy(at: Path) -> object:
        calls.append(at)
        if len(calls) == 1:
            path.write_text(path.read_text() + "\n")
        return fingerprint_of(at)

    monkeypatch.setattr("mooring.clients.files.fingerprint_of", busy)
    [outcome] = home.registry().add(home.site("cursor"), [target()])

    assert outcome.change is Change.ADDED
    assert outcome.difference
    assert home.states() == {("cursor", "notes"): "in"}
    assert changes(home.registry().undo("cursor")) == ["restored"]
    assert "notes" not in home.entries("cursor")


def test_an_intent_that_cannot_be_settled_yet_waits_until_the_file_can_be_read(home: ClientHome) -> None:
    path = home.write("cursor")
    registry = home.registry()
    books = registry._books
    site = home.site("cursor")

    class Killed(BaseException):
        pass

    def killed(*_: object) -> None:
        raise Killed

    finish, bookkeeping.Books._finish = bookkeeping.Books._finish, killed  # type: ignore[method-assign,assignment]
    try:
        with pytest.raises(Killed):
            registry.add(site, [target()])
    finally:
        bookkeeping.Books._finish = finish  # type: ignore[method-assign]
    whole = path.read_text()
    assert "notes" in whole
    path.write_text(whole[:-4])

    assert changes(home.registry().add(site, [target("mail")])) == ["refused"]
    assert "intent" in (home.state / "ledger.json").read_text()

    path.write_text(whole + "\n")
    assert books.peek().record(str(path)).entries[0].server == "notes", (
        "told by its entries: others wrote too"
    )
    assert changes(home.registry().add(site, [target("mail")])) == ["added"]
    assert home.states() == {("cursor", "notes"): "in", ("cursor", "mail"): "in"}


def test_a_client_that_has_taken_nothing_follows_nothing(home: ClientHome) -> None:
    home.write("cursor", '{"mcpServers": {"notes": {"command": "mine"}}}')
    home.registry().add(home.site("cursor"), [target()], follows_all=True)
    assert home.registry().followers("new") == []
    home.registry().add(home.site("cursor"), [target(), target("other")], follows_all=True)
    assert [site.client.id for site in home.registry().followers("new")] == ["cursor"]


def test_what_would_be_refused_is_said_without_trying_it(home: ClientHome) -> None:
    home.write("cursor").chmod(0o444)
    [outcome] = home.registry().add(home.site("cursor"), [target()], dry_run=True)
    assert outcome.change is Change.REFUSED and outcome.code == "file_read_only"
