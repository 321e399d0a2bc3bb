"""`mooring relay token`, with a real folder."""

import json
import os
import re
import time
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

from mooring.cli.relay.tokens import token
from mooring.errors import MooringError, exit_status
from mooring.relay.token_book import TokenBook

TOKEN = re.compile(r"mrt_[a-z2-7]{12}_[A-Za-z0-9_-]{43}")


@click.group()
@click.option("--state")
def relay(state: str | None) -> None:
    """As the group has it that `token` is part of."""


relay.add_command(token)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "relay"
    monkeypatch.setenv("MOORING_RELAY_STATE", str(folder))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    return folder


def run(*arguments: str) -> Result:
    done = CliRunner().invoke(relay, ["token", *arguments])
    assert done.exit_code == 0, (done.output, done.exception)
    return done


def refused(*arguments: str) -> MooringError:
    done = CliRunner().invoke(relay, ["token", *arguments])
    assert isinstance(done.exception, MooringError) and done.stdout == ""
    return done.exception


def misused(*arguments: str) -> str:
    done = CliRunner().invoke(relay, ["token", *arguments])
    assert done.exit_code == 2 and done.stdout == ""
    return " ".join(done.stderr.split())


def found(folder: Path, text: str) -> TokenBook:
    book = TokenBook.load(folder / "tokens.json")
    assert book.find(text.encode()) is not None
    return book


def test_a_token_is_alone_on_stdout_and_what_to_do_with_it_beside_it(folder: Path) -> None:
    done = run("create", "laptop", "--servers", "time,notes")
    assert TOKEN.fullmatch(done.stdout.removesuffix("\n"))
    text = done.stdout.strip()
    assert "mooring connect wss://HOST --token secret:relay" in done.stderr
    assert "Authorization: Bearer TOKEN" in done.stderr
    assert not TOKEN.search(done.stderr), "once is once: stderr ends up in logs"
    grant = found(folder, text).find(text.encode())
    assert grant is not None and grant.name == "laptop" and grant.expires is None
    assert grant.may_connect("notes") and grant.may_call("laptop", "time") and not grant.may_connect("git")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "tokens.json").stat().st_mode & 0o777 == 0o600


def test_a_caller_is_told_nothing_of_workstations(folder: Path) -> None:
    done = run("create", "phone", "--call", "laptop/time,desktop/*", "--call", "laptop/notes")
    assert "mooring connect" not in done.stderr and "Authorization: Bearer TOKEN" in done.stderr
    text = done.stdout.strip().encode()
    grant = TokenBook.load(folder / "tokens.json").find(text)
    assert grant is not None and grant.calls == {"laptop/time", "desktop/*", "laptop/notes"}
    assert not grant.servers


def test_json_is_for_programs(folder: Path) -> None:
    before = time.time()
    done = run("create", "both", "--servers", "*", "--call", "laptop/*", "--expires", "30d", "--json")
    made = json.loads(done.stdout)
    assert list(made) == ["name", "token", "servers", "calls", "created", "expires"] and done.stderr == ""
    assert (made["name"], made["servers"], made["calls"]) == ("both", ["*"], ["laptop/*"])
    assert before <= made["created"] <= time.time() and made["expires"] == made["created"] + 30 * 86400
    found(folder, made["token"])
    [listed] = json.loads(run("list", "--json").stdout)
    del made["token"]
    assert listed == made


def test_the_list_tells_everything_but_the_tokens() -> None:
    assert run("list").stdout.startswith("There are no tokens.") and run("list", "--json").stdout == "[]\n"
    texts = [
        run("create", "phone", "--call", "laptop/time").stdout.strip(),
        run("create", "laptop", "--servers", "time,notes", "--expires", "1h").stdout.strip(),
        run("create", "short", "--call", "*", "--expires", "1ms").stdout.strip(),
    ]
    while time.time() <= json.loads(run("list", "--json").stdout)[-1]["expires"]:
        pass
    head, *rows = [re.split(r"  +", line) for line in run("list").stdout.splitlines()]
    assert head == ["NAME", "MAY CONNECT", "MAY CALL", "CREATED", "EXPIRES"]
    assert [row[:3] for row in rows] == [
        ["laptop", "time, notes", "its own"],
        ["phone", "-", "laptop/time"],
        ["short", "-", "*"],
    ]
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", rows[0][4])
    assert [rows[1][4], rows[2][4]] == ["never", "expired"] and rows[0][3].endswith(" ago")
    for told in (run("list").output, run("list", "--json").output):
        assert not TOKEN.search(told) and not any(text[17:] in told or text[4:16] in told for text in texts)


