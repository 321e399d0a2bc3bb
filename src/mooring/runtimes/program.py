"""The program to run, and finding out beforehand whether it can be.

It is looked for as the child's own `execvp` will: through the child's PATH, from the child's
working directory. All errors here are `UserError`s, asking again does not help:

    empty_command           nothing to run
    bad_command             an argument that no command line can hold
    bad_environment         a variable that no environment can hold
    cwd_not_found           the working directory does not exist, or is none
    program_not_found       no such file, nowhere on the PATH
    program_not_executable  there is one, but it cannot be run
"""

import os
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mooring.errors import UserError
from mooring.runtimes.environment import check_variables

__all__ = ["ProcessSpec", "check_program"]

NODE = "{} comes with Node.js: https://nodejs.org"
COMES_WITH = {
    "uv": "install it: pip install uv",
    "uvx": "uvx comes with uv: pip install uv",
    "node": NODE,
    "npm": NODE,
    "npx": NODE,
    "bunx": "bunx comes with Bun: https://bun.sh",
    "docker": "install it: https://docs.docker.com/engine/install",
    # Debian and macOS have no plain `python`.
    "python": f"try python3, or the Python that runs Mooring: {sys.executable}",
}
"""Where programs come from that MCP servers are usually started with."""


@dataclass(frozen=True, kw_only=True)
class ProcessSpec:
    """A program to run."""

    name: str
    """Of the workload: for messages and the marker."""
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Complete: nothing of our own environment is added but the marker."""
    cwd: Path | None = None
    """None: ours."""

    def __post_init__(self) -> None:
        if not self.name.isprintable():
            raise ValueError("the name of a workload is printable")


def check_program(spec: ProcessSpec) -> Path:
    """The file that will be executed, or a `UserError` saying why none can be."""
    if not spec.argv or not spec.argv[0]:
        raise UserError(
            f"{spec.name}: the command is empty", code="empty_command", hint="name the program to run"
        )
    if any("\0" in argument for argument in spec.argv):
        raise UserError(
            f"{spec.name}: an argument contains a NUL byte",
            code="bad_command",
            hint="arguments are text without NUL",
        )
    check_variables(spec.env)
    directory = _working_directory(spec)
    candidates = [directory / candidate for candidate in _candidates(spec)]
    for candidate in candidates:
        if stat.S_ISREG(_mode(candidate)) and os.access(candidate, os.X_OK):
            return candidate
    existing = next((candidate for candidate in candidates if _mode(candidate)), None)
    raise _not_executable(spec, existing) if existing else _not_found(spec)


def _working_directory(spec: ProcessSpec) -> Path:
    if spec.cwd is None:
        return Path()
    if not stat.S_ISDIR(_mode(spec.cwd)):
        what = "is not a directory" if _mode(spec.cwd) else "does not exist"
        raise UserError(
            f"{spec.name}: the working directory {spec.cwd} {what}",
            code="cwd_not_found",
            hint="create it, or choose another",
        )
    return spec.cwd


def _candidates(spec: ProcessSpec) -> list[str]:
    program = spec.argv[0]
    if "/" in program:
        return [program]
    # An empty entry means the working directory, as it does to execvp.
    return [str(Path(entry) / program) for entry in os.get_exec_path(spec.env)]


def _mode(path: Path) -> int:
    """What it is; 0 if it is not, or not for us to see (where `Path.is_file` would raise)."""
    try:
        return path.stat().st_mode
    except (OSError, ValueError):
        return 0


def _not_found(spec: ProcessSpec) -> UserError:
    program = spec.argv[0]
    name, equals, _ = program.partition("=")
    if equals and name.isidentifier():
        # As a shell would read it. The value stays out of the message: it may be a secret.
        what, hint = f"{name}=… is not a program", f"to set a variable for the server: --env {name}=…"
    elif len(program.split()) > 1:
        what = f"there is no program {program!r}"
        hint = "no shell is used: give program and arguments as separate words, or write -- sh -c '…'"
    elif program.startswith("-"):
        what, hint = f"{program} is not a program", "options of mooring go before --, the command after it"
    elif "/" in program:
        what = f"there is no program {program}"
        hint = "check the path; a relative one starts at the server's working directory"
    else:
        what = f"the program {program} is not on the server's PATH"
        usual = f"install {program}, give its full path, or set PATH for the server"
        hint = COMES_WITH.get(program, usual).format(program)
    return UserError(f"{spec.name}: {what}", code="program_not_found", hint=hint)


def _not_executable(spec: ProcessSpec, path: Path) -> UserError:
    what = "is a directory" if stat.S_ISDIR(_mode(path)) else "is not executable"
    return UserError(
        f"{spec.name}: {path} {what}",
        code="program_not_executable",
        hint=f"make it a program, for example: chmod +x {path}",
    )
