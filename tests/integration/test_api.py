"""The API is what its document says: every route is asked, every answer compared with its schema."""

import asyncio
import json
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import pytest

from mooring.api import types
from mooring.api.client import Answer, ApiClient
from mooring.api.level import API_LEVEL, LASTING_PREFIX, PREFIX
from mooring.errors import MooringError, UserError
from mooring.workloads.definition import dump_options
from tests.integration.test_daemon import Life, living
from tests.integration.test_fleet import described
from tests.json_schema import problems
from tests.support import within


def body_of(name: str, *words: str) -> dict[str, Any]:
    return {"options": msgspec.json.decode(dump_options(described(name, *words)))}


async def ready(life: Life, name: str) -> None:
    async with within():
        while (await life.ask("GET", f"/servers/{name}"))["state"] != "ready":
            await asyncio.sleep(0.02)


async def test_every_answer_is_as_the_document_says(tmp_path: Path) -> None:
    async with living(tmp_path) as life:
        document = await life.ask("GET", "/openapi.json")
        asked: set[tuple[str, str]] = set()

        async def ask(method: str, path: str, pattern: str = "", body: Any = None) -> Any:
            pattern = pattern or path.partition("?")[0]
            operation = document["paths"][PREFIX + pattern][method.lower()]
            answer = await life.ask(method, path, body)
            schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
            assert not problems(answer, schema, document)
            if body is not None:
                wanted = operation["requestBody"]["content"]["application/json"]["schema"]
                assert not problems(body, wanted, document)
            given = {part.partition("=")[0] for part in path.partition("?")[2].split("&") if part}
            assert given <= {each["name"] for each in operation["parameters"] if each["in"] == "query"}
            asked.add((method.lower(), PREFIX + pattern))
            return answer

        one, bad = "/servers/{name}", "/servers/bad"
        await ask("GET", "/daemon")
        assert await ask("GET", "/servers") == []
        await ask("PUT", "/servers/one?wait=true", one, body_of("one"))
        await ask("PUT", bad, one, body_of("bad", "--die-at-initialize"))
        await ready(life, "one")
        async with within():
            while not (await ask("GET", bad, one))["exits"]:
                await asyncio.sleep(0.02)
        assert len(await ask("GET", "/servers")) == 2
        told = await ask("GET", "/definitions")
        assert [(one["name"], one["options"]) for one in told] == [
            ("bad", body_of("bad", "--die-at-initialize")["options"]),
            ("one", body_of("one")["options"]),
        ]
        assert [event["kind"] for event in await ask("GET", "/events?name=one&after=0&since=0&wait_s=0")] == [
            "started",
            "ready",
        ]
        for what in ("restart", "stop", "start", "restart?wait=false"):
            await ask("POST", f"/servers/one/{what}", f"/servers/{{name}}/{what.partition('?')[0]}")
        await ask("DELETE", f"{bad}?wait=false&origin=", one)
        await ask("POST", "/connections")
        await ask("POST", "/daemon/stop")
        routes = {(method, path) for path, methods in document["paths"].items() for method in methods}
        asked.add(("post", f"{PREFIX}/daemon/handover"))  # which takes another daemon: see test_handover
        assert asked == routes, "every route was asked"


async def test_every_refusal_is_as_the_document_says(tmp_path: Path) -> None:
    async with living(tmp_path) as life:
        document = await life.ask("GET", "/openapi.json")
        operation = document["paths"][f"{PREFIX}/servers/{{name}}"]["get"]
        refused = operation["responses"]["default"]["content"]["application/json"]["schema"]
        asked = {("GET", "/servers/none"): 404, ("GET", "/events?after=x"): 400, ("PATCH", "/servers"): 405}
        for (method, path), expected in asked.items():
            status, _, data = await asyncio.to_thread(life.client._exchange, method, path, None, 5.0)
            assert status == expected
            assert not problems(json.loads(data), refused, document)


async def test_the_document_has_the_types_and_nothing_else(tmp_path: Path) -> None:
    async with living(tmp_path) as life:
        document = await life.ask("GET", "/openapi.json")
    for name in types.__all__:
        schema, kind = document["components"]["schemas"][name], getattr(types, name)
        assert set(schema["properties"]) == set(get_type_hints(kind)), name
        defaults = {field.name for field in msgspec.structs.fields(kind) if not field.required}
        assert set(schema["required"]) == set(schema["properties"]) - defaults
    assert set(document["components"]["schemas"]) == set(types.__all__)
    names = [operation["operationId"] for path in document["paths"].values() for operation in path.values()]
    assert len(set(names)) == len(names)


def test_an_answer_that_differs_is_noticed() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    assert problems({"a": 1}, schema, {}) == []
    for wrong in ({}, {"a": "1"}, {"a": True}, {"a": 1, "b": 2}):
        assert problems(wrong, schema, {})


