"""An agent and whoever answers it: a relay that does what a test says, or somebody who is no relay."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from mooring.errors import MooringError, exit_status
from mooring.http.client_errors import NotTrusted
from mooring.http.listener import Listener
from mooring.http.origin import Origin, parse_url
from mooring.relay import agent
from mooring.relay.agent import Agent, State, Target
from mooring.relay.envelope import Kind, encode, read_json, split, write_json
from mooring.relay.policy import AgentPolicy
from mooring.relay.words import Hello, Restart, Welcome
from mooring.wire.http import Exchange, Response
from mooring.wire.websocket import WebSocket
from tests.support import until, within

QUICK = AgentPolicy(first_delay_s=0.02, longest_delay_s=0.05, longest_asked_s=0.05)
WELCOME = Welcome(version=1, link="the first", name="laptop", grace_ms=10_000)


class Visit:
    """An agent at our door: greeted when a test says so."""

    def __init__(self, exchange: Exchange) -> None:
        socket = exchange.upgrade("mooring-relay-1")
        assert socket is not None
        self.socket: WebSocket = socket
        self.kinds: list[int] = []
        self.hello = Hello()
        self.closed: tuple[int, str] | None = None
        socket.expect_binary(1 << 20)
        socket.on_message = self._on_message
        socket.on_closed = self._on_closed

    def say(self, *envelopes: bytes) -> None:
        self.socket.send(b"".join(envelopes))

    def greet(self, welcome: Welcome = WELCOME) -> None:
        self.say(encode(Kind.WELCOME, payload=write_json(welcome)))

    def _on_message(self, message: bytes) -> None:
        for got in split(message):
            self.kinds.append(got.kind)
            if got.kind == Kind.HELLO:
                self.hello = read_json(got.payload, Hello)

    def _on_closed(self, code: int, reason: str) -> None:
        self.closed = code, reason


class Street:
    """Who is visited, and the agent that does."""

    def __init__(self) -> None:
        self.visits: list[Visit] = []
        self.instead: list[Response] = []
        """Answers in place of a WebSocket, to the attempts that come next."""
        self.refused = 0
        self.port = 0
        self.agent: Agent | None = None
        self.task: asyncio.Task[None] | None = None

    def __call__(self, exchange: Exchange) -> None:
        if self.instead:
            self.refused += 1
            exchange.respond(self.instead.pop(0))
        else:
            self.visits.append(Visit(exchange))

    async def visit(self, number: int) -> Visit:
        """The one that has said hello."""
        await until(lambda: len(self.visits) > number and self.visits[number].hello.instance)
        return self.visits[number]

    async def connected(self) -> Visit:
        assert self.agent is not None
        visit = await self.visit(0)
        visit.greet()
        await until(lambda: self.agent is not None and self.agent.is_connected)
        return visit

    async def ended(self) -> MooringError:
        assert self.task is not None
        async with within():
            with pytest.raises(MooringError) as caught:
                await self.task
        return caught.value


@asynccontextmanager
async def street(
    policy: AgentPolicy = QUICK,
    token: Callable[[], str] = lambda: "a-token",
    instead: list[Response] | None = None,
    **more: Any,
) -> AsyncIterator[Street]:
    made = Street()
    made.instead = instead or []
    listener = Listener(made)
    [(_, port)] = await listener.listen_tcp("127.0.0.1", 0)
    made.port = port
    target = Target(
        origin=Origin(host="127.0.0.1", port=port), path="/v1/server", shown="ws://relay", token=token
    )
    made.agent = Agent(target, policy, **more)
    made.task = asyncio.create_task(made.agent.run())
    try:
        yield made
    finally:
        made.task.cancel()
        await asyncio.gather(made.task, return_exceptions=True)
        await made.agent.aclose()
        listener.abort()
        await listener.aclose()


# Who is no relay.


@pytest.mark.parametrize(
    ("answer", "words", "hint"),
    [
        (Response(404, b"not found"), "HTTP status 404", "wss://relay.example.com"),
        (Response(200, b"<html>"), "HTTP status 200", "wss://relay.example.com"),
        (Response(405), "HTTP status 405", "wss://relay.example.com"),
        (Response(301, b"", [(b"location", b"https://there/")]), "HTTP status 301", "https://there/"),
        (Response(302, b"", [(b"location", b"/a b")]), "HTTP status 302", "wss://relay.example.com"),
    ],
)
async def test_who_is_no_relay_is_told_at_once(answer: Response, words: str, hint: str) -> None:
    async with street(instead=[answer] * 10) as there:
        error = await there.ended()
        assert (error.code, exit_status(error)) == ("not_a_relay", 1)
        assert "ws://relay is no relay" in error.message and words in error.message and hint in error.hint
        assert there.refused == 1 and there.agent is not None
        status = there.agent.status(0)
        assert (status.state, status.last_error_code, status.hint) == ("refused", "not_a_relay", error.hint)


async def test_who_does_not_even_speak_http() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.9\r\n")
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        origin = Origin(host="127.0.0.1", port=server.sockets[0].getsockname()[1])
        agent = Agent(Target(origin=origin, path="/", shown="ws://x", token=lambda: "t"), QUICK)
        async with within():
            with pytest.raises(MooringError) as caught:
                await agent.run()
        assert caught.value.code == "not_a_relay"
        await agent.aclose()


@pytest.mark.parametrize("status", [404, 200, 302])
async def test_after_a_link_it_may_be_a_network_in_between_and_is_waited_out(status: int) -> None:
    async with street() as there:
        visit = await there.connected()
        there.instead = [Response(status)] * 3
        visit.socket.abort()
        await until(lambda: there.refused == 3)
        assert there.agent is not None and there.agent.last_error is not None
        assert there.agent.last_error.code == "not_a_relay"
        (await there.visit(1)).greet(replace_welcome(resumed=True))
        await until(lambda: there.agent is not None and there.agent.is_connected)
        assert there.agent.reconnects == 1 and there.agent.last_error is None


async def test_the_daemon_waits_it_out_from_the_beginning() -> None:
    async with street(instead=[Response(404)] * 3, keeps_trying=True) as there:
        (await there.visit(0)).greet()
        await until(lambda: there.agent is not None and there.agent.is_connected)
        assert there.refused == 3


@pytest.mark.parametrize("is_first", [True, False])
async def test_a_certificate_that_is_no_good_ends_only_the_first_attempt(
    is_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who meets one later is behind somebody who wants a login first."""
    async with street() as there:
        assert there.agent is not None
        sockets, tries = there.agent._sockets, 0
        open_really = sockets.open

        async def opened(*given: Any, **named: Any) -> WebSocket:
            nonlocal tries
            tries += 1
            if tries <= 2:
                raise NotTrusted("its certificate is not good")
            return await open_really(*given, **named)

        if is_first:
            monkeypatch.setattr(sockets, "open", opened)
            assert (await there.ended()).code == "not_trusted"
            return
        visit = await there.connected()
        monkeypatch.setattr(sockets, "open", opened)
        visit.socket.abort()
        (await there.visit(1)).greet(replace_welcome(resumed=True))
        await until(lambda: there.agent is not None and there.agent.is_connected)
        assert tries == 3


