"""The installed command, as a shell meets it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mooring import __version__
from mooring.cli.commands import COMMANDS
from mooring.cli.main import cli
from tests.support import PATIENCE_S

MOORING = Path(sys.executable).with_name("mooring")


def run(*command: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        capture_output=True,
        check=False,
        text=True,
        timeout=PATIENCE_S,
        env={**os.environ, **environ},
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.parametrize("command", [(MOORING,), (sys.executable, "-m", "mooring")])
def test_version_and_help(command: tuple[str, ...]) -> None:
    done = run(*command, "--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"mooring {__version__}\n", "")
    done = run(*command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: mooring ")


def test_no_command_is_wrong_usage() -> None:
    done = run(MOORING)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: mooring ")


def test_tracebacks_only_on_request() -> None:
    assert "Traceback" not in run(MOORING, "run", "x", MOORING_DEBUG="0").stderr
    assert "Traceback" in run(MOORING, "run", "x", MOORING_DEBUG="1").stderr


def test_a_reader_that_has_seen_enough() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [MOORING, "--help"], stdout=writer, stderr=subprocess.PIPE, check=False, timeout=PATIENCE_S
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")


def test_an_output_that_is_full() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [MOORING, "--help"], stdout=full, stderr=subprocess.PIPE, check=False, timeout=PATIENCE_S
        )
    assert done.returncode == 1
    assert done.stderr.startswith(b"error: ")


def test_importing_the_command_line_imports_nothing_heavy() -> None:
    code = "import sys, mooring.cli.main; print(*sys.modules)"
    done = run(sys.executable, "-c", code)
    loaded = set(done.stdout.split())
    assert "mooring.cli.main" in loaded
    heavy = {"asyncio", "msgspec", "uvloop", "httptools", "logging", "json", "socket", "ssl", "subprocess"}
    assert not loaded & heavy
    packages = {name.split(".")[1] for name in loaded if name.startswith("mooring.")}
    assert packages == {"cli", "errors"}


def test_one_command_is_imported_when_one_is_run() -> None:
    code = "import sys; from mooring.cli.main import cli; cli.get_command(None, 'ls'); print(*sys.modules)"
    loaded = set(run(sys.executable, "-c", code).stdout.split())
    others = {command.where.split(":")[0] for section in COMMANDS.values() for command in section}
    assert loaded & others == {"mooring.cli.servers.commands"}


def test_what_the_help_lists_is_what_the_commands_say_of_themselves() -> None:
    for listed in (command for section in COMMANDS.values() for command in section):
        command = cli.commands[listed.name]
        assert (command.name, command.get_short_help_str(100)) == (listed.name, listed.help)


@pytest.mark.parametrize(
    ("words", "completions"),
    [
        ("mooring ", {f"plain,{name}" for name in cli.commands}),
        ("mooring stdio --header", {"plain,--header-env"}),
        ("mooring stdio http://x --log-format ", {"plain,text", "plain,json"}),
        ("mooring run --foreground --drain-", {"plain,--drain-delay", "plain,--drain-timeout"}),
        ("mooring run --foreground x --log-format ", {"plain,text", "plain,json"}),
        ("mooring run --foreground ", set()),
        ("mooring connect ", {"plain,status", "plain,stop"}),
        ("mooring connect st", {"plain,status", "plain,stop"}),
        ("mooring connect sto", {"plain,stop"}),
        ("mooring connect wss", set()),
        ("mooring connect wss://relay --clie", {"plain,--client"}),
    ],
)
def test_completion(words: str, completions: set[str]) -> None:
    position = str(len(words.split(" ")) - 1)
    done = run(MOORING, _MOORING_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=position)
    assert done.returncode == 0
    assert set(done.stdout.split()) == completions


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_scripts_are_accepted_by_their_shells(shell: str) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    script = run(MOORING, "completion", shell)
    assert script.returncode == 0
    checked = subprocess.run(
        [program, "-n"], input=script.stdout, capture_output=True, check=False, text=True, timeout=PATIENCE_S
    )
    assert (checked.returncode, checked.stderr) == (0, "")
