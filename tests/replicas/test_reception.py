"""What a replica says to others that ask it something: to those alone, and only for themselves."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import cast

import pytest

from mooring.http.origin import parse_url
from mooring.http.websocket_client import ClientSockets
from mooring.replicas.forwarding import HELD, NEIGHBOURS_PATH, NO, YES
from mooring.replicas.link_frames import MAX_MESSAGE_BYTES, SUBPROTOCOL, Frame, Kind, read_frames
from mooring.replicas.membership import Membership
from mooring.replicas.reception import Reception
from mooring.replicas.seal import NOBODY, Seal
from tests.http_client import Answer, Served, echo, serving
from tests.replicas.linked import KEY, Wall
from tests.support import until, within

ME = "here-1"


class Scene:
    """A reception, and what it believes."""

    def __init__(self) -> None:
        self.seal = Seal(KEY, Wall())
        self.promised: list[str] = []
        self.holds = True
        self.served: Served
        membership = SimpleNamespace(names={"here-0", ME}, promise_rest=self._promise_rest)
        self.told_again: list[str] = []
        self.reception = Reception(
            echo,
            self.seal,
            cast("Membership", membership),
            holds=lambda: self.holds,
            tell_again=self._tell_again,
        )

    def _promise_rest(self, incarnation: str) -> bool:
        self.promised.append(incarnation)
        return True

    def _tell_again(self, id: str) -> bool:
        self.told_again.append(id)
        return id.startswith("ours")

    async def asked(
        self, question: str, principal: str | None = NOBODY, method: str = "POST", body: bytes = b""
    ) -> Answer:
        seal = "" if principal is None else self._seal_for(principal)
        fields = f"{seal}Content-Length: {len(body)}\r\n" if body else seal
        peer = await self.served.peer()
        head = f"{method} {NEIGHBOURS_PATH}?{question} HTTP/1.1\r\nHost: x\r\n{fields}\r\n"
        peer.send(head.encode() + body)
        return await peer.answer()

    def _seal_for(self, principal: str) -> str:
        name, value = self.seal.header("there-1", principal)
        return f"{name.decode()}: {value.decode()}\r\n"


@asynccontextmanager
async def receiving() -> AsyncIterator[Scene]:
    scene = Scene()
    async with within(30), serving(scene.reception.take) as scene.served:
        yield scene


async def test_whether_it_lives_and_may_act() -> None:
    async with receiving() as scene:
        assert (await scene.asked(f"holds={ME}")).body == b"yes"
        assert (await scene.asked("holds=here-0")).body == b"yes"
        assert (await scene.asked("holds=there-1")).body == b"no"
        assert (await scene.asked("")).body == b"no"
        scene.holds = False
        assert (await scene.asked(f"holds={ME}")).body == b"no"
        assert scene.promised == []


async def test_a_promise_is_made_to_whoever_is_named() -> None:
    async with receiving() as scene:
        assert (await scene.asked("rest=there-1")).body == b"yes"
        assert scene.promised == ["there-1"]


async def test_which_sessions_it_has_of_those_that_redis_has_lost() -> None:
    async with receiving() as scene:
        assert (await scene.asked(HELD, body=b"ours-1 not ours-2")).body == bytes([YES, NO, YES])
        assert scene.told_again == ["ours-1", "not", "ours-2"]


@pytest.mark.parametrize("principal", [None, "local", "alice"])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_nobody_is_heard_but_a_replica_that_asks_for_itself(method: str, principal: str | None) -> None:
    async with receiving() as scene:
        for question in (f"holds={ME}", "rest=there-1", HELD, ""):
            assert (await scene.asked(question, principal, method)).status == 404
        assert scene.promised == scene.told_again == []


async def test_there_is_nothing_else_to_be_had() -> None:
    async with receiving() as scene:
        assert (await scene.asked("", method="DELETE")).status == 404
        assert (await scene.asked("", method="GET")).status == 426


class Heard:
    """What came by a link."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.closed: list[int] = []


async def link_to(scene: Scene, sockets: ClientSockets) -> Heard:
    origin, _ = parse_url(f"http://127.0.0.1:{scene.served.port}")
    seal = scene.seal.header("there-1", NOBODY)
    socket = await sockets.open(origin, NEIGHBOURS_PATH, [seal], subprotocol=SUBPROTOCOL)
    heard = Heard()
    socket.expect_binary(MAX_MESSAGE_BYTES)
    socket.on_message = lambda message: heard.frames.extend(read_frames(message))
    socket.on_closed = lambda code, reason: heard.closed.append(code)
    return heard


async def test_all_links_are_left_those_too_that_come_later() -> None:
    async with receiving() as scene:
        sockets = ClientSockets()
        try:
            before = await link_to(scene, sockets)
            await until(lambda: before.frames)
            assert before.closed == []
            scene.reception.hang_up()
            after = await link_to(scene, sockets)
            for heard in (before, after):
                await until(lambda heard=heard: heard.closed)  # type: ignore[misc]
                assert [frame[:2] for frame in heard.frames] == [(Kind.HELLO, 0), (Kind.GOODBYE, 0)]
                assert heard.closed == [1001]
        finally:
            await sockets.aclose()
