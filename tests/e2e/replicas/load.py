"""Clients that call, and call again when they are answered; each call is written down where it is done."""

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from mooring.wire.sse import EventDecoder
from tests.http_client import Answer, Peer
from tests.ledger import Ledger
from tests.mcp_client import McpClient
from tests.support import within

__all__ = ["KINDS", "Load", "Outcome", "outcome_of"]

PAUSE_S = 0.02
"""Between two calls of one client: many of them, but there are only two cores."""
MODERN = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


class Outcome(NamedTuple):
    """How a call ended."""

    kind: str
    """`result`, `error`, `refused` (by HTTP), `cut` (no whole answer), `never` (within the bound)."""
    what: str = ""
    status: int = 200
    reason: str = ""
    """Of an error, or a refusal that has one."""


def outcome_of(answer: Answer, mark: str) -> Outcome:
    """Nobody gets the answer to another's call: that is a failure of the test at once."""
    if answer.headers.get("content-type") == "text/event-stream":
        events = [event for event in EventDecoder().feed(answer.body) if event.data]
        said = json.loads(events[-1].data) if events else {}
    elif answer.headers.get("content-type") == "application/json":
        said = json.loads(answer.body)
    else:
        said = {}
    reason = (said.get("error", {}).get("data") or {}).get("reason", "")
    if answer.status != 200:
        return Outcome("refused", repr(answer.body[:300]), answer.status, reason)
    if "result" in said:
        assert said["result"].get("mark") == mark, (said, mark)
        return Outcome("result")
    if "error" in said:
        return Outcome("error", json.dumps(said["error"]), 200, reason)
    return Outcome("cut", f"a stream that ended with {said}")


