"""A small MCP client for what is done once: the first answer, a death, a shutdown."""

import http.client
import json
import time
from collections.abc import Mapping
from http import HTTPStatus
from itertools import count
from typing import Any, Self

from bench.measuring import Unable

__all__ = ["INTRODUCTION", "Client", "Connection", "Failed", "first_answer"]

REVISION = "2025-06-18"
ACCEPT = "application/json, text/event-stream"
PATIENCE_S = 30.0

Json = dict[str, Any]

_PARAMS = {
    "protocolVersion": REVISION,
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}
INTRODUCTION: tuple[Json, Json] = (
    {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": _PARAMS},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
)


class Failed(Unable):
    """There was no good answer; this says what there was instead."""


class Connection:
    """One connection to /mcp, or /NAME/mcp, with at most one request under way."""

    def __init__(self, port: int, timeout_s: float = PATIENCE_S, prefix: str = "") -> None:
        self._path = f"{prefix}/mcp"
        self._http = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *args: object) -> None:
        self._http.close()

    def send(self, message: Json | None, session: str | None) -> None:
        """Send a message, or the end of the session, and do not wait."""
        headers = {"Accept": ACCEPT, "Content-Type": "application/json"}
        if session is not None:
            headers |= {"MCP-Protocol-Version": REVISION, **({"Mcp-Session-Id": session} if session else {})}
        method, body = ("DELETE", b"") if message is None else ("POST", json.dumps(message).encode())
        try:
            self._http.request(method, self._path, body, headers)
        except OSError as error:
            raise Failed(str(error)) from error

    def receive(self) -> tuple[int, Mapping[str, str], list[Json]]:
        """Status, headers and messages of the answer."""
        try:
            response = self._http.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise Failed(f"connection lost: {type(error).__name__}") from error
        headers = {name.lower(): value for name, value in response.getheaders()}
        kind = headers.get("content-type", "")
        try:
            return response.status, headers, _messages(body, is_events=kind.startswith("text/event-stream"))
        except ValueError:
            return response.status, headers, []

    def result(self, id: int) -> Json:
        """The result of the request under way."""
        status, _, messages = self.receive()
        answer = next((message for message in messages if message.get("id") == id), None)
        if status != HTTPStatus.OK or answer is None:
            raise Failed("no answer in the body" if status == HTTPStatus.OK else f"HTTP status {status}")
        result = answer.get("result")
        if not isinstance(result, dict) or result.get("isError"):
            raise Failed("an error instead of a result")
        return result


def _messages(body: bytes, *, is_events: bool) -> list[Json]:
    texts = [body]
    if is_events:
        texts = [line[5:] for line in body.splitlines() if line.startswith(b"data:") and line[5:].strip()]
    return [json.loads(text) for text in texts if text]


class Client:
    """One session."""

    def __init__(self, port: int, timeout_s: float = PATIENCE_S, prefix: str = "") -> None:
        self._port = port
        self._prefix = prefix
        self.timeout_s = timeout_s
        self._ids = count(1)
        self.session: str | None = None
        """None before the introduction; empty if the server gives out none."""

    def introduce(self, params: Json | None = None) -> None:
        """Begin the session; `params`: what this client says of itself."""
        with Connection(self._port, self.timeout_s, self._prefix) as connection:
            connection.send(INTRODUCTION[0] | ({"params": params} if params else {}), None)
            status, headers, messages = connection.receive()
            if status != HTTPStatus.OK or not messages or "result" not in messages[-1]:
                raise Failed(f"initialize: HTTP status {status}")
            self.session = headers.get("mcp-session-id", "")
            connection.send(INTRODUCTION[1], self.session)
            connection.receive()

    def leave(self) -> None:
        """End the session."""
        if self.session:
            with Connection(self._port, self.timeout_s, self._prefix) as connection:
                connection.send(None, self.session)
                connection.receive()

    def begin(self, connection: Connection, tool: str, **arguments: object) -> int:
        """Send a call and do not wait; its id."""
        id = next(self._ids)
        params = {"name": tool, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}
        connection.send(message, self.session)
        return id

    def call(self, tool: str, **arguments: object) -> str:
        """The text that a tool answers with."""
        with Connection(self._port, self.timeout_s, self._prefix) as connection:
            result = connection.result(self.begin(connection, tool, **arguments))
        return str(result["content"][0]["text"])


def first_answer(port: int, timeout_s: float = PATIENCE_S, prefix: str = "") -> Client:
    """A client whose first call was answered, however often that has to be tried."""
    deadline = time.monotonic() + timeout_s
    client = Client(port, prefix=prefix)
    while True:
        try:
            if client.session is None:
                client.introduce()
            client.call("echo", text="hello world")
        except Failed as failed:
            if time.monotonic() > deadline:
                raise Failed(f"no first answer in {timeout_s:g} s: {failed}") from failed
            client = Client(port, prefix=prefix)
            time.sleep(0.001)
        else:
            return client
