"""What all container runtimes of one engine share: that engine, whose containers they are, and one watch.

The engine is looked for when it is first needed, and again if it has never been met; once met, it is that one
for good: if it goes, it is waited for, not replaced by another that happens to be there.
"""

import asyncio
import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from mooring.errors import MooringError, Unavailable, UserError
from mooring.runtimes.containers.endpoints import DOCKER, PODMAN, Endpoint, candidates
from mooring.runtimes.containers.engine import Engine
from mooring.runtimes.containers.failures import engine_unreachable, no_engine
from mooring.runtimes.containers.harbours import Harbours
from mooring.runtimes.containers.labels import Owner
from mooring.runtimes.containers.leftovers import Debt
from mooring.runtimes.containers.wards import Wards
from mooring.runtimes.containers.watch import Watch

__all__ = ["Harbour", "find_engine", "places_to_look"]

log = logging.getLogger("mooring.containers")

SWEEP_AGAIN_S = 60.0
"""After the engine could not tell what is there."""
OWED_PAUSE_S = 2.0
"""Between two attempts to remove what is left, while the engine does not answer."""


async def find_engine(wanted: str, endpoints: list[Endpoint]) -> Engine:
    """The first that answers and is of the wanted kind.

    Else raises what is wrong with the first that is there; `no_engine` if there is none.
    """
    wrong: list[MooringError] = []
    for endpoint in endpoints:
        if endpoint.path and not _is_there(endpoint.path):
            continue
        try:
            engine = await Engine.meet(endpoint)
        except (UserError, Unavailable) as error:
            wrong.append(error)
            continue
        if wanted not in (DOCKER, PODMAN) or engine.kind == wanted:
            return engine
    # What may not be used is there for sure; what does not answer may be a socket that was left.
    wrong.sort(key=lambda error: isinstance(error, Unavailable))
    raise wrong[0] if wrong else no_engine(wanted, [str(endpoint) for endpoint in endpoints])


def places_to_look(wanted: str, environment: Mapping[str, str], home: Path) -> list[Endpoint]:
    """`candidates` on this system. Raises UserError."""
    # (A service may not have the variable that names it.)
    return candidates(wanted, environment, home, runtime_dir=Path(f"/run/user/{os.getuid()}"))


def _is_there(path: str) -> bool:
    try:
        Path(path).stat()  # (`exists` of newer Pythons does not tell what is hidden from what is not there)
    except PermissionError:
        return True  # in a folder that we may not see: connecting to it says so
    except OSError:
        return False
    return True


class Harbour:
    """See the module. Made by `Harbours`, which closes it."""

    def __init__(self, engine: str, common: Harbours) -> None:
        self.owner: Owner = common.owner
        self._wanted = engine
        self._common = common
        self._engine: Engine | None = None
        self._watch: Watch | None = None
        self._finding = asyncio.Lock()
        self._owed: dict[str, Debt] = {}
        self._paying: asyncio.Task[None] | None = None
        self._is_swept = False
        self._next_sweep_at = 0.0

    @property
    def known(self) -> Engine | None:
        """The engine, if it was met."""
        return self._engine

    @property
    def watch(self) -> Watch | None:
        """Who follows what happens, once there is an engine."""
        return self._watch

    async def engine(self) -> Engine:
        """The engine. Raises UserError or Unavailable."""
        async with self._finding:
            if self._engine is None:
                self._engine = await self._meet()
            if not self._is_swept:
                await self._sweep(self._engine)
            return self._engine

    async def watching(self) -> Watch:
        """A watch that hears everything from now on. Raises as `engine` does."""
        engine = await self.engine()
        if self._watch is None:
            self._watch = Watch(engine, self.owner.id)
        await self._watch.ensure()
        return self._watch

    def adopt(self, container: str) -> None:
        """Another had made it; it is ours now."""
        self._common.adopted.add(container)
        if self._engine is not None:
            self._engine.wards.expect(container)

    def part_with(self, container: str) -> None:
        """It is another's from now on."""
        self._common.adopted.discard(container)
        if self._engine is not None:
            self._engine.wards.let_go(container)

    def excuses(self, container: str) -> bool:
        """See `Harbours.excuses`."""
        return self._common.excuses(container)

    def owe(self, debts: Iterable[Debt]) -> None:
        """They are to be removed, and could not be: the engine did not answer those who had them.

        Nobody goes on with them: one that another had made may be swept away as well.
        """
        for debt in debts:
            self._owed[debt.name] = debt
            self._common.adopted.discard(debt.container)
        if self._owed and self._paying is None:
            self._paying = asyncio.create_task(self._pay(), name="removing what is left in an engine")

    async def aclose(self) -> None:
        """What is owed still, the guardian removes, or the next Mooring finds by its labels. Idempotent."""
        if (paying := self._paying) is not None:
            paying.cancel()
            await asyncio.wait([paying])
        for debt in self._owed.values():
            await debt.abandon()
        self._owed.clear()
        if self._watch is not None:
            await self._watch.aclose()

    async def _pay(self) -> None:
        try:
            while self._owed:
                for debt in tuple(self._owed.values()):
                    if await self._is_paid(debt):
                        self._owed.pop(debt.name, None)
                if self._owed:
                    await asyncio.sleep(OWED_PAUSE_S)
        finally:
            self._paying = None

    async def _is_paid(self, debt: Debt) -> bool:
        try:
            return debt.is_due and await debt.pay(await self.engine()) is not None
        except MooringError as error:
            log.debug("%s is not removed yet: %s", debt.container[:12], error.message)
        except Exception:  # of one container; the others are owed all the same
            log.exception("removing %s failed", debt.container[:12])
        return False

    async def _meet(self) -> Engine:
        """Find it."""
        common, wanted = self._common, self._wanted
        endpoints = places_to_look(wanted, common.environment, common.home)
        before = common.logbook.last(wanted) if common.logbook is not None else None
        if before is not None and _is_there(before.path) and before.url in [one.url for one in endpoints]:
            endpoints = [before]  # volumes and images are there: another that answers is no substitute
        try:
            engine = await find_engine(wanted, endpoints)
        except UserError as error:
            if error.code == "no_engine" and common.logbook is not None and common.logbook.knows(wanted):
                raise engine_unreachable(", ".join(map(str, endpoints[:2])), "it is not there now") from error
            raise
        engine.wards = Wards(common.guardian, str(engine.endpoint))
        if common.logbook is not None:
            common.logbook.note(wanted, engine.endpoint)
        return engine

    async def _sweep(self, engine: Engine) -> None:
        """End what is left there, before anything is made. That it cannot be is no reason to make nothing."""
        now = asyncio.get_running_loop().time()
        if now < self._next_sweep_at:
            return
        self._next_sweep_at = now + SWEEP_AGAIN_S
        try:
            await self._common.sweep(engine)
        except MooringError as error:
            text = "what an earlier Mooring may have left at %s cannot be removed now: %s"
            log.warning(text, engine.endpoint, error.message, extra={"event": error.code})
        else:
            self._is_swept = True
