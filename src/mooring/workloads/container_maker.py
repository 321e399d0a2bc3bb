"""Instances of a server that are containers, of whichever engine."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from mooring.errors import Unavailable
from mooring.runtimes.containers.harbours import Harbours
from mooring.runtimes.containers.instance import ContainerInstance
from mooring.runtimes.containers.passing import PassedContainer
from mooring.runtimes.containers.runtime import ContainerRuntime
from mooring.runtimes.containers.spec import ContainerSpec
from mooring.wire.budget import Budget
from mooring.workloads.definition import ServerOptions
from mooring.workloads.makers import Ears, Instance, Passed

__all__ = ["ContainerMaker"]

LOOK_AGAIN_S = 0.5
"""After the engine did not answer, while somebody waits for an instance."""
PATIENCE = 0.8
"""Of the time that calls wait: so they are told what is wrong, and not merely that time is up."""
_Made = TypeVar("_Made")


class ContainerMaker:
    """See `makers.Maker`."""

    def __init__(
        self,
        definition: ServerOptions,
        ears: Ears,
        harbours: Harbours,
        *,
        unfinished: Budget,
        clock: Callable[[], float],
        generation: int,
    ) -> None:
        if definition.container is None:
            raise ValueError("no container")
        spec = ContainerSpec.of(definition.container, definition.name, definition.argv, definition.env)
        published = definition.served.container_port if definition.served is not None else None
        if definition.container.network == "host":
            published = None  # it is this machine's already
        self._spec = replace(spec, generation=generation, published=published)
        self._on_engine = ears.on_engine
        self._patience_s = PATIENCE * definition.sessions.recovery_wait_s
        self._runtime = ContainerRuntime(
            harbour=harbours.get(definition.container.engine),
            on_stderr=ears.on_stderr,
            on_gone=ears.on_gone,
            on_removed=ears.on_removed,
            on_paused=ears.on_paused,
            on_progress=ears.on_progress,
            on_engine=ears.on_engine,
            on_decided=ears.on_decided,
            on_excused=ears.on_excused,
            max_line_bytes=definition.sessions.max_message_bytes,
            unfinished=unfinished,
            patience=definition.patience,
            clock=clock,
        )

    programs = ()
    """See `Maker`: instances are all there is."""

    def replace(self, instance: Instance, reason: str) -> None:
        """See `Maker`: it is one container, and ended as such."""

    @property
    def instances(self) -> tuple[ContainerInstance, ...]:
        """Those that have not ended."""
        return self._runtime.instances

    @property
    def may_return(self) -> bool:
        """One that others have ended may be started by them again."""
        return self._runtime.may_return

    async def check(self, variables: Mapping[str, str]) -> None:
        """Whether there is an image is seen when one is to be started."""
        await self._runtime.check(self._complete(variables))

    async def regain(self, variables: Mapping[str, str]) -> ContainerInstance | None:
        """One that others have ended, and started again."""
        return await self._patiently(self._runtime.regain, variables)

    async def start(self, variables: Mapping[str, str]) -> ContainerInstance:
        """A new one."""
        return await self._patiently(self._runtime.start, variables)

    async def _patiently(
        self, make: Callable[[ContainerSpec], Awaitable[_Made]], variables: Mapping[str, str]
    ) -> _Made:
        """An engine that is being restarted is back in a moment: it is waited for, while calls wait."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + self._patience_s
        while True:
            try:
                return await make(self._complete(variables))
            except Unavailable as error:
                if error.code != "engine_unreachable" or loop.time() >= give_up_at:
                    raise
                self._on_engine(error)
            await asyncio.sleep(LOOK_AGAIN_S)

    def adopt(self, passed: Passed) -> ContainerInstance:
        """Go on with one that another Mooring had."""
        if not isinstance(passed, PassedContainer):
            raise TypeError("a process cannot go on as a container")
        return self._runtime.adopt(self._spec, passed)

    def part_with(self, instance: Instance) -> None:
        """Another Mooring has adopted it."""
        if isinstance(instance, ContainerInstance):
            self._runtime.part_with(instance)

    def hurry(self) -> None:
        """No more patience with any of them."""
        self._runtime.hurry()

    async def aclose(self) -> None:
        """End all."""
        await self._runtime.aclose()

    def _complete(self, variables: Mapping[str, str]) -> ContainerSpec:
        return replace(self._spec, env={**self._spec.env, **variables}) if variables else self._spec
