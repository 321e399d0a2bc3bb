"""Streams: cut, resumed, kept within bounds, never twice, never with a hole."""

import asyncio
import json

import pytest

from tests.hosting import DEMO, SCRIPTED, hosting
from tests.http_client import Peer
from tests.mcp_client import McpClient, Stream, client_of, emission
from tests.support import until, within


def numbered(n: int, size: int = 0) -> dict[str, object]:
    params = {"level": "info", "data": n, "pad": "x" * size}
    return {"jsonrpc": "2.0", "method": "notifications/message", "params": params}


async def numbers(stream: Stream) -> list[int]:
    return [message["params"]["data"] for message in await stream.rest() if "params" in message]


async def test_a_cut_post_stream_is_resumed_where_it_was() -> None:
    async with hosting(DEMO) as host, client_of(host.port) as client:
        params = {"name": "sleep", "arguments": {"seconds": 0.5, "steps": 5}, "_meta": {"progressToken": 1}}
        stream = await client.stream("POST", client.request("tools/call", params, id="c"))
        first, second = await stream.event(), await stream.event()
        assert first is not None and second is not None
        stream.reset()
        resumed = await client.stream(Last_Event_ID=second.id)
        messages = await resumed.rest()
        assert [m["params"]["progress"] for m in messages[:-1]] == [2, 3, 4, 5]
        assert messages[-1]["id"] == "c" and "result" in messages[-1]
        # And once more from the start: the stream has ended, but is still kept.
        again = await client.stream(Last_Event_ID=first.id)
        assert len(await again.rest()) == 6


async def test_twenty_cuts_lose_none_of_ten_thousand_events() -> None:
    async with hosting(SCRIPTED) as host, client_of(host.port) as client:
        stream = await client.stream()
        seen: list[int] = []
        last = ""
        news = [
            {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": f"n:{n}"}}
            for n in range(10_000)
        ]
        emitting = asyncio.create_task(client.emit(*news))
        while len(seen) < 10_000:
            event = await stream.event()
            if event is None:
                break
            last = event.id or last
            if event.data:
                seen.append(int(json.loads(event.data)["params"]["uri"].removeprefix("n:")))
            if len(seen) % 500 == 499 and event.data:
                stream.reset()
                stream = await client.stream(Last_Event_ID=last)
        assert seen == list(range(10_000))
        assert "result" in await emitting


async def test_a_stream_only_replays_its_own_messages() -> None:
    async with hosting(SCRIPTED) as host, client_of(host.port) as client:
        listening = await client.stream()
        position = await listening.event()
        assert position is not None
        stream = await client.stream("POST", client.request("x/emit", emission(numbered(1))))
        assert await numbers(stream) == [1]
        listening.reset()
        resumed = await client.stream(Last_Event_ID=position.id)
        await client.raw("DELETE")
        assert await resumed.rest() == []


async def test_a_new_get_stream_takes_what_the_lost_one_never_sent() -> None:
    update = {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "a:b"}}
    async with hosting(SCRIPTED) as host, client_of(host.port) as client:
        stream = await client.stream()
        await stream.event()
        stream.reset()
        await until(lambda: True)
        async with McpClient(host.port, path="/metrics") as watch, within():
            while b"mooring_connections" in (page := (await watch.raw("GET")).body):
                if b'mooring_connections{server="test"} 1\n' in page:
                    break
        await client.emit(update)
        fresh = await client.stream()
        assert await fresh.message() == update


@pytest.mark.parametrize("position", ["nonsense", "p999-1", "../../1", "g1-" + "9" * 30])
async def test_a_position_that_is_not_ours_is_refused(position: str) -> None:
    async with hosting(SCRIPTED) as host, client_of(host.port) as client:
        assert (await client.raw("GET", Last_Event_ID=position)).status == 400