async def test_what_does_not_let_websockets_through_is_tried_again_with_a_hint() -> None:
    async with street(instead=[Response(426)] * 2) as there:
        await until(lambda: there.refused == 2)
        assert there.agent is not None and there.agent.last_error is not None
        assert "426" in there.agent.last_error.message and "WebSockets" in there.agent.last_error.hint


def replace_welcome(**fields: Any) -> Welcome:
    return msgspec.structs.replace(WELCOME, **fields)


# What a relay says.


@pytest.mark.parametrize(
    "welcome", [replace_welcome(version=2), replace_welcome(window=-5), replace_welcome(window=1 << 40)]
)
async def test_a_welcome_that_cannot_be_meant_is_not_believed(welcome: Welcome) -> None:
    async with street() as there:
        (await there.visit(0)).greet(welcome)
        (await there.visit(1)).greet()
        await until(lambda: there.agent is not None and there.agent.is_connected)


async def test_a_relay_that_lives_in_other_times_is_not_taken_at_its_word() -> None:
    """A grace and a delay of more than any float."""
    async with street() as there:
        (await there.visit(0)).greet(replace_welcome(grace_ms=10**400))
        await until(lambda: there.agent is not None and there.agent.is_connected)
        there.visits[0].say(encode(Kind.RESTART, payload=write_json({"reconnect_in_ms": -(10**15)})))
        there.visits[0].socket.send(encode(Kind.RESTART, payload=b'{"reconnect_in_ms":1%s}' % (b"0" * 400)))
        await until(lambda: there.agent is not None and there.agent._minimum_s > 0)
        there.visits[0].socket.abort()
        await there.visit(1)


