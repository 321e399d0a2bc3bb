"""All servers of one Mooring: what is wanted of them, and making it true.

What is wanted is in the store; what is the case is asked of the live generation. Both change under the
lock of the server, for a moment only; whatever takes long (calls that finish, processes that end) is waited
for outside it.

Rules:
- The store is written first: whatever happens then, the next start finds what was wanted.
- `stop` and `remove` win: they take effect in every state, and whoever was about to start the server
  finds that out after its wait (`conflict`).
- A name has at most one generation that is not ending. One that ends may overlap with the next.
- One server's trouble is its own.
- What was made from a file (its origin) is replaced or removed in the name of that file only, or by somebody
  who names no file.
- Whoever does not want to wait (`wait=False`) is told what is wrong at once, or that it will be done: it goes
  on in a task of the fleet.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from difflib import get_close_matches
from functools import partial
from typing import NamedTuple

from mooring.errors import MooringError, Unavailable, UserError
from mooring.runtimes.containers.harbours import Harbours
from mooring.runtimes.household import Household
from mooring.store.database import StoreError
from mooring.store.records import Desired
from mooring.store.records import Workload as Wanted
from mooring.supervise.reasons import ReasonCode
from mooring.supervise.snapshot import Snapshot
from mooring.workloads.definition import (
    ServerOptions,
    differences,
    dump_options,
    same_request,
)
from mooring.workloads.generation import Generation
from mooring.workloads.happenings import Happening, Kind
from mooring.workloads.history import History
from mooring.workloads.passing import PassedGeneration
from mooring.workloads.resolving import Resolving
from mooring.workloads.server import Addresses, Means, Server, Successor
from mooring.workloads.state import State

__all__ = ["Conflict", "Fleet", "Seen"]

log = logging.getLogger("mooring.workload")


class Conflict(MooringError):
    """Something else is being done with the server right now."""


class Seen(NamedTuple):
    """A server at one moment: what is wanted, and what is the case (None: it does not run)."""

    wanted: Wanted
    options: ServerOptions | None
    live: Generation | None
    problem: str
    """Why it could not be begun although it is wanted."""

    def snapshot(self) -> Snapshot | None:
        """How its live generation is."""
        return self.live.snapshot() if self.live is not None else None


class Fleet:
    """See the module."""

    def __init__(
        self,
        state: State,
        addresses: Addresses,
        *,
        clock: Callable[[], float],
        wall: Callable[[], float],
        household: Household | None = None,
        harbours: Harbours | None = None,
        resolving: Resolving | None = None,
        calls_s: float | None = None,
    ) -> None:
        """`calls_s`: what calls get to finish where nobody asked for the end, and so for another time."""
        self._state = state
        self.history = History(state, wall)
        self._addresses = addresses
        self._resolving = resolving
        self._calls_s = calls_s
        self._means = Means(
            state, self.history, addresses, clock, wall, household, harbours, resolving, self._end_unwanted
        )
        self._servers: dict[str, Server] = {}
        self._adding = asyncio.Lock()
        self._leaving: set[Generation] = set()
        self._tasks: set[asyncio.Task[int]] = set()
        self._unwanted: dict[str, asyncio.Task[int]] = {}
        """Ends that nobody asked for here, by the name of the server."""
        self._closing = False

    # What is known

    def seen(self, name: str) -> Seen:
        """One of them. Raises UserError if there is none."""
        server = self._get(name)
        return Seen(server.wanted, server.options, server.live, server.problem)

    def knows(self, name: str) -> bool:
        """Is there one of that name? May be asked from any thread."""
        return name in self._servers

    def all(self) -> list[Seen]:
        """All of them, by name."""
        return [self.seen(name) for name in sorted(self._servers)]

    def _get(self, name: str) -> Server:
        server = self._servers.get(name)
        if server is None:
            alike = get_close_matches(name, self._servers, 1)
            hint = f"did you mean {alike[0]}? mooring ls lists all" if alike else "mooring ls lists all"
            raise UserError(f"there is no server named {name}", code="unknown_server", hint=hint)
        return server

    # What can be done

    async def load(self) -> None:
        """At the start of Mooring, before anybody asks: what is known of earlier."""
        for wanted in await self._state.do(lambda store: store.workloads()):
            self._servers[wanted.name] = Server(wanted, self._means)
            if wanted.is_stopped:
                why = "its container was removed outside Mooring" if wanted.why_stopped else "it was stopped"
                self._addresses.close(wanted.name, why)
            else:
                self._addresses.expect(wanted.name)

    # Going on at another Mooring, or here

    @property
    def is_settled(self) -> bool:
        """Nothing is being done with any of them."""
        busy = self._tasks or self._leaving or self._adding.locked()
        return not busy and not any(server.lock.locked() for server in self._servers.values())

    @property
    def live(self) -> dict[str, Generation]:
        """The generations that run."""
        return {name: server.live for name, server in self._servers.items() if server.live is not None}

    def check(self, passed: Iterable[PassedGeneration]) -> None:
        """Can this Mooring go on with all of them? Raises MooringError."""
        for generation in passed:
            server = self._servers.get(generation.name)
            if server is None or server.wanted.generation != generation.number:
                raise Unavailable(
                    f"{generation.name} has changed meanwhile", code="conflict", hint="try again"
                )
            server.check_readable()

    async def go_on(self, passed: PassedGeneration) -> Generation:
        """Go on with one that another Mooring had; whoever asks for it waits until it is served."""
        server = self._servers[passed.name]
        generation = server.make_generation()
        server.live = generation
        await generation.go_on(passed)
        return generation

    def part(self) -> None:
        """Another Mooring has all of it: it writes what happens, and what is in engines is its own."""
        self.history.part()
        if self._means.harbours is not None:
            self._means.harbours.may_sweep = False

    async def leave(self) -> None:
        """All that is left here of what another Mooring has."""
        self._closing = True
        await asyncio.gather(*(generation.leave() for generation in self.live.values()))

    async def recover(self) -> None:
        """Begin all that should run. One that cannot costs only itself."""
        for server in list(self._servers.values()):
            async with server.lock:
                if server.is_removed or server.wanted.is_stopped or server.live is not None:
                    continue  # somebody was quicker
                try:
                    await server.begin("as before the daemon ended")
                except MooringError as error:
                    server.problem = error.message
                    log.error("%s cannot be started: %s", server.name, error.message)
                    self._addresses.close(server.name, error.message)

    async def run(
        self,
        options: ServerOptions,
        *,
        replace: bool = False,
        origin: str = "",
        adopt: bool = False,
        calls_s: float | None = None,
        wait: bool = True,
    ) -> bool:
        """Have a server of that name, as described. Returns whether anything had to be done.

        `origin`: the file that asks for it. `adopt`: it is that file's from now on, whosever it was.
        """
        definition = dump_options(options)
        known = self._servers.get(options.name)
        if known is None or known.options != options:
            await self._check_references(options)
        async with self._adding:
            server = self._servers.get(options.name)
            if server is None:
                self._check_open()
                wanted = await self._state.do(lambda store: store.add(options.name, definition, origin))
                server = self._servers[options.name] = Server(wanted, self._means)
                async with server.lock:
                    await server.start(Happening(Kind.STARTED, "for the first time"))
                return True
        # As values, not as bytes: an option that this Mooring has and the one before had not changes nothing.
        is_same = server.options is not None and same_request(server.options, options)
        if not is_same and not replace:
            raise _name_taken(server.options, options)
        if server.options != options and replace:
            if not adopt:
                _check_origin(server, origin)
            successor = Successor(options, origin)
            await self._begin_anew(server, "replaced by another definition", successor, calls_s, wait)
            return True
        if adopt and server.wanted.origin != origin:
            async with server.lock:
                self._check_there(server)
                await server.belong_to(origin)
        if not server.wanted.is_stopped and server.live is not None:
            return False
        await self.start(options.name)
        return True

    async def start(self, name: str) -> None:
        """Have it run, now: also when it is waiting to be restarted."""
        server = self._get(name)
        await self._check_references(server.options)
        if (ending := self._unwanted.get(name)) is not None:
            await asyncio.wait([ending])  # nobody asked for that end, and who asks now wants it to be over
        async with server.lock:
            self._check_there(server)
            if server.live is not None and server.live.is_ending:
                raise _conflict(name, f"is ending: {server.live.why_ending}")
            if server.live is None:
                await server.begin("by request")
            else:
                server.live.workload.supervisor.skip_wait()

    async def restart(self, name: str, calls_s: float | None, *, wait: bool = True) -> None:
        """End it, then have it run."""
        server = self._get(name)
        await self._check_references(server.options)
        await self._begin_anew(server, "restarted by request", None, calls_s, wait)

    async def stop(self, name: str, calls_s: float | None, *, wait: bool = True) -> int:
        """Have it not run. Returns how many calls were cut, when all of it has ended."""
        server = self._get(name)
        async with server.lock:
            self._check_there(server)
            generation = server.wanted.generation
            await self._state.do(lambda store: store.want(name, generation, Desired.STOPPED))
            server.wanted = server.wanted._replace(desired=Desired.STOPPED, why_stopped="")
            live = server.live
        cause = "stopped by request"
        close = partial(self._addresses.close, name, cause)
        return await self._carry_out(self._end(server, live, cause, calls_s, close), wait)

    async def remove(self, name: str, calls_s: float | None, *, origin: str = "", wait: bool = True) -> int:
        """Forget it: the name is free at once. Returns how many calls were cut, when all of it has ended."""
        server = self._get(name)
        async with server.lock:
            self._check_there(server)
            _check_origin(server, origin)
            generation = server.wanted.generation
            await self._state.do(lambda store: store.remove(name, generation))
            self.history.changed()
            server.is_removed = True
            del self._servers[name]
            self._addresses.forget(name)
            live = server.live
        return await self._carry_out(self._end_removed(server, live, calls_s), wait)

    def _end_unwanted(self, generation: Generation, why: str) -> None:
        """Somebody has removed what it runs in: it ends, and is not begun again before it is asked for."""
        server = self._servers.get(generation.name)
        if server is not None and server.live is generation and not self._closing:
            ending = self._begin_task(self._stop_unwanted(server, generation, why))
            self._unwanted[server.name] = ending
            ending.add_done_callback(lambda _: self._unwanted.pop(server.name, None))

    async def _stop_unwanted(self, server: Server, generation: Generation, why: str) -> int:
        code = str(ReasonCode.REMOVED_OUTSIDE)
        async with server.lock:
            if server.is_removed or server.live is not generation or generation.is_ending:
                return 0  # somebody was quicker
            name, number = server.name, generation.number
            try:
                await self._state.do(lambda store: store.want(name, number, Desired.STOPPED, code))
            except StoreError as error:
                log.error("%s: that it ended cannot be written down: %s", server.name, error.message)
            server.wanted = server.wanted._replace(desired=Desired.STOPPED, why_stopped=code)
        close = partial(self._addresses.close, server.name, why)
        return await self._end(server, generation, why, self._calls_s, close)

    async def _end_removed(self, server: Server, live: Generation | None, calls_s: float | None) -> int:
        cut = await self._end(server, live, "removed", calls_s, _nothing)
        if server.name not in self._servers:
            self._addresses.forget(server.name)  # also what it left behind while it ended
        return cut

    async def aclose(self, cause: str, calls_s: float | None) -> int:
        """End all of them, together. What is wanted stays; returns how many calls were cut."""
        self._closing = True
        self._leaving |= {server.live for server in self._servers.values() if server.live is not None}
        ends = [self._leave(generation, cause, calls_s) for generation in self._leaving]
        cut = sum(await asyncio.gather(*ends))
        if self._tasks:
            await asyncio.wait(self._tasks)  # what they waited for has ended, and nothing is begun any more
        return cut

    def _leave(self, generation: Generation, cause: str, calls_s: float | None) -> Awaitable[int]:
        close = partial(self._addresses.close, generation.name, cause)
        return generation.end(cause, calls_s, close, ReasonCode.SIGNAL)

    def hurry(self) -> None:
        """No more patience with whatever is ending."""
        for generation in self._leaving:
            generation.hurry()

    # How it is done

    async def _begin_anew(
        self,
        server: Server,
        cause: str,
        successor: Successor | None,
        calls_s: float | None,
        wait: bool,
    ) -> None:
        async with server.lock:
            self._check_there(server)
            if server.live is not None and server.live.is_ending:
                raise _conflict(server.name, f"is ending: {server.live.why_ending}")
            live = server.live
        await self._carry_out(self._succeed(server, live, cause, successor, calls_s), wait)

    async def _succeed(
        self,
        server: Server,
        live: Generation | None,
        cause: str,
        successor: Successor | None,
        calls_s: float | None,
    ) -> int:
        """After the end of `live`, its next generation."""
        name = server.name
        cut = await self._end(server, live, cause, calls_s, partial(self._addresses.expect, name))
        async with server.lock:
            self._check_there(server)
            if server.wanted.is_stopped and live is not None:
                self._addresses.close(name, "it was stopped")
                raise _conflict(name, "was stopped meanwhile")
            if server.live is not None:
                raise _conflict(name, "was started meanwhile")
            try:
                await server.begin(cause, successor)
            except MooringError as error:
                self._addresses.close(name, error.message)
                raise
        return cut

    async def _carry_out(self, work: Coroutine[None, None, int], wait: bool) -> int:
        """Have it done, whoever still waits for it."""
        task = self._begin_task(work)
        return await asyncio.shield(task) if wait else 0

    def _begin_task(self, work: Coroutine[None, None, int]) -> "asyncio.Task[int]":
        task = asyncio.create_task(work, name="carrying out")
        self._tasks.add(task)
        task.add_done_callback(self._carried_out)
        return task

    def _carried_out(self, task: "asyncio.Task[int]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            # Told to whoever waits, too.
            log.log(logging.DEBUG if isinstance(error, MooringError) else logging.ERROR, "%s", error)

    async def _end(
        self,
        server: Server,
        live: Generation | None,
        cause: str,
        calls_s: float | None,
        then: Callable[[], None],
    ) -> int:
        """See `Server.end`; until then it can be hurried."""
        leaving = {live} if live is not None else set()
        self._leaving |= leaving
        try:
            return await server.end(live, cause, calls_s, then)
        finally:
            self._leaving -= leaving

    async def _check_references(self, options: ServerOptions | None) -> None:
        """Whoever asks for it is told what is missing before anything is begun, or ended."""
        if options is not None and self._resolving is not None:
            await self._resolving.resolve(options)

    def _check_open(self) -> None:
        if self._closing:
            raise Unavailable("Mooring is stopping", code="shutting_down", hint="try again when it has")

    def _check_there(self, server: Server) -> None:
        self._check_open()
        if server.is_removed:
            raise _conflict(server.name, "was removed meanwhile")


def _check_origin(server: Server, origin: str) -> None:
    """A file touches what it has made, and nothing else; whoever names no file is asked for no proof."""
    wanted = server.wanted
    if origin and wanted.origin != origin:
        raise UserError(
            f"{wanted.name} was not made from {origin}"
            + (f" but from {wanted.origin}" if wanted.origin else ""),
            code="not_of_this_file",
            hint=f"mooring status {wanted.name} shows it",
        )


def _name_taken(known: ServerOptions | None, asked: ServerOptions) -> UserError:
    what = f"; different: {', '.join(differences(known, asked))}" if known is not None else ""
    return UserError(
        f"there is a server named {asked.name}, with another definition{what}",
        code="name_taken",
        hint=f"mooring export {asked.name} shows it; --replace puts this one in its place",
    )


def _nothing() -> None:
    pass


def _conflict(name: str, what: str) -> Conflict:
    return Conflict(f"{name} {what}", code="conflict", hint="try again when that is done")
