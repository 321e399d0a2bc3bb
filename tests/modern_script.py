"""A server of 2026-07-28 over HTTP, for `RawServer`: it discovers, lists its tools, and calls them."""

from collections.abc import Awaitable, Callable
from typing import Any

from tests.raw_server import Asked, Json, Wire, answer

VERSION = "2026-07-28"
FRESH: Json = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
REGION: Json = {"type": "string", "x-mcp-header": "Region"}
TOOLS: list[Json] = [{"name": "look", "inputSchema": {"type": "object", "properties": {"region": REGION}}}]


class ModernScript:
    """`special` may answer a request in its own way; b"": as usual."""

    def __init__(self, special: Callable[[Asked, Wire], Awaitable[bytes | None]] | None = None) -> None:
        self.special = special

    async def __call__(self, asked: Asked, wire: Wire) -> bytes | None:
        if self.special is not None and (data := await self.special(asked, wire)) != b"":
            return data
        match asked.message["method"]:
            case "server/discover":
                return self._result(asked, supportedVersions=[VERSION], capabilities={"tools": {}})
            case "tools/list":
                return self._result(asked, tools=TOOLS)
            case "tools/call":
                return self._result(asked, content=[])
            case method:
                return self.refusal(asked, -32601, f"no {method} here", "404 Not Found")

    def _result(self, asked: Asked, **members: Any) -> bytes:
        return answer({"jsonrpc": "2.0", "id": asked.message["id"], "result": {**FRESH, **members}})

    @staticmethod
    def refusal(asked: Asked, code: int, text: str, status: str = "400 Bad Request") -> bytes:
        error = {"code": code, "message": text}
        return answer({"jsonrpc": "2.0", "id": asked.message["id"], "error": error}, status)
