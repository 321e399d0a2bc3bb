"""Ending what a killed Mooring has left in an engine, when the next one starts: by its labels, nobody else's.

Usually little is left: with a killed Mooring its connections end, with them the stdin of its containers, and
with that most servers. Their containers stay until somebody removes them; those of servers that do not care
for their stdin run on.
"""

import logging
import os
from collections.abc import Callable
from typing import NamedTuple

from mooring.errors import MooringError
from mooring.runtimes.containers.engine import Engine
from mooring.runtimes.containers.labels import Owned, owned, owner_filter
from mooring.runtimes.proctable import read_process, start_time
from mooring.runtimes.roll import boot_id

__all__ = [
    "ContainerLeftover",
    "end_container_leftovers",
    "find_container_leftovers",
    "may_live",
    "this_process",
]

log = logging.getLogger("mooring.containers")


class ContainerLeftover(NamedTuple):
    """A container that was left."""

    id: str
    owned: Owned
    state: str
    is_removed: bool = False

    @property
    def name(self) -> str:
        """Of the server."""
        return self.owned.workload


def this_process() -> str:
    """For the label `process` of containers that this process starts."""
    return f"{os.getpid()} {start_time(os.getpid())} {boot_id() or '-'}"


def may_live(process: str) -> bool:
    """Does the process of that label run, so far as we can know?

    For those of whom nothing but their end proves that they have ended: Moorings in the foreground, who have
    no lock. One in another container may have the number of one here; then it counts as alive.
    """
    pid, started, boot = (*process.split(), "", "", "")[:3]
    if not pid.isdecimal():
        return True
    if boot not in ("-", boot_id() or "-"):
        return False
    found = read_process(int(pid))
    return found is not None and found.running and found.started == started


async def find_container_leftovers(
    engine: Engine, owner: str, is_kept: Callable[[str, Owned], bool]
) -> list[ContainerLeftover]:
    """Containers of that Mooring that are not kept, whatever their state. Nothing is done about them.

    `is_kept`: which (by id and labels) live on: those of the life that asks, and those it was handed.
    """
    found = []
    for listed in await engine.containers(owner_filter(owner)):
        whose = owned(listed.labels)
        # What the engine lets through its filter is looked at again: nobody else's is ever touched.
        if whose is not None and whose.owner.id == owner and not is_kept(listed.id, whose):
            found.append(ContainerLeftover(listed.id, whose, listed.state))
    return found


async def end_container_leftovers(
    engine: Engine, owner: str, is_kept: Callable[[str, Owned], bool]
) -> list[ContainerLeftover]:
    """End and remove them; which, and whether that could be done. Raises if they cannot be listed."""
    ended = []
    for left in await find_container_leftovers(engine, owner, is_kept):
        try:
            if left.state == "paused":
                await engine.unpause(left.id)
            await engine.remove(left.id)
        except MooringError as error:
            log.warning(
                "a container of %s is left: %s", left.name, error.message, extra={"event": error.code}
            )
            ended.append(left)
        else:
            ended.append(left._replace(is_removed=True))
    return ended
