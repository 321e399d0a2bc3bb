"""Real servers of the HTTP+SSE transport: a conversation, a kill under a call, and on it goes."""

import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mooring.http.client import Client
from mooring.http.origin import parse_url
from mooring.remote.detecting import detect
from mooring.remote.endpoint import Endpoint
from mooring.remote.policy import RemotePolicy
from tests import parts
from tests.e2e.program import Program
from tests.old_sse import NoCredentials, Talk, talking
from tests.support import until, within

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

ARGV: dict[str, Callable[[int], list[str | Path]]] = {
    "everything": lambda _port: [*parts.npm_command("mcp-server-everything"), "sse"],
    "sdk-1": lambda port: [
        parts.python_of("sdk-1"),
        Path(__file__).parent / "sdk_sse_server.py",
        str(port),
    ],
}
NEEDS = {"everything": ("npm", "node"), "sdk-1": ("sdk-1",)}


@dataclass(frozen=True)
class Tools:
    """What is asked of a server."""

    sum: str
    slow: str
    slow_arguments: dict[str, Any]
    slow_sign: str
    """What the server says when it has begun with it."""
    steps: str
    steps_arguments: dict[str, Any]
    says_so: bool
    """The slow one says of itself that it may be run twice."""


TOOLS = {
    "everything": Tools(
        "get-sum",
        "trigger-long-running-operation",
        {"duration": 3600, "steps": 1},
        "Client Message",
        "trigger-long-running-operation",
        {"duration": 0.2, "steps": 2},
        says_so=True,
    ),
    "sdk-1": Tools("add", "hang", {}, "hanging", "count_to", {"number": 3}, says_so=False),
}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


@asynccontextmanager
async def running(name: str, port: int) -> AsyncIterator[Program]:
    environment = {**os.environ, "PORT": str(port)}
    async with Program(ARGV[name](port), listen_to="none", environment=environment) as program:
        async with within(60):
            await program.word(lambda line: f"on port {port}" in line or "Uvicorn running" in line)
        yield program


async def call(talk: Talk, tool: str, arguments: dict[str, Any], **meta: Any) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments, **({"_meta": meta} if meta else {})}
    return await talk.result("tools/call", params)


def times_said(program: Program, sign: str) -> int:
    return sum(sign in line for line in program.words)


@pytest.mark.parametrize("name", ARGV)
async def test_a_conversation_with_a_real_server_that_is_killed_under_a_call(name: str) -> None:
    parts.require(*NEEDS[name])
    port, tools = free_port(), TOOLS[name]
    async with talking(f"http://127.0.0.1:{port}/sse") as talk:
        async with running(name, port) as program:
            await talk.initialize()
            names = [tool["name"] for tool in (await talk.result("tools/list"))["tools"]]
            assert tools.sum in names
            assert "5" in str(await call(talk, tools.sum, {"a": 2, "b": 3}))
            await call(talk, tools.steps, tools.steps_arguments, progressToken="t")
            progress = [one for one in talk.messages if one.get("method") == "notifications/progress"]
            assert len(progress) >= 2
            ids = [
                talk.request("tools/call", {"name": tools.sum, "arguments": {"a": n, "b": 1}})
                for n in range(50)
            ]
            for n, id in enumerate(ids):
                assert str(n + 1) in str((await talk.answer(id))["result"])

            begun = times_said(program, tools.slow_sign)
            slow = talk.request("tools/call", {"name": tools.slow, "arguments": tools.slow_arguments})
            await until(lambda: times_said(program, tools.slow_sign) > begun)
            program.process.kill()
            await program.process.wait()
            error = (await talk.answer(slow))["error"]
            assert error["data"] == {"reason": "connection_lost", "retryable": tools.says_so}
            waiting = talk.request("tools/call", {"name": tools.sum, "arguments": {"a": 20, "b": 3}})
        async with running(name, port):
            assert "23" in str((await talk.answer(waiting))["result"])
            assert "5" in str(await call(talk, tools.sum, {"a": 2, "b": 3}))
    assert not any("unreachable" in str(one) for one in talk.messages)


@pytest.mark.parametrize("name", ARGV)
async def test_real_servers_are_told_apart(name: str) -> None:
    parts.require(*NEEDS[name])
    port, policy = free_port(), RemotePolicy()
    async with running(name, port):
        origin, target = parse_url(f"http://127.0.0.1:{port}/sse")
        client = Client(origin)
        try:
            async with within():
                assert await detect(Endpoint(client, target, NoCredentials(), policy), policy) == "sse"
        finally:
            await client.aclose()