async def test_what_comes_right_behind_the_welcome_is_heard() -> None:
    async with street() as there:
        visit = await there.visit(0)
        visit.greet()
        visit.say(encode(Kind.RESTART, payload=write_json(Restart(reconnect_in_ms=40))))
        await until(lambda: there.agent is not None and there.agent._minimum_s == 0.04)


async def test_a_goodbye_right_behind_the_welcome_is_heard() -> None:
    async with street() as there:
        visit = await there.visit(0)
        visit.greet()
        visit.socket.close(4403, "not any more")
        assert (await there.ended()).code == "relay_refused"


async def test_a_link_that_was_given_up_while_the_relay_was_asked_is_not_gone_on_with() -> None:
    """The relay's sequence would not be ours: it would drop what we say as what it has heard."""
    async with street() as there:
        assert there.agent is not None
        visit = await there.visit(0)
        visit.greet(replace_welcome(grace_ms=200))
        await until(lambda: there.agent is not None and there.agent.is_connected)
        link = there.agent.link
        visit.socket.abort()
        second = await there.visit(1)
        assert second.hello.link == "the first"
        await until(lambda: there.agent is not None and there.agent.link is not link)
        second.greet(replace_welcome(resumed=True))
        third = await there.visit(2)
        assert third.hello.link == "" and third.hello.received == 0
        assert not there.agent.is_connected
        third.greet(replace_welcome(link="the second"))
        await until(lambda: there.agent is not None and there.agent.is_connected)


# The token.


async def test_a_token_that_waits_for_a_keyring_holds_up_nobody_else() -> None:
    unlocked, looks = threading.Event(), 0

    def token() -> str:
        nonlocal looks
        looks += 1
        unlocked.wait(30)
        return "a-token"

    try:
        async with street(replace(QUICK, token_s=0.05), token) as there:
            assert there.agent is not None
            await until(lambda: there.agent is not None and there.agent.last_error is not None)
            assert there.agent.last_error is not None and there.agent.last_error.code == "references_slow"
            await asyncio.sleep(0.3)
            assert looks == 1, "one look at a time, however often it is tried"
            unlocked.set()
            await there.connected()
    finally:
        unlocked.set()


async def test_a_change_of_network_while_the_relay_is_asked_begins_another_attempt() -> None:
    """The first may have been sent into a network that is not there any more."""
    patient = AgentPolicy(welcome_s=3600.0, first_delay_s=3600.0, longest_delay_s=3600.0)
    async with street(patient) as there:
        first = await there.visit(0)
        assert there.agent is not None
        there.agent.hurry()
        second = await there.visit(1)
        await until(lambda: first.closed is not None)
        second.greet()
        await until(lambda: there.agent is not None and there.agent.is_connected)
        assert len(there.visits) == 2, "once for each change"


# Going.


async def test_who_leaves_waits_until_that_is_heard() -> None:
    async with street() as there:
        visit = await there.connected()
        assert there.agent is not None and there.task is not None
        await there.agent.leave("it sleeps")
        assert there.task.done() and Kind.GOODBYE in visit.kinds
        assert visit.closed == (1000, "it sleeps")


