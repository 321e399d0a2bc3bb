"""One daemon for one state directory.

A lock of the system on a file, held for as long as the daemon lives: it goes with the process, however
that ends. The file says who holds it, by a nonce that the daemon also tells over its socket; a pid alone
may be somebody else's by now. A lock file that was removed, or is on a disk whose locks do not count, locks
nobody out: so whoever has the lock also asks at the socket whether there is another one.
"""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path

from mooring.api.client import ApiClient, NotRunning
from mooring.errors import Unavailable
from mooring.host.places import Places, using

__all__ = ["AlreadyOwned", "Ownership", "check_nobody_answers", "holder", "inheriting", "owning"]

PATIENCE_S = 2.0
"""With a daemon that should not be there. One that is frozen does not answer, and is fenced off (`store`)."""


class AlreadyOwned(Unavailable):
    """Another daemon has the directory."""


@contextlib.contextmanager
def owning(path: Path) -> Iterator["Ownership"]:
    """Hold the lock for the length of the block. Raises AlreadyOwned, StateUnusable."""
    with using(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _already_owned(path.parent, holder(path).get("pid")) from None
        yield Ownership(path, descriptor)
    finally:
        # The file stays: whoever waits for the lock must find the same one.
        os.close(descriptor)


@contextlib.contextmanager
def inheriting(path: Path, descriptor: int) -> Iterator["Ownership"]:
    """The same, of a lock that another holds by the same open file: it is never free in between."""
    try:
        yield Ownership(path, descriptor)
    finally:
        os.close(descriptor)


def check_nobody_answers(places: Places) -> None:
    """Although the lock is ours. Raises AlreadyOwned; blocks for PATIENCE_S at most."""
    try:
        about = ApiClient(places.socket).ask("GET", "/daemon", timeout_s=PATIENCE_S)
    except (NotRunning, Unavailable):
        return
    raise _already_owned(places.state, about.get("pid"))


def _already_owned(directory: Path, pid: object) -> AlreadyOwned:
    text = f"another daemon (pid {pid or 'unknown'}) has {directory}"
    return AlreadyOwned(text, code="already_running", hint="mooring daemon status tells of it")


class Ownership:
    """The lock, held."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    @property
    def descriptor(self) -> int:
        """For a successor; the lock goes with it."""
        return self._descriptor

    def tell(self, **about: object) -> None:
        """Write who holds it. Raises StateUnusable."""
        data = json.dumps(about).encode()
        with using(self._path):
            os.pwrite(self._descriptor, data, 0)
            os.ftruncate(self._descriptor, len(data))


def holder(path: Path) -> dict[str, object]:
    """What the one who holds the lock, or has held it last, said of itself."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
