"""Listening, accepting, and a drain that loses nothing.

We accept by ourselves rather than through `loop.create_server`: a server object that is
closed between accept and hand-over drops the connection (its `_attach` asserts), and does
not say how many are on their way. That gap is what makes other servers lose requests.

Invariants:
- A connection belongs to exactly one of: the kernel's backlog, `arriving` (accepted, on its way
  to a transport, TLS handshake included), `connections` and `upgraded`, all three of the house.
- Once `stop_accepting` has returned, the backlog is empty and its socket closed; so when
  the others are empty as well, nothing is left: that is what `wait_drained` waits for.
- One timer sweeps all connections; it runs only while there are any.
"""

import asyncio
import errno
import logging
import random
import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path

from mooring.errors import ListenFailed
from mooring.http import sockets
from mooring.http.connection import Connection
from mooring.http.crowd import Crowd, SpareDescriptor
from mooring.http.house import House
from mooring.http.limits import Limits
from mooring.http.neighbours import Neighbours
from mooring.http.reader import Admission
from mooring.wire.http import App

__all__ = ["Listener"]

log = logging.getLogger("mooring.http")

ACCEPTS_PER_TURN = 64
"""How many connections are accepted before the loop serves others."""
ACCEPT_PAUSE_S = 0.5
"""After accept failed for want of descriptors: some may be free again by then (asyncio waits 1 s)."""
OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
DEAD = (errno.EBADF, errno.EINVAL, errno.ENOTSOCK)
"""Why a socket accepts nobody any more. Whatever else accept says may pass."""
SPREAD_STEPS = 100


