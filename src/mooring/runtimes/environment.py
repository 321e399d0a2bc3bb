"""The environment of a child: which variables, and who wins.

In this order, the last of equal names wins:

1. the few variables that the MCP SDKs give a server, or all of ours if so asked; none in a container, which
   has its own;
2. variables of ours that were asked for by name;
3. the file of variables;
4. variables given one by one.

The marker that proves a process ours is put on top of this when it is started.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from mooring.errors import UserError

__all__ = [
    "DEFAULT_NAMES",
    "MARKER_NAME",
    "build_environment",
    "check_variables",
    "is_of",
    "marker",
    "parse_env_file",
    "read_env_file",
]

DEFAULT_NAMES = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
"""DEFAULT_INHERITED_ENV_VARS of the MCP SDKs for Python and TypeScript."""

MARKER_NAME = "MOORING_INSTANCE"

MAX_FILE_CHARACTERS = 1024 * 1024
"""No program can be started with much more than that in its environment."""

_QUOTES = "'\""
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "$": "$"}


def build_environment(
    ours: Mapping[str, str],
    *,
    unasked: Iterable[str] = DEFAULT_NAMES,
    inherit_env: bool = False,
    pass_env: Iterable[str] = (),
    env_file: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The complete environment of a child, made from `ours` and what was asked for.

    `unasked`: names of ours that come along without being asked for.
    """
    # 1
    built = dict(ours) if inherit_env else _unasked(ours, unasked)
    # 2
    for name in pass_env:
        if name not in ours:
            raise UserError(
                f"the variable {name} is to be passed on but is not set",
                code="env_not_set",
                hint=f"set {name}, or do not ask for it to be passed",
            )
        built[name] = ours[name]
    # 3, 4
    built.update(env_file or {})
    built.update(env or {})
    check_variables(built)
    return built


def marker(owner: str, name: str, n: int) -> str:
    """NAME=VALUE, as it stands in the environment of the `n`th instance that `owner` started."""
    return f"{MARKER_NAME}={owner}:{name}:{n}"


def is_of(marker: str, owner: str) -> bool:
    """Is it the marker of an instance that `owner` started?"""
    return marker.startswith(f"{MARKER_NAME}={owner}:")


def check_variables(variables: Mapping[str, str]) -> None:
    """Refuse what no environment can hold. The message names the variable, never its value."""
    for name, value in variables.items():
        if not name or "=" in name or "\0" in name:
            raise UserError(
                f"{name!r} cannot be the name of an environment variable",
                code="bad_environment",
                hint="give variables as NAME=VALUE",
            )
        if "\0" in value:
            raise UserError(
                f"the value of the environment variable {name} contains a NUL byte",
                code="bad_environment",
                hint="a value is text without NUL",
            )


def read_env_file(path: Path) -> dict[str, str]:
    """The variables in a file."""
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(MAX_FILE_CHARACTERS + 1)
    except OSError as error:
        raise UserError(
            f"cannot read the environment file {path}: {error.strerror}",
            code="env_file_unreadable",
            hint="give the path of a readable file of NAME=VALUE lines",
        ) from None
    except UnicodeDecodeError:
        raise UserError(
            f"the environment file {path} is not UTF-8 text",
            code="env_file_invalid",
            hint="save it as UTF-8",
        ) from None
    if len(text) > MAX_FILE_CHARACTERS:
        raise UserError(
            f"the environment file {path} is over {MAX_FILE_CHARACTERS} characters",
            code="env_file_invalid",
            hint="leave out what the server does not need",
        )
    return parse_env_file(text, str(path))


def parse_env_file(text: str, source: str) -> dict[str, str]:
    """NAME=VALUE lines; `#` comments, an `export ` before the name, and quotes are understood.

    A value is taken literally up to the end of its line or a `#` after a blank. In single quotes
    everything is literal; in double quotes a backslash escapes as in a shell (also n, r, t).
    """
    variables: dict[str, str] = {}
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        name, equals, value = line.partition("=")
        words = name.split()
        name = words[-1] if words else ""
        if not equals or not name or words not in ([name], ["export", name]):
            raise _malformed(source, number, "is not NAME=VALUE")
        variables[name] = _value(value.strip(), source, number)
    return variables


def _value(text: str, source: str, number: int) -> str:
    if text[:1] not in _QUOTES or not text:
        return text.partition(" #")[0].partition("\t#")[0].rstrip()
    quote, value, at = text[0], [], 1
    while at < len(text) and text[at] != quote:
        if quote == '"' and text[at] == "\\" and text[at + 1 : at + 2] in _ESCAPES:
            at += 1
            value.append(_ESCAPES[text[at]])
        else:
            value.append(text[at])
        at += 1
    if at >= len(text):
        raise _malformed(source, number, f"has no closing {quote}")
    behind = text[at + 1 :].strip()
    if behind and not behind.startswith("#"):
        raise _malformed(source, number, f"goes on after the closing {quote}")
    return "".join(value)


def _malformed(source: str, number: int, what: str) -> UserError:
    # Never the line itself: it may hold a secret.
    return UserError(
        f"{source}:{number}: this line {what}",
        code="env_file_invalid",
        hint="write one NAME=VALUE per line",
    )


def _unasked(ours: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    # A value that begins with "()" is an exported shell function: the SDKs leave those out as a risk.
    return {name: ours[name] for name in names if name in ours and not ours[name].startswith("()")}
