"""Which relays the daemon stays connected to: a small file, written by commands and read by the daemon.

It holds no token, only where one is.
"""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from mooring.errors import Unavailable, UserError
from mooring.host.places import LONGEST_SOCKET_PATH, Places, using
from mooring.secrets.whole_files import waiting_lock, write_whole

__all__ = ["Wish", "connections_path", "read_wishes", "status_sockets", "write_wish"]

LOCK_S = 5.0
"""For another command that is writing."""
LONGEST_NAME = len("/command-4194304.sock")


class Wish(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One relay to be connected to."""

    relay: str
    servers: tuple[str, ...] = ()
    """Empty: all that the token allows."""
    token: str
    """A reference: `secret:NAME`, `keyring:NAME` or `file:PATH`."""
    ca_file: str = ""
    allow_plaintext: bool = False


def connections_path(places: Places) -> Path:
    """Of the file."""
    return places.state / "connections.json"


def status_sockets(places: Places) -> Path:
    """The folder of sockets at which those who are connected tell how they are; elsewhere if that has too
    long a name for a socket, like the daemon's own."""
    folder = places.state / "connections"
    if len(os.fsencode(folder)) + LONGEST_NAME <= LONGEST_SOCKET_PATH:
        return folder
    name = hashlib.sha256(os.fsencode(places.state)).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"mooring-{os.getuid()}" / f"{name}.connections"


def read_wishes(path: Path) -> list[Wish]:
    """None if there is no file. Raises UserError."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _damaged(path, error.strerror or "") from None
    try:
        return msgspec.json.decode(data, type=list[Wish])
    except msgspec.MsgspecError:
        raise _damaged(path, "it is not what it should be") from None


def write_wish(path: Path, relay: str, wish: Wish | None) -> bool:
    """Have that relay, in place of what was said of it before; None: not any more. Was it there?
    Raises UserError, StateUnusable, Unavailable."""
    with _alone(path):
        before = read_wishes(path)
        others = [each for each in before if each.relay != relay]
        wanted = others if wish is None else [*others, wish]
        with using(path):
            write_whole(path, msgspec.json.format(msgspec.json.encode(wanted), indent=2) + b"\n")
    return len(others) < len(before)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    with ExitStack() as stack:
        with using(path):
            is_alone = stack.enter_context(waiting_lock(path.with_suffix(".lock"), LOCK_S))
        if not is_alone:
            raise Unavailable(
                "another command is changing connections, and does not finish",
                code="connections_busy",
                hint="try again",
            )
        yield


def _damaged(path: Path, why: str) -> UserError:
    return UserError(
        f"{path} cannot be used: {why}", code="connections_damaged", hint="remove it, and connect again"
    )
