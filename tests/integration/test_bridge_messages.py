"""Everything crosses, in both directions, unchanged and to the right place."""

import asyncio
import json

import pytest

from tests.hosting import SCRIPTED, hosting
from tests.mcp_client import Json, McpClient, client_of, emission
from tests.support import within

LOG = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "hi"}}
DEEP = b"[" * 100_000 + b"]" * 100_000
NEWS = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_a_session_opens_in_every_revision(version: str) -> None:
    async with hosting(SCRIPTED) as host, client_of(host.port, version) as client:
        assert client.version == version
        assert (await client.ask("x/pid"))["result"]["pid"]


async def test_the_clients_own_initialize_reaches_the_server_untouched() -> None:
    async with hosting(SCRIPTED) as host, McpClient(host.port) as client:
        body = (
            b'{ "params":{"zeta":1,"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":'
            b'{"name":"t\\u00e9st","version":"1"}}, "method" : "initialize","id":"\\u0061","jsonrpc":"2.0"}'
        )
        answer = await client.raw("POST", body)
        client.session = answer.headers["mcp-session-id"]
        assert (await client.heard())[0] == body


async def test_payload_bytes_are_not_touched_in_either_direction() -> None:
    payload = '{"big":12345678901234567890,"z":1,"a":1.0,"s":"\\ud800 é   \\u0000","k":"1","k":1}'
    async with hosting(SCRIPTED) as host, client_of(host.port) as client:
        sent = f'{{"jsonrpc":"2.0","id":77,"method":"x/any","params":{payload}}}'.encode()
        await client.raw("POST", sent)
        assert sent in await client.heard()
        answer = f'{{"result":{payload},  "id":"held","jsonrpc":"2.0"}}'.encode()
        waiting = asyncio.create_task(client.raw("POST", client.request("x/hold", id="held")))
        await asyncio.sleep(0)
        while client.request("x/hold", id="held") not in await client.heard():
            pass
        await client.emit(answer)
        assert (await waiting).body == answer


async def test_line_breaks_in_a_body_do_not_become_lines() -> None:
    async with hosting(SCRIPTED) as host, client_of(host.port) as client:
        body = b'{\n"jsonrpc":"2.0",\r\n"id":5,\n"method":"x/any"\n}'
        assert json.loads((await client.raw("POST", body)).body)["id"] == 5
        assert body.replace(b"\n", b" ").replace(b"\r", b" ") in await client.heard()


async def test_ids_are_told_apart_by_their_type() -> None:
    async with hosting(SCRIPTED) as host, client_of(host.port) as client:
        one = await client.send("POST", client.request("x/hold", id=1000))
        text = await client.send("POST", client.request("x/hold", id="1000"))
        while len([line for line in await client.heard() if b"x/hold" in line]) < 2:
            pass
        await client.emit({"jsonrpc": "2.0", "id": "1000", "result": {"for": "text"}})
        async with within():
            assert json.loads((await text.answer()).body)["result"] == {"for": "text"}
        await client.emit({"jsonrpc": "2.0", "id": 1000, "result": {"for": "number"}})
        async with within():
            assert json.loads((await one.answer()).body)["result"] == {"for": "number"}


async def test_an_id_in_flight_is_not_used_twice() -> None:
    async with hosting(SCRIPTED, drain_timeout_s=0.2) as host, client_of(host.port) as client:
        await client.send("POST", client.request("x/hold", id=9))
        while not any(b"x/hold" in line for line in await client.heard()):
            pass
        answer = json.loads((await client.raw("POST", client.request("x/hold", id=9))).body)
        assert answer["error"]["code"] == -32600
        assert len([line for line in await client.heard() if b"x/hold" in line]) == 1


async def test_an_answer_alone_is_json_and_with_company_a_stream() -> None:
    async with hosting(SCRIPTED) as host, client_of(host.port) as client:
        alone = await client.raw("POST", client.request("x/any"))
        assert alone.headers["content-type"] == "application/json"
        stream = await client.stream("POST", client.request("x/emit", emission(LOG)))
        first = await stream.event()
        assert first is not None and first.data == "" and first.id, "2025-11-25 begins with a position"
        assert await stream.message() == LOG
        assert (await stream.message())["result"] == {"emitted": 1}
        assert await stream.event() is None


@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18"])
async def test_older_revisions_get_no_priming_event(version: str) -> None:
    async with hosting(SCRIPTED) as host, client_of(host.port, version) as client:
        stream = await client.stream("POST", client.request("x/emit", emission(LOG)))
        first = await stream.event()
        assert first is not None and json.loads(first.data) == LOG and first.id


