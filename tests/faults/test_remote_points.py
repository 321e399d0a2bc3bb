"""A server elsewhere that fails once, at any point of a client's journey, and Mooring in front of it.

What Mooring asks by itself, what opens a session, what flows in it, what opens it anew, what ends it:
wherever the failure is, every request of the client is answered once, by a result or by an error that says
why; no call is executed twice; and the client goes on with the session that it has.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext, suppress
from functools import partial
from typing import Any

import pytest

from mooring.remote.options import RemoteOptions
from mooring.remote.policy import RemotePolicy
from mooring.wire.modern import DISCOVER
from mooring.wire.revisions import MODERN
from mooring.workloads import remote_maker
from tests.faults.test_remote_server import CALL, FAULTS, INTRODUCTION, Elsewhere, Fault
from tests.faults.test_stdio_server import result
from tests.hosting import Host, hosting
from tests.integration.test_eras import ModernClient
from tests.mcp_client import Json, McpClient, Stream
from tests.raw_server import Asked, RawServer, Wire, answer, event, raw_server, stream_head
from tests.support import until, within

SILENCE, GONE = "silence", "nobody listens any more"
MET = [
    *("reset before an answer", "end in the body", "reset in the head", "reset in an event"),
    *("not HTTP", "no JSON", "401", "403", "429", "500", "503", "503 for a moment"),
]
"""Of the faults of a call, those that mean different things elsewhere."""
POINTS = [
    *(("detect", "server/discover"), ("detect", "initialize"), ("detect", "DELETE")),
    *(("probe", "initialize"), ("probe", "notifications/initialized"), ("probe", "DELETE")),
    *(("client", "initialize"), ("client", "notifications/initialized"), ("client", "GET")),
    *(("client", "logging/setLevel"), ("client", "tools/list"), ("client", CALL)),
    *(("again", "initialize"), ("again", "notifications/initialized"), ("again", "GET")),
    *(("again", "logging/setLevel"), ("again", CALL), ("again", "DELETE")),
]
"""Who asks there (`again`: Mooring, when it opens the client's session anew, and the client in that one), and
what, by the method of JSON-RPC or of HTTP."""
MODERN_POINTS = [
    *(("detect", DISCOVER), ("era", DISCOVER), ("client", DISCOVER), ("client", "tools/list")),
    *(("client", CALL), ("client", "subscriptions/listen")),
]
"""The same, where there are no sessions (`era`: Mooring, before the first request of such a client)."""
ASKED = ("initialize", DISCOVER, "logging/setLevel", "tools/list", CALL, "subscriptions/listen")
"""By the client itself: a server may take as long as it likes."""
BOUNDED = {
    ("detect", DISCOVER),
    ("detect", "initialize"),
    ("again", "initialize"),
    ("again", "logging/setLevel"),
}
"""These are Mooring's own."""
BARRED = {"401", "403"}
"""Whoever says so to the question whether it works is not asked again by itself: see test_login_command."""
NEWS: Json = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}


def method_of(asked: Asked) -> str:
    return str(asked.message.get("method", "")) if asked.body else asked.method


class Failing(Elsewhere):
    """It does, once, what `fault` says, where `point` is met."""

    def __init__(self, point: tuple[str, str], fault: Fault) -> None:
        super().__init__()
        self.point = point
        self.fault = fault
        self.met = asyncio.Event()
        self.done: Counter[str] = Counter()
        """Calls that were executed, by the tool."""
        self.streams: dict[str, Wire] = {}
        self.has_forgotten = False
        self._opened_by: dict[str, str] = {}

    async def __call__(self, asked: Asked, wire: Wire) -> bytes | None:
        who, method = self._who(asked), method_of(asked)
        if not self.met.is_set() and (who, method) == self.point:
            self.met.set()
            return await self.fault(asked, wire)
        if method == "initialize":
            self._opened_by[f"session-{self.sessions + 1}"] = who
        if who == "detect" and method == "DELETE":
            # Nobody knows there which revision was agreed on: the head of the answer does not say it.
            return answer(status="204 Gone")
        said = await super().__call__(asked, wire)
        if method == "GET":
            self.streams[who] = wire
        if method == CALL and b" 200 " in (said or b"")[:20]:
            self.done[asked.message["params"]["name"]] += 1
        return said

    def _who(self, asked: Asked) -> str:
        if (session := asked.headers.get("mcp-session-id")) is not None:
            return self._opened_by[session]
        ours = {"mooring-detect": "detect", "mooring-probe": "probe"}
        return ours.get(asked.message["id"], "again" if self.has_forgotten else "client")

    def forget(self) -> None:
        """Every session."""
        self.known, self.has_forgotten = set(), True