async def test_who_leaves_a_relay_that_does_not_answer_waits_no_longer_than_that() -> None:
    async with street(replace(QUICK, goodbye_s=0.05)) as there:
        visit = await there.connected()
        visit.socket.hold()
        assert there.agent is not None and there.task is not None
        async with within(2):
            await there.agent.leave("it sleeps")
        assert not there.task.done()


async def test_who_leaves_while_the_relay_is_asked_says_goodbye_when_it_is_welcome() -> None:
    async with street() as there:
        visit = await there.visit(0)
        assert there.agent is not None and there.task is not None
        leaving = asyncio.create_task(there.agent.leave("never mind"))
        await asyncio.sleep(0.05)
        visit.greet()
        await leaving
        assert there.task.done() and Kind.GOODBYE in visit.kinds


class Clock:
    """It goes on, and can be set ahead."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead_s


HELD = replace(QUICK, max_conflicts=3, conflicts_s=30.0)


async def conflict(there: Street, number: int) -> None:
    """That visit is told that the name is another's."""
    (await there.visit(number)).socket.close(4409, "laptop is connected from elsewhere")


async def test_conflicts_end_it_only_if_they_last() -> None:
    """However many there are at first: each change of network makes one at once."""
    clock = Clock()
    patient = replace(HELD, first_delay_s=3600.0, longest_delay_s=3600.0)
    async with street(patient, chance=lambda: 1.0, clock=clock) as there:
        assert there.agent is not None
        for number in range(10):
            await conflict(there, number)
            await until(lambda: there.agent is not None and there.agent.state is State.WAITING)
            there.agent.hurry()
        await there.visit(10)
        clock.ahead_s += 31.0
        await conflict(there, 10)
        assert (await there.ended()).code == "name_held"


async def test_conflicts_count_in_a_row() -> None:
    clock = Clock()
    async with street(HELD, clock=clock) as there:
        for number in (0, 1):
            await conflict(there, number)
        (await there.visit(2)).socket.close(1011, "try again")
        clock.ahead_s += 31.0
        for number in (3, 4):
            await conflict(there, number)
        await there.visit(5)
        clock.ahead_s += 31.0
        await conflict(there, 5)
        assert (await there.ended()).code == "name_held"


async def test_after_a_link_conflicts_are_counted_anew() -> None:
    """The link's own end may be the first of them: another has taken the name."""
    clock = Clock()
    async with street(HELD, clock=clock) as there:
        for number in (0, 1):
            await conflict(there, number)
        (await there.visit(2)).greet()
        await until(lambda: there.agent is not None and there.agent.is_connected)
        await conflict(there, 2)
        await there.visit(3)
        clock.ahead_s += 31.0
        await conflict(there, 3)
        await conflict(there, 4)
        assert (await there.ended()).code == "name_held"


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(("asked_s", "least_s"), [(120, 120.0), (10**12, 600.0)])
async def test_when_to_come_back_is_the_relays_to_say(status: int, asked_s: int, least_s: float) -> None:
    """Or of a proxy in front of it; the jitter comes on top."""
    busy = Response(status, b"", [(b"retry-after", b"%d" % asked_s)])
    async with street(AgentPolicy(), chance=lambda: 1.0, clock=lambda: 0.0, instead=[busy]) as there:
        assert there.agent is not None
        agent = there.agent
        await until(lambda: agent.status(0).next_attempt_in_s is not None)
        assert agent.status(0).next_attempt_in_s == least_s + 0.5
        assert agent.last_error is not None and agent.last_error.code == "relay_busy"
        agent.hurry()  # another network may have another proxy
        (await there.visit(0)).greet()
        await until(lambda: agent.is_connected)
        there.visits[0].say(encode(Kind.RESTART, payload=write_json(Restart(reconnect_in_ms=asked_s * 1000))))
        await until(lambda: agent._minimum_s == least_s)


@pytest.mark.parametrize(("status", "words"), [(401, "does not know this token"), (403, "does not allow it")])
async def test_what_the_relay_does_not_allow_ends_it(status: int, words: str) -> None:
    async with street(instead=[Response(status)]) as there:
        error = await there.ended()
        assert (error.code, exit_status(error)) == ("relay_refused", 2)
        assert words in error.message and str(status) in error.message
        assert "mooring relay token create" in error.hint
        assert there.agent is not None and there.agent.status(0).state == "refused"


