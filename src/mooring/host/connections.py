"""The relays that the daemon stays connected to, as its file says; and how any connection tells how it is."""

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Callable

import msgspec

from mooring.errors import ListenFailed, MooringError
from mooring.host.connecting import Connection, ConnectOptions
from mooring.host.connection_file import Wish, connections_path, read_wishes, status_sockets
from mooring.host.network import watching_network
from mooring.host.places import Places
from mooring.http.listener import Listener
from mooring.http.router import Router
from mooring.relay.agent import AgentStatus, refused_status
from mooring.wire.http import Exchange, Response

__all__ = ["Connections", "telling"]

log = logging.getLogger("mooring.host")

Make = Callable[[Wish], ConnectOptions]


@contextlib.asynccontextmanager
async def telling(
    places: Places, name: str, statuses: Callable[[], list[AgentStatus]]
) -> AsyncIterator[None]:
    """For the length of the block, tell `mooring connect status` how the connections of this process are."""

    def status(exchange: Exchange) -> None:
        exchange.respond(
            Response(200, msgspec.json.encode(statuses()), [(b"content-type", b"application/json")])
        )

    folder = status_sockets(places)
    listener = Listener(Router().add("GET", "/status", status))
    try:
        with contextlib.suppress(OSError, ListenFailed):  # connected all the same
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if folder.stat().st_uid == os.getuid() == folder.parent.stat().st_uid:
                path = folder / f"{name}.sock"
                path.unlink(missing_ok=True)
                await listener.listen_unix(path)
        yield
    finally:
        await listener.aclose()


class _Held:
    """One connection of the daemon's."""

    def __init__(self, wish: Wish, options: ConnectOptions) -> None:
        self.wish = wish
        self.connection = Connection(options, keeps_trying=True)
        self.task = asyncio.create_task(self._run(), name=f"connection to {wish.relay}")

    async def _run(self) -> None:
        try:
            await self.connection.run()
        except MooringError as error:
            # It stays among the others, so that its status can be seen.
            log.error("%s: %s", self.wish.relay, error.message, extra={"event": "relay_refused"})
        except Exception:
            log.exception("the connection to %s failed inside Mooring", self.wish.relay)

    async def end(self, cause: str, *, is_final: bool = True) -> None:
        await self.connection.leave(None, cause, is_final=is_final)
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.connection.aclose()


class Connections:
    """Of the daemon. `look` whenever the file may be another; `aclose` leaves nothing."""

    def __init__(self, places: Places, make: Make) -> None:
        self._places = places
        self._make = make
        self._held: dict[str, _Held] = {}
        self._unusable: dict[str, AgentStatus] = {}
        """Wishes that cannot even be tried, and why."""
        self._around = contextlib.AsyncExitStack()
        self._is_begun = self._is_over = False
        self._looking = asyncio.Lock()

    async def look(self) -> None:
        """Do as the file says. Raises MooringError if it cannot be read."""
        async with self._looking:
            if not self._is_over:
                await self._begin_once()
                await self._do_as_it_says()

    async def aclose(self, *, is_final: bool = True) -> None:
        """Say goodbye to all of them, when what is under way is done. Not `is_final`: a successor comes."""
        self._is_over = True
        async with self._looking:
            held, self._held = self._held, {}
            ends = (one.end("the daemon is stopping", is_final=is_final) for one in held.values())
            await asyncio.gather(*ends)
            await self._around.aclose()

    async def _begin_once(self) -> None:
        if not self._is_begun:
            self._is_begun = True
            self._around.enter_context(watching_network(self._hurry))
            await self._around.enter_async_context(
                telling(self._places, f"daemon-{os.getpid()}", self._statuses)
            )

    def _hurry(self) -> None:
        for held in self._held.values():
            held.connection.hurry()

    def _statuses(self) -> list[AgentStatus]:
        return [*(held.connection.status for held in self._held.values()), *self._unusable.values()]

    async def _do_as_it_says(self) -> None:
        wanted = {wish.relay: wish for wish in read_wishes(connections_path(self._places))}
        # One that was refused is tried again whenever somebody asks: its token may be another by now.
        over = [r for r, held in self._held.items() if wanted.get(r) != held.wish or held.task.done()]
        for relay in over:
            await self._held.pop(relay).end("it was asked for")
        before, self._unusable = self._unusable, {}
        for relay, wish in wanted.items():
            if relay not in self._held:
                self._begin(wish, before.get(relay))

    def _begin(self, wish: Wish, before: AgentStatus | None) -> None:
        try:
            self._held[wish.relay] = _Held(wish, self._make(wish))
        except MooringError as error:
            self._unusable[wish.relay] = told = refused_status(wish.relay, error)
            if told != before:
                log.error("not connected to %s: %s", wish.relay, error.message)
