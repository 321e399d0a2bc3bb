"""One MCP client that keeps the id of its session, whatever happens to whoever serves it."""

import http.client
import json
from typing import Any, NamedTuple

from tests.support import PATIENCE_S

__all__ = ["Answer", "Client"]


class Answer(NamedTuple):
    """What came back."""

    status: int
    session: str
    body: Any


class Client:
    """Every request has a connection of its own: nothing but the id of its session is kept."""

    def __init__(self, port: int, name: str) -> None:
        self._port = port
        self.name = name
        self.session = ""
        self._calls = 0

    def open(self) -> None:
        """A session."""
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "life"}}
        answer = self.ask("initialize", {**hello, "clientInfo": {"name": "life", "version": "1"}})
        assert answer.status == 200 and "result" in answer.body, answer
        self.session = answer.session
        assert self._post({"jsonrpc": "2.0", "method": "notifications/initialized"}).status == 202

    def ask(self, method: str, params: Any = None) -> Answer:
        """A call."""
        self._calls += 1
        message = {"jsonrpc": "2.0", "id": self._calls, "method": method, "params": params or {}}
        return self._post(message)

    def _post(self, message: Any) -> Answer:
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if self.session:
            headers |= {"Mcp-Session-Id": self.session, "MCP-Protocol-Version": "2025-11-25"}
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=2 * PATIENCE_S)
        try:
            connection.request("POST", f"/{self.name}/mcp", json.dumps(message), headers)
            response = connection.getresponse()
            body = response.read()
        finally:
            connection.close()
        is_json = response.headers.get("Content-Type") == "application/json"
        session = response.headers.get("Mcp-Session-Id", "")
        return Answer(response.status, session, json.loads(body) if is_json else body)