@pytest.mark.parametrize(("held_s", "is_announced"), [(61.0, False), (1.0, True)])
async def test_delays_begin_anew_after_a_link_that_was_good_or_ends_for_a_restart(
    held_s: float, is_announced: bool
) -> None:
    clock = Clock()
    growing = replace(QUICK, first_delay_s=0.02, longest_delay_s=0.32)
    async with street(growing, chance=lambda: 1.0, clock=clock, instead=[Response(503)] * 3) as there:
        assert there.agent is not None
        agent, delays_s = there.agent, list[float]()
        next_s = agent._backoff.next_s

        def noted(minimum_s: float = 0.0) -> float:
            delays_s.append(next_s(minimum_s))
            return delays_s[-1]

        agent._backoff.next_s = noted  # type: ignore[method-assign]
        (await there.visit(0)).greet()
        await until(lambda: agent.is_connected)
        clock.ahead_s += 1.0
        there.visits[0].socket.abort()
        (await there.visit(1)).greet()
        await until(lambda: agent.is_connected)
        clock.ahead_s += held_s
        if is_announced:
            there.visits[1].say(encode(Kind.RESTART, payload=write_json(Restart(reconnect_in_ms=1))))
            await until(lambda: agent._minimum_s)
        there.visits[1].socket.abort()
        await there.visit(2)
        assert delays_s == [0.02, 0.04, 0.08, 0.16, 0.02 + 0.001 * is_announced]


async def test_a_mistake_of_ours_is_shown_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async with street() as there:
        assert there.agent is not None and there.task is not None
        monkeypatch.setattr(there.agent, "_on_welcome", lambda welcome: 1 / 0)
        (await there.visit(0)).greet()
        async with within():
            with pytest.raises(ZeroDivisionError):
                await there.task
        status = there.agent.status(0)
        assert (status.state, status.last_error_code) == ("refused", "internal_error")


@pytest.mark.parametrize(("scheme", "other"), [("wss", "ws"), ("https", "http")])
async def test_whoever_answers_in_plain_text_is_told_in_the_words_of_the_address(
    scheme: str, other: str
) -> None:
    async with street() as there:
        origin, _ = parse_url(f"https://127.0.0.1:{there.port}")
        target = Target(origin=origin, path="/v1/server", shown=f"{scheme}://relay", token=lambda: "a-token")
        dialling = Agent(target, QUICK)
        with pytest.raises(NotTrusted, match="no TLS: it answers in plain text") as caught:
            await dialling.run()
        await dialling.aclose()
        assert caught.value.hint == f"is it {other}:// rather than {scheme}://?"


# What is told meanwhile -----------------------------------------------------------------------


async def test_what_lasts_is_told_again_but_ever_more_rarely(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    busy = [Response(503)] * 200

    def said() -> list[str]:
        return [r.getMessage() for r in caplog.records if "not connected" in r.getMessage()]

    async with street(instead=busy, clock=lambda: now) as there:
        for moment, count in ((0.0, 1), (4.9, 1), (5.0, 2), (14.9, 2), (15.0, 3), (34.9, 3), (35.0, 4)):
            now, before = moment, there.refused
            async with within():
                while there.refused < before + 3:
                    await asyncio.sleep(0)
            assert len(said()) == count, (moment, said())
        assert set(said()) == {"not connected to ws://relay: the relay answers 503; next try in 1 s"}
        there.instead.clear()
        await there.connected()
        there.instead += [Response(503)] * 5
        there.visits[0].socket.abort()
        await until(lambda: len(said()) > 4 and "link was lost" in said()[4])  # it is news again


async def test_whoever_waits_for_a_relay_that_does_not_answer_is_told(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent, "SLOW_S", 0.01)
    with caplog.at_level("INFO"):
        async with street() as there:
            await there.visit(0)
            await until(lambda: [r.getMessage() for r in caplog.records] == ["connecting to ws://relay …"])
