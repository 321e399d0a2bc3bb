"""docs/relay.md: what it says to run can be run, and the two ways to run a relay for good are whole."""

import configparser
import re
import shlex
import sys
from pathlib import Path

import pytest
import yaml

from mooring.cli.values import parse_duration
from mooring.host.relay_options import RelayOptions, check
from tests.e2e.command_line import parse
from tests.unit.test_cli_service_files import check_unit

PAGE = (Path(__file__).parents[2] / "docs/relay.md").read_text()
UNIT, COMPOSE = (next(re.finditer(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL))[1] for kind in ("ini", "yaml"))
SHELL = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
LINES = [*SHELL, *re.findall(r"^ {4}(mooring .*)$", PAGE, re.MULTILINE)]
COMMANDS = [found[1] for line in LINES if (found := re.search(r"(?:^| |/)(mooring [a-z].*)", line))]
RELAY = "mooring relay --domain relay.example.com"


def setting(name: str) -> str:
    """One of the unit's."""
    unit = configparser.ConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(UNIT)
    return unit["Service"][name]


def checked(words: list[str], *, is_root: bool) -> RelayOptions:
    """What the relay would be asked; refused as it would be."""
    given = parse(words).params
    options = RelayOptions(
        state=Path("state"),
        domain=given["domain"],
        is_production=bool(given["domain"]),
        allow_root=given["allow_root"],
        drain_timeout_s=given["drain_timeout"],
        announce_restart=given["announce_restart"],
    )
    check(options, is_root=is_root)
    return options


@pytest.mark.parametrize("line", COMMANDS)
def test_each_command_is_one(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "laptop.token").touch()
    monkeypatch.chdir(tmp_path)
    words = shlex.split(re.split(r" [>&]", line)[0], comments=True)
    assert parse(words).command.name in words[1:4]


def test_all_commands_were_found() -> None:
    assert len(COMMANDS) >= 15 and RELAY in COMMANDS


def test_the_unit() -> None:
    words = shlex.split(setting("ExecStart"))
    assert words[0] == "/opt/mooring/bin/mooring"
    options = checked(words, is_root=False)
    assert (
        options.announce_restart and parse_duration(setting("TimeoutStopSec") + "s") > options.drain_timeout_s
    )
    assert setting("RestartPreventExitStatus") == "2", "what asking again does not heal"
    assert int(setting("RestartSec")) >= 30, "an authority forgives five failures an hour"
    user, folder = setting("User"), f"/var/lib/{setting('StateDirectory')}"
    assert setting("Environment") == f"MOORING_RELAY_STATE={folder}"
    # Its user exists, and tokens are made as that one where the relay looks.
    assert [line.split()[-1] for line in SHELL if line.startswith("useradd ")] == [user]
    ours = [line for line in SHELL if line.startswith("sudo ")]
    assert any("token create" in line for line in ours)
    assert all(line.startswith(f"sudo -u {user} MOORING_RELAY_STATE={folder} {words[0]} ") for line in ours)


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    unit = UNIT.replace("/opt/mooring/bin/mooring", sys.executable)
    check_unit(tmp_path / "mooring-relay.service", unit)


def test_the_compose_file() -> None:
    compose = yaml.safe_load(COMPOSE)
    [(name, relay)] = compose["services"].items()
    _, _, script = shlex.split(relay["command"])
    options = checked(shlex.split(script.partition("exec ")[2]), is_root=True)
    assert parse_duration(relay["stop_grace_period"]) > options.drain_timeout_s
    assert relay["restart"] == "unless-stopped" and relay["ports"] == ["80:80", "443:443"]
    [(volume, mounted)] = [each.split(":") for each in relay["volumes"] if each.count(":") == 1]
    assert relay["environment"] == {"MOORING_RELAY_STATE": mounted} and volume in compose["volumes"]
    inside = [line for line in SHELL if line.startswith("docker compose exec ")]
    assert inside and all(line.split()[3] == name for line in inside)