class Load:
    """Closed-loop clients, all at one port."""

    def __init__(self, port: int, ledger: Ledger, *, delays: tuple[float, ...] = (0.0, 0.0, 0.05)) -> None:
        self._port = port
        self._ledger = ledger
        self._delays = itertools.cycle(delays)
        self._over = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.outcomes: dict[str, Outcome] = {}

    def begin(self, *kinds: str) -> None:
        for n, kind in enumerate(kinds):
            self._tasks.append(asyncio.create_task(KINDS[kind](self, f"{kind}{n}"), name=f"{kind}{n}"))

    async def end(self) -> None:
        """Whatever is under way is answered."""
        self._over.set()
        async with within(60):
            await asyncio.gather(*self._tasks)

    async def stop(self) -> None:
        """After a failure."""
        for task in self._tasks:
            task.cancel()
        ended = await asyncio.gather(*self._tasks, return_exceptions=True)
        for task, how in zip(self._tasks, ended, strict=True):
            if isinstance(how, Exception):
                print(f"{task.get_name()} ended with {how!r}")

    @property
    def failed(self) -> dict[str, Outcome]:
        return {mark: how for mark, how in self.outcomes.items() if how.kind != "result"}

    async def has_done(self, more: int) -> None:
        """So many calls more, wherever they end."""
        enough = len(self.outcomes) + more
        async with within():
            while len(self.outcomes) < enough and not any(task.done() for task in self._tasks):
                await asyncio.sleep(0.01)
        for task in self._tasks:
            if task.done():
                task.result()

    async def all_are_served(self) -> None:
        """Until each client has had a result for a call that it makes from now on."""
        names = [task.get_name() for task in self._tasks]
        before = set(self.outcomes)
        async with within(60):
            while names and not any(task.done() for task in self._tasks):
                fresh = {
                    mark for mark in self.outcomes.keys() - before if self.outcomes[mark].kind == "result"
                }
                names = [name for name in names if not any(mark.startswith(f"{name}-") for mark in fresh)]
                await asyncio.sleep(0.02)
        for task in self._tasks:
            if task.done():
                task.result()
                raise AssertionError(f"{task.get_name()} has ended")

    def marks(self, name: str) -> Iterator[str]:
        for n in itertools.count():
            if self._over.is_set():
                return
            yield f"{name}-{n}"

    def assert_none_twice(self) -> None:
        executed = self._ledger.marks()
        twice = {mark: count for mark, count in executed.items() if count > 1}
        assert not twice, twice
        lost = [mark for mark, how in self.outcomes.items() if how.kind == "result" and not executed[mark]]
        assert not lost, lost

    def counts(self) -> Counter[str]:
        return Counter(how.kind for how in self.outcomes.values())

    async def ask(self, mark: str, ask: Callable[[], Awaitable[Answer]]) -> None:
        try:
            self.outcomes[mark] = outcome_of(await ask(), mark)
        except (OSError, asyncio.IncompleteReadError) as error:
            self.outcomes[mark] = Outcome("cut", repr(error))
        except TimeoutError:
            self.outcomes[mark] = Outcome("never", "not answered within the bound")
        await asyncio.sleep(PAUSE_S)

    def params(self, mark: str) -> dict[str, Any]:
        return {"mark": mark, "delay_s": next(self._delays)}

    async def one_at_a_time(self, name: str) -> None:
        """A connection for each call."""
        async with McpClient(self._port) as client:
            await client.initialize()
            for mark in self.marks(name):
                body = client.request("x/mark", self.params(mark))
                await self.ask(mark, lambda body=body: client.raw("POST", body))  # type: ignore[misc]
                await close_all(client)

    async def on_one_connection(self, name: str) -> None:
        """As most clients do: the connection is kept for as long as it is said to be."""
        async with McpClient(self._port) as client:
            await client.initialize()
            kept = Kept(client)
            for mark in self.marks(name):
                body = client.request("x/mark", self.params(mark))
                await self.ask(mark, lambda body=body: kept.post(body))  # type: ignore[misc]

    async def several_at_once(self, name: str) -> None:
        """In one session."""
        async with McpClient(self._port) as client:
            await client.initialize()
            for mark in self.marks(name):
                each = [
                    (f"{mark}.{n}", client.request("x/mark", self.params(f"{mark}.{n}"))) for n in range(4)
                ]
                await asyncio.gather(
                    *(
                        self.ask(one, lambda body=body: client.raw("POST", body))  # type: ignore[misc]
                        for one, body in each
                    )
                )
                await close_all(client)

    async def newcomers(self, name: str) -> None:
        """A session for a few calls only."""
        for mark in self.marks(name):
            async with McpClient(self._port) as client:
                if not await self._hello(client, mark):
                    await asyncio.sleep(PAUSE_S)
                    continue
                for n in range(3):
                    one = f"{mark}.{n}"
                    body = client.request("x/mark", self.params(one))
                    await self.ask(one, lambda body=body, client=client: client.raw("POST", body))  # type: ignore[misc]
                with suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
                    await client.raw("DELETE")

    async def _hello(self, client: McpClient, mark: str) -> bool:
        body = client.request("initialize", HELLO)
        try:
            answer = await client.raw("POST", body)
        except (OSError, asyncio.IncompleteReadError) as error:
            self.outcomes[f"{mark}.hello"] = Outcome("cut", repr(error))
            return False
        except TimeoutError:
            self.outcomes[f"{mark}.hello"] = Outcome("never", "no session within the bound")
            return False
        if answer.status != 200 or "result" not in json.loads(answer.body):
            self.outcomes[f"{mark}.hello"] = outcome_of(answer, mark)
            return False
        client.session = answer.headers["mcp-session-id"]
        return True

    async def being_asked(self, name: str) -> None:
        """The server asks back, on the stream of the call; the answer goes wherever it goes."""
        async with McpClient(self._port) as client:
            await client.initialize(capabilities={"roots": {}})
            for mark in self.marks(name):
                body = client.request("x/ask", {"mark": mark})
                await self.ask(mark, lambda body=body: self._answering(client, body))  # type: ignore[misc]
                await close_all(client)

    async def _answering(self, client: McpClient, body: bytes) -> Answer:
        async with within():
            peer = await client.send("POST", body)
            try:
                head = await peer.head()
                if head.status != 200 or head.headers["content-type"] != "text/event-stream":
                    return await peer.rest(head)
                decoder, seen = EventDecoder(), b""
                async for piece in peer.chunks():
                    seen += piece
                    for event in decoder.feed(piece):
                        if event.data and "method" in (said := json.loads(event.data)):
                            await client.respond(said["id"], {"roots": []})
                return head._replace(body=seen)
            finally:
                await peer.aclose()

    async def without_session(self, name: str) -> None:
        """Revision 2026-07-28."""
        headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "x/mark"}
        async with McpClient(self._port, headers=headers) as client:
            for mark in self.marks(name):
                body = client.request("x/mark", {**self.params(mark), "_meta": META})
                await self.ask(mark, lambda body=body: client.raw("POST", body))  # type: ignore[misc]
                await close_all(client)


async def close_all(client: McpClient) -> None:
    """Its connections, of which there are many in the course of time."""
    for peer in client._peers:
        await peer.aclose()
    client._peers.clear()


class Kept:
    """A connection that is used again."""

    def __init__(self, client: McpClient) -> None:
        self._client = client
        self._peer: Peer | None = None

    async def post(self, body: bytes) -> Answer:
        async with within():
            peer, self._peer = self._peer or await self._client.peer(), None
            peer.send(self._client.head("POST", body))
            answer = await peer.answer()
        if answer.headers.get("connection", "").lower() != "close":
            self._peer = peer
        else:
            await peer.aclose()
        return answer


KINDS: dict[str, Callable[[Load, str], Coroutine[Any, Any, None]]] = {
    "plain": Load.one_at_a_time,
    "kept": Load.on_one_connection,
    "several": Load.several_at_once,
    "new": Load.newcomers,
    "asked": Load.being_asked,
    "modern": Load.without_session,
}
