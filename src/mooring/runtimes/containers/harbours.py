"""All harbours of one Mooring: one for each engine that is asked for, and what they have in common.

Light: an engine is looked for, and what speaks to it is loaded, when a server is to run in a container.

What a killed Mooring has left in an engine is ended before this one makes anything there. Whose process may
still run is left alone (`lives.may_live`), unless we know that we are alone.
"""

import asyncio
import hashlib
import logging
import os
import secrets
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mooring.errors import MooringError
from mooring.runtimes.containers.endpoints import Endpoint
from mooring.runtimes.containers.labels import Owned, Owner
from mooring.runtimes.containers.lives import may_live
from mooring.runtimes.containers.logbook import Logbook
from mooring.runtimes.guardian import Guardian

if TYPE_CHECKING:
    from mooring.runtimes.containers.engine import Engine
    from mooring.runtimes.containers.harbour import Harbour
    from mooring.runtimes.containers.leftovers import ContainerLeftover

__all__ = ["Harbours", "passing_owner"]

log = logging.getLogger("mooring.containers")

EXCUSED_S = 60.0
"""For the guardian of one that was killed to be done."""


def passing_owner() -> str:
    """For a Mooring without a state of its own: one for each user of a machine, so that the next cleans up.

    Where the machine has no name of its own, nobody else's containers can be taken for ours.
    """
    try:
        machine = Path("/etc/machine-id").read_text().strip()
    except OSError:
        machine = ""
    if not machine:
        return secrets.token_hex(8)
    return hashlib.sha256(f"{machine} {os.getuid()}".encode()).hexdigest()[:16]


class Harbours:
    """See the module. Whoever makes them closes them, after every runtime that belongs to them."""

    def __init__(
        self,
        owner: Owner,
        environment: Mapping[str, str],
        home: Path,
        *,
        guardian: Guardian | None = None,
        logbook: Logbook | None = None,
        is_alone: bool = False,
        may_sweep: bool = True,
        on_leftover: "Callable[[ContainerLeftover], None]" = lambda left: None,
    ) -> None:
        """`is_alone`: no other process has this owner's name, whatever labels say.

        `may_sweep`: what is nobody's can be told from what another is still about to hand to us.
        """
        self.owner = owner
        self.environment = environment
        self.home = home
        self.guardian = guardian
        self.logbook = logbook
        self.is_alone = is_alone
        self.may_sweep = may_sweep
        self.on_leftover = on_leftover
        self.adopted: set[str] = set()
        """Containers that another had made, and that are ours now."""
        self._all: dict[str, Harbour] = {}
        self._sweeping = asyncio.Lock()
        self._excused_until = 0.0

    def get(self, engine: str) -> "Harbour":
        """For the engine that was asked for."""
        from mooring.runtimes.containers.harbour import Harbour  # noqa: PLC0415 - only with containers

        if engine not in self._all:
            self._all[engine] = Harbour(engine, self)
        return self._all[engine]

    @property
    def is_sweeping(self) -> bool:
        """Something is being ended, or looked for."""
        return self._sweeping.locked()

    def settle(self) -> None:
        """The one before us has gone. Its guardian may still be at what was handed to us: see `excuses`."""
        self.may_sweep = True
        self._excused_until = asyncio.get_running_loop().time() + EXCUSED_S

    def excuses(self, container: str) -> bool:
        """Was it perhaps the one before us who has removed it, and nobody who wanted it gone?

        Killed in the instant in which it hands over, its guardian does not know whose they are.
        """
        is_settling = not self.may_sweep or asyncio.get_running_loop().time() < self._excused_until
        return is_settling and container in self.adopted

    async def sweep(self, engine: "Engine") -> None:
        """End what is left there of those who are no more. Raises MooringError if nothing can be learnt."""
        if not self.may_sweep:
            return
        from mooring.runtimes.containers.leftovers import end_container_leftovers  # noqa: PLC0415

        async with self._sweeping:  # so that nothing is told of twice
            for left in await end_container_leftovers(engine, self.owner.id, self._is_kept):
                self.on_leftover(left)

    async def sweep_all(self) -> None:
        """The same in every engine that we, or one before us, ever used. One that is gone is left out."""
        await self._in_each_engine(self.sweep)

    async def find_left(self) -> "tuple[list[ContainerLeftover], list[str]]":
        """What that would be about, and which engines could not be asked. Nothing is done about it."""
        found: list[ContainerLeftover] = []

        async def look(engine: "Engine") -> None:
            from mooring.runtimes.containers.leftovers import find_container_leftovers  # noqa: PLC0415

            found.extend(await find_container_leftovers(engine, self.owner.id, self._is_kept))

        return found, await self._in_each_engine(look)

    async def _in_each_engine(self, do: "Callable[[Engine], Awaitable[None]]") -> list[str]:
        """Returns where that could not be done."""
        silent: list[str] = []
        endpoints = self.logbook.endpoints() if self.logbook is not None else []
        if not endpoints:
            return silent
        from mooring.runtimes.containers.engine import Engine  # noqa: PLC0415

        async def in_one(endpoint: Endpoint) -> None:
            try:
                await do(await Engine.meet(endpoint))
            except MooringError as error:
                log.info("what may be left in the engine at %s stays: %s", endpoint, error.message)
                silent.append(str(endpoint))

        await asyncio.gather(*map(in_one, endpoints))
        return silent

    def _is_kept(self, container: str, whose: Owned, state: str) -> bool:
        if not self.may_sweep or whose.owner.life == self.owner.life or container in self.adopted:
            return True
        return not self.is_alone and may_live(whose.owner.process, is_running=state in ("running", "paused"))

    async def aclose(self) -> None:
        """Idempotent."""
        for harbour in self._all.values():
            await harbour.aclose()
