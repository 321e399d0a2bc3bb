"""A session goes from one Mooring to another, both in this process; its client sees streams end, at most."""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from mooring.host.routes import add_routes
from mooring.http.listener import Listener
from mooring.http.router import Router
from mooring.proxy.link import LinkState
from mooring.proxy.passed_trunk import PassedTrunk
from mooring.proxy.passing import PassedSession
from mooring.proxy.policy import SessionPolicy
from mooring.proxy.trunk import Trunk
from mooring.runtimes.passing import PassedProcess, Passport
from mooring.runtimes.process import ProcessInstance
from mooring.workloads.definition import ServerOptions
from mooring.workloads.makers import Passed
from mooring.workloads.workload import Workload
from tests.hosting import ENVIRONMENT, SCRIPTED, SHORT
from tests.mcp_client import McpClient, client_of, emission
from tests.support import children, open_descriptors, until, within


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    processes, descriptors = children(), open_descriptors()
    yield
    assert children() <= processes
    assert open_descriptors() == descriptors


class Side:
    """One Mooring, as far as this needs one."""

    def __init__(self, argv: tuple[str, ...], **sessions: Any) -> None:
        options = ServerOptions(
            name="test",
            argv=argv,
            env=ENVIRONMENT,
            sessions=SessionPolicy(**sessions),
            patience=SHORT,
        )
        self.workload = Workload(options, clock=time.monotonic)
        router = Router()
        add_routes(router, self.workload.proxy, "")
        self.listener = Listener(router)
        self.port = 0

    @property
    def sessions(self) -> dict[str, Any]:
        return self.workload.proxy.sessions


class Both:
    def __init__(self, old: Side, new: Side) -> None:
        self.old, self.new = old, new

    async def move(self, client: McpClient) -> None:
        """Everything through bytes, as between processes; the client goes to the new address."""
        old, new = self.old.workload, self.new.workload
        session = old.proxy.sessions[client.session]
        await until(lambda: old.moving.session(session) is not None)
        departures, trunks = old.moving.all(), set[Trunk]()
        for departure in departures:
            departure.hold()
        all_told = [told for departure in departures if (told := departure.tell(trunks)) is not None]
        parcels = [(told.packed, copied(told.instance)) for told in all_told]
        for departure in departures:
            departure.go()
        for packed, process in parcels:
            if isinstance(packed, PassedSession):
                new.moving.adopt(copied_word(packed, PassedSession), process)
            elif process is not None:
                new.moving.adopt_instance(copied_word(packed, PassedTrunk | None), process)
        assert client.session not in old.proxy.sessions
        client.port = self.new.port


def copied(process: Passed | None) -> PassedProcess | None:
    if not isinstance(process, PassedProcess):
        return None
    return PassedProcess(copied_word(process.about, Passport), tuple(map(os.dup, process.descriptors)))


def copied_word(word: Any, type: Any) -> Any:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(word), type=type)


@asynccontextmanager
async def both(argv: tuple[str, ...] = SCRIPTED, **sessions: Any) -> AsyncIterator[Both]:
    sides = [Side(argv, **sessions) for _ in range(2)]
    try:
        async with within(60):
            for side in sides:
                [(_, side.port)] = await side.listener.listen_tcp("127.0.0.1", 0)
            sides[0].workload.start()
            await until(lambda: sides[0].workload.supervisor.snapshot().ready)
            sides[1].workload.go_on(sides[0].workload.supervisor.dump())
            yield Both(*sides)
    finally:
        for side in reversed(sides):
            side.workload.hurry()
            await side.workload.stop("end of test")
            await side.listener.aclose()


async def test_the_session_and_its_process_are_the_same() -> None:
    async with both() as sides, client_of(sides.old.port) as client:
        pid = await client.pid()
        await client.ask("logging/setLevel", {"level": "debug"})
        await sides.move(client)
        assert await client.pid() == pid
        assert sides.new.workload.supervisor.snapshot().ready
        [report] = [report for report in sides.new.workload.report() if report.use == "serving"]
        assert report.pid == pid
        assert not [report for report in sides.old.workload.report() if report.pid == pid]
        heard = [json.loads(line) for line in await client.heard()]
        assert [m["method"] for m in heard].count("initialize") == 1, "it was told nothing again"


async def test_after_a_crash_the_next_one_is_told_all_that_was_said() -> None:
    async with both() as sides, client_of(sides.old.port) as client:
        pid = await client.pid()
        await client.ask("logging/setLevel", {"level": "debug"})
        await sides.move(client)
        os.kill(pid, 9)
        await until(lambda: sides.new.workload.exits == 1)
        assert await client.pid() != pid
        methods = [json.loads(line)["method"] for line in await client.heard()]
        assert methods[:3] == ["initialize", "notifications/initialized", "logging/setLevel"]


async def test_streams_are_resumed_behind_what_was_read() -> None:
    async with both() as sides, client_of(sides.old.port) as client:
        news = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        stream = await client.stream()
        await client.emit({**news, "params": {"n": 1}})
        assert (await stream.message())["params"] == {"n": 1}
        await sides.move(client)
        position = await stream.event()
        assert position is not None and position.id and await stream.event() is None
        await client.emit({**news, "params": {"n": 2}})
        again = await client.stream(Last_Event_ID=position.id)
        assert (await again.message())["params"] == {"n": 2}


async def test_the_answer_of_a_call_whose_client_was_away_is_still_there() -> None:
    async with both() as sides, client_of(sides.old.port) as client:
        note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}
        stream = await client.stream("POST", client.request("x/emit", emission(note)))
        first = await stream.event()
        assert first is not None
        await stream.rest()
        await sides.move(client)
        again = await client.stream(Last_Event_ID=first.id)
        messages = await again.rest()
        assert "result" in messages[-1]


