"""Who may come in: the guard of a listener, made from its options."""

import stat
from pathlib import Path

from mooring.errors import UserError
from mooring.host.options import ListenOptions
from mooring.http.guard import Guard

__all__ = ["make_guard", "read_tokens"]

PROBES = frozenset({"/livez", "/readyz"})
MIN_TOKEN = 16


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
    try:
        text = path.read_text("ascii")
        mode = path.stat().st_mode
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"the token file {path} cannot be read: {error}", code="token_file_unreadable"
        ) from None
    if stat.S_IMODE(mode) & stat.S_IWOTH:
        raise UserError(
            f"the token file {path} can be written by everybody",
            code="token_file_unsafe",
            hint=f"chmod 600 {path}",
        )
    tokens: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or line.lstrip().startswith("#"):
            continue
        name, token = (words[0], words[1]) if len(words) == 2 else ("token", words[0])
        if len(words) > 2 or len(token) < MIN_TOKEN or name in tokens:
            # The line itself stays out of the message: it may be a secret.
            raise UserError(
                f"{path}, line {number}: not a token",
                code="token_file_invalid",
                hint=f"a line is TOKEN or NAME TOKEN; names differ; {MIN_TOKEN} characters or more",
            )
        tokens[name] = token
    if not tokens:
        raise UserError(f"the token file {path} holds no token", code="token_file_empty")
    return tokens
