"""One name of a fleet: what is wanted of it, and its generations, of which at most one is not ending.

Nobody else begins one, or ends it. What changes it is done under its lock, but for the wait until a
generation has ended.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple, Protocol

import msgspec

from mooring.errors import UserError
from mooring.proxy.proxy import Proxy
from mooring.runtimes.containers.harbours import Harbours
from mooring.runtimes.household import Household
from mooring.store.records import Workload as Wanted
from mooring.workloads.definition import ServerOptions, dump_options, load_options
from mooring.workloads.generation import Generation
from mooring.workloads.happenings import Happening, Kind
from mooring.workloads.history import History
from mooring.workloads.resolving import Resolving
from mooring.workloads.state import State

__all__ = ["Addresses", "Means", "Server", "Successor"]

log = logging.getLogger("mooring.workload")


class Addresses(Protocol):
    """Who makes servers reachable under their names."""

    def serve(self, name: str, proxy: Proxy) -> None:
        """From now on this one answers."""
        ...

    def expect(self, name: str) -> None:
        """One is about to answer: whoever asks waits for it, within bounds. Idempotent."""
        ...

    def close(self, name: str, why: str) -> None:
        """Nobody answers, for now."""
        ...

    def forget(self, name: str) -> None:
        """There is no such server any more."""
        ...


class Means(NamedTuple):
    """What all servers of a fleet have in common."""

    state: State
    history: History
    addresses: Addresses
    clock: Callable[[], float]
    wall: Callable[[], float]
    household: Household | None
    harbours: Harbours | None
    resolving: Resolving | None
    on_unwanted: Callable[[Generation, str], None]
    """Somebody has removed what a generation runs in."""


class Successor(NamedTuple):
    """Another definition for the next generation."""

    options: ServerOptions
    origin: str

    def written(self) -> tuple[bytes, str]:
        """For the store."""
        return dump_options(self.options), self.origin


class Server:
    """See the module."""

    def __init__(self, wanted: Wanted, means: Means) -> None:
        self.wanted = wanted
        self.options = _options_of(wanted)
        """None: what is written down cannot be read."""
        self.live: Generation | None = None
        self.problem = ""
        """Why it could not be begun although it is wanted."""
        self.is_removed = False
        self.lock = asyncio.Lock()
        self._means = means

    @property
    def name(self) -> str:
        """The one that it is about."""
        return self.wanted.name

    async def begin(self, why: str, successor: Successor | None = None) -> None:
        """Its next generation; the lock is held."""
        after = self.wanted.generation
        definition, origin = (None, None) if successor is None else successor.written()
        self.wanted = await self._means.state.do(
            lambda store: store.begin(self.name, after=after, definition=definition, origin=origin)
        )
        if successor is not None:
            self.options = successor.options
        await self.start(Happening(Kind.STARTED if successor is None else Kind.REPLACED, why))

    async def start(self, happening: Happening) -> None:
        """The generation that is written down, and was not begun."""
        generation = self.make_generation()
        generation.tell(happening)
        self.live, self.problem = generation, ""
        if await generation.begin():
            # Not before it knows the sessions: their clients would be told that there are none.
            self._means.addresses.serve(self.name, generation.workload.proxy)

    def make_generation(self) -> Generation:
        """Of the present definition. Raises UserError if that cannot be read."""
        means = self._means
        return Generation(
            self.wanted,
            self.check_readable(),
            means.state,
            means.history,
            clock=means.clock,
            wall=means.wall,
            on_unwanted=means.on_unwanted,
            household=means.household,
            harbours=means.harbours,
            resolving=means.resolving,
        )

    def check_readable(self) -> ServerOptions:
        """Its definition. Raises UserError."""
        if self.options is None:
            raise UserError(
                f"what is known of {self.name} cannot be read by this Mooring",
                code="bad_definition",
                hint=f"mooring rm {self.name}, then run it again",
            )
        return self.options

    async def belong_to(self, origin: str) -> None:
        """It is that file's from now on; the lock is held."""
        generation = self.wanted.generation
        await self._means.state.do(lambda store: store.adopt(self.name, generation, origin))
        self.wanted = self.wanted._replace(origin=origin)

    async def end(
        self, live: Generation | None, cause: str, calls_s: float | None, then: Callable[[], None]
    ) -> int:
        """The end of that generation. Returns how many calls were cut, when all of it has ended.

        `then`: how it is answered for from the moment on when its sessions are put away.
        """
        cut = await live.end(cause, calls_s, then) if live is not None else 0
        if self.live is live:
            self.live = None
            if not self.is_removed:
                then()
        return cut


def _options_of(wanted: Wanted) -> ServerOptions | None:
    try:
        return load_options(wanted.definition)
    except msgspec.DecodeError as error:
        log.error("the definition of %s cannot be read: %s", wanted.name, error)
        return None
