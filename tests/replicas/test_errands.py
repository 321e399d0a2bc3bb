"""Requests that are passed on without a task: what comes of each, and that nothing of them is left.

A client asks us over real HTTP; what it asks is passed on to a replica that answers to the byte.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import cast

import pytest

from mooring.http.client import ClientResponse
from mooring.replicas.errands import Outcome
from mooring.replicas.forwarding import WHOLE_BYTES, Forwarding
from mooring.replicas.membership import Membership
from mooring.replicas.passing import Passing
from mooring.replicas.policy import ReplicaPolicy
from mooring.replicas.records import Replica
from mooring.replicas.seal import Seal
from mooring.wire.http import Exchange, Head, Request, Response
from tests.http_client import Answer, Held, Peer, echo, post, serving
from tests.raw_server import LAST_CHUNK, Asked, Wire, answer, chunk, raw_server, stream_head
from tests.support import on_both_loops, until, within

NAME = "other"


class Desk:
    """Our end: passes on what a client asks, and keeps what came of it."""

    def __init__(self, other_port: int) -> None:
        self.other = Replica(f"http://127.0.0.1:{other_port}")
        self.forwarding = Forwarding(Seal(b"key", lambda: 0.0), ReplicaPolicy(), lambda: "me")
        self.membership = cast("Membership", SimpleNamespace(address_of=self._address_of, on_dead=None))
        self.passing = Passing(self.forwarding, self.membership)
        self.ended: list[Outcome | ClientResponse] = []
        self.refused: list[Exchange] = []
        self.passing_back: list[asyncio.Task[Outcome]] = []

    async def _address_of(self, _: str) -> Replica:
        return self.other

    async def open(self) -> None:
        """What is passed on at once needs a connection that is there."""
        await self.forwarding._client(self.other).connect()

    def __call__(self, exchange: Exchange) -> None:
        def on_end(result: Outcome | ClientResponse) -> None:
            self.ended.append(result)
            if isinstance(result, ClientResponse):
                work = self.passing.pass_back(NAME, exchange, result)
                self.passing_back.append(asyncio.ensure_future(work))
            elif result is not Outcome.ANSWERED:
                exchange.respond(Response(500, result.name.encode()))

        if not self.passing.hand_now(NAME, self.other, exchange, on_end):
            self.refused.append(exchange)
            exchange.respond(Response(500, b"no connection"))


@asynccontextmanager
async def desk(other_port: int) -> AsyncIterator[tuple[Desk, Peer]]:
    there = Desk(other_port)
    await there.open()
    try:
        async with within(30), serving(there) as served:
            yield there, await served.peer()
        await until(lambda: there.passing.errands == 0)
    finally:
        await there.passing.aclose()
        await there.forwarding.aclose()


async def asked(peer: Peer, body: bytes = b"{}") -> Answer:
    peer.send(post(body, "/mcp"))
    return await peer.answer()


@on_both_loops
async def test_short_answers_come_back_on_one_connection() -> None:
    async with serving(echo) as other, desk(other.port) as (there, peer):
        for size in (0, 1, 1000, WHOLE_BYTES - len("POST /mcp  ")):
            said = await asked(peer, b"x" * size)
            assert (said.status, said.body) == (200, b"POST /mcp  " + b"x" * size)
        assert len(other.all_connections) == 1
        assert there.ended == [Outcome.ANSWERED] * 4
        assert there.passing.forwards == 4


async def test_without_a_connection_that_is_free_nothing_is_sent() -> None:
    app = Held()
    async with serving(app) as other, desk(other.port) as (there, peer), serving(there) as served:
        second = await served.peer()
        peer.send(post(b"1", "/mcp"))
        await app.count(1)
        assert (await asked(second, b"2")).body == b"no connection"
        echo(app.exchanges[0])
        assert (await peer.answer()).body == b"POST /mcp  1"
        await app.count(1)


REPLIES = {
    "another has it": (answer(b"", "421 Misdirected Request"), False, Outcome.NOT_DONE),
    "it does not know us": (answer(b"", "401 Unauthorized"), False, Outcome.NOT_DONE),
    "it does not let us in": (answer(b"", "403 Forbidden"), False, Outcome.NOT_DONE),
    "it went in order": (b"", False, Outcome.UNANSWERED),
    "it went in disorder": (b"", True, Outcome.LOST),
    "the head is cut": (answer(b"{}")[:20], False, Outcome.UNANSWERED),
    "the body is cut": (answer(b"{}")[:-1], False, Outcome.LOST),
    "garbage": (b"SSH-2.0-OpenSSH\r\n", False, Outcome.LOST),
}


@on_both_loops
@pytest.mark.parametrize("what", REPLIES)
async def test_what_is_known_of_a_request_that_was_not_answered(what: str) -> None:
    reply, is_cut, outcome = REPLIES[what]

    async def script(_: Asked, wire: Wire) -> None:
        wire.send(reply)
        wire.cut() if is_cut else wire.close()

    async with raw_server(script) as other, desk(other.port) as (there, peer):
        assert (await asked(peer)).body == outcome.name.encode()
        assert there.ended == [outcome]


@on_both_loops
async def test_that_another_does_not_believe_us_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """And once more if it has believed us meanwhile."""
    refusals = ["401 Unauthorized", "403 Forbidden", "401 Unauthorized"]
    statuses = iter([*refusals, "200 OK", *refusals])

    async def script(_: Asked, wire: Wire) -> bytes:
        return answer(b"{}", next(statuses))

    def told() -> list[str]:
        untrusted = [one for one in caplog.records if getattr(one, "event", "") == "replica_untrusted"]
        return [f"{one.levelname} {one.replica}" for one in untrusted]  # type: ignore[attr-defined]

    caplog.clear()
    async with raw_server(script) as other, desk(other.port) as (there, peer):
        for times in (1, 2):
            for _ in refusals:
                assert (await asked(peer)).body == Outcome.NOT_DONE.name.encode()
                await there.open()
            assert told() == [f"WARNING {NAME}"] * times
            if times == 1:
                assert (await asked(peer)).body == b"{}"
    assert there.ended == [*[Outcome.NOT_DONE] * 3, Outcome.ANSWERED, *[Outcome.NOT_DONE] * 3]


@on_both_loops
async def test_a_long_answer_is_passed_back_as_it_comes() -> None:
    go_on = asyncio.Event()

    async def script(_: Asked, wire: Wire) -> None:
        wire.send(stream_head() + chunk(b"one"))
        await go_on.wait()
        wire.send(chunk(b"two") + LAST_CHUNK)

    async with raw_server(script) as other, desk(other.port) as (there, peer):
        peer.send(post(b"{}", "/mcp"))
        head = await peer.head()
        assert head.headers["content-type"] == "text/event-stream"
        pieces = peer.chunks()
        assert await anext(pieces) == b"one"
        go_on.set()
        assert [piece async for piece in pieces] == [b"two"]
        assert [await task for task in there.passing_back] == [Outcome.ANSWERED]


@on_both_loops
async def test_an_answer_that_is_longer_than_short_is_whole() -> None:
    async with serving(echo) as other, desk(other.port) as (there, peer):
        said = await asked(peer, b"x" * WHOLE_BYTES)
        assert said.body == b"POST /mcp  " + b"x" * WHOLE_BYTES
        assert isinstance(there.ended[0], ClientResponse)


@on_both_loops
async def test_the_other_hears_that_a_client_has_gone() -> None:
    app = Held()
    async with serving(app) as other, desk(other.port) as (there, peer):
        peer.send(post(b"{}", "/mcp"))
        await app.count(1)
        peer.reset()
        await app.count_gone(1)
        assert there.ended == []


async def test_one_whose_lease_has_run_out_is_waited_for_no_longer() -> None:
    async def script(asked: Asked, wire: Wire) -> bytes | None:
        if "holds" in asked.target:
            return answer(b"no")
        await wire.closed_by_peer()
        return None

    async with raw_server(script) as other, desk(other.port) as (there, peer):
        peer.send(post(b"{}", "/mcp"))
        await until(lambda: len(other.requests) == 1)
        there.membership.on_dead("somebody else")
        there.membership.on_dead(NAME)
        assert (await peer.answer()).body == Outcome.LOST.name.encode()


async def test_one_that_goes_on_without_redis_is_waited_for() -> None:
    release = asyncio.Event()

    async def script(asked: Asked, wire: Wire) -> bytes | None:
        if "holds" in asked.target:
            release.set()
            return answer(b"yes")
        await release.wait()
        return answer(b"{}")

    async with raw_server(script) as other, desk(other.port) as (there, peer):
        peer.send(post(b"{}", "/mcp"))
        await until(lambda: len(other.requests) == 1)
        there.membership.on_dead(NAME)
        assert (await peer.answer()).body == b"{}"


async def test_closing_ends_what_is_under_way() -> None:
    app = Held()
    async with serving(app) as other, desk(other.port) as (there, peer):
        peer.send(post(b"{}", "/mcp"))
        await app.count(1)
        await there.passing.aclose()
        assert there.passing.errands == 0
        await app.count_gone(1)


async def test_requests_that_share_a_head_are_each_sealed_for_their_own_principal() -> None:
    got: list[str] = []

    async def script(asked: Asked, _: Wire) -> bytes:
        got.append(asked.headers["mooring-replica"])
        return answer(b"{}")

    head = Head("POST", "/mcp", "", [(b"x", b"1"), (b"authorization", b"secret"), (b"connection", b"x")])
    async with raw_server(script) as other:
        there = Desk(other.port)
        for principal in ("alice", "bob", "alice"):
            await there.open()
            sent = there.forwarding.send_now(Request(head, b"{}", principal=principal), there.other)
            assert sent is not None
            client, connection = sent
            await connection.head()
            await until(lambda connection=connection: connection.is_complete)  # type: ignore[misc]
            client.give_back(connection)
        await there.forwarding.aclose()
        assert [value.split()[2] for value in got] == ["alice", "bob", "alice"]
        assert all("authorization" not in one.headers for one in other.requests)
        assert all(one.headers["x"] == "1" for one in other.requests)