def test_a_name_is_taken_until_it_is_revoked(folder: Path) -> None:
    first = run("create", "laptop", "--servers", "time").stdout.strip()
    taken = refused("create", "laptop", "--call", "*")
    assert (taken.code, exit_status(taken)) == ("token_exists", 2) and "revoke laptop" in taken.hint
    assert run("revoke", "laptop").stdout == "laptop is revoked\n"
    second = run("create", "laptop", "--servers", "time").stdout.strip()
    assert found(folder, second).find(first.encode()) is None


def test_revoking_what_there_is_not_is_told_and_makes_nothing(folder: Path) -> None:
    missing = refused("revoke", "laptop")
    assert (missing.code, exit_status(missing)) == ("token_missing", 2) and not folder.exists()
    run("create", "phone", "--call", "*")
    assert refused("revoke", "laptop").code == "token_missing"
    assert [one["name"] for one in json.loads(run("list", "--json").stdout)] == ["phone"]


def test_what_is_misused_makes_nothing(folder: Path) -> None:
    assert "say what it is for" in misused("create", "laptop")
    assert "own URLs" in misused("create", "v1", "--servers", "time")
    assert "cannot be a name" in misused("create", ".laptop", "--servers", "time")
    assert "cannot be a name" in misused("revoke", "Laptop")
    assert "is no server" in misused("create", "laptop", "--servers", "time,")
    assert "cannot be called" in misused("create", "phone", "--call", "laptop")
    for span in ("0", "0s", "soon", "99999d", "-1d"):
        said = misused("create", "phone", "--call", "*", "--expires", span)
        assert "--expires" in said and "write 12h, 30d or 365d" in said
    assert not folder.exists()


def test_the_folder_can_be_given_in_three_places(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, around = tmp_path / "given", tmp_path / "around"
    run("create", "a", "--call", "*")
    run("create", "b", "--call", "*", "--state", str(given))
    before = ["--state", str(around), "token"]
    assert CliRunner().invoke(relay, [*before, "create", "c", "--call", "*"]).exit_code == 0
    assert (
        CliRunner().invoke(relay, [*before, "create", "d", "--call", "*", "--state", str(given)]).exit_code
        == 0
    )
    monkeypatch.delenv("MOORING_RELAY_STATE")
    run("create", "e", "--call", "*")
    names = {
        where: [one["name"] for one in json.loads(run("list", "--json", "--state", str(where)).stdout)]
        for where in (folder, given, around, tmp_path / "xdg" / "mooring-relay")
    }
    assert list(names.values()) == [["a"], ["b", "d"], ["c"], ["e"]]


def test_a_folder_of_somebody_else_is_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("create", "laptop", "--servers", "time")
    before = (folder / "tokens.json").read_bytes()
    monkeypatch.setattr(os, "getuid", lambda: folder.stat().st_uid + 1)
    for arguments in (("create", "phone", "--call", "*"), ("revoke", "laptop")):
        assert "belongs to somebody else" in refused(*arguments).message
    assert (folder / "tokens.json").read_bytes() == before


def test_names_are_completed(folder: Path) -> None:
    run("create", "laptop", "--servers", "time")
    run("create", "phone", "--call", "*")

    def completed(*words: str, begun: str) -> list[str]:
        return [
            item.value for item in ShellComplete(relay, {}, "relay", "").get_completions(list(words), begun)
        ]

    assert completed("token", "revoke", begun="l") == ["laptop"]
    assert completed("token", "revoke", "--state", str(folder / "none"), begun="") == []
    (folder / "tokens.json").write_text("damaged")
    assert completed("token", "revoke", begun="") == []
