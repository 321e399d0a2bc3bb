"""Calls that are written down where they are executed: which of them were, and how often."""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tests.http_client import Answer, Peer
from tests.mcp_client import McpClient

LEDGER = (sys.executable, "-I", "-S", str(Path(__file__).with_name("ledger_server.py")))


class Ledger:
    """What was executed, as the servers wrote it down."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.command = (*LEDGER, str(path))

    def has(self, mark: str) -> bool:
        return self.marks()[mark] > 0

    def marks(self) -> Counter[str]:
        return Counter(line.split()[1] for line in self._path.read_text().splitlines())


class Caller:
    """A client that calls on one connection, which is never closed."""

    def __init__(self, client: McpClient, peer: Peer) -> None:
        self.client, self.peer = client, peer

    @classmethod
    async def of(cls, client: McpClient) -> "Caller":
        return cls(client, await client.peer())

    def send(self, method: str, **params: Any) -> None:
        self.peer.send(self.client.head("POST", self.client.request(method, params)))

    async def answer(self) -> dict[str, Any]:
        return result_of(await self.peer.answer())

    async def mark(self, text: str, delay_s: float = 0.0) -> dict[str, Any]:
        self.send("x/mark", mark=text, delay_s=delay_s)
        return await self.answer()


def result_of(answer: Answer) -> dict[str, Any]:
    assert answer.status == 200, answer
    result: dict[str, Any] = json.loads(answer.body)["result"]
    return result