async def is_silent(asked: Asked, wire: Wire) -> bytes | None:
    await wire.closed_by_peer()
    return None


class FailingModern:
    """The same, of a server that knows no handshake."""

    def __init__(self, point: tuple[str, str], fault: Fault) -> None:
        self.point = point
        self.fault = fault
        self.met = asyncio.Event()
        self.done: Counter[str] = Counter()

    async def __call__(self, asked: Asked, wire: Wire) -> bytes | None:
        method = method_of(asked)
        if asked.method != "POST":
            return answer(status="405 Method Not Allowed")
        if not self.met.is_set() and (self._who(asked), method) == self.point:
            self.met.set()
            return await self.fault(asked, wire)
        if method == DISCOVER:
            return self._says(
                asked, supportedVersions=[MODERN], capabilities={"tools": {"listChanged": True}}
            )
        if method == "tools/list":
            return self._says(asked, tools=[], ttlMs=0, cacheScope="private")
        if method == CALL:
            self.done[asked.message["params"]["name"]] += 1
            return self._says(asked, content=[])
        if method == "subscriptions/listen":
            await self._tells_news(asked, wire)
            return None
        if method == "initialize":
            error = {"code": -32022, "message": "?", "data": {"supported": [MODERN], "requested": "?"}}
            return answer({"jsonrpc": "2.0", "id": asked.message["id"], "error": error}, "400 Bad Request")
        return answer(status="202 Accepted")

    def _who(self, asked: Asked) -> str:
        ours = {"mooring-detect": "detect", "discover": "era"}
        return ours.get(asked.message.get("id", ""), "client")

    def _says(self, asked: Asked, **members: Any) -> bytes:
        return answer(result(asked, {"resultType": "complete", **members}))

    async def _tells_news(self, asked: Asked, wire: Wire) -> None:
        about = {"io.modelcontextprotocol/subscriptionId": asked.message["id"]}
        wire.send(stream_head())
        for method in ("subscriptions/acknowledged", "tools/list_changed"):
            params = {"_meta": about, **({"notifications": {}} if "ack" in method else {})}
            wire.send(event({"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params}))
        await wire.closed_by_peer()


class Traveller:
    """A client that asks until it has a result, and keeps what it was told in place of one."""

    def __init__(self, client: McpClient) -> None:
        self.client = client
        self.told: list[str] = []

    async def begins(self) -> None:
        while True:
            opened = await self.client.raw("POST", self.client.request("initialize", INTRODUCTION))
            if "mcp-session-id" in opened.headers:
                break
            await self._hears(json.loads(opened.body))
        self.client.session = opened.headers["mcp-session-id"]
        await self.client.notify("notifications/initialized")

    async def asks(self, method: str, params: Json) -> Json:
        while "result" not in (said := await self.client.ask(method, params)):
            await self._hears(said)
        return said["result"]  # type: ignore[no-any-return]

    async def calls(self, tool: str) -> Json:
        return await self.asks(CALL, {"name": tool, "arguments": {}})

    async def listens(self, client: ModernClient) -> None:
        while True:
            wanted = {"notifications": {"toolsListChanged": True}}
            stream = await client.watch("subscriptions/listen", wanted)
            while "error" not in (said := await stream.message()):
                if said["method"] == NEWS["method"]:
                    stream.reset()
                    return
            await self._hears(said)

    async def _hears(self, said: Json) -> None:
        assert said["error"]["code"] == -32603, said
        self.told.append(said["error"]["data"]["reason"])
        await asyncio.sleep(0.05)  # a person would wait longer


@asynccontextmanager
async def leaving_for_a_while(
    script: Failing | FailingModern, server: RawServer, host: Host
) -> AsyncIterator[None]:
    """Once it has failed nobody listens there, until somebody has found out."""

    async def leave() -> None:
        await script.met.wait()
        await server.close()
        await host.logged("unreachable")
        await server.open()

    leaving = asyncio.create_task(leave())
    try:
        yield
    finally:
        leaving.cancel()
        with suppress(asyncio.CancelledError):
            await leaving


async def hears_news(script: Failing, who: str, stream: Stream) -> None:
    """What belongs to no call."""
    await until(lambda: who in script.streams and not script.streams[who].writer.is_closing())
    script.streams[who].send(event(NEWS))
    while (await stream.message()) != NEWS:
        pass


def cases(points: list[tuple[str, str]]) -> list[Any]:
    return [
        pytest.param((who, method), name, id=f"{who} {method}: {name}")
        for who, method in points
        for name in (*MET, GONE, SILENCE)
        if not (name in BARRED and (who, method) == ("probe", "initialize"))
        and not (name == SILENCE and method in ASKED and (who, method) not in BOUNDED)
    ]


@asynccontextmanager
async def before(script: Failing | FailingModern, name: str) -> AsyncIterator[Host]:
    async with (
        within(60),
        raw_server(script) as server,
        hosting(remote=RemoteOptions(url=server.url)) as host,
        leaving_for_a_while(script, server, host) if name == GONE else nullcontext(),
    ):
        yield host
        async with within():
            await script.met.wait()


@pytest.fixture(autouse=True)
def bounds_that_a_test_can_afford(monkeypatch: pytest.MonkeyPatch) -> None:
    short = partial(RemotePolicy, handshake_timeout_s=0.5, note_timeout_s=0.5, farewell_timeout_s=0.5)
    monkeypatch.setattr(remote_maker, "RemotePolicy", partial(short, default_retry_s=0.05))


@pytest.mark.parametrize(("point", "name"), cases(POINTS))
async def test_a_journey_goes_on(point: tuple[str, str], name: str) -> None:
    fault, reason = FAULTS.get(name, (is_silent, "connection_lost"))
    script = Failing(point, fault)
    async with before(script, name) as host, McpClient(host.port) as client:
        traveller = Traveller(client)
        await traveller.begins()
        session = client.session
        stream = await client.stream()
        await traveller.asks("logging/setLevel", {"level": "debug"})
        await traveller.asks("tools/list", {})
        await traveller.calls("first")
        await hears_news(script, "client", stream)
        script.forget()
        await traveller.calls("second")
        await hears_news(script, "again", stream)
        await traveller.calls("third")
        assert client.session == session
        stream.reset()
        assert (await client.raw("DELETE")).status == 204
    assert script.done == {"first": 1, "second": 1, "third": 1}
    _check_told(traveller.told, point, name, reason)


@pytest.mark.parametrize(("point", "name"), cases(MODERN_POINTS))
async def test_a_journey_without_a_handshake_goes_on(point: tuple[str, str], name: str) -> None:
    fault, reason = FAULTS.get(name, (is_silent, "connection_lost"))
    script = FailingModern(point, fault)
    async with before(script, name) as host, ModernClient(host.port) as client:
        traveller = Traveller(client)
        await traveller.asks(DISCOVER, {})
        await traveller.asks("tools/list", {})
        await traveller.calls("first")
        await traveller.listens(client)
        await traveller.calls("second")
    assert script.done == {"first": 1, "second": 1}
    _check_told(traveller.told, point, name, reason)


def _check_told(told: list[str], point: tuple[str, str], name: str, reason: str) -> None:
    others = {"unreachable"} if name == GONE else set()
    # Who has not told its era is supposed to take handshakes, until it has refused one.
    others |= {"initialize_refused"} if point[0] == "era" else set()
    assert set(told) <= {reason, *others}
    if point[0] not in ("probe", "era") and name != GONE:
        assert len(told) <= 1, "one failure is told once"
    if point[1] == CALL:
        assert told[0] == reason, "it may have been executed, and is not repeated"