async def test_a_question_is_answered_after_the_move() -> None:
    async with both() as sides, client_of(sides.old.port) as client:
        asking = emission({"jsonrpc": "2.0", "id": 7, "method": "roots/list"})
        stream = await client.stream("POST", client.request("x/emit", asking))
        question, *_ = await stream.rest()
        await sides.move(client)
        await client.respond(question["id"], {"roots": []})
        await until_heard(client, b'"roots"')


async def until_heard(client: McpClient, part: bytes) -> None:
    while not any(part in line for line in await client.heard()):
        await asyncio.sleep(0.01)


async def test_what_waited_for_a_stream_goes_along() -> None:
    async with both() as sides, client_of(sides.old.port) as client:
        await client.emit({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        await sides.move(client)
        stream = await client.stream()
        assert (await stream.message())["method"] == "notifications/tools/list_changed"


async def test_a_session_that_sleeps_goes_without_a_process() -> None:
    async with both(idle_timeout_s=0.1) as sides, client_of(sides.old.port) as client:
        await until(lambda: sides.old.sessions[client.session].pid is None)
        await sides.move(client)
        assert await client.pid()


async def test_a_session_on_a_shared_process_goes_with_it() -> None:
    async with both(shared=1) as sides, client_of(sides.old.port) as client:
        pid = await client.pid()
        async with client_of(sides.old.port) as other:
            assert await other.pid() == pid
        await sides.move(client)
        assert await client.pid() == pid
        methods = [json.loads(line)["method"] for line in await client.heard()]
        assert methods.count("initialize") == 1, "the server was told nothing again"
        assert [report.pid for report in sides.new.workload.report() if report.use == "serving"] == [pid]
        os.kill(pid, 9)
        await until(lambda: sides.new.workload.exits == 1)
        assert await client.pid() != pid, "and is served by the next one after it"


async def test_a_shared_process_stays_while_one_of_its_sessions_does() -> None:
    async with both(shared=1) as sides, client_of(sides.old.port) as client:
        pid = await client.pid()
        async with client_of(sides.old.port) as busy:
            peer = await busy.send("POST", busy.request("x/hold"))
            await until(lambda: sides.old.sessions[busy.session].calls)
            await sides.move(client)
            assert await client.pid() != pid
            assert pid in {report.pid for report in sides.old.workload.report()}
            await peer.aclose()


async def test_a_spare_goes_along_and_is_lent_there() -> None:
    async with both() as sides, client_of(sides.old.port) as client:
        await client.pid()

        def spares(side: Side) -> list[int]:
            return [report.pid for report in side.workload.report() if report.use == "spare"]

        await until(lambda: spares(sides.old))
        kept = spares(sides.old)
        await sides.move(client)
        assert spares(sides.old) == [] and spares(sides.new) == kept
        async with client_of(sides.new.port) as other:
            assert [await other.pid()] == kept


async def test_a_spare_that_is_about_to_go_is_lent_to_nobody() -> None:
    async with both() as sides, client_of(sides.old.port) as client:
        await client.pid()
        old = sides.old.workload

        def spares() -> set[int]:
            return {report.pid for report in old.report() if report.use == "spare"}

        await until(spares)
        [spare] = spares()
        departures = old.moving.all()
        for departure in departures:
            departure.hold()
        channel = await old.acquire()
        assert channel.pid != spare
        old.release(channel, "seen")
        for departure in departures:
            departure.call_off()
        assert spare in spares()
        assert await client.pid()


async def test_what_its_process_says_while_it_is_held_stays_in_the_pipe() -> None:
    async with both() as sides, client_of(sides.old.port) as client:
        news = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        stream, session = await client.stream(), sides.old.sessions[client.session]
        await until(lambda: sides.old.workload.moving.session(session) is not None)
        departure = sides.old.workload.moving.session(session)
        assert departure is not None and isinstance(departure._instance, ProcessInstance)
        departure.hold()
        session.link.hold_back(True)
        session.link.hold_back(False)  # its client has caught up
        descriptor = departure._instance.stdin.descriptor
        assert descriptor is not None
        os.write(descriptor, client.request("x/emit", emission(news, answer=False)) + b"\n")
        hearing = asyncio.create_task(stream.message())
        await asyncio.sleep(0.3)
        assert not hearing.done()
        departure.call_off()
        assert (await hearing)["method"] == news["method"]


async def test_with_a_call_in_flight_it_stays() -> None:
    async with both() as sides, client_of(sides.old.port) as client:
        session = sides.old.sessions[client.session]
        peer = await client.send("POST", client.request("x/hold"))
        await until(lambda: session.calls)
        assert sides.old.workload.moving.session(session) is None
        await peer.aclose()


async def test_one_whose_process_dies_while_it_is_offered_gets_another_at_the_new_one() -> None:
    async with both() as sides, client_of(sides.old.port) as client:
        pid, old, new = await client.pid(), sides.old.workload, sides.new.workload
        session = sides.old.sessions[client.session]
        await until(lambda: old.moving.session(session) is not None)
        departure = old.moving.session(session)
        assert departure is not None
        departure.hold()
        told = departure.tell(set())
        assert told is not None
        packed, process = told.packed, copied(told.instance)
        assert isinstance(packed, PassedSession) and process is not None
        os.kill(pid, 9)
        await until(lambda: old.exits == 1 and session.state is LinkState.CONNECTING)
        departure.go()
        new.moving.adopt(packed, process)
        client.port = sides.new.port
        assert await client.pid() != pid
        await until(lambda: not [report for report in old.report() if report.use == "serving"])
