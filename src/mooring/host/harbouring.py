"""Whose containers they are: the harbours of a daemon, and those of a run in the foreground."""

import asyncio
import hashlib
import os
import secrets
from collections.abc import Callable, Mapping
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

__all__ = [
    "containers_left",
    "daemon_harbours",
    "end_containers_left",
    "engine_environment",
    "foreground_harbours",
    "known_owner",
    "owner_of",
]

OF_ONE_TERMINAL = frozenset({"DOCKER_HOST", "CONTAINER_HOST", "DOCKER_CONTEXT"})


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
        Owner(owner_of(places), nonce, this_process()),
        engine_environment(os.environ),
        Path.home(),
        guardian=guardian,
        logbook=Logbook(places.engines),
        is_alone=True,
        may_sweep=may_sweep,
        on_leftover=on_leftover,
    )


def containers_left(places: Places) -> "tuple[list[ContainerLeftover], list[str]]":
    """Of a daemon that was killed, with none after it; and which engines do not answer. Blocks meanwhile."""
    return asyncio.run(_abandoned(places).find_left())


def end_containers_left(places: Places) -> None:
    """End and remove them. The same."""
    asyncio.run(_abandoned(places).sweep_all())


def _abandoned(places: Places) -> Harbours:
    nobody = Owner(known_owner(places), secrets.token_hex(8))
    return Harbours(nobody, {}, Path("/"), logbook=Logbook(places.engines), is_alone=True)


def foreground_harbours(guardian: Guardian) -> Harbours:
    """Nothing is kept: what was left by one that was killed is known by the process that its labels name."""
    owner = Owner(passing_owner(), secrets.token_hex(8), this_process())
    return Harbours(owner, os.environ, Path.home(), guardian=guardian)


def engine_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """By which a daemon looks for engines: what one terminal has set is written down with its servers.

    (The daemon has the variables of whichever terminal it was started from.)
    """
    return {name: value for name, value in environment.items() if name not in OF_ONE_TERMINAL}


def owner_of(places: Places) -> str:
    """The name of the state directory, which is made if it has none. Raises StateUnusable."""
    path = places.owner
    if not (name := known_owner(places)):
        with using(path):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(f"{secrets.token_hex(8)}\n")
        name = known_owner(places)
    return name


def known_owner(places: Places) -> str:
    """The same; empty if it has none. A copy of the directory somewhere else is another owner."""
    try:
        name = places.owner.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""
    where = hashlib.sha256(os.fsencode(places.state.resolve())).hexdigest()[:8]
    return f"{name}-{where}" if name.isalnum() and name.isascii() else ""
