"""Leaving no trace: every file as it was before Mooring came, as far as that can be known."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mooring.clients.outcomes import Change
from tests.client_home import CLIENTS, FOREIGN, ClientHome, changes, target


@pytest.fixture
def home(tmp_path: Path) -> ClientHome:
    return ClientHome.at(tmp_path)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_file_that_nobody_else_wrote_is_the_same_to_the_byte(home: ClientHome, client: str) -> None:
    path = home.write(client, "" if client == "continue" else None)
    before = path.read_bytes()
    for name in ("one", "two"):
        home.registry().add(home.site(client), [target(name)])
    home.registry().remove(home.site(client), ["one"])
    home.registry().leave()
    assert path.read_bytes() == before
    assert home.registry().files() == []


def test_a_file_that_there_was_not_is_gone_even_if_the_daemon_removed_the_last_entry(
    home: ClientHome,
) -> None:
    for client in ("cursor", "codex", "goose"):
        home.registry().add(home.site(client), [target()])
    home.registry().forget("notes")
    assert all(path.exists() for path in home.registry().files())
    home.registry().leave()
    assert [home.site(client).path.exists() for client in ("cursor", "codex", "goose")] == [False] * 3


def test_a_file_that_we_made_and_others_use_stays_with_what_is_theirs(home: ClientHome) -> None:
    home.registry().add(home.site("codex"), [target()])
    path = home.site("codex").path
    path.write_text(f'model = "x"\n{path.read_text()}')
    home.registry().leave()
    assert home.data("codex").get("model") == "x" and not home.data("codex").get("mcp_servers")


@pytest.mark.parametrize("client", ["cursor", "codex", "goose", "continue"])
def test_what_was_imported_is_the_clients_own_again_though_the_file_was_written_since(
    home: ClientHome, client: str
) -> None:
    path = home.write(client)
    theirs = home.data(client)
    home.registry().replace(home.site(client), [("other", target("mine"))])
    home.registry().renew(target("mine", port=5000))
    path.write_bytes(path.read_bytes() + b"\n")  # so that no backup helps
    assert home.data(client) != theirs

    outcomes = home.registry().leave()

    assert changes(outcomes) == [Change.REMOVED, Change.RESTORED]
    assert home.data(client) == theirs
    assert home.registry().files() == []


def by_the_daemon(home: ClientHome) -> None:
    home.registry().forget("mine")


def by_the_user(home: ClientHome) -> None:
    home.registry().remove(home.site("codex"), ["mine"])


@pytest.mark.parametrize("removed", [by_the_daemon, by_the_user])
def test_what_was_imported_and_removed_is_the_clients_own_again(
    home: ClientHome, removed: Callable[[ClientHome], None]
) -> None:
    path = home.write("codex")
    theirs = home.data("codex")
    home.registry().replace(home.site("codex"), [("other", target("mine"))])
    removed(home)
    path.write_bytes(path.read_bytes() + b"\n")
    assert "mcp_servers" not in home.data("codex")
    assert home.registry().files() == [path]
    home.registry().leave()
    assert home.data("codex") == theirs


def test_what_was_undone_is_not_put_back_over_what_somebody_did_with_it(home: ClientHome) -> None:
    path = home.write("codex")
    home.registry().replace(home.site("codex"), [("other", target("mine"))])
    home.registry().undo()
    assert path.read_bytes() == FOREIGN["codex"].encode()
    path.write_text('model = "x"\n')  # the user wants it no more
    home.registry().leave()
    assert path.read_text() == 'model = "x"\n'


def test_what_was_overwritten_by_force_is_back(home: ClientHome) -> None:
    path = home.write("cursor")
    home.registry().add(home.site("cursor"), [target("other")], force=True)
    path.write_bytes(path.read_bytes() + b"\n")
    home.registry().leave()
    assert home.data("cursor")["mcpServers"]["other"] == {"command": "npx", "env": {"T": "hush-hush"}}


def test_what_somebody_changed_is_left_and_told(home: ClientHome) -> None:
    path = home.write("cursor")
    home.registry().add(home.site("cursor"), [target()])
    path.write_text(path.read_text().replace("/notes/mcp", "/notes/sse"))
    (outcome,) = home.registry().leave()
    assert outcome.change is Change.REFUSED and outcome.code == "entry_changed"
    assert "/notes/sse" in path.read_text()


def test_an_entry_that_is_out_comes_not_back(home: ClientHome) -> None:
    path = home.write("vscode")
    home.registry().add(home.site("vscode"), [target()])
    home.registry().take_out("notes", "the server has failed")
    home.registry().leave()
    assert path.read_bytes() == FOREIGN["vscode"].encode()
    assert home.registry().servers() == []


def test_what_somebody_changed_can_be_put_right_and_left_then(home: ClientHome) -> None:
    path = home.write("cursor")
    theirs = home.data("cursor")
    home.registry().replace(home.site("cursor"), [("other", target("other"))])
    ours = path.read_text()
    path.write_text(ours.replace("/other/mcp", "/other/sse") + "\n")
    for _ in range(2):
        (outcome,) = home.registry().leave()
        assert outcome.code == "entry_changed" and "client rm cursor --server other --force" in outcome.hint
    path.write_text(ours + "\n")
    home.registry().leave()
    assert home.data("cursor") == theirs


def test_what_cannot_be_given_back_is_told_though_nothing_is_ours_any_more(home: ClientHome) -> None:
    path = home.write("cursor")
    theirs = home.data("cursor")
    home.registry().replace(home.site("cursor"), [("other", target("mine"))])
    home.registry().forget("mine")
    there = path.read_text()
    path.write_text("{")
    (outcome,) = home.registry().leave()
    assert (outcome.change, outcome.server) == (Change.REFUSED, "other")
    path.write_text(there)
    home.registry().leave()
    assert home.data("cursor") == theirs


def test_what_somebody_changed_and_then_had_removed_comes_not_back(home: ClientHome) -> None:
    path = home.write("cursor")
    home.registry().add(home.site("cursor"), [target()])
    path.write_text(path.read_text().replace("/notes/mcp", "/notes/sse"))
    home.registry().remove(home.site("cursor"), ["notes"], force=True)
    there = path.read_bytes()
    assert not [one for one in home.registry().leave() if one.change is Change.REFUSED]
    assert path.read_bytes() == there


def test_an_entry_that_the_user_made_their_own_is_back_though_ours_was_forced_over_it(
    home: ClientHome,
) -> None:
    path = home.write("cursor", '{"mcpServers": {}}')
    home.registry().add(home.site("cursor"), [target()])
    path.write_text('{"mcpServers": {"notes": {"command": "mine", "args": ["a"]}}}')
    home.registry().add(home.site("cursor"), [target()], force=True)
    path.write_text(path.read_text().replace("{", "{ ", 1))
    home.registry().leave()
    assert home.entries("cursor") == {"notes": {"command": "mine", "args": ["a"]}}


def test_an_entry_of_ours_that_was_recognised_is_no_entry_of_somebody_else(home: ClientHome) -> None:
    path = home.write("cursor", '{"mcpServers": {}}')
    home.registry().add(home.site("cursor"), [target()])
    (home.state / "ledger.json").unlink()
    assert changes(home.registry().sync({"notes": target()})) == ["unchanged"]
    path.write_text(path.read_text().replace("{", "{ ", 1))
    home.registry().leave()
    assert home.entries("cursor") == {}
