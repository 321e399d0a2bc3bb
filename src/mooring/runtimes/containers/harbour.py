"""What all container runtimes of one process share: the engine, whose containers they are, and one watch.

The engine is looked for when it is first needed, and again if it has never been met; once met, it is that one
for good: if it goes, it is waited for, not replaced by another that happens to be there.

Whoever makes a harbour closes it, after every runtime that belongs to it.
"""

import asyncio
import secrets
from collections.abc import Mapping
from pathlib import Path

from mooring.errors import MooringError, Unavailable, UserError
from mooring.runtimes.containers.endpoints import AUTO, DOCKER, PODMAN, Endpoint, candidates
from mooring.runtimes.containers.engine import Engine
from mooring.runtimes.containers.failures import no_engine
from mooring.runtimes.containers.labels import Owner
from mooring.runtimes.containers.watch import Watch

__all__ = ["Harbour", "find_engine"]


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


def _is_there(path: str) -> bool:
    try:
        return Path(path).exists()
    except OSError:
        return True  # in a folder that we may not see: connecting to it says so


class Harbour:
    """See the module."""

    def __init__(
        self,
        *,
        engine: str = AUTO,
        environment: Mapping[str, str],
        home: Path,
        runtime_dir: Path | None = None,
        owner: Owner | None = None,
    ) -> None:
        self.owner = owner or Owner(secrets.token_hex(8), secrets.token_hex(8))
        self._wanted = engine
        self._environment = environment
        self._home = home
        self._runtime_dir = runtime_dir
        self._engine: Engine | None = None
        self._watch: Watch | None = None
        self._finding = asyncio.Lock()

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
                endpoints = candidates(
                    self._wanted, self._environment, self._home, runtime_dir=self._runtime_dir
                )
                self._engine = await find_engine(self._wanted, endpoints)
            return self._engine

    async def watching(self) -> Watch:
        """A watch that hears everything from now on. Raises as `engine` does."""
        engine = await self.engine()
        if self._watch is None:
            self._watch = Watch(engine, self.owner.id)
        await self._watch.ensure()
        return self._watch

    async def aclose(self) -> None:
        """Idempotent."""
        if self._watch is not None:
            await self._watch.aclose()
