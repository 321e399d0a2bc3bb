"""Who may come in: the guard of a listener, made from its options."""

import shlex
import stat
from pathlib import Path

from mooring.errors import UserError
from mooring.host.options import ListenOptions
from mooring.http.guard import Guard

__all__ = ["make_guard", "read_tokens"]

PROBES = frozenset({"/livez", "/readyz"})
MIN_TOKEN = 16
MAX_FILE_CHARACTERS = 64 * 1024
"""A thousand tokens. Each request is compared with all of them, and a device has no end."""
UNNAMED = "token"


def make_guard(listen: ListenOptions) -> Guard:
    """Host, Origin and token checks. Raises UserError for an unusable token file."""
    return Guard(
        hosts=listen.allow_hosts,
        origins=listen.allow_origins,
        tokens=read_tokens(listen.token_file) if listen.token_file else {},
        allow_ip_hosts=listen.allow_remote,
        exempt_paths=PROBES,
    )


def read_tokens(path: Path) -> dict[str, str]:
    """Name → token. A line is `TOKEN` or `NAME TOKEN`; empty lines and those with # are skipped."""
    numbered = ((number, line.split()) for number, line in enumerate(_read(path).splitlines(), 1))
    lines = [(number, words) for number, words in numbered if words and not words[0].startswith("#")]
    if not lines:
        raise UserError(
            f"the token file {path} holds no token", code="token_file_empty", hint=_make_one(path)
        )
    tokens: dict[str, str] = {}
    seen: dict[str, int] = {}
    for number, words in lines:
        # Nothing of the line is told, not even its name: any word may be a secret in the wrong place.
        at = f"{path}, line {number}"
        if len(words) > 2:
            raise _invalid(
                f"{at}: there are {len(words)} words", "write TOKEN or NAME TOKEN; a comment begins with #"
            )
        name, token = words if len(words) == 2 else (UNNAMED, words[0])
        if len(token) < MIN_TOKEN:
            raise _invalid(
                f"{at}: the token has {len(token)} characters; it needs {MIN_TOKEN} or more",
                _make_one(path if len(lines) == 1 else None),
            )
        if name in tokens:
            raise _invalid(
                f"{at}: the same name as on line {seen[name]} (without one it is {UNNAMED!r})",
                "give every token a name of its own: NAME TOKEN",
            )
        tokens[name], seen[name] = token, number
    return tokens


def _read(path: Path) -> str:
    try:
        with path.open(encoding="ascii") as file:
            text = file.read(MAX_FILE_CHARACTERS + 1)
        mode = path.stat().st_mode
    except OSError as error:
        raise UserError(
            f"the token file {path} cannot be read: {error.strerror}",
            code="token_file_unreadable",
            hint="give the path of a file that Mooring may read",
        ) from None
    except UnicodeDecodeError:
        raise UserError(
            f"the token file {path} has characters that are not ASCII",
            code="token_file_unreadable",
            hint=_make_one(),
        ) from None
    if len(text) > MAX_FILE_CHARACTERS:
        raise _invalid(
            f"the token file {path} is over {MAX_FILE_CHARACTERS} characters", "give it fewer tokens"
        )
    if stat.S_IMODE(mode) & stat.S_IWOTH:
        raise UserError(
            f"the token file {path} can be written by everybody",
            code="token_file_unsafe",
            hint=f"chmod 600 {shlex.quote(str(path))}",
        )
    return text


def _make_one(path: Path | None = None) -> str:
    """How to make a token; into the file only if nothing else in there is lost by that."""
    into = f" > {shlex.quote(str(path))}" if path else ""
    return f"make one with: openssl rand -base64 24{into}"


def _invalid(message: str, hint: str) -> UserError:
    return UserError(message, code="token_file_invalid", hint=hint)