async def test_progress_goes_to_the_call_that_asked_for_it() -> None:
    async with hosting(SCRIPTED) as host, client_of(host.port) as client:
        calls = {}
        for token in (0, "0", 7):
            params = {"_meta": {"progressToken": token}}
            calls[token] = await client.send("POST", client.request("x/hold", params, id=f"call {token!r}"))
        while len([line for line in await client.heard() if b"x/hold" in line]) < 3:
            pass
        for token in calls:
            note = {"method": "notifications/progress", "params": {"progressToken": token, "progress": 1}}
            await client.emit({"jsonrpc": "2.0", **note})
        for token in calls:
            await client.emit({"jsonrpc": "2.0", "id": f"call {token!r}", "result": {}})
        async with within():
            for token, peer in calls.items():
                body = (await peer.answer()).body.decode()
                assert body.count("notifications/progress") == 1
                assert f'"progressToken": {json.dumps(token)}' in body


async def test_news_wait_for_a_get_stream_and_are_told_once() -> None:
    async with hosting(SCRIPTED) as host, client_of(host.port) as client:
        answer = await client.emit(NEWS, NEWS, NEWS)
        assert answer["result"] == {"emitted": 3}
        stream = await client.stream()
        assert await stream.message() == NEWS
        await client.emit(NEWS)
        assert await stream.message() == NEWS


async def test_a_message_is_on_one_stream_only() -> None:
    async with hosting(SCRIPTED) as host, client_of(host.port) as client:
        older, newer = await client.stream(), await client.stream()
        await client.emit(NEWS)
        assert await newer.message() == NEWS
        await client.raw("DELETE")
        assert await older.rest() == [] and await newer.rest() == []


async def test_a_question_of_the_server_is_answered_through_the_call_in_flight() -> None:
    question = {"jsonrpc": "2.0", "id": 1, "method": "roots/list"}
    async with hosting(SCRIPTED, drain_timeout_s=0.2) as host, client_of(host.port) as client:
        stream = await client.stream("POST", client.request("x/emit", emission(question, answer=False)))
        assert await stream.message() == question
        await client.respond(1, {"roots": []})
        heard = [json.loads(line) for line in await client.heard()]
        assert {"jsonrpc": "2.0", "id": 1, "result": {"roots": []}} in heard


async def test_a_question_that_nobody_can_hear_waits_for_the_next_call() -> None:
    question = {"jsonrpc": "2.0", "id": 5, "method": "roots/list"}
    async with hosting(SCRIPTED) as host, client_of(host.port) as client:
        # Asked while no call is in flight and no stream is open: written by a child of an answered call.
        body = client.request(
            "x/emit", emission({"jsonrpc": "2.0", "id": 1000, "result": {}}, question), id=1000
        )
        await client.raw("POST", body)
        stream = await client.stream("POST", client.request("x/any"))
        assert await stream.message() == question


async def test_an_answer_to_nothing_is_dropped_politely() -> None:
    async with hosting(SCRIPTED) as host, client_of(host.port) as client:
        await client.respond(4711, {})
        assert not any(b"4711" in line for line in await client.heard())


async def test_cancellation_reaches_the_server_with_its_id() -> None:
    async with hosting(SCRIPTED, drain_timeout_s=0.2) as host, client_of(host.port) as client:
        await client.send("POST", client.request("x/hold", id="c"))
        while not any(b"x/hold" in line for line in await client.heard()):
            pass
        await client.notify("notifications/cancelled", {"requestId": "c", "reason": "bored"})
        heard = [json.loads(line) for line in await client.heard()]
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
        assert {**note, "params": {"requestId": "c", "reason": "bored"}} in heard
        await client.notify("notifications/cancelled", {"requestId": "nobody"})
        assert not any(b"nobody" in line for line in await client.heard())


async def test_a_ping_of_the_server_is_answered_even_if_nobody_listens() -> None:
    ping = {"jsonrpc": "2.0", "id": "p", "method": "ping"}
    async with hosting(SCRIPTED) as host, client_of(host.port) as client:
        body = client.request("x/emit", emission({"jsonrpc": "2.0", "id": 1000, "result": {}}, ping), id=1000)
        await client.raw("POST", body)
        while b'{"jsonrpc":"2.0","id":"p","result":{}}' not in await client.heard():
            pass