async def test_a_position_that_was_never_reached_is_refused() -> None:
    async with hosting(SCRIPTED) as host, client_of(host.port) as client:
        event = await (await client.stream()).event()
        assert event is not None
        assert (await client.raw("GET", Last_Event_ID=event.id.replace("-0", "-99"))).status == 400


async def test_a_position_of_another_session_is_nobodys() -> None:
    async with hosting(SCRIPTED) as host, client_of(host.port) as one, client_of(host.port) as other:
        event = await (await one.stream("POST", one.request("x/emit", emission(numbered(1))))).event()
        assert event is not None
        stream = await other.stream("POST", other.request("x/emit", emission(numbered(2))))
        await stream.rest()
        assert (await other.raw("GET", Last_Event_ID=event.id)).status == 400


async def test_an_answer_that_is_no_longer_kept_is_replaced_by_an_error() -> None:
    async with hosting(SCRIPTED, retained_bytes=1000) as host, client_of(host.port) as client:
        stream = await client.stream("POST", client.request("x/emit", emission(numbered(1)), id="lost"))
        position = await stream.event()
        await stream.rest()
        other = await client.stream("POST", client.request("x/emit", emission(numbered(2, 5000))))
        await other.rest()
        assert position is not None
        resumed = await client.stream(Last_Event_ID=position.id)
        [message] = await resumed.rest()
        assert message["id"] == "lost" and message["error"]["data"]["reason"] == "answer_lost"


async def test_after_a_silence_the_answer_becomes_a_stream_with_keep_alives() -> None:
    async with (
        hosting(SCRIPTED, stream_after_s=0.3, keep_alive_s=0.3) as host,
        client_of(host.port) as client,
    ):
        peer = await client.send("POST", client.request("x/hold", id="h"))
        async with within():
            assert (await peer.head()).headers["content-type"] == "text/event-stream"
            seen = b""
            async for chunk in peer.chunks():
                seen += chunk
                if seen.count(b": keep-alive") == 2:
                    await client.emit({"jsonrpc": "2.0", "id": "h", "result": {}})
        assert b'"id": "h"' in seen


async def test_a_client_that_disconnects_has_not_cancelled() -> None:
    async with hosting(SCRIPTED) as host, client_of(host.port) as client:
        peer = await client.send("POST", client.request("x/hold", id="h"))
        while not any(b"x/hold" in line for line in await client.heard()):
            pass
        peer.reset()
        assert (await client.ask("x/any"))["result"]
        assert not any(b"cancelled" in line for line in await client.heard())
        await client.emit({"jsonrpc": "2.0", "id": "h", "result": {}})


async def test_a_slow_reader_holds_back_its_own_server_only() -> None:
    async with hosting(SCRIPTED, unsent_bytes=10_000) as host, client_of(host.port) as slow:
        stalled = await slow.peer()
        stalled.send(slow.head("GET"))
        async with within():
            await stalled.head()
        reading = stalled.writer.transport
        reading.pause_reading()  # type: ignore[attr-defined]
        big = [numbered(n, 100_000) for n in range(200)]
        flood = asyncio.create_task(slow.ask("x/emit", emission(*big), Accept="application/json"))
        async with client_of(host.port) as other:
            for _ in range(20):
                assert await other.pid()
        assert not flood.done(), "20 MB do not fit between a server and a client that does not read"
        reading.resume_reading()  # type: ignore[attr-defined]
        drain = asyncio.create_task(_read_on(stalled))
        answer = await flood
        drain.cancel()
        assert answer["result"] == {"emitted": 200}


async def _read_on(peer: Peer) -> None:
    while await peer.reader.read(2**20):
        pass


async def test_streams_of_one_session_are_counted() -> None:
    async with hosting(SCRIPTED, max_streams=2) as host, client_of(host.port) as client:
        streams = [await client.stream() for _ in range(3)]
        assert await streams[0].rest() == []
        assert streams[0].ended
        await client.raw("DELETE")
        for stream in streams[1:]:
            await stream.rest()
