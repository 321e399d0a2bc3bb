"""`mooring connect` as it is typed: an address, or one of the commands below it."""

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from mooring.cli.connect import errands
from mooring.cli.connect.command import connect
from mooring.cli.main import cli
from mooring.errors import Unavailable, UserError
from mooring.host.connection_file import Wish
from mooring.host.places import Places


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    asked: list[tuple[str, Any]] = []
    monkeypatch.setattr(errands, "connect", lambda relay, **given: asked.append((relay, given)))
    monkeypatch.setattr(errands, "show_status", lambda *, as_json: asked.append(("status", as_json)))
    monkeypatch.setattr(errands, "stop", lambda which: asked.append(("stop", which)))
    return asked


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["connect", *words], prog_name="mooring")
    return result.exit_code, result.output


def test_an_address_with_options_on_either_side(done: list[tuple[str, Any]]) -> None:
    assert run("--json", "wss://relay", "--server", "time", "--background") == (0, "")
    [(relay, given)] = done
    assert relay == "wss://relay"
    assert (given["as_json"], given["servers"], given["background"]) == (True, ("time",), True)


def test_commands_below_it(done: list[tuple[str, Any]]) -> None:
    assert run("status")[0] == run("status", "--json")[0] == run("stop")[0] == run("stop", "wss://a")[0] == 0
    assert done == [("status", False), ("status", True), ("stop", None), ("stop", "wss://a")]


@pytest.mark.parametrize("command", ["status", "stop"])
def test_each_has_help_of_its_own(command: str) -> None:
    status, help = run(command, "--help")
    assert status == 0 and help.startswith(f"Usage: mooring connect {command} [OPTIONS]"), help
    assert "--drain-timeout" not in help and "--server" not in help


def test_its_own_help_has_all() -> None:
    status, help = run("--help")
    assert status == 0 and help.startswith("Usage: mooring connect [OPTIONS] WSS-URL\n"), help
    for word in ("--background", "--client", "\n  status ", "\n  stop "):
        assert word in help


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "WSS-URL"),
        (("wss://a", "wss://b"), "wss://b"),
        (("--json", "status"), "mooring connect status"),
        (("status", "wss://a"), "wss://a"),
        (("stop", "--json"), "--json"),
    ],
)
def test_what_is_wrong_is_said(words: tuple[str, ...], said: str, done: list[tuple[str, Any]]) -> None:
    status, output = run(*words)
    assert status == 2 and said in output and not done


def test_a_shell_is_told_of_the_commands() -> None:
    context = click.Context(connect, info_name="connect")
    assert {item.value for item in connect.shell_complete(context, "st")} == {"status", "stop"}


def test_a_variable_that_is_not_set_is_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOWHERE", raising=False)
    with pytest.raises(UserError) as caught:
        errands._reference("env:NOWHERE", None)
    assert caught.value.code == "no_token" and "NOWHERE" in caught.value.hint
    assert "--token-file PATH" in caught.value.hint
    monkeypatch.setenv("NOWHERE", "x")
    assert errands._reference("env:NOWHERE", None) == "env:NOWHERE"


def told(**more: Any) -> dict[str, Any]:
    usual = {
        "relay": "ws://127.0.0.1:8080",
        "state": "waiting",
        "name": "",
        "servers": ["time", "notes"],
        "connected_since": None,
        "round_trip_ms": None,
        "calls": 0,
        "reconnects": 0,
        "next_attempt_in_s": None,
        "last_error": None,
    }
    return usual | more


def test_what_is_not_connected_offers_nothing_and_is_tried_again_at_some_time() -> None:
    waiting, refused = told(next_attempt_in_s=7.2), told(state="refused", relay="ws://other")
    head, first, second = errands.table([waiting, refused], 80)
    assert "NEXT TRY" in head and "RECONNECTS" not in head
    assert "in 8 s" in first and first.endswith("-") and second.endswith("-")
    assert not any("time" in line for line in (first, second))
    connected = told(state="connected", name="laptop", connected_since=1.0, round_trip_ms=1.25)
    head, only = errands.table([connected], 80)
    assert "NEXT TRY" not in head and only.endswith("time, notes")


@pytest.mark.parametrize(
    ("last_error", "note"),
    [
        ("127.0.0.1:8080: connection refused", "connection refused"),
        ("ws://127.0.0.1:8080 is no relay: it answers with HTTP status 404", "is no relay: it answers with"),
        ("the link was lost", "the link was lost"),
    ],
)
def test_the_address_is_said_once(
    last_error: str, note: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(errands, "statuses", lambda places: [told(last_error=last_error)])
    errands.show_status(as_json=False)
    assert f"note: ws://127.0.0.1:8080: {note}" in capsys.readouterr().err


def test_a_question_stands_at_the_end_of_a_hint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = told(last_error="no TLS", last_error_code="tls_failed", hint="is it ws:// rather than wss://?")
    monkeypatch.setattr(errands, "_rehearse", lambda *given: None)
    monkeypatch.setattr(errands, "_wait_for", lambda *given: asked)

    class Daemon:
        def ask(self, *words: str) -> None: ...

    wish = Wish(relay="wss://relay", token="file:/t")
    with pytest.raises(Unavailable) as caught:
        errands._hand_to_daemon(wish, Places(tmp_path, 0), (), Daemon(), as_json=False)
    assert caught.value.hint == "mooring connect stop wss://relay forgets it; is it ws:// rather than wss://?"


def test_there_is_nothing_to_stop(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MOORING_STATE_DIR", str(tmp_path))
    for which in (None, "wss://relay"):
        with pytest.raises(UserError, match="connected to no relay") as caught:
            errands.stop(which)
        assert "mooring connect status" in caught.value.hint
