"""One daemon for one state directory.

A lock of the system on a file, held for as long as the daemon lives: it goes with the process, however
that ends. The file says who holds it, by a nonce that the daemon also tells over its socket; a pid alone
may be somebody else's by now.
"""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path

from mooring.errors import Unavailable
from mooring.host.places import using

__all__ = ["AlreadyOwned", "Ownership", "holder", "inheriting", "owning"]


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
            who = holder(path).get("pid", "unknown")
            raise AlreadyOwned(
                f"another daemon (pid {who}) has {path.parent}", code="already_running"
            ) from None
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
