"""`mooring connect` as it is typed: an address, or one of the commands below it."""

from typing import Any

import click
import pytest
from click.testing import CliRunner

from mooring.cli.connect import errands
from mooring.cli.connect.command import connect
from mooring.cli.main import cli
from mooring.errors import UserError


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
