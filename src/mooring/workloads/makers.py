"""How instances of a server are made and ended.

They are processes; or containers (`container_maker`); or sessions with a server elsewhere (`remote_maker`),
or with a program that we have started for all of them (`served_maker`).
The seam between a workload and all of these: an instance is whatever has these members.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from mooring.errors import MooringError
from mooring.proxy.ports import Channel
from mooring.proxy.trail import Trail
from mooring.runtimes.containers.passing import PassedContainer
from mooring.runtimes.exits import Exit
from mooring.runtimes.household import Household
from mooring.runtimes.passing import PassedProcess
from mooring.runtimes.process import ProcessInstance
from mooring.runtimes.program import ProcessSpec, check_program
from mooring.runtimes.runtime import ProcessRuntime
from mooring.runtimes.stopping import StopOutcome
from mooring.wire.budget import Budget
from mooring.wire.failures import Failure
from mooring.workloads.definition import ServerOptions

if TYPE_CHECKING:
    from mooring.runtimes.containers.harbours import Harbours
    from mooring.runtimes.containers.pulling import Progress

__all__ = ["Ears", "Instance", "Maker", "Passed", "make_maker"]

Passed: TypeAlias = PassedProcess | PassedContainer
"""An instance that another Mooring has started."""


class Instance(Channel, Protocol):
    """A running process or container, or a session elsewhere."""

    n: int
    """The how manieth it is."""
    started_at: float

    @property
    def stays(self) -> bool:
        """It never goes to another Mooring: sessions do without it, and get another there."""
        ...

    @property
    def speaks_modern(self) -> bool:
        """It is known to answer without a handshake, as 2026-07-28 has it."""
        ...

    @property
    def trouble(self) -> Failure | None:
        """Why the last call was answered in place of the server, which is elsewhere; None: it was not."""
        ...

    @property
    def process(self) -> int:
        """The number under which is told what it writes to stderr."""
        ...

    @property
    def published_port(self) -> int | None:
        """Of this machine, which leads to the port of its own that a container was asked to publish."""
        ...

    @property
    def title(self) -> str:
        """Names it, for people."""
        ...

    @property
    def container(self) -> str:
        """Its id; empty: it is none."""
        ...

    @property
    def was_meddled_with(self) -> bool:
        """Somebody else has asked for its end, or its restart: that it ended says nothing of the server."""
        ...

    def describe(self) -> Passed | None:
        """All that another Mooring needs to go on with it, now; None: it cannot go."""
        ...

    def hold(self) -> None:
        """Leave all that it says unread, and say nothing to it, until `go_on`."""
        ...

    def go_on(self) -> None:
        """After `hold`."""
        ...

    async def stop(self) -> StopOutcome:
        """End it, and wait for that."""
        ...


class Maker(Protocol):
    """Makes instances of one server, and makes sure that all of them end."""

    @property
    def instances(self) -> Sequence[Instance]:
        """Those that have not ended, in the order of their start."""
        ...

    @property
    def programs(self) -> Sequence[Instance]:
        """What runs and is no instance itself, because instances are sessions with it."""
        ...

    @property
    def may_return(self) -> bool:
        """One that others have ended they have started again, or may: `regain` has it."""
        ...

    async def regain(self, variables: Mapping[str, str]) -> Instance | None:
        """Go on with such a one, for which it waits a moment; None: there is none. Raises as `start`."""
        ...

    async def check(self, variables: Mapping[str, str]) -> None:
        """Is there anything that only somebody's help can change? Raises UserError."""
        ...

    async def start(self, variables: Mapping[str, str]) -> Instance:
        """Another one, with these variables beside its own. Raises MooringError; then nothing is left."""
        ...

    def replace(self, instance: Instance, reason: str) -> None:
        """It was given up, for this reason: so is the program that it is a session with, if it is one."""
        ...

    def adopt(self, passed: Passed) -> Instance:
        """Go on with one that another Mooring had; its descriptors are ours from now on."""
        ...

    def part_with(self, instance: Instance) -> None:
        """Another Mooring has adopted it."""
        ...

    def hurry(self) -> None:
        """No more patience with any of them."""
        ...

    async def aclose(self) -> None:
        """End all. Idempotent; cancelling the wait does not cut it short."""
        ...


