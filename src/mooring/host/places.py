"""Where the daemon keeps its things, and where it is reached. One place for each state directory."""

import errno
import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from mooring.errors import MooringError, UserError

__all__ = ["DEFAULT_PORT", "LONGEST_SOCKET_PATH", "Places", "StateUnusable", "find_places", "using"]

DEFAULT_PORT = 4670
LONGEST_SOCKET_PATH = 100
"""The system takes 107 characters on Linux, 103 on macOS."""


class Places(NamedTuple):
    """Of one daemon."""

    state: Path
    port: int

    @property
    def lock(self) -> Path:
        """Held by the daemon for as long as it lives; says who it is."""
        return self.state / "daemon.lock"

    @property
    def log(self) -> Path:
        """What the daemon says of itself."""
        return self.state / "daemon.log"

    @property
    def logs(self) -> Path:
        """One file for each server."""
        return self.state / "logs"

    @property
    def roll(self) -> Path:
        """Which processes there are; see `runtimes.roll`."""
        return self.state / "instances"

    @property
    def owner(self) -> Path:
        """The name by which containers are known as this state directory's."""
        return self.state / "owner"

    @property
    def engines(self) -> Path:
        """Which container engines were used; see `runtimes.containers.logbook`."""
        return self.state / "engines"

    @property
    def token(self) -> Path:
        """For the API on the TCP port."""
        return self.state / "token"

    @property
    def secrets(self) -> Path:
        """What `mooring secret` keeps."""
        return self.state / "secrets.json"

    @property
    def clients(self) -> Path:
        """What is known of entries in the files of AI clients; see `clients.registry`."""
        return self.state / "clients"

    @property
    def client_ledger(self) -> Path:
        """Is there if any client was ever told of a server; see `clients.ledger`."""
        return self.clients / "ledger.json"

    @property
    def socket(self) -> Path:
        """Where commands reach it; elsewhere if the directory has too long a name for a socket."""
        path = self.state / "daemon.sock"
        if len(os.fsencode(path)) <= LONGEST_SOCKET_PATH:
            return path
        name = hashlib.sha256(os.fsencode(self.state)).hexdigest()[:16]
        import tempfile  # noqa: PLC0415 - half a megabyte that few ever need

        return Path(tempfile.gettempdir()) / f"mooring-{os.getuid()}" / f"{name}.sock"

    @property
    def handover(self) -> Path:
        """Where a daemon that is to take over waits for the one that runs to call."""
        return self.socket.with_name(f"{self.socket.name}.new")

    def make(self) -> None:
        """Have the directories, for the user alone. Raises UserError, StateUnusable."""
        for directory in (self.state, self.socket.parent, self.roll):
            with using(directory):
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                found = directory.stat()
                if found.st_uid == os.getuid() and found.st_mode & 0o077:
                    directory.chmod(0o700)
            if found.st_uid != os.getuid():
                raise UserError(
                    f"{directory} cannot be used for Mooring's state: it belongs to somebody else",
                    code="state_unusable",
                    hint="set MOORING_STATE_DIR to a directory that is yours",
                )


class StateUnusable(MooringError):
    """A file or directory that the daemon needs cannot be had."""


@contextmanager
def using(path: Path) -> Iterator[None]:
    """What the system has against it, in words that say what to do. Raises StateUnusable."""
    try:
        yield
    except OSError as error:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise StateUnusable(
            f"{path} cannot be used: {error.strerror}",
            code="disk_full" if is_full else "state_unusable",
            hint="make room on its disk"
            if is_full
            else "make it readable and writable for you, or set MOORING_STATE_DIR to another directory",
        ) from error


def find_places(environment: Mapping[str, str]) -> Places:
    """By MOORING_STATE_DIR and MOORING_PORT, or the usual ones. Raises UserError."""
    given = environment.get("MOORING_STATE_DIR")
    if given:
        state = Path(given).expanduser().absolute()
    else:
        home = environment.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
        state = Path(home) / "mooring"
    text = environment.get("MOORING_PORT") or str(DEFAULT_PORT)
    if not text.isdecimal() or not 0 <= int(text) <= 65535:
        raise UserError(
            f"MOORING_PORT={text!r} is no port", code="bad_port", hint="give a number up to 65535"
        )
    return Places(state, int(text))
