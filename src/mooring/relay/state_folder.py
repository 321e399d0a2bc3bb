"""The folder in which a relay keeps what outlives it: tokens, certificates. For its user alone."""

import errno
import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from mooring.errors import UserError

__all__ = ["VARIABLE", "control_socket", "find_state", "make_state", "tokens_path"]

VARIABLE = "MOORING_RELAY_STATE"
LONGEST_SOCKET_PATH = 100
"""The system takes 107 characters on Linux, 103 on macOS."""


def find_state(given: str | Path | None, environment: Mapping[str, str]) -> Path:
    """The one that was given, or is named by the environment, or the usual one. Nothing is touched."""
    named = given or environment.get(VARIABLE)
    if named:
        return Path(named).expanduser().absolute()
    home = environment.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(home) / "mooring-relay"


def make_state(folder: Path) -> None:
    """Have it, ours and closed to others. Raises UserError."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
        if found.st_uid == os.getuid() and found.st_mode & 0o077:
            folder.chmod(0o700)
    except OSError as error:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise UserError(
            f"{folder} cannot be used: {error.strerror}",
            code="disk_full" if is_full else "state_unusable",
            hint="make room on its disk"
            if is_full
            else f"make it readable and writable for you, or give another with --state or {VARIABLE}",
        ) from None
    if found.st_uid != os.getuid():
        # What we wrote there the relay could not read, and whoever owns it could have put it there.
        raise UserError(
            f"{folder} cannot be used for a relay's state: it belongs to somebody else",
            code="state_unusable",
            hint=f"do this as the user that the relay runs as, or give another with --state or {VARIABLE}",
        )


def tokens_path(folder: Path) -> Path:
    """Of the file in which tokens are kept; see `token_file`."""
    return folder / "tokens.json"


def control_socket(folder: Path) -> Path:
    """Where commands reach the relay that uses this folder; elsewhere if that has too long a name."""
    path = folder / "relay.sock"
    if len(os.fsencode(path)) <= LONGEST_SOCKET_PATH:
        return path
    name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"mooring-{os.getuid()}" / f"{name}.relay.sock"