async def test_batches_are_part_of_one_revision_only() -> None:
    async with hosting(SCRIPTED) as host:
        calls: list[Json] = [
            {"id": 1, "method": "x/any"},
            {"method": "x/note"},
            {"id": "2", "method": "x/any"},
        ]
        batch = json.dumps([{"jsonrpc": "2.0", **call} for call in calls]).encode()
        async with client_of(host.port, "2025-03-26") as client:
            answer = await client.raw("POST", batch)
            assert {item["id"] for item in json.loads(answer.body)} == {1, "2"}
            assert (await client.raw("POST", b'[{"jsonrpc":"2.0","method":"x/note"}]')).status == 202
            assert (await client.raw("POST", b"[]")).status == 400
        async with client_of(host.port, "2025-06-18") as client:
            answer = await client.raw("POST", batch)
            assert answer.status == 400
            assert json.loads(answer.body)["error"]["code"] == -32600


async def test_keys_of_a_session_are_checked_before_anything_reaches_the_server() -> None:
    async with hosting(SCRIPTED) as host, client_of(host.port) as client:
        missing = await client.raw("POST", client.request("x/secret"), Mcp_Session_Id="")
        unknown = await client.raw("POST", client.request("x/secret"), Mcp_Session_Id="x" * 32)
        assert (missing.status, unknown.status) == (400, 404)
        assert json.loads(unknown.body)["error"]["data"]["reason"] == "session_not_found"
        assert not any(b"x/secret" in line for line in await client.heard())


async def test_delete_ends_the_session_and_its_process() -> None:
    async with hosting(SCRIPTED) as host, client_of(host.port) as client:
        assert (await client.raw("DELETE")).status == 204
        assert (await client.raw("POST", client.request("x/any"))).status == 404
        assert (await client.raw("DELETE")).status == 404
        await host.logged("session_closed")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, -32700),
        (b"{", 400, -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"x/any","params":"\xff"}', 400, -32700),
        (b'{"jsonrpc":"1.0","id":1,"method":"x/any"}', 400, -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"x/any"}', 400, -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"x/any"}', 400, -32600),
        (b'"text"', 400, -32600),
        (
            b'{"jsonrpc":"2.0","id":1,"method":"x","params":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
            400,
            -32700,
        ),
    ],
)
async def test_bad_messages_are_refused_and_reach_nobody(body: bytes, status: int, code: int) -> None:
    async with hosting(SCRIPTED) as host, client_of(host.port) as client:
        before = len(await client.heard())
        answer = await client.raw("POST", body)
        assert answer.status == status
        assert json.loads(answer.body)["error"]["code"] == code
        assert len(await client.heard()) == before + 1


async def test_a_request_of_an_unknown_revision_is_told_which_there_are() -> None:
    async with hosting(SCRIPTED) as host, McpClient(host.port) as client:
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2030-01-01",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        body = client.request("server/discover", {"_meta": meta}, id="d")
        answer = await client.raw(
            "POST", body, MCP_Protocol_Version="2030-01-01", Mcp_Method="server/discover"
        )
        error = json.loads(answer.body)["error"]
        assert (answer.status, error["code"], error["data"]["requested"]) == (400, -32022, "2030-01-01")
        assert {"2024-11-05", "2026-07-28"} < set(error["data"]["supported"])


async def test_wrong_headers_are_refused() -> None:
    async with hosting(SCRIPTED) as host, client_of(host.port) as client:
        body = client.request("x/any")
        assert (await client.raw("POST", body, Content_Type="text/plain")).status == 415
        assert (await client.raw("POST", body, Accept="image/png")).status == 406
        assert (await client.raw("GET", Accept="application/json")).status == 406
        assert (await client.raw("POST", body, MCP_Protocol_Version="1999-01-01")).status == 400
        assert (await client.raw("PUT", body)).status == 405


async def test_a_client_that_wants_no_stream_gets_json() -> None:
    async with hosting(SCRIPTED) as host, client_of(host.port) as client:
        answer = await client.raw("POST", client.request("x/emit", emission(LOG)), Accept="application/json")
        assert json.loads(answer.body)["result"] == {"emitted": 1}


async def test_a_batch_of_the_server_is_taken_apart_where_batches_exist() -> None:
    answers = [{"jsonrpc": "2.0", "id": "one", "result": {"n": 1}}, LOG]
    async with hosting(SCRIPTED) as host:
        async with client_of(host.port, "2025-03-26") as client:
            body = client.request(
                "x/emit", emission(json.dumps(answers[::-1]).encode(), answer=False), id="one"
            )
            stream = await client.stream("POST", body)
            assert await stream.rest() == answers[::-1]
        async with client_of(host.port, "2025-06-18") as client:
            assert (await client.emit(json.dumps(answers).encode()))["result"] == {"emitted": 1}
            await host.logged("junk_on_stdout")
