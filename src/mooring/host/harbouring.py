"""Whose containers they are: the harbours of a daemon, and those of a run in the foreground."""

import asyncio
import contextlib
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from mooring.host.places import Places, using
from mooring.runtimes.containers.harbours import Harbours, passing_owner
from mooring.runtimes.containers.labels import Owner
from mooring.runtimes.containers.lives import this_process
from mooring.runtimes.containers.logbook import Logbook
from mooring.runtimes.guardian import Guardian

if TYPE_CHECKING:
    from mooring.runtimes.containers.leftovers import ContainerLeftover

__all__ = ["containers_left", "daemon_harbours", "end_containers_left", "foreground_harbours"]


def daemon_harbours(
    places: Places,
    nonce: str,
    guardian: Guardian,
    *,
    may_sweep: bool,
    on_leftover: "Callable[[ContainerLeftover], None]",
) -> Harbours:
    """All lives of a state directory are one owner, of which only one has the lock. Raises StateUnusable."""
    return Harbours(
        Owner(_owner(places.owner), nonce, this_process()),
        os.environ,
        Path.home(),
        guardian=guardian,
        logbook=Logbook(places.engines),
        is_alone=True,
        may_sweep=may_sweep,
        on_leftover=on_leftover,
    )


def containers_left(places: Places) -> "list[ContainerLeftover]":
    """Of a daemon that was killed, with none after it; in engines that answer. Blocks meanwhile."""
    return asyncio.run(_abandoned(places).find_left())


def end_containers_left(places: Places) -> None:
    """End and remove them. The same."""
    asyncio.run(_abandoned(places).sweep_all())


def _abandoned(places: Places) -> Harbours:
    try:
        owner = places.owner.read_text().strip()
    except (OSError, UnicodeDecodeError):
        owner = secrets.token_hex(8)  # nobody has ever made one
    nobody = Owner(owner, secrets.token_hex(8))
    return Harbours(nobody, {}, Path("/"), logbook=Logbook(places.engines), is_alone=True)


def foreground_harbours(guardian: Guardian) -> Harbours:
    """Nothing is kept: what was left by one that was killed is known by the process that its labels name."""
    owner = Owner(passing_owner(), secrets.token_hex(8), this_process())
    return Harbours(owner, os.environ, Path.home(), guardian=guardian)


def _owner(path: Path) -> str:
    """The name in that file; a new one if there is none, or what is there is no name."""
    with using(path):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            name = path.read_text().strip()
            if name.isalnum() and name.isascii():
                return name
        name = secrets.token_hex(8)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{name}\n")
        return name