@pytest.mark.parametrize(
    "query", ["wait_s=61", "wait_s=-1", "wait_s=soon", "after=x", "sinse=1", "name=one&limit=5"]
)
async def test_queries_that_make_no_sense_are_refused(tmp_path: Path, query: str) -> None:
    async with living(tmp_path) as life:
        with pytest.raises(UserError, match="query is malformed"):
            await life.ask("GET", f"/events?{query}")


async def test_who_does_not_wait_is_told_at_once_what_is_wrong(tmp_path: Path) -> None:
    async with living(tmp_path) as life:
        for method, path in (("POST", "/servers/none/stop"), ("DELETE", "/servers/none")):
            with pytest.raises(UserError, match="no server named none"):
                await life.ask(method, f"{path}?wait=false")
        await life.ask("PUT", "/servers/one", body_of("one"))
        await ready(life, "one")
        await life.ask("POST", "/servers/one/restart?wait=false")
        async with within():
            while (await life.ask("GET", "/servers/one"))["generation"] == 1:
                await asyncio.sleep(0.02)
        await life.ask("DELETE", "/servers/one?wait=false")
        assert await life.ask("GET", "/servers") == []


async def test_whoever_follows_hears_what_happens_and_the_end_keeps_nobody(tmp_path: Path) -> None:
    async with living(tmp_path) as life:
        [started] = await life.ask("GET", "/events?after=0&wait_s=30")
        assert (started["kind"], started["name"]) == ("daemon_started", "")
        following = asyncio.create_task(life.ask("GET", f"/events?after={started['number']}&wait_s=60"))
        await life.ask("PUT", "/servers/one", body_of("one"))
        async with within():
            assert (await following)[0]["kind"] == "started"
        last = (await life.ask("GET", "/events"))[-1]["number"]
        waiting = asyncio.create_task(life.ask("GET", f"/events?after={last + 1000}&wait_s=60"))
        await life.ask("GET", "/daemon")
        assert await life.end() == 0
        async with within():
            assert await waiting == []
    async with living(tmp_path) as life:
        kinds: list[str] = []
        async with within():
            while kinds.count("daemon_started") < 2:  # which may be told a moment after it answers
                kinds = [event["kind"] for event in await life.ask("GET", "/events")]
                await asyncio.sleep(0.02)
        assert kinds.count("daemon_started") == 2 and "daemon_ended" in kinds
        assert "stopped" in kinds, "the server has ended too, and is said to"


# Commands and daemons of different versions


async def test_a_description_of_a_newer_command_is_not_half_understood(tmp_path: Path) -> None:
    async with living(tmp_path) as life:
        for where in ((), ("sessions",)):
            body = body_of("one")
            options = body["options"]
            for part in where:
                options = options[part]
            options["of_tomorrow"] = 1
            with pytest.raises(UserError, match=r"does not know (sessions\.)?of_tomorrow") as caught:
                await life.ask("PUT", "/servers/one", body)
            assert "mooring daemon stop" in caught.value.hint
        assert await life.ask("GET", "/servers") == []


async def test_a_description_of_an_older_command_has_the_defaults(tmp_path: Path) -> None:
    async with living(tmp_path) as life:
        body = body_of("one")
        del body["options"]["sessions"], body["options"]["spare"]
        assert (await life.ask("PUT", "/servers/one", body))["changed"]
        assert not (await life.ask("PUT", "/servers/one", body_of("one")))["changed"], "it is the same"


async def test_what_an_older_daemon_does_not_tell_is_missed_in_words() -> None:
    answer = Answer(name="one")
    assert answer["name"] == "one"
    with pytest.raises(UserError, match="older than this command") as caught:
        answer["of_tomorrow"]
    assert "mooring daemon stop" in caught.value.hint


async def test_any_mooring_can_end_any_other(tmp_path: Path) -> None:
    """One of another level tells what to do; what that is works with every level."""
    asked: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        asked.append(" ".join(head.split()[:2]))
        writer.write(b'HTTP/1.1 200 OK\r\nMooring-Api: 99\r\n\r\n{"pid": 7}')
        writer.close()

    client = ApiClient(tmp_path / "s")
    async with await asyncio.start_unix_server(answer, tmp_path / "s"):
        with pytest.raises(MooringError) as caught:
            await asyncio.to_thread(client.ask, "GET", "/servers")
        assert caught.value.code == "api_mismatch" and "level 99" in caught.value.message
        assert caught.value.hint.startswith("mooring daemon stop")
        assert (await asyncio.to_thread(client.ask, "GET", "/daemon"))["pid"] == 7
        await asyncio.to_thread(client.ask, "POST", "/daemon/stop")
    assert asked[1:] == [f"GET {LASTING_PREFIX}/daemon", f"POST {LASTING_PREFIX}/daemon/stop"]


async def test_what_lasts_is_there(tmp_path: Path) -> None:
    async with living(tmp_path) as life:
        assert (await life.ask("GET", "/daemon"))["api"] == API_LEVEL
        document = await life.ask("GET", "/openapi.json")
        assert {f"{LASTING_PREFIX}/daemon", f"{LASTING_PREFIX}/daemon/stop"} <= set(document["paths"])
