"""What clients and a server elsewhere have of each other: what is said of calls that fail, what becomes of
those that nobody waits for, and what arrives of what was sent."""

import asyncio
import json

import pytest

from mooring.remote.options import RemoteOptions
from tests.faults.test_remote_points import FailingModern
from tests.faults.test_remote_server import CALL, FAULTS, PROGRESS, Elsewhere, Fault, in_front
from tests.faults.test_stdio_server import once, only, result
from tests.hosting import hosting
from tests.integration.test_eras import ModernClient
from tests.integration.test_sharing import readyz
from tests.mcp_client import Json
from tests.raw_server import LAST_CHUNK, Asked, Wire, answer, event, raw_server, stream_head
from tests.support import within

TOOL: Json = {"name": "x", "arguments": {}}

# What is said of it


@pytest.mark.parametrize(
    ("name", "words"),
    [("500", "HTTP status 500"), ("reset before an answer", "closed"), ("401", "wants to know who asks")],
)
async def test_its_state_says_that_calls_fail_and_why_until_one_does_not(name: str, words: str) -> None:
    fault, _ = FAULTS[name]
    async with in_front(Elsewhere(only(CALL, once(fault)))) as (_, host, client):
        assert (await readyz(host))["reason"] == "working"
        refused = (await client.ask(CALL, TOOL))["error"]
        seen = await readyz(host)
        assert (seen["state"], seen["reason"]) == ("ready", "calls_fail")
        assert seen["cause"] == refused["message"] and words in refused["message"]
        assert "n" in await client.result(CALL, TOOL)
        seen = await readyz(host)
        assert (seen["state"], seen["reason"], seen["cause"]) == ("ready", "working", None)


async def test_an_error_of_the_servers_own_is_no_trouble() -> None:
    async def refuses(asked: Asked, wire: Wire) -> bytes | None:
        error = {"code": -32602, "message": "no such tool"}
        return answer({"jsonrpc": "2.0", "id": asked.message["id"], "error": error})

    async with in_front(Elsewhere(only(CALL, refuses))) as (_, host, client):
        assert (await client.ask(CALL, TOOL))["error"]["code"] == -32602
        assert (await readyz(host))["reason"] == "working"


# Clients that go away


class Slow:
    """A call that has begun to be answered, and ends when the test says so."""

    def __init__(self) -> None:
        self.may_end = asyncio.Event()
        self.was_closed = asyncio.Event()

    async def __call__(self, asked: Asked, wire: Wire) -> bytes | None:
        wire.send(stream_head() + event(PROGRESS))
        closing = asyncio.ensure_future(wire.closed_by_peer())
        ending = asyncio.ensure_future(self.may_end.wait())
        await asyncio.wait((closing, ending), return_when=asyncio.FIRST_COMPLETED)
        if closing.done():
            self.was_closed.set()
        for wait in (closing, ending):
            wait.cancel()
        await asyncio.gather(closing, ending, return_exceptions=True)
        if not self.may_end.is_set():
            return None
        return event(result(asked, {"content": [], "resultType": "complete"})) + LAST_CHUNK


@pytest.mark.parametrize("has_begun", [False, True])
async def test_a_client_without_sessions_that_goes_away_cancels_its_call_there(has_begun: bool) -> None:
    slow = Slow()
    script = FailingModern(("client", CALL), slow if has_begun else is_silent_for(slow))
    async with (
        raw_server(script) as server,
        hosting(remote=RemoteOptions(url=server.url), keep_alive_s=0.05) as host,
        ModernClient(host.port) as client,
    ):
        body, headers = client.question(CALL, TOOL)
        call = await client.send("POST", body, **headers)
        await server.count(1, CALL)
        if has_begun:
            async with within():
                await call.head()
        call.reset()
        async with within():
            await slow.was_closed.wait()
        assert "result" in await client.ask(CALL, TOOL)
        assert script.done["x"] == 1
        assert not any(
            asked.body and asked.message["method"] == "notifications/cancelled" for asked in server.requests
        )


