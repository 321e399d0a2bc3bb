"""Clients of both eras, on any transport: what one does by a session the other does by every request."""

import json
from abc import ABC, abstractmethod
from itertools import count
from typing import Any

from mooring.wire.modern import CAPABILITIES_KEY, CLIENT_KEY, LEVEL_KEY, SUBSCRIPTION_KEY, VERSION_KEY
from tests.e2e.matrix.cells import MODERN
from tests.e2e.matrix.wires import Wire
from tests.mcp_client import Json

INFO = {"name": "matrix", "version": "1"}
MOST_ROUNDS = 5
"""Of questions about one call."""


class Client(ABC):
    """What a client does, whatever its era."""

    def __init__(self, wire: Wire, revision: str) -> None:
        self.wire = wire
        self.revision = revision
        self.asked: list[Json] = []
        """What the server wanted to know, as method and params."""
        self._ids = count(1)
        self._capabilities: Json = {"sampling": {}, "roots": {}}
        if revision >= "2025-06-18":
            self._capabilities["elicitation"] = {}

    @abstractmethod
    async def begin(self) -> Json:
        """Learn what the server says of itself."""

    @abstractmethod
    def params(self, params: Json, meta: Json) -> Json:
        """As they go on the wire."""

    @abstractmethod
    async def call(
        self, tool: str, arguments: Json | None = None, *, answers: Json | None = None, **meta: Any
    ) -> Json:
        """The result of a tool; `answers`, by method, for what the server asks meanwhile."""

    @abstractmethod
    async def want_log(self, level: str) -> None:
        """From now on, and nothing less severe."""

    @abstractmethod
    async def listen(self, resource: str | None = None) -> Json:
        """To lists that change, and to a resource; what news of it have in their `_meta`."""

    async def request(self, method: str, params: Json | None = None, **meta: Any) -> int:
        """Send one; its id."""
        message: Json = {"jsonrpc": "2.0", "id": next(self._ids), "method": method}
        if whole := self.params(params or {}, meta):
            message["params"] = whole
        await self.wire.send(message)
        return int(message["id"])

    async def answer(self, id: int) -> Json:
        return await self.wire.message(lambda one: one.get("id") == id and "method" not in one)

    async def result(self, method: str, params: Json | None = None, **meta: Any) -> Json:
        answer = await self.answer(await self.request(method, params, **meta))
        assert "result" in answer, answer
        return answer["result"]  # type: ignore[no-any-return]

    async def error_code(self, method: str, params: Json | None = None) -> int:
        answer = await self.answer(await self.request(method, params))
        assert "error" in answer, answer
        return int(answer["error"]["code"])

    async def notify(self, method: str, params: Json | None = None) -> None:
        message: Json = {"jsonrpc": "2.0", "method": method}
        await self.wire.send(message if params is None else {**message, "params": params})

    async def cancel(self, id: int) -> None:
        await self.notify("notifications/cancelled", {"requestId": id})

    async def news(self, method: str, since: int) -> Json:
        """The next notification of that method; `since` so many messages."""
        return await self.wire.message(lambda one: one.get("method") == method, since=since)


class HandshakeClient(Client):
    """Up to 2025-11-25."""

    async def begin(self) -> Json:
        params = {
            "protocolVersion": self.revision,
            "capabilities": self._capabilities,
            "clientInfo": INFO,
        }
        result = await self.result("initialize", params)
        await self.notify("notifications/initialized")
        return result

    def params(self, params: Json, meta: Json) -> Json:
        return {**params, "_meta": meta} if meta else params

    async def call(
        self, tool: str, arguments: Json | None = None, *, answers: Json | None = None, **meta: Any
    ) -> Json:
        since = len(self.wire.messages)
        id = await self.request("tools/call", {"name": tool, "arguments": arguments or {}}, **meta)
        for _ in answers or ():
            question = await self.wire.message(lambda one: "id" in one and "method" in one, since=since)
            since = self.wire.messages.index(question) + 1
            self.asked.append({"method": question["method"], "params": question.get("params", {})})
            answer = (answers or {})[question["method"]]
            await self.wire.send({"jsonrpc": "2.0", "id": question["id"], "result": answer})
        return _result(await self.answer(id))

    async def want_log(self, level: str) -> None:
        await self.result("logging/setLevel", {"level": level})

    async def listen(self, resource: str | None = None) -> Json:
        if resource is not None:
            await self.result("resources/subscribe", {"uri": resource})
        return {}


class ModernClient(Client):
    """2026-07-28."""

    _level: str | None = None

    async def begin(self) -> Json:
        return await self.result("server/discover")

    def params(self, params: Json, meta: Json) -> Json:
        envelope = {VERSION_KEY: MODERN, CAPABILITIES_KEY: self._capabilities, CLIENT_KEY: INFO}
        if self._level is not None:
            envelope[LEVEL_KEY] = self._level
        return {**params, "_meta": {**envelope, **meta}}

    async def call(
        self, tool: str, arguments: Json | None = None, *, answers: Json | None = None, **meta: Any
    ) -> Json:
        params: Json = {"name": tool, "arguments": arguments or {}}
        for _ in range(MOST_ROUNDS):
            result = _result(await self.answer(await self.request("tools/call", params, **meta)))
            if result["resultType"] != "input_required":
                return result
            questions = result["inputRequests"]
            self.asked += questions.values()
            responses = {key: (answers or {})[one["method"]] for key, one in questions.items()}
            params |= {"inputResponses": responses, "requestState": result["requestState"]}
        raise AssertionError("it asks on and on")

    async def want_log(self, level: str) -> None:
        self._level = level

    async def listen(self, resource: str | None = None) -> Json:
        wanted: Json = {"toolsListChanged": True}
        if resource is not None:
            wanted["resourceSubscriptions"] = [resource]
        mark = {SUBSCRIPTION_KEY: await self.request("subscriptions/listen", {"notifications": wanted})}
        acknowledged = await self.wire.message(lambda one: one.get("params", {}).get("_meta") == mark)
        assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
        assert acknowledged["params"]["notifications"] == wanted
        return mark


def _result(answer: Json) -> Json:
    assert "result" in answer, answer
    return answer["result"]  # type: ignore[no-any-return]


def said(result: Json) -> Any:
    """What the era server told by a tool."""
    return json.loads(result["content"][0]["text"])
