"""A server of HTTP+SSE that does anything at any moment: one answer for each call, none executed twice."""

import asyncio
import json
import random
from collections import Counter
from typing import Any

import pytest

from tests.old_sse import Json, OldServer, Talk, named_event, old_server, talking
from tests.raw_server import LAST_CHUNK, Wire, answer, stream_head
from tests.support import until, within

CALLS, AT_ONCE = 240, 12
FAULTS = 0.2


class Chaos:
    """What `OldServer` asks before it does as usual. `executed` counts what was really done, by call."""

    def __init__(self, server: OldServer, seed: int) -> None:
        self._server = server
        self._dice = random.Random(seed)
        self.is_over = False
        self.executed: Counter[str] = Counter()
        server.on_get, server.on_post = self.on_get, self.on_post

    def _fault(self, *kinds: str) -> str:
        happens = not self.is_over and self._dice.random() < FAULTS
        return self._dice.choice(kinds) if happens else ""

    async def on_get(self, _number: int, wire: Wire) -> bytes | None:
        match self._fault("refuse", "busy", "cut", "end", "nothing", "foreign", "garbage"):
            case "refuse":
                return answer(status=self._dice.choice(["500 Oh", "404 No", "502 Oh"]))
            case "busy":
                return answer(status="503 Later", Retry_After="0")
            case "cut":
                wire.cut()
            case "end":
                return stream_head() + LAST_CHUNK
            case "foreign":
                return stream_head() + named_event("endpoint", "http://example.com/")
            case "garbage":
                wire.send(b"what?\r\n\r\n")
                wire.close()
            case _:
                return None
        return b""

    async def on_post(self, message: Json, wire: Wire) -> bytes | None:
        match self._fault("404", "503", "cut before", "cut after", "500 after", "stream", "junk", "late"):
            case "404":
                return answer(status="404 No")
            case "503":
                return answer(status="503 Later", Retry_After="0")
            case "cut before":
                wire.cut()
                return b""
            case "cut after":
                self._execute(message)
                wire.cut()
                return b""
            case "500 after":
                self._execute(message)
                return answer(status="500 Oh")
            case "stream":
                self._execute(message)
                self._server.streams[-1].cut()
                return answer(status="202 Accepted")
            case "junk":
                self._server.streams[-1].send(named_event("message", "{"))
            case "late":
                await asyncio.sleep(self._dice.random() / 100)
        self._execute(message)
        return None

    def _execute(self, message: Json) -> None:
        if message.get("method") == "tools/call":
            self.executed[message["params"]["name"]] += 1


async def calling(talk: Talk, names: list[str], dice: random.Random) -> dict[str, Json]:
    """The answer to each call, by its name."""
    replies: dict[str, Json] = {}
    while names:
        name = names.pop()
        if dice.random() < 0.5:
            await talk.answer(talk.request("tools/list"))
        replies[name] = await talk.answer(talk.request("tools/call", {"name": name}))
    return replies


@pytest.mark.parametrize("seed", range(6))
async def test_anything_at_any_moment(seed: int) -> None:
    async with old_server() as server, talking(server.url, cancel_wait_s=0.05) as talk, within(100):
        await talk.initialize()
        chaos = Chaos(server, seed)
        names = [f"call-{n}" for n in range(CALLS)]
        dice = random.Random(seed)
        found: list[dict[str, Any]] = await asyncio.gather(
            *(calling(talk, names, dice) for _ in range(AT_ONCE))
        )
        replies = {name: reply for some in found for name, reply in some.items()}
        assert len(replies) == CALLS
        for name, reply in replies.items():
            times = chaos.executed[name]
            assert times <= 1, f"{name} was executed {times} times"
            if "result" in reply:
                assert times == 1
            elif reply["error"]["data"]["retryable"]:
                assert times == 0, f"{name} may be repeated, it is said: {json.dumps(reply)}"
        assert talk.conversation.calls_in_flight == 0
        # When it is over, everything is as it was.
        chaos.is_over = True
        await until(lambda: server.streams)
        for _ in range(3):
            last = await talk.answer(talk.request("tools/call", {"name": "last"}))
            if "result" in last:
                return
        pytest.fail(f"no answer when all is well: {last}")