class Ears(NamedTuple):
    """Who is told what of instances."""

    on_stderr: Callable[[int, str], None]
    on_gone: Callable[[Instance, Exit], None]
    """It has ended, asked or not; before its receiver hears of it."""
    on_program_gone: "Callable[[Sequence[Instance], Exit | None], None]"
    """The program has ended, unasked, that all these are sessions with; before their receivers hear of it.

    None: it has not, but is replaced, and why is known.
    """
    on_removed: Callable[[str], None]
    """Somebody else has removed a container, of which this is the id; before `on_gone`."""
    on_paused: Callable[[Instance, bool], None]
    on_progress: "Callable[[Progress], None]"
    """An image is being pulled."""
    on_engine: Callable[[MooringError | None], None]
    """What instances run in does not answer any more, or (None) answers again."""
    on_decided: Callable[[], None]
    """Whether one that others have ended comes back is known: `Maker.may_return` may be another."""
    on_trouble: Callable[[Failure | None], None]
    """A call was answered in place of a server elsewhere, for this reason; or (None) by itself."""
    on_excused: Callable[[int], None]
    """That the instance of this number ended was the doing of others, as is known only now."""


def make_maker(
    definition: ServerOptions,
    ears: Ears,
    *,
    unfinished: Budget,
    clock: Callable[[], float],
    household: Household | None,
    harbours: "Harbours | None",
    look_up: Callable[[], Awaitable[Mapping[str, str]]],
    logins: Path | None,
    generation: int,
    trail: Trail,
) -> Maker:
    """For the server as it is defined. `harbours`: needed for one in containers.

    `look_up`: what its references lead to now. `logins`: the state directory, where those are that servers
    elsewhere ask for. `trail`: what those are told of the way that requests have come.
    """
    if definition.remote is not None:
        from mooring.workloads.remote_maker import RemoteMaker  # noqa: PLC0415 - only with servers elsewhere

        return RemoteMaker(definition, ears, clock=clock, look_up=look_up, logins=logins, trail=trail)

    def make_programs(definition: ServerOptions, ears: Ears) -> Maker:
        if definition.container is None:
            return ProcessMaker(definition, ears, unfinished=unfinished, clock=clock, household=household)
        if harbours is None:
            raise ValueError("containers need a harbour")
        from mooring.workloads.container_maker import ContainerMaker  # noqa: PLC0415 - only with containers

        return ContainerMaker(
            definition, ears, harbours, unfinished=unfinished, clock=clock, generation=generation
        )

    if definition.served is None:
        return make_programs(definition, ears)
    from mooring.workloads.served_maker import ServedMaker  # noqa: PLC0415 - only with servers over HTTP

    return ServedMaker(definition, ears, make_programs)


class ProcessMaker:
    """Instances are processes of this machine."""

    may_return = False

    def __init__(
        self,
        definition: ServerOptions,
        ears: Ears,
        *,
        unfinished: Budget,
        clock: Callable[[], float],
        household: Household | None,
    ) -> None:
        self._spec = ProcessSpec(
            name=definition.name, argv=definition.argv, env=definition.env, cwd=definition.cwd
        )
        self._runtime = ProcessRuntime(
            on_stderr=ears.on_stderr,
            on_gone=ears.on_gone,
            max_line_bytes=definition.sessions.max_message_bytes,
            unfinished=unfinished,
            patience=definition.patience,
            clock=clock,
            household=household,
            are_spoken_to=definition.served is None,
        )

    programs = ()
    """See `Maker`: instances are all there is."""

    def replace(self, instance: Instance, reason: str) -> None:
        """See `Maker`: it is one process, and ended as such."""

    @property
    def instances(self) -> tuple[ProcessInstance, ...]:
        """See `Maker`."""
        return self._runtime.instances

    async def check(self, variables: Mapping[str, str]) -> None:
        """See `Maker`."""
        check_program(self._complete(variables))

    async def start(self, variables: Mapping[str, str]) -> ProcessInstance:
        """See `Maker`."""
        return await self._runtime.start(self._complete(variables))

    async def regain(self, variables: Mapping[str, str]) -> ProcessInstance | None:
        """See `Maker`: a process does not come back."""
        return None

    def adopt(self, passed: Passed) -> ProcessInstance:
        """See `Maker`."""
        if not isinstance(passed, PassedProcess):
            raise TypeError("a container cannot go on as a process")
        return self._runtime.adopt(self._spec, passed)

    def part_with(self, instance: Instance) -> None:
        """See `Maker`."""
        if isinstance(instance, ProcessInstance):
            self._runtime.part_with(instance)

    def hurry(self) -> None:
        """See `Maker`."""
        self._runtime.hurry()

    async def aclose(self) -> None:
        """See `Maker`."""
        await self._runtime.aclose()

    def _complete(self, variables: Mapping[str, str]) -> ProcessSpec:
        return replace(self._spec, env={**self._spec.env, **variables}) if variables else self._spec
