"""`mooring serve`: all servers of one state directory behind one port, until it is told to end.

Reached in two ways: clients come to the TCP port, commands to a unix socket that is the user's alone. The
API is on both; on the port it needs the token that lies in the state directory.

Exit statuses: 0 ended as asked, or another daemon has the directory · 1 the port or the state failed ·
2 configuration · 3 a call was cut off at the deadline.
"""

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from mooring import __version__
from mooring.api.level import PREFIX
from mooring.api.service import Api
from mooring.api.types import Daemon
from mooring.errors import ListenFailed, MooringError
from mooring.host import metrics
from mooring.host.capacity import connections_beside_many
from mooring.host.client_files import ClientFiles
from mooring.host.connection_file import connections_path
from mooring.host.daemon_pages import add_pages
from mooring.host.handing_over import Estate
from mooring.host.handover_words import CLIENTS, COMMANDS
from mooring.host.harbouring import daemon_harbours
from mooring.host.loops import run_with_signals
from mooring.host.manager import tell_manager
from mooring.host.memory import memory_of
from mooring.host.neighbours import explained
from mooring.host.ownership import Ownership, check_nobody_answers, inheriting, owning
from mooring.host.places import Places, using
from mooring.host.relayed import relayed
from mooring.host.server_logs import ServerLogs
from mooring.host.shutdown import FLUSH_S, SPREAD_S
from mooring.host.stop import Stop
from mooring.host.street import Street
from mooring.host.succession import Succession
from mooring.host.successors import Successors
from mooring.host.taking_over import Inheritance, Predecessor, meeting
from mooring.host.waits import unless_stopped, until
from mooring.http.guard import Guard, guarded
from mooring.http.limits import Limits
from mooring.http.listener import Listener
from mooring.http.router import Router
from mooring.runtimes.descriptors import DESCRIPTORS
from mooring.runtimes.household import Household
from mooring.runtimes.leftovers import end_leftovers
from mooring.runtimes.roll import Roll, boot_id
from mooring.secrets.resolving import Resolver
from mooring.secrets.vault import Vault
from mooring.store.database import StoreError
from mooring.store.store import Store
from mooring.wire.http import Exchange, Response
from mooring.workloads.fleet import Fleet
from mooring.workloads.happenings import Happening, Kind
from mooring.workloads.recovery import (
    tell_of_container,
    tell_of_damage,
    tell_of_leftovers,
    tell_of_predecessor,
)
from mooring.workloads.resolving import Resolving
from mooring.workloads.state import State

if TYPE_CHECKING:
    from mooring.host.connections import Connections

__all__ = ["DaemonOptions", "main", "run"]

log = logging.getLogger("mooring.host")

LOST_CALL = 3
PROBES = frozenset({"/livez", "/readyz"})


@dataclass(frozen=True, kw_only=True)
class DaemonOptions:
    """What `mooring serve` was asked to do."""

    places: Places
    take_over: bool = False
    """From the daemon that runs, which is asked to hand over."""
    host: str = "127.0.0.1"
    drain_delay_s: float = 0.0
    drain_timeout_s: float | None = 25.0

    @property
    def calls_s(self) -> float | None:
        """What calls get of it; the rest is for their servers to stop."""
        return None if self.drain_timeout_s is None else self.drain_timeout_s / 2


def main(options: DaemonOptions) -> int:
    """Run until a signal says stop; returns the exit status."""
    return run_with_signals(lambda stop: run(options, stop), keeps_memory=True)


async def run(options: DaemonOptions, stop: Stop) -> int:
    """Serve until `stop`; returns the exit status. Raises MooringError for what cannot even begin."""
    options.places.make()
    return await (_succeed(options, stop) if options.take_over else _begin(options, stop))


async def _begin(options: DaemonOptions, stop: Stop) -> int:
    """As the only daemon of its directory."""
    places, boot = options.places, boot_id()
    with owning(places.lock) as ownership:
        await asyncio.to_thread(check_nobody_answers, places)
        leftovers = await asyncio.to_thread(end_leftovers, Roll(places.roll, boot))
        with _opened_state(places, stop) as (store, state, server_logs):
            tell_of_damage(store)
            tell_of_predecessor(store.owner, boot)
            nonce = store.claim(os.getpid(), boot).nonce
            await tell_of_leftovers(leftovers, state)
            async with _household(places, boot, state) as household:
                serving = Serving(
                    options,
                    stop,
                    state,
                    nonce=nonce,
                    server_logs=server_logs,
                    household=household,
                    may_sweep=True,
                )
                return await serving.run(ownership, serving.listen)