def is_silent_for(slow: Slow) -> Fault:
    async def silent(asked: Asked, wire: Wire) -> bytes | None:
        await wire.closed_by_peer()
        slow.was_closed.set()
        return None

    return silent


async def test_a_client_with_a_session_that_goes_away_finds_the_answer_when_it_comes_back() -> None:
    slow = Slow()
    async with in_front(Elsewhere(only(CALL, slow))) as (server, host, client):
        stream = await client.stream("POST", client.request(CALL, TOOL, id="it"))
        while (begun := await stream.event()) is not None and not begun.data:
            pass
        assert begun is not None and json.loads(begun.data) == PROGRESS
        stream.reset()
        assert "n" in await client.result("tools/list"), "its end has been seen"
        assert not slow.was_closed.is_set()
        slow.may_end.set()
        async with within():
            while (await readyz(host))["calls_in_flight"]:
                pass
        rest = await client.stream("GET", Last_Event_ID=begun.id)
        answered = await rest.message()
        assert answered["id"] == "it" and answered["result"]["content"] == []
        assert len(await server.count(1, CALL)) == 1
        rest.reset()


# To the byte

PIECES = (
    b'"n":123456789012345678901234567890,"f":-0.10e+05,"z":1E400',
    b'"s":"\\u0061\\/\\ud83d\\ude00 \\ud83d \\u0000","u":"h\xc3\xa9\xf0\x9f\x9a\xa2"',
    b'"w" :\t[ ] , "o":{ "b":1,"a" : [ 1 ,2]}, "" : null',
)
ARGUMENTS = b'{"name":"x" ,"arguments":{' + b" , ".join(PIECES) + b"}%b}"
RESULT = b'{"resultType":"complete" , "content":[ ], "structuredContent":{' + b" , ".join(PIECES) + b"} }"


async def says_oddly(asked: Asked, wire: Wire) -> bytes | None:
    return answer(
        b'{"jsonrpc":"2.0","id":%b, "result":%b}' % (json.dumps(asked.message["id"]).encode(), RESULT)
    )


async def test_what_is_said_in_a_session_arrives_to_the_byte() -> None:
    sent = b'{ "id" : 7 ,"jsonrpc":"2.0","method":"tools/call", "params" : %b, "more":1.0 }' % (
        ARGUMENTS % b""
    )
    async with in_front(Elsewhere(only(CALL, says_oddly))) as (server, _, client):
        heard = await client.raw("POST", sent)
        [arrived] = await server.count(1, CALL)
        assert arrived.body == sent
        assert heard.body == b'{"jsonrpc":"2.0","id":7, "result":%b}' % RESULT
        # What ends a line on the way is a space, which means the same.
        await client.raw("POST", sent.replace(b" , ", b" ,\r\n"))
        [_, arrived] = await server.count(2, CALL)
        assert arrived.body == sent.replace(b" , ", b" ,  ")


async def test_what_a_call_without_a_session_says_arrives_to_the_byte() -> None:
    script = FailingModern(("client", CALL), says_oddly)
    async with (
        raw_server(script) as server,
        hosting(remote=RemoteOptions(url=server.url)) as host,
        ModernClient(host.port) as client,
    ):
        question, headers = client.question(CALL, TOOL)
        meta = json.dumps(json.loads(question)["params"]["_meta"]).encode()
        params = ARGUMENTS % (b', "_meta" : ' + meta)
        sent = b'{"jsonrpc":"2.0","id":"7","method":"tools/call","params":%b}' % params
        heard = await client.raw("POST", sent, **headers)
        [arrived] = await server.count(1, CALL)
        assert b'"arguments":{%b}' % b" , ".join(PIECES) in arrived.body
        assert RESULT in heard.body and json.loads(heard.body)["id"] == "7"
