"""Somebody to whom nothing must happen."""

import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from mooring.wire.modern import ACKNOWLEDGED
from tests.hosting import Host
from tests.http_client import Peer
from tests.integration.test_eras import ASKABLE, ModernClient
from tests.integration.test_sse_transport import SseClient
from tests.mcp_client import Json, McpClient
from tests.support import within
from tests.websocket_client import WsClient, ws_client

SECRET = "of-the-victim"
MARK = "of-the-forger"
HELD = 7_000_000
"""The id of every call that is held, on every transport."""
TOKEN = "v"
NEWS = {"notifications/tools/list_changed", "notifications/resources/list_changed", "notifications/message"}


class TokenClient(ModernClient):
    """One that has a token."""

    def __init__(self, port: int, headers: dict[str, str]) -> None:
        super().__init__(port)
        self._headers = headers


class Parked:
    """A call that waits for the victim's answer."""

    def __init__(self, n: int, asked: Json) -> None:
        self.arguments = {"secret": SECRET, "n": n}
        [self.key] = asked["inputRequests"]
        self.state: str = asked["requestState"]


class Victim:
    """`can_be_asked`: the server may ask this client; `parks`: a call without a session waits here then."""

    session: McpClient
    asked: McpClient
    old: SseClient
    socket: WsClient
    modern: TokenClient
    held: list[Peer]
    held_by_socket: int | str
    question: Json
    parked: Parked

    def __init__(self, host: Host, headers: dict[str, str], *, can_be_asked: bool, parks: bool) -> None:
        self._host = host
        self._headers = headers
        self._can_be_asked = can_be_asked
        self._parks = parks
        self._n = 0
        self.event_ids: list[str] = []

    @asynccontextmanager
    async def there(self) -> AsyncIterator[None]:
        port = self._host.port
        async with AsyncExitStack() as stack:
            self.session = await stack.enter_async_context(McpClient(port, headers=self._headers))
            self.asked = await stack.enter_async_context(McpClient(port, headers=self._headers))
            self.old = await stack.enter_async_context(SseClient(port, headers=self._headers))
            self.modern = await stack.enter_async_context(TokenClient(port, self._headers))
            for client in (self.session, self.asked):
                await client.initialize(capabilities=ASKABLE)
            await self.old.connect()
            self.socket = await stack.enter_async_context(ws_client(port, additional_headers=self._headers))
            await self._settle_down()
            yield

    async def _settle_down(self) -> None:
        """Calls that are never answered, a question that is not answered yet, a call that is parked."""
        call = {"name": "hold", "arguments": {"secret": SECRET}}
        with_token = {**call, "_meta": {"progressToken": TOKEN}}
        body, headers = self.modern.question("tools/call", call, progressToken=TOKEN)
        self.held = [
            await self.session.send("POST", self.session.request("tools/call", with_token, id=HELD)),
            await self.modern.send("POST", body, **headers),
        ]
        self.held_by_socket = await self.socket.send("tools/call", with_token, id=HELD)
        note = {"name": "progress", "_meta": {"progressToken": TOKEN}}
        stream = await self.session.stream("POST", self.session.request("tools/call", note))
        while (event := await stream.event()) is not None:
            self.event_ids.append(event.id)
        if self._can_be_asked:
            # On a session where it is the only call: nothing else can be asked for.
            body = self.asked.request("tools/call", {"name": "ask"}, id="asking")
            self._asking = await self.asked.stream("POST", body)
            self.question = await self._asking.message()
        if self._parks:
            self.modern.capabilities = ASKABLE
            await self._park()
        wanted = {"notifications": {"toolsListChanged": True}}
        self._news = [await self.session.stream(), await self.modern.watch("subscriptions/listen", wanted)]
        first = await self._news[0].event()
        assert first is not None and first.id
        self.event_ids.append(first.id)
        assert (await self._news[1].message())["method"] == ACKNOWLEDGED

    async def _park(self) -> None:
        self._n += 1
        arguments = {"secret": SECRET, "n": self._n}
        self.parked = Parked(self._n, await self.modern.tool("ask", arguments=arguments))

    # Nothing has happened to it

    async def live_on(self) -> None:
        """Every way to the server is open, and leads to it."""
        self._n += 1
        call: Json = {"name": "echo", "arguments": {"secret": SECRET, "n": self._n}}
        answers = [
            await self.session.ask("tools/call", call),
            await self.old.said("tools/call", call, id=self._n),
            await self.modern.ask("tools/call", call),
            await self.socket.ask("tools/call", call),
        ]
        for answer in answers:
            assert "result" in answer, answer
            assert json.loads(answer["result"]["content"][0]["text"])["arguments"] == call["arguments"]
        if self._parks:
            await self._go_on()

    async def _go_on(self) -> None:
        """The parked call gets the victim's answer, and nobody else's; then there is another one."""
        parked, mine = self.parked, {"action": "accept", "content": {"secret": SECRET, "n": self._n}}
        heard = await self.modern.said(
            "ask",
            arguments=parked.arguments,
            inputResponses={parked.key: mine},
            requestState=parked.state,
        )
        assert heard == {"elicitation/create": mine}
        await self._park()

    async def look_back(self) -> None:
        """At the end: what waited was not disturbed, and gets what it waited for."""
        if self._can_be_asked:
            mine = {"action": "accept", "content": {"secret": SECRET}}
            await self.asked.respond(self.question["id"], mine)
            [answer] = await self._asking.rest()
            said = json.loads(answer["result"]["content"][0]["text"])
            assert mine in (said.get("elicitation/create"), said.get("answers", {}).get("who"))
        await self._hear_news()
        for record in self._host.events("instance_started"):
            with suppress(ProcessLookupError):
                os.kill(record.pid, signal.SIGKILL)  # type: ignore[attr-defined]
        for peer in self.held:
            async with within():
                alone = await peer.answer()
            assert alone.headers["content-type"] == "application/json", "something came before the answer"
            self._check_lost(json.loads(alone.body))
        self._check_lost(await self.socket.answer(self.held_by_socket))
        assert {note["method"] for note in self.socket.notes} <= NEWS and MARK not in str(self.socket.notes)

    async def _hear_news(self) -> None:
        """What the victim brings about itself is the first that it hears."""
        await self.session.call("change")
        await self.modern.said("change")
        for stream in self._news:
            assert (await stream.message())["method"] == "notifications/tools/list_changed"

    def _check_lost(self, answer: Json) -> None:
        assert answer["error"]["data"]["reason"] == "server_exited", answer
