"""What is tried in every cell where it exists, once for all transports and both eras."""

import json
from collections.abc import Awaitable, Callable
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from mooring.wire.modern import SERVER_KEY, VERSION_KEY
from tests.e2e.matrix.cells import MODERN, Cell
from tests.e2e.matrix.clients import Client, said
from tests.era_server import QUESTIONS, SINCE_2025_06_18, TOOLS
from tests.mcp_client import Json
from tests.support import until

RESOURCE = "res://a"
ODD = {"text": 'über 🚢 \u2028 "\\', "largest": 2**63 - 1, "larger": 2**64 - 1, "no float": 2**53 + 1}
"""What a bridge that reads and writes JSON carelessly would change."""
ANSWERS: Json = {
    "elicitation/create": {"action": "accept", "content": {"name": "Ada ⚓"}},
    "sampling/createMessage": {
        "role": "assistant",
        "content": {"type": "text", "text": "a model's words"},
        "model": "m",
    },
    "roots/list": {"roots": [{"uri": "file:///harbour", "name": "harbour"}]},
}
PREFIX = "io.modelcontextprotocol/"
ONLY_MODERN = {"resultType", "ttlMs", "cacheScope", "inputRequests", "requestState", "inputResponses"}


class Trial(NamedTuple):
    """A client that has begun, and what the server heard of it."""

    cell: Cell
    client: Client
    introduction: Json
    record: Path

    def heard(self) -> list[list[Json]]:
        """What reached each process of the server, but for how its era was found out."""
        probe = ("initialize", "ping") if self.cell.server == MODERN else ("server/discover",)
        records = [path.read_text().split("\n")[:-1] for path in self.record.iterdir()]
        messages: list[list[Json]] = [[json.loads(line) for line in lines] for lines in records]
        return [[one for one in process if one.get("method") not in probe] for process in messages]


async def introduction(trial: Trial) -> None:
    told = trial.introduction
    assert told["instructions"] == "be kind"
    assert told["capabilities"]["resources"] == {"subscribe": True, "listChanged": True}
    if trial.cell.client == MODERN:
        assert MODERN in told["supportedVersions"]
        assert told["_meta"][SERVER_KEY]["name"] == "era"
    else:
        assert told["protocolVersion"] == trial.cell.told
        assert told["serverInfo"]["name"] == "era"


async def tools_list(trial: Trial) -> None:
    tools = (await trial.client.result("tools/list"))["tools"]
    is_new = trial.cell.served >= "2025-06-18"
    expected = [name for name in TOOLS if is_new or name not in SINCE_2025_06_18]
    assert [tool["name"] for tool in tools] == expected


async def call(trial: Trial) -> None:
    assert said(await trial.client.call("echo", {"text": "hi"}))["arguments"] == {"text": "hi"}


async def tool_error(trial: Trial) -> None:
    result = await trial.client.call("fail")
    assert (result["isError"], result["content"][0]["text"]) == (True, "it failed")


async def odd_values(trial: Trial) -> None:
    assert said(await trial.client.call("echo", ODD))["arguments"] == ODD


async def structured(trial: Trial) -> None:
    assert (await trial.client.call("structured", ODD))["structuredContent"] == ODD


async def progress(trial: Trial) -> None:
    for token in ("t", 7):
        since = len(trial.client.wire.messages)
        assert said(await trial.client.call("progress", {"say": "on"}, progressToken=token)) == "done"
        words = {"message": "on"} if trial.cell.served >= "2025-03-26" else {}
        assert [
            message["params"]
            for message in trial.client.wire.messages[since:]
            if message.get("method") == "notifications/progress"
        ] == [{"progressToken": token, "progress": n, **words} for n in range(3)]


async def cancellation(trial: Trial) -> None:
    def held(process: list[Json]) -> set[Any]:
        return {one["id"] for one in process if one.get("params", {}).get("name") == "hold"}

    def cancelled(process: list[Json]) -> set[Any]:
        notes = [one for one in process if one.get("method") == "notifications/cancelled"]
        return {note["params"]["requestId"] for note in notes}

    id = await trial.client.request("tools/call", {"name": "hold"})
    await until(lambda: any(held(process) for process in trial.heard()))
    await trial.client.cancel(id)
    await until(lambda: any(held(process) & cancelled(process) for process in trial.heard()))
    await call(trial)


def question(tool: str) -> Callable[[Trial], Awaitable[None]]:
    """The server asks its client."""
    [asked] = QUESTIONS[tool].values()
    answer = ANSWERS[asked["method"]]

    async def check(trial: Trial) -> None:
        told = said(await trial.client.call(tool, answers={asked["method"]: answer}))
        assert trial.client.asked[-1] == asked
        assert list(told.get("answers", told).values()) == [answer]

    return check