async def _succeed(options: DaemonOptions, stop: Stop) -> int:
    """After the daemon that runs, from which all is taken over."""
    places, boot = options.places, boot_id()
    async with meeting(places) as predecessor:
        inheritance = await unless_stopped(stop, predecessor.inherit())
        if inheritance is None:
            return 0
        with (
            inheriting(places.lock, inheritance.lock) as ownership,
            inheritance.held(),
            # Only now: opening it may bring it up to date, and the old one must not have to go on with that.
            _opened_state(places, stop) as (store, state, server_logs),
        ):
            async with _household(places, boot, state) as household:
                nonce = store.claim(os.getpid(), boot).nonce
                serving = Serving(
                    options,
                    stop,
                    state,
                    nonce=nonce,
                    server_logs=server_logs,
                    household=household,
                    may_sweep=False,
                )
                take_over = partial(serving.take_over, predecessor, inheritance)
                return await serving.run(ownership, take_over)


@contextlib.contextmanager
def _opened_state(places: Places, stop: Stop) -> Iterator[tuple[Store, State, ServerLogs]]:
    with using(places.logs):
        server_logs = ServerLogs(places.logs)
    with _logging_to(server_logs), contextlib.closing(Store(places.state, time.time)) as store:
        yield store, State(store, lambda: stop.request("another daemon has taken over")), server_logs


@contextlib.asynccontextmanager
async def _household(places: Places, boot: str, state: State) -> AsyncIterator[Household]:
    """Closed at the end, and with it the state, which is given up."""
    household = Household(time.monotonic, roll=Roll(places.roll, boot))
    try:
        yield household
    finally:
        await household.aclose()
        with contextlib.suppress(StoreError):  # a disk that is full must not keep us from ending
            await state.do(Store.release)
        await state.aclose()


@contextlib.contextmanager
def _logging_to(server_logs: ServerLogs) -> Iterator[None]:
    logger = logging.getLogger("mooring")
    logger.addHandler(server_logs)
    try:
        yield
    finally:
        logger.removeHandler(server_logs)
        server_logs.close()


