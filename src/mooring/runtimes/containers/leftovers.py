"""Ending what a killed Mooring has left in an engine, when the next one starts: by its labels, nobody else's.

Usually little is left: with a killed Mooring its connections end, with them the stdin of its containers, and
with that most servers. Their containers stay until somebody removes them; those of servers that do not care
for their stdin run on.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple

from mooring.errors import MooringError
from mooring.runtimes.containers.engine import Engine
from mooring.runtimes.containers.labels import Owned, owned, owner_filter

__all__ = ["ContainerLeftover", "end_container_leftovers", "find_container_leftovers"]

log = logging.getLogger("mooring.containers")

AT_ONCE = 8
"""An engine takes a fifth of a second for each, and several at the same time."""


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


IsKept = Callable[[str, Owned, str], bool]
"""Which (by id, labels and state) live on: those of the life that asks, and those it was handed."""


async def find_container_leftovers(engine: Engine, owner: str, is_kept: IsKept) -> list[ContainerLeftover]:
    """Containers of that Mooring that are not kept, whatever their state. Nothing is done about them."""
    found = []
    for listed in await engine.containers(owner_filter(owner)):
        whose = owned(listed.labels)
        # What the engine lets through its filter is looked at again: nobody else's is ever touched.
        if whose is not None and whose.owner.id == owner and not is_kept(listed.id, whose, listed.state):
            found.append(ContainerLeftover(listed.id, whose, listed.state))
    return found


async def end_container_leftovers(engine: Engine, owner: str, is_kept: IsKept) -> list[ContainerLeftover]:
    """End and remove them; which, and whether that could be done. Raises if they cannot be listed."""
    places = asyncio.Semaphore(AT_ONCE)

    async def end(left: ContainerLeftover) -> ContainerLeftover:
        async with places:
            try:
                if left.state == "paused":
                    await engine.unpause(left.id)
                await engine.remove(left.id)
            except MooringError as error:
                text = "a container of %s is left: %s"
                log.warning(text, left.name, error.message, extra={"event": error.code})
                return left
            return left._replace(is_removed=True)

    found = await find_container_leftovers(engine, owner, is_kept)
    return list(await asyncio.gather(*map(end, found)))
