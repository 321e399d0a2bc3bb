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
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from mooring import __version__
from mooring.api.level import PREFIX
from mooring.api.service import Api
from mooring.api.types import Daemon
from mooring.errors import ListenFailed
from mooring.host import metrics
from mooring.host.allocator import keep_freed_memory
from mooring.host.capacity import connections_beside_many
from mooring.host.loops import run_with_signals
from mooring.host.manager import tell_manager
from mooring.host.neighbours import explained
from mooring.host.ownership import Ownership, check_nobody_answers, owning
from mooring.host.places import Places, using
from mooring.host.server_logs import ServerLogs
from mooring.host.shutdown import FLUSH_S, SPREAD_S
from mooring.host.stop import Stop
from mooring.host.street import Street
from mooring.host.waits import until
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
from mooring.wire.http import Exchange, Headers, Response
from mooring.workloads.fleet import Fleet
from mooring.workloads.happenings import Happening, Kind
from mooring.workloads.recovery import tell_of_damage, tell_of_leftovers, tell_of_predecessor
from mooring.workloads.resolving import Resolving
from mooring.workloads.state import State

__all__ = ["DaemonOptions", "main", "run"]

log = logging.getLogger("mooring.host")

LOST_CALL = 3
PROBES = frozenset({"/livez", "/readyz"})
JSON: Headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]


@dataclass(frozen=True, kw_only=True)
class DaemonOptions:
    """What `mooring serve` was asked to do."""

    places: Places
    host: str = "127.0.0.1"
    drain_delay_s: float = 0.0
    drain_timeout_s: float | None = 25.0

    @property
    def calls_s(self) -> float | None:
        """What calls get of it; the rest is for their servers to stop."""
        return None if self.drain_timeout_s is None else self.drain_timeout_s / 2


def main(options: DaemonOptions) -> int:
    """Run until a signal says stop; returns the exit status."""
    keep_freed_memory()
    return run_with_signals(lambda stop: run(options, stop))


async def run(options: DaemonOptions, stop: Stop) -> int:
    """Serve until `stop`; returns the exit status. Raises MooringError for what cannot even begin."""
    places = options.places
    places.make()
    boot = boot_id()
    with owning(places.lock) as ownership, contextlib.ExitStack() as opened:
        await asyncio.to_thread(check_nobody_answers, places)
        roll = Roll(places.roll, boot)
        leftovers = await asyncio.to_thread(end_leftovers, roll)
        with using(places.logs):
            server_logs = ServerLogs(places.logs)
        opened.enter_context(_logging_to(server_logs))
        store = opened.enter_context(contextlib.closing(Store(places.state, time.time)))
        tell_of_damage(store)
        tell_of_predecessor(store.owner, boot)
        nonce = store.claim(os.getpid(), boot).nonce
        state = State(store, on_fenced=lambda: stop.request("another daemon has taken over"))
        household = Household(time.monotonic, roll=roll)
        try:
            await tell_of_leftovers(leftovers, state)
            serving = _Serving(
                options, stop, state, nonce=nonce, server_logs=server_logs, household=household
            )
            return await serving.run(ownership)
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


class _Serving:
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
    ) -> None:
        self._options = options
        self._stop = stop
        self._nonce = nonce
        self._port = options.places.port
        self._started_at = time.time()
        router = Router(hint="servers are at /NAME/mcp")
        self._fleet = Fleet(
            state,
            Street(router, server_logs.forget),
            clock=time.monotonic,
            wall=time.time,
            household=household,
            resolving=Resolving(_resolver(options.places)),
        )
        self._api = Api(
            self._fleet,
            self._about,
            url_of=lambda name: f"http://{options.host}:{self._port}/{name}/mcp",
            memory_of=_memory_of,
            stop=stop.request,
            calls_s=options.calls_s,
        )
        _add_pages(router, self._api, options.places.token, stop)
        guard = Guard(exempt_paths=PROBES)
        self._listener = Listener(
            guarded(router, guard), admit=guard.admit, limits=_limits(), clock=time.monotonic
        )
        for method in ("GET", "HEAD"):
            router.add(method, "/metrics", self._metrics)
        self._control = Listener(Router().mount(PREFIX, self._api), clock=time.monotonic)
        self._recovering: asyncio.Task[None] | None = None

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

    async def run(self, ownership: Ownership) -> int:
        """Until it is told to end; returns the exit status."""
        try:
            await self._fleet.load()
            if self._stop.requested:  # before anything was opened
                return 0
            await self._listen()
            ownership.tell(**msgspec.to_builtins(self._about()))
            tell_manager("READY=1", f"MAINPID={os.getpid()}", f"STATUS=serving at port {self._port}")
            await self._fleet.history.opened(f"pid {os.getpid()}, version {__version__}")
            self._recovering = asyncio.create_task(self._fleet.recover(), name="recovering")
            await self._stop.wait_requested()
            return LOST_CALL if await self._shut_down() else 0
        finally:
            await self._aclose()

    async def _listen(self) -> None:
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

    async def _shut_down(self) -> int:
        """By the contract (`host.shutdown`); returns how many calls were cut."""
        cause, timeout_s = self._stop.cause, self._options.drain_timeout_s
        log.info("%s: stopping", cause, extra={"event": "draining", "cause": cause})
        tell_manager("STOPPING=1", f"STATUS={cause}: calls in flight finish")
        self._listener.announce_drain()
        self._control.announce_drain()
        await self._stop.wait_forced(self._options.drain_delay_s)
        self._listener.stop_accepting(SPREAD_S)
        ending = asyncio.ensure_future(self._fleet.aclose(cause, self._options.calls_s))
        await until(self._stop, timeout_s, _over(ending))
        if not ending.done():
            self._fleet.hurry()
        cut = await ending
        self._fleet.history.tell("", 0, Happening(Kind.DAEMON_ENDED, cause))
        self._fleet.history.close()
        self._control.stop_accepting(0.0)
        flushed = (self._listener.wait_drained(), self._control.wait_drained(), self._api.wait_done())
        await until(None, FLUSH_S, *flushed)
        return cut

    async def _aclose(self) -> None:
        if self._recovering is not None:
            self._recovering.cancel()
            await asyncio.gather(self._recovering, return_exceptions=True)
        self._fleet.hurry()
        await self._fleet.aclose("ending", 0.0)
        for listener in (self._listener, self._control):
            listener.abort()
            await listener.aclose()


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


def _add_pages(router: Router, api: Api, token: Path, stop: Stop) -> None:
    """The API behind its token, and what is asked by those who watch."""
    router.mount(PREFIX, guarded(api, Guard(tokens={"api": _token(token)})))
    ok = Response(200, b'{"status":"ok"}', JSON)
    draining = Response(503, b'{"state":"draining"}', JSON)
    for method in ("GET", "HEAD"):
        router.add(method, "/livez", lambda exchange: exchange.respond(ok))
        router.add(method, "/readyz", lambda exchange: exchange.respond(draining if stop.requested else ok))


def _token(path: Path) -> str:
    """The secret of the API on the TCP port; made once, and never seen half written."""
    with using(path):
        with contextlib.suppress(FileNotFoundError):
            if token := path.read_text(encoding="ascii", errors="replace").strip():
                return token
        token, begun = secrets.token_urlsafe(32), path.with_name(f"{path.name}.new")
        begun.unlink(missing_ok=True)
        descriptor = os.open(begun, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(token + "\n")
        begun.replace(path)
    return token


def _memory_of(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


async def _over(ending: "asyncio.Future[int]") -> None:
    await asyncio.wait([ending])