class Serving:
    """One life of the daemon, with all that it owns but the state."""

    def __init__(
        self,
        options: DaemonOptions,
        stop: Stop,
        state: State,
        *,
        nonce: str,
        server_logs: ServerLogs,
        household: Household,
        may_sweep: bool,
    ) -> None:
        """`may_sweep`: there is no other daemon of this directory, which may have containers."""
        self._options = options
        self._stop = stop
        self._state = state
        self._household = household
        self._nonce = nonce
        self._port = options.places.port
        self._started_at = time.time()
        router = Router(hint="servers are at /NAME/mcp")
        self._street = Street(router, server_logs.forget)
        self._harbours = daemon_harbours(
            options.places,
            nonce,
            household.guardian,
            may_sweep=may_sweep,
            on_leftover=lambda left: tell_of_container(left, state),
        )
        self._sweeping: asyncio.Task[None] | None = None
        self._fleet = Fleet(
            state,
            self._street,
            clock=time.monotonic,
            wall=time.time,
            household=household,
            harbours=self._harbours,
            resolving=Resolving(_resolver(options.places), options.places.state),
            calls_s=options.calls_s,
        )
        self._api = Api(
            self._fleet,
            self._about,
            url_of=self._url_of,
            memory_of=memory_of,
            stop=stop.request,
            hand_over=self._hand_over,
            connect=self._look_at_connections,
            calls_s=options.calls_s,
        )
        token = add_pages(router, self._api, options.places.token, stop)
        guard = Guard(exempt_paths=PROBES)
        self._listener = Listener(
            guarded(relayed(router, token), guard), admit=guard.admit, limits=_limits(), clock=time.monotonic
        )
        for method in ("GET", "HEAD"):
            router.add(method, "/metrics", self._metrics)
        self._control = Listener(Router().mount(PREFIX, self._api), clock=time.monotonic)
        self._listeners = {CLIENTS: self._listener, COMMANDS: self._control}
        self._recovering: asyncio.Task[None] | None = None
        self._following: asyncio.Task[None] | None = None
        self._connections: Connections | None = None
        self._successors = Successors(options.places.handover, stop)
        self._client_files = ClientFiles(
            options.places, self._fleet, state, url_of=self._url_of, environment=os.environ
        )

    def _url_of(self, name: str) -> str:
        return f"http://{self._options.host}:{self._port}/{name}/mcp"

    def _about(self) -> Daemon:
        return Daemon(
            pid=os.getpid(),
            version=__version__,
            port=self._port,
            started_at=self._started_at,
            nonce=self._nonce,
        )

    def _metrics(self, exchange: Exchange) -> None:
        live = [seen.live.workload for seen in self._fleet.all() if seen.live is not None]
        page = metrics.render(live, self._listener, {})
        exchange.respond(Response(200, page, [(b"content-type", metrics.CONTENT_TYPE)]))

    async def run(self, ownership: Ownership, begin: Callable[[], Awaitable[None]]) -> int:
        """Until it is told to end, or another has taken over; returns the exit status.

        `begin`: `listen` or `take_over`, by which it becomes reachable.
        """
        try:
            await self._fleet.load()
            if self._stop.requested:  # before anything was opened
                return 0
            self._estate = self._describe_estate(ownership)
            await begin()
            ownership.tell(**msgspec.to_builtins(self._about()))
            tell_manager("READY=1", f"STATUS=serving at port {self._port}")
            self._recovering = asyncio.create_task(self._fleet.recover(), name="recovering")
            if self._harbours.may_sweep:
                self._sweep()
            self._client_files.start()
            if self._following is None:  # otherwise the one before us is still connected
                await self._begin_connections()
            if await self._successors.until_stop_or_succeeded(self._options.calls_s):
                await self._fleet.leave()
                await self._leave_relays(is_final=False)
                return 0
            return LOST_CALL if await self._shut_down() else 0
        finally:
            await self._aclose()

    def _sweep(self) -> None:
        """What killed daemons have left in engines, also where no server asks for them any more."""
        self._sweeping = asyncio.create_task(self._harbours.sweep_all(), name="sweeping engines")

    def _describe_estate(self, ownership: Ownership) -> Estate:
        return Estate(
            self._fleet,
            self._state,
            ownership.descriptor,
            self._listeners,
            reclaim=lambda store: store.claim(os.getpid(), boot_id()),
            unsettled=self._unsettled,
            is_busy=lambda: self._api.is_busy,
            client_files=self._client_files,
        )

    def _unsettled(self) -> str:
        if self._following is not None and not self._following.done():
            return "the daemon before this one still finishes calls"
        if self._harbours.is_sweeping or (self._sweeping is not None and not self._sweeping.done()):
            return "what an earlier daemon left in a container engine is being removed"
        return "" if self._fleet.is_settled else "a server is being started, stopped or changed"

    async def _begin_connections(self) -> None:
        if connections_path(self._options.places).exists():
            await self._look_at_connections()

    async def _look_at_connections(self) -> None:
        """Relays to be connected to may have come or gone."""
        from mooring.host.connections import Connections  # noqa: PLC0415 - 3 MB that few ever need
        from mooring.host.relay_target import options_of  # noqa: PLC0415

        places = self._options.places
        if self._connections is None:
            self._connections = Connections(
                places,
                lambda wish: options_of(wish, places, tuple(seen.wanted.name for seen in self._fleet.all())),
            )
        try:
            await self._connections.look()
        except MooringError as error:
            log.error("%s", error.message, extra={"event": "connections_damaged"})

    async def _hand_over(self) -> None:
        """Somebody wants to take over. Raises MooringError if that is not possible."""
        await self._successors.call(self._estate)

    async def take_over(self, predecessor: Predecessor, inheritance: Inheritance) -> None:
        """Become the daemon in place of another."""
        self._fleet.check(inheritance.offer.generations)
        [clients, *_] = inheritance.sockets[CLIENTS]
        self._port = clients.getsockname()[1]
        predecessor.take()
        inheritance.is_claimed = True
        succession = Succession(predecessor, self._fleet, self._street, self._listeners, self._household)
        await succession.begin(inheritance)
        for place, path in ((CLIENTS, None), (COMMANDS, self._options.places.socket)):
            for sock in inheritance.sockets[place]:
                self._listeners[place].listen_on(sock, path)
        about = f"pid {os.getpid()}, version {__version__}; from pid {predecessor.pid}, {predecessor.version}"
        self._fleet.history.tell("", 0, Happening(Kind.DAEMON_TOOK_OVER, about))
        log.info("took over from pid %d", predecessor.pid, extra={"event": "took_over", "port": self._port})
        self._following = asyncio.create_task(self._follow(succession), name="following the predecessor")

    async def _follow(self, succession: Succession) -> None:
        is_lost = not await succession.follow()
        roll = Roll(self._options.places.roll, boot_id())
        leftovers = await succession.end(roll, is_lost=is_lost)
        await tell_of_leftovers(leftovers, self._state)
        self._harbours.settle()
        self._sweep()
        await self._begin_connections()

    async def listen(self) -> None:
        """Become reachable, and tell that it is there."""
        host, socket = self._options.host, self._options.places.socket
        try:
            [(_, self._port)] = await self._listener.listen_tcp(host, self._port)
        except ListenFailed as error:
            raise await explained(error, host, self._port) from error
        socket.unlink(missing_ok=True)  # the lock is ours: whoever made it is gone
        await self._control.listen_unix(socket)
        log.info(
            "serving at http://%s:%d", host, self._port, extra={"event": "listening", "port": self._port}
        )
        await self._fleet.history.opened(f"pid {os.getpid()}, version {__version__}")

    async def _shut_down(self) -> int:
        """By the contract (`host.shutdown`); returns how many calls were cut."""
        cause, timeout_s = self._stop.cause, self._options.drain_timeout_s
        self._client_files.halt()  # that servers end now is nothing to tell clients
        log.info("%s: stopping", cause, extra={"event": "draining", "cause": cause})
        tell_manager("STOPPING=1", f"STATUS={cause}: calls in flight finish")
        leaving = asyncio.create_task(self._leave_relays(), name="leaving relays")
        self._listener.announce_drain()
        self._control.announce_drain()
        await self._stop.wait_forced(self._options.drain_delay_s)
        self._listener.stop_accepting(SPREAD_S)
        ending = asyncio.ensure_future(self._fleet.aclose(cause, self._options.calls_s))
        await until(self._stop, timeout_s, _over(ending))
        if not ending.done():
            self._fleet.hurry()
        cut = await ending
        await leaving  # bounded: what it waited for has ended
        self._fleet.history.tell("", 0, Happening(Kind.DAEMON_ENDED, cause))
        self._fleet.history.close()
        self._control.stop_accepting(0.0)
        flushed = (self._listener.wait_drained(), self._control.wait_drained(), self._api.wait_done())
        await until(None, FLUSH_S, *flushed)
        return cut

    async def _leave_relays(self, *, is_final: bool = True) -> None:
        if self._connections is not None:
            await self._connections.aclose(is_final=is_final)

    async def _aclose(self) -> None:
        await self._client_files.aclose()
        await self._leave_relays()
        for task in (self._recovering, self._following):
            await _cancel(task)
        await _cancel(self._sweeping)  # which `_following` may have begun
        self._fleet.hurry()
        await self._fleet.aclose("ending", 0.0)
        await self._harbours.aclose()
        for listener in self._listeners.values():
            listener.abort()
            await listener.aclose()
        await self._successors.aclose()


async def _cancel(task: "asyncio.Task[None] | None") -> None:
    if task is not None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _resolver(places: Places) -> Resolver:
    """Where references lead. The environment of whoever runs a command is not ours to read, nor to keep."""
    remedy = (
        "mooring secret set {name} keeps it: then write secret:{name}; --pass-env {name} copies your value; "
        "or set it for the daemon: mooring daemon stop, and start it from where it is set"
    )
    whose = "the environment of the daemon"
    return Resolver(Vault(places.secrets), os.environ, whose=whose, remedy=remedy)


def _limits() -> Limits:
    room = connections_beside_many(DESCRIPTORS.soft)
    return Limits(max_connections=min(Limits().max_connections, room))


async def _over(ending: "asyncio.Future[int]") -> None:
    await asyncio.wait([ending])
