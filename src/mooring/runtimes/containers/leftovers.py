"""Ending what is left in an engine: of a Mooring that was killed, and of what we could not remove at once.

When a Mooring starts it ends what a killed one has left: by its labels, nobody else's.
Usually little is left: with a killed Mooring its connections end, with them the stdin of its containers, and
with that most servers. Their containers stay until somebody removes them; those of servers that do not care
for their stdin run on.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from mooring.errors import MooringError
from mooring.runtimes.containers.engine import Engine, Removal
from mooring.runtimes.containers.failures import Refusal
from mooring.runtimes.containers.labels import Owned, owned, owner_filter

__all__ = ["ContainerLeftover", "Debt", "end_container_leftovers", "find_container_leftovers"]

log = logging.getLogger("mooring.containers")

AT_ONCE = 8
"""An engine takes a fifth of a second for each, and several at the same time."""
APPEARING_S = 30.0
"""For a container to appear whose making was not answered: the engine goes on with it, whoever waits."""


class Debt:
    """A container of ours that is to be removed: by its id, or by the name under which it is being made."""

    def __init__(self, container: str, coming: "asyncio.Future[Any] | None" = None) -> None:
        """`coming`: the request that makes it, and gives its id; ours from now on."""
        self.name = container
        self._coming = coming
        self._unknown_since: float | None = None

    @property
    def container(self) -> str:
        """Its id, as soon as that is known."""
        coming = self._coming
        if coming is None or not coming.done() or coming.cancelled() or coming.exception() is not None:
            return self.name
        return str(coming.result())

    async def due(self) -> None:
        """Wait until nobody makes it any more; that wait is bounded as every request is."""
        if self._coming is not None:
            await asyncio.wait([self._coming])

    @property
    def is_due(self) -> bool:
        """The same, now."""
        return self._coming is None or self._coming.done()

    async def pay(self, engine: Engine) -> Removal | None:
        """Remove it; None: it may still come, or come again. Raises what is wrong with the engine.

        (Podman says of one that it has removed it, and goes on making it.)
        """
        may_come = self._may_come()
        how = await engine.remove(self.container, may_come=may_come)
        return None if may_come else how

    async def abandon(self) -> None:
        """Others will have to find it."""
        if self._coming is not None:
            self._coming.cancel()
            await asyncio.wait([self._coming])
            self._may_come()

    def _may_come(self) -> bool:
        """That it is missing proves nothing, until we know what became of its making, or wait no more."""
        coming = self._coming
        if coming is None:
            return False
        if not coming.done():
            return True
        if not coming.cancelled() and isinstance(coming.exception(), Refusal | None):
            return False
        now = asyncio.get_running_loop().time()
        if self._unknown_since is None:
            self._unknown_since = now
        return now - self._unknown_since < APPEARING_S


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
            if is_kept(left.id, left.owned, left.state):
                return left  # another has come meanwhile, whose it is
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