async def log(trial: Trial) -> None:
    await trial.client.want_log("warning")
    since = len(trial.client.wire.messages)
    for level in ("info", "error"):
        await trial.client.call("log", {"level": level, "say": ODD})
    note = await trial.client.news("notifications/message", since)
    assert (note["params"]["level"], note["params"]["data"]) == ("error", ODD)


async def list_changed(trial: Trial) -> None:
    mark = await trial.client.listen()
    since = len(trial.client.wire.messages)
    await trial.client.call("change")
    note = await trial.client.news("notifications/tools/list_changed", since)
    assert note.get("params", {}).get("_meta", {}) == mark


async def resource_updated(trial: Trial) -> None:
    mark = await trial.client.listen(RESOURCE)
    since = len(trial.client.wire.messages)
    await trial.client.call("change")
    note = await trial.client.news("notifications/resources/updated", since)
    assert (note["params"]["uri"], note["params"].get("_meta", {})) == (RESOURCE, mark)


async def errors(trial: Trial) -> None:
    client = trial.client
    not_found = -32602 if trial.cell.client == MODERN else -32002
    assert await client.error_code("resources/read", {"uri": "res://none"}) == not_found
    assert await client.error_code("tools/call", {"name": "no such tool", "arguments": {}}) == -32602
    assert await client.error_code("x/unknown") == -32601


async def ping(trial: Trial) -> None:
    assert await trial.client.result("ping") == {}


async def batch(trial: Trial) -> None:
    calls = [
        {
            "jsonrpc": "2.0",
            "id": id,
            "method": "tools/call",
            "params": {"name": "echo", "arguments": {"n": n}},
        }
        for n, id in enumerate(("one", "two"))
    ]
    await trial.client.wire.send([*calls, {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}])
    for n, id in enumerate(("one", "two")):
        answer = await trial.client.wire.message(lambda one, id=id: one.get("id") == id)  # type: ignore[misc]
        assert said(answer["result"])["arguments"] == {"n": n}


async def nothing_foreign(trial: Trial) -> None:
    """Last: neither side has heard a word of an era that it does not speak."""
    by_client, by_server = trial.client.wire.messages, list(chain(*trial.heard()))
    _check_words(by_client, trial.cell.client)
    _check_words(by_server, trial.cell.server)
    if trial.cell.client == MODERN:
        assert not [one for one in by_client if "method" in one and "id" in one]
    if trial.cell.server == MODERN:
        for one in by_server:
            assert "id" not in one or one["params"]["_meta"][VERSION_KEY] == MODERN, one


def _check_words(messages: list[Json], revision: str) -> None:
    for message in messages:
        if revision != MODERN:
            for part in (message.get("params", {}), message.get("result", {})):
                assert not ONLY_MODERN & part.keys(), message
                assert not [key for key in part.get("_meta", {}) if key.startswith(PREFIX)], message
        elif "result" in message:
            assert "resultType" in message["result"], message


class Feature(NamedTuple):
    """Something that MCP has, from a revision on."""

    name: str
    about: str
    check: Callable[[Trial], Awaitable[None]]
    exists: Callable[[Cell], bool] = lambda cell: True


def _since_2025_06_18(cell: Cell) -> bool:
    return cell.common >= "2025-06-18"


FEATURES = (
    Feature(
        "begin",
        "`initialize` or `server/discover`: the revision agreed on, name, capabilities and instructions",
        introduction,
    ),
    Feature("list", "`tools/list`", tools_list),
    Feature("call", "`tools/call`", call),
    Feature("isError", "a tool that failed", tool_error),
    Feature("values", "Unicode and integers of 64 bits, there and back", odd_values),
    Feature("structured", "`structuredContent`, since 2025-06-18", structured, _since_2025_06_18),
    Feature("progress", "under the client's own token, a string or a number", progress),
    Feature("cancel", "the client's cancellation reaches the server, for the right call", cancellation),
    Feature("elicitation", "the server asks the user, since 2025-06-18", question("ask"), _since_2025_06_18),
    Feature("sampling", "the server asks the model", question("sample")),
    Feature("roots", "the server asks for the roots", question("roots")),
    Feature("log", "messages of the level that the client wants, and none below", log),
    Feature("list_changed", "`notifications/tools/list_changed`", list_changed),
    Feature("updated", "a subscription to a resource, and the news of it", resource_updated),
    Feature(
        "errors",
        "unknown method and tool; a resource that is not there is −32002, or −32602 in 2026-07-28",
        errors,
    ),
    Feature("ping", "until 2025-11-25", ping, lambda cell: cell.client != MODERN),
    Feature("batch", "in 2025-03-26 alone", batch, lambda cell: cell.told == "2025-03-26"),
    Feature("era", "neither side hears a word of an era that is not its own", nothing_foreign),
)
