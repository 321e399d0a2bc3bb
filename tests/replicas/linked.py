"""Two ends of a link, over real HTTP: a client asks us, we pass it on to a replica; a test answers for it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import cast

from mooring.replicas.errands import Outcome
from mooring.replicas.forwarding import NEIGHBOURS_PATH, Forwarding
from mooring.replicas.link_answering import AnsweringLink, Unread
from mooring.replicas.link_frames import MAX_MESSAGE_BYTES, SUBPROTOCOL, Batch, Frame, Kind, read_frames
from mooring.replicas.membership import Membership
from mooring.replicas.passing import Passing
from mooring.replicas.policy import ReplicaPolicy
from mooring.replicas.records import Replica
from mooring.replicas.seal import Seal
from mooring.wire.http import App, Exchange, Response
from mooring.wire.websocket import WebSocket
from tests.http_client import Answer, Peer, Served, post, serving
from tests.support import until, within

NAME = "other"
KEY = b"key"


class Wall:
    """The time that all machines share."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class Other:
    """Another replica: whatever comes by a link is for `app`, which also says whether it lives."""

    def __init__(self, app: App, key: bytes = KEY) -> None:
        self.app = app
        self.seal = Seal(key, Wall())
        self.links: set[AnsweringLink] = set()
        self.unread = Unread()
        self.opened = 0
        self.lives = False

    def __call__(self, exchange: Exchange) -> None:
        if exchange.request.path != NEIGHBOURS_PATH:
            self.app(exchange)
        elif exchange.request.method == "POST":
            exchange.respond(Response(200, b"yes" if self.lives else b"no"))
        elif (socket := exchange.upgrade(SUBPROTOCOL)) is not None:
            self.opened += 1
            self.take(socket, exchange)

    def take(self, socket: WebSocket, exchange: Exchange) -> None:
        vouch, discard = self.seal.vouch, self.links.discard
        self.links.add(AnsweringLink(socket, exchange.request, self.app, vouch, discard, unread=self.unread))

    @property
    def link(self) -> AnsweringLink:
        [link] = self.links
        return link


class Scripted(Other):
    """One that says on a link whatever a test wants."""

    def __init__(self) -> None:
        super().__init__(lambda exchange: exchange.respond(Response(500)))
        self.heard: list[Frame] = []
        self.closed: list[int] = []

    def take(self, socket: WebSocket, exchange: Exchange) -> None:
        self.socket = socket
        self.batch = Batch(socket.send, asyncio.get_running_loop().call_soon)
        socket.expect_binary(MAX_MESSAGE_BYTES)
        socket.on_message = lambda message: self.heard.extend(read_frames(message))
        socket.on_closed = lambda code, reason: self.closed.append(code)

    def of(self, kind: Kind) -> list[Frame]:
        return [frame for frame in self.heard if frame[0] == kind]

    async def hears(self, kind: Kind, count: int = 1) -> list[Frame]:
        await until(lambda: len(self.of(kind)) >= count)
        return self.of(kind)


class Desk:
    """Our end: passes on what a client asks, and keeps what came of it."""

    def __init__(self, other_port: int, clock: Callable[[], float] | None = None) -> None:
        self.other = Replica(f"http://127.0.0.1:{other_port}")
        self.wall = Wall()
        self.forwarding = Forwarding(Seal(KEY, self.wall), ReplicaPolicy(), lambda: "me")
        if clock is not None:
            self.forwarding._links._clock = clock
        self.membership = cast("Membership", SimpleNamespace(address_of=self._address_of, on_dead=None))
        self.passing = Passing(self.forwarding, self.membership)
        self.ended: list[Outcome] = []
        """What was not answered."""
        self.unsent = 0
        self.principal = "local"
        self.is_known = True
        """Does Redis know the name of the other?"""

    async def _address_of(self, _: str) -> Replica | None:
        return self.other if self.is_known else None

    async def open(self) -> None:
        """What is passed on at once needs a link that is there."""
        await until(lambda: self.forwarding._links.usable(self.other.address))

    def __call__(self, exchange: Exchange) -> None:
        def on_end(outcome: Outcome) -> None:
            self.ended.append(outcome)
            exchange.respond(Response(500, outcome.name.encode()))

        exchange.request.principal = self.principal
        if not self.passing.hand_now(NAME, self.other, exchange, on_end):
            self.unsent += 1
            exchange.respond(Response(500, b"no link"))

    async def aclose(self) -> None:
        await self.passing.aclose()
        await self.forwarding.aclose()


class Scene:
    """All of it."""

    def __init__(self, desk: Desk, served: Served, other: Served) -> None:
        self.desk = desk
        self.served = served
        self.other = other


@asynccontextmanager
async def linked(other: Other, clock: Callable[[], float] | None = None) -> AsyncIterator[Scene]:
    """With a link that is open."""
    async with within(60), serving(other) as there:
        desk = Desk(there.port, clock)
        try:
            await desk.open()
            async with serving(desk) as served:
                yield Scene(desk, served, there)
            await until(lambda: desk.passing.errands == 0)
        finally:
            await desk.aclose()


async def asked(peer: Peer, body: bytes = b"{}", extra: str = "") -> Answer:
    peer.send(post(body, "/mcp", extra))
    return await peer.answer()