class Listener:
    """Serves `app` on any number of addresses. Made inside a running loop, ended by `aclose`."""

    def __init__(
        self,
        app: App,
        *,
        admit: Admission | None = None,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.monotonic,
        neighbours: Neighbours | None = None,
    ) -> None:
        """`neighbours`: no one place may have all the room."""
        self._limits = limits or Limits()
        self._house = House(app, self._limits, clock, admit)
        self._house.neighbours = neighbours
        self._house.on_change = self._on_change
        self._listening: dict[socket.socket, ssl.SSLContext | None] = {}
        self._unix_files: list[tuple[Path, int]] = []
        self._handing_over: dict[Connection, tuple[asyncio.Task[None], socket.socket]] = {}
        self._empty = asyncio.Event()
        self._empty.set()
        self._crowd = Crowd(clock)
        self._spare = SpareDescriptor()
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._sweep_interval_s = self._limits.sweep_interval_s
        self._pauses: dict[socket.socket, asyncio.TimerHandle] = {}
        self._dead = asyncio.Event()
        self.addresses: list[str] = []
        """Where it listens: `host:port`, or the path of a unix socket."""

    @property
    def unread_bytes(self) -> int:
        """Of requests that are not complete, or wait for their turn."""
        return self._house.budget.taken_bytes

    @property
    def unsent_bytes(self) -> int:
        """Of answers that their peers have not read, so far as we still hold them."""
        return sum(connection.unsent_bytes for connection in self._house.connections)

    @property
    def connections(self) -> int:
        """How many there are, those on their way included."""
        return len(self._house.connections) + len(self._house.arriving) + len(self._house.upgraded)

    @property
    def websockets(self) -> int:
        """How many of them have become WebSockets."""
        return len(self._house.upgraded)

    @property
    def refused(self) -> int:
        """How many connections were turned away for want of room."""
        return self._crowd.count

    async def listen_tcp(
        self, host: str, port: int, *, tls: ssl.SSLContext | None = None
    ) -> list[tuple[str, int]]:
        """Listen on every address of `host`; returns what was bound. Raises `ListenFailed`."""
        bound: list[tuple[str, int]] = []
        opened = await sockets.listen_tcp(host, port, self._limits.backlog)
        if self._house.stopped:
            # Stopped while the name was looked up.
            for sock in opened:
                sock.close()
            raise ListenFailed("the listener has been stopped", code="stopped")
        for sock in opened:
            name, chosen = sock.getsockname()[:2]
            bound.append((name, chosen))
            self.addresses.append(f"[{name}]:{chosen}" if ":" in name else f"{name}:{chosen}")
            self._open(sock, tls)
        return bound

    async def listen_unix(self, path: Path) -> None:
        """Listen on a unix socket that only its owner can use. Raises `ListenFailed`."""
        sock = sockets.listen_unix(path, self._limits.backlog)
        self._unix_files.append((path, sockets.inode_of(path)))
        self.addresses.append(str(path))
        self._open(sock, None)

    def listen_on(self, sock: socket.socket, path: Path | None = None) -> None:
        """Accept from a socket that listens already; it is ours from now on. `path`: of a unix socket."""
        if path is not None:
            self._unix_files.append((path, sockets.inode_of(path)))
            self.addresses.append(str(path))
        else:
            name, port = sock.getsockname()[:2]
            self.addresses.append(f"[{name}]:{port}" if ":" in name else f"{name}:{port}")
        sock.setblocking(False)
        self._open(sock, None)

    def announce_drain(self) -> None:
        """From now on answers say `Connection: close`. Connections are still accepted."""
        self._house.announces_close = True

    def stop_accepting(self, spread_s: float = 1.0) -> None:
        """Take no new connection, and lose none that a peer could think it has.

        1. Let the kernel begin no more connections, accept what it has already accepted for us, and
           close the listening sockets.
        2. A connection without a request so far may still send one, within the grace.
        3. Idle ones are closed one by one over `spread_s`, so that their peers do not come
           back all at once; a request that arrives before is answered.
        4. Requests under way finish; streams and WebSockets are for the app to end.
        """
        house = self._house
        house.announces_close = True
        if house.stopped:
            return
        house.stopped, house.spread_s = True, spread_s
        for sock, tls in tuple(self._listening.items()):  # 1
            sockets.let_nobody_in(sock)
            self._accept_all(sock, tls)
        self._close_listening()
        now = house.clock()
        idle = [connection for connection in house.connections if connection.is_idle]
        for connection in idle:  # 2
            if connection.is_fresh:
                connection.close_by(now + self._limits.first_request_grace_s)
        used = [connection for connection in idle if not connection.is_fresh]
        for turn, connection in enumerate(used):  # 3
            jitter = random.random()  # noqa: S311 - spreads load
            connection.close_by(now + spread_s * (turn + jitter) / len(used))
        self._sweep_interval_s = min(self._sweep_interval_s, max(0.01, spread_s / SPREAD_STEPS))
        self._restart_sweep()

    # Handing over to another listener: see `mooring.http.passing`.

    @property
    def house(self) -> House:
        """What its connections have in common."""
        return self._house

    @property
    def listening(self) -> list[socket.socket]:
        """The sockets that it accepts from."""
        return list(self._listening)

    def hold(self) -> None:
        """Nothing begins until `go_on` or `part`: nobody is accepted, and requests wait."""
        for timer in self._pauses.values():
            timer.cancel()
        self._pauses.clear()
        for sock in self._listening:
            asyncio.get_running_loop().remove_reader(sock)
        self._serve_by(self._house.app, 0)
        for connection in self._house.upgraded:
            connection.hold()

    def go_on(self) -> None:
        """After `hold`: all is as it was."""
        for sock, tls in self._listening.items():
            self._open(sock, tls)
        self._serve_by(self._house.app, self._limits.max_pipelined)
        self._go_on_with_upgraded()

    def part(self, app: App) -> None:
        """After `hold`: another one accepts now; `app` says what is still to be served here."""
        self._unix_files.clear()  # they are the other one's
        self._close_listening()
        # One at a time: then it can be put back whenever that turns out to be right.
        self._serve_by(app, 1)
        self._go_on_with_upgraded()

    def _go_on_with_upgraded(self) -> None:
        for connection in self._house.upgraded:
            connection.go_on()

    def _serve_by(self, app: App, depth: int) -> None:
        self._house.depth, self._house.app = depth, app
        for connection in (*self._house.connections, *self._house.arriving):
            connection.serve_by(app, depth)

    def adopt(self, descriptor: int, begun: bytes) -> None:
        """A connection that another had, and what it has read of it; the descriptor is ours from now on."""
        self._welcome(socket.socket(fileno=descriptor), Connection(self._house, begun=begun), None)

    async def wait_dead(self) -> None:
        """Return when one of its sockets accepts nobody any more: it is for its owner to end it."""
        await self._dead.wait()

    async def wait_drained(self) -> None:
        """Return when no connection is left."""
        await self._empty.wait()

    def abort(self) -> None:
        """Cut every connection now, and take no new one."""
        self._house.announces_close = self._house.stopped = True
        self._close_listening()
        for task, _ in self._handing_over.values():
            task.cancel()
        for connection in self._house.all_served():
            connection.abort()

    async def aclose(self) -> None:
        """Everything closed when it returns. Any number of times, at any moment."""
        self.abort()
        if self._handing_over:
            await asyncio.wait([task for task, _ in self._handing_over.values()])
        await self._empty.wait()
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None

    # Accepting.

    def _open(self, sock: socket.socket, tls: ssl.SSLContext | None) -> None:
        self._spare.take()
        self._listening[sock] = tls
        asyncio.get_running_loop().add_reader(sock, self._on_acceptable, sock, tls)

    def _close_listening(self) -> None:
        loop = asyncio.get_running_loop()
        for timer in self._pauses.values():
            timer.cancel()
        self._pauses.clear()
        for sock in self._listening:
            loop.remove_reader(sock)
            sock.close()
        self._listening.clear()
        for path, inode in self._unix_files:
            sockets.unlink_own(path, inode)
        self._unix_files.clear()
        self.addresses.clear()
        self._spare.give()

    def _on_acceptable(self, sock: socket.socket, tls: ssl.SSLContext | None) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            if not self._accept_one(sock, tls):
                return

    def _accept_all(self, sock: socket.socket, tls: ssl.SSLContext | None) -> None:
        # Each connection in the backlog is served, whatever the number: it is bounded by `backlog`.
        while self._accept_one(sock, tls):
            pass

    def _accept_one(self, listening: socket.socket, tls: ssl.SSLContext | None) -> bool:
        """Accept a connection, if there is one; False: there is none, or none can be had now."""
        try:
            try:
                sock, name = listening.accept()
            except OSError as error:
                if error.errno not in OUT_OF_DESCRIPTORS:
                    raise
                self._turn_one_away(listening, tls)
                return True
        except (BlockingIOError, InterruptedError):
            return False
        except ConnectionError:
            # The peer left while it was in the backlog.
            return True
        except OSError as error:
            self._pause_accepting(listening, tls, error)
            return False
        self._receive(sock, tls, name[0] if isinstance(name, tuple) else "")
        return True

    def _turn_one_away(self, listening: socket.socket, tls: ssl.SSLContext | None) -> None:
        """No descriptor is left but the spare one: accept with that, only to say so."""
        with self._spare.lent():
            sock, _ = listening.accept()
            self._crowd.turn_away(sock, is_tls=tls is not None)
        self._crowd.note(f"no descriptor is left, {self.connections} are connections (ulimit -n)")

    def _pause_accepting(self, sock: socket.socket, tls: ssl.SSLContext | None, error: OSError) -> None:
        # Out of descriptors or memory. The socket stays readable: without a pause we would spin.
        self._crowd.complain(f"it cannot be accepted: {error}")
        if error.errno in DEAD:
            self._dead.set()
        if sock in self._pauses:
            return
        loop = asyncio.get_running_loop()
        loop.remove_reader(sock)
        self._pauses[sock] = loop.call_later(ACCEPT_PAUSE_S, self._resume_accepting, sock, tls)

    def _resume_accepting(self, sock: socket.socket, tls: ssl.SSLContext | None) -> None:
        del self._pauses[sock]
        self._open(sock, tls)

    def _receive(self, sock: socket.socket, tls: ssl.SSLContext | None, address: str) -> None:
        if not self._make_room(address):
            self._crowd.turn_away(sock, is_tls=tls is not None)
            return
        excess = self.connections - self._limits.max_connections
        if excess >= 0:
            self._crowd.note(f"the limit of {self._limits.max_connections} is reached")
        if excess >= self._limits.max_overflow_connections:
            self._crowd.turn_away(sock, is_tls=tls is not None)
            return
        connection = Connection(self._house, overflow=excess >= 0)
        if self._house.neighbours is not None:
            self._house.neighbours.enter(connection, address)
        self._welcome(sock, connection, tls)

    def _make_room(self, address: str) -> bool:
        """For one more from there, if that is to be had."""
        neighbours = self._house.neighbours
        if neighbours is None or not (rivals := neighbours.rivals(address)):
            return True
        self._crowd.note(f"on {neighbours.most} of one address nothing is asked")
        for rival in rivals:
            if rival in self._house.arriving:
                self._handing_over[rival][0].cancel()
            elif not rival.make_room():
                continue
            neighbours.leave(rival)
            return True
        return False

    def _welcome(self, sock: socket.socket, connection: Connection, tls: ssl.SSLContext | None) -> None:
        sock.setblocking(False)
        task = asyncio.get_running_loop().create_task(self._hand_over(connection, sock, tls))
        self._handing_over[connection] = task, sock
        self._house.arriving.add(connection)
        self._on_change()
        task.add_done_callback(lambda task: self._on_handed_over(connection))

    async def _hand_over(
        self, connection: Connection, sock: socket.socket, tls: ssl.SSLContext | None
    ) -> None:
        limits = self._limits
        spans = (
            {}
            if tls is None
            else {
                "ssl_handshake_timeout": limits.handshake_timeout_s,
                "ssl_shutdown_timeout": limits.write_stall_timeout_s,
            }
        )
        await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, sock, ssl=tls, **spans)

    def _on_handed_over(self, connection: Connection) -> None:
        task, sock = self._handing_over.pop(connection)
        if connection in self._house.arriving:
            self._house.forget(connection)
        if task.cancelled():
            sock.close()
        elif (error := task.exception()) is not None:
            # A failed handshake, or a peer that has already left.
            log.debug("a connection did not come about: %s", error)
            sock.close()
        self._on_change()

    # Sweeping.

    def _on_change(self) -> None:
        if self.connections:
            self._empty.clear()
            if self._sweep_timer is None:
                self._restart_sweep()
        else:
            self._empty.set()

    def _restart_sweep(self) -> None:
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        loop = asyncio.get_running_loop()
        self._sweep_timer = loop.call_later(self._sweep_interval_s, self._sweep)

    def _sweep(self) -> None:
        self._sweep_timer = None
        if self.connections:
            self._restart_sweep()
        now = self._house.clock()
        for connection in self._house.all_served():
            connection.sweep(now)
