"""Finding out beforehand whether a program can be run."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from mooring.errors import UserError
from mooring.runtimes import ProcessSpec
from mooring.runtimes.program import check_program


@pytest.fixture
def tool(tmp_path: Path) -> Path:
    path = tmp_path / "bin" / "tool"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def refused(*argv: str, **options: Any) -> UserError:
    with pytest.raises(UserError) as raised:
        check_program(ProcessSpec(name="x", argv=argv, **options))
    assert raised.value.hint
    assert raised.value.message.startswith("x: ") or raised.value.code == "bad_environment"
    return raised.value


def test_found_by_path_on_the_path_and_in_the_working_directory(tool: Path) -> None:
    def found(program: str, **options: Any) -> Path:
        return check_program(ProcessSpec(name="x", argv=(program,), **options))

    assert found(str(tool)) == tool
    assert found("tool", env={"PATH": f"/nowhere:{tool.parent}"}) == tool
    assert found("bin/tool", cwd=tool.parent.parent) == tool
    assert found("tool", env={"PATH": "bin"}, cwd=tool.parent.parent) == tool
    assert found("tool", env={"PATH": "/nowhere:"}, cwd=tool.parent) == tool
    assert found("sh").name == "sh"  # without a PATH: the system's default


def test_nothing_to_run() -> None:
    assert refused().code == "empty_command"
    assert refused("").code == "empty_command"
    assert refused("a\0b").code == "bad_command"


def test_not_found(tool: Path) -> None:
    error = refused("tool", env={"PATH": "/nowhere"})
    assert error.code == "program_not_found"
    assert "tool" in error.message
    assert "PATH" in error.hint
    assert refused(str(tool) + "s").code == "program_not_found"
    # Our own PATH is not the child's.
    assert refused("env", env={"PATH": str(tool.parent)}).code == "program_not_found"


@pytest.mark.parametrize(
    ("program", "message", "hint"),
    [
        ("uvx", "the program uvx is not on the server's PATH", "uvx comes with uv: pip install uv"),
        ("npx", "the program npx is not on the server's PATH", "npx comes with Node.js: https://nodejs.org"),
        (
            "node",
            "the program node is not on the server's PATH",
            "node comes with Node.js: https://nodejs.org",
        ),
        (
            "python",
            "the program python is not on the server's PATH",
            f"try python3, or the Python that runs Mooring: {sys.executable}",
        ),
        (
            "npx -y @scope/server",
            "there is no program 'npx -y @scope/server'",
            "no shell is used: give program and arguments as separate words, or write -- sh -c '…'",
        ),
        ("--port", "--port is not a program", "options of mooring go before --, the command after it"),
        ("KEY=hush", "KEY=… is not a program", "to set a variable for the server: --env KEY=…"),
        (
            "/opt/a=b",
            "there is no program /opt/a=b",
            "check the path; a relative one starts at the server's working directory",
        ),
    ],
)
def test_what_to_do_about_a_program_that_is_not_found(program: str, message: str, hint: str) -> None:
    error = refused(program, env={"PATH": "/nowhere"})
    assert (error.code, error.message, error.hint) == ("program_not_found", f"x: {message}", hint)


def test_a_program_may_have_an_odd_name(tmp_path: Path) -> None:
    for name in ("two words", "-dash", "A=b"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
        check_program(ProcessSpec(name="x", argv=(name,), env={"PATH": str(tmp_path)}))


def test_not_executable(tool: Path) -> None:
    tool.chmod(0o644)
    error = refused("tool", env={"PATH": str(tool.parent)})
    assert error.code == "program_not_executable"
    assert str(tool) in error.message
    assert "is a directory" in refused(str(tool.parent)).message


def test_one_that_is_not_executable_does_not_hide_a_later_one(tool: Path, tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("")
    spec = ProcessSpec(name="x", argv=("tool",), env={"PATH": f"{tmp_path}:{tool.parent}"})
    assert check_program(spec) == tool


def test_working_directory(tool: Path) -> None:
    gone = refused(str(tool), cwd=tool.parent / "gone")
    assert gone.code == "cwd_not_found"
    assert "does not exist" in gone.message
    assert "is not a directory" in refused(str(tool), cwd=tool).message


def test_environment() -> None:
    assert refused("true", env={"A=B": "1"}).code == "bad_environment"
    secret = refused("true", env={"TOKEN": "hush\0"})
    assert "TOKEN" in secret.message
    assert "hush" not in secret.message + secret.hint


def test_a_spec_hides_its_environment() -> None:
    assert "hush" not in repr(ProcessSpec(name="x", argv=("true",), env={"TOKEN": "hush"}))
    with pytest.raises(ValueError, match="printable"):
        ProcessSpec(name="a\nb", argv=("true",))


def test_a_directory_on_the_path_that_we_may_not_enter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(self: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "stat", forbidden)
    assert refused("tool", env={"PATH": str(tmp_path)}).code == "program_not_found"
