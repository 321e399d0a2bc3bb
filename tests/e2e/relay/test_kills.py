"""Each part is killed under calls, at any moment: every call ends, in words, and none is done twice."""

import asyncio
import json
import os
import random
import re
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from mooring.host.ownership import holder
from tests.e2e.mooring import LINUX_ONLY
from tests.e2e.program import ROOT, Json
from tests.e2e.relay.place import AGENT, Place, place
from tests.e2e.test_recovery_command import servers, written_sessions
from tests.ledger import Ledger
from tests.mcp_client import McpClient
from tests.support import alive, until, within

pytestmark = [LINUX_ONLY, pytest.mark.e2e, pytest.mark.timeout(600)]

SERVER = "ledger"
VICTIMS = ("relay", "agent", "daemon", "child")
CALLERS = 3
CALLS_EACH = 3
LATEST_S = 0.6
"""After the first call: the last of them is about done by then."""
BOUND_S = 45.0
"""For whatever a call may have to wait for: a lost link is given up after 30 s, a held call after 10 s."""
REASONS = frozenset(re.findall(r"`([a-z_]+)`", (ROOT / "docs/errors.md").read_text()))
"""What a call is told that is not answered."""
LONG_S = 15.0
"""Longer than a call is held."""
DONE, NOT_DONE, UNKNOWN = "done", "not done", "unknown"
"""What a caller knows of its call."""


class Story:
    """What was called, and what was told of it."""

    def __init__(self, there: Place, ledger: Ledger, seed: int) -> None:
        self.there = there
        self.ledger = ledger
        self.chance = random.Random(seed)
        self.told: dict[str, str] = {}
        self.happened: list[str] = []

    async def round(self, victim: str, callers: Sequence[McpClient]) -> None:
        """Calls, a kill in the middle of them, and a successor; the sessions go on."""
        self.happened.append(f"--- {victim}")
        calls = [
            asyncio.create_task(self._call(caller, victim)) for caller in callers for _ in range(CALLS_EACH)
        ]
        await asyncio.sleep(self.chance.uniform(0, LATEST_S))
        await self._kill(victim)
        await asyncio.sleep(self.chance.uniform(0, LATEST_S))
        await self._revive(victim)
        try:
            async with within(BOUND_S):
                await asyncio.gather(*calls)
            for caller in callers:
                await self._go_on(caller)
        except (AssertionError, TimeoutError) as error:
            error.add_note("\n".join(self.happened))
            raise

    # Calls

    async def _call(self, caller: McpClient, victim: str) -> None:
        await asyncio.sleep(self.chance.uniform(0, LATEST_S / 2))
        mark = f"mark-{len(self.told)}"
        self.told[mark] = UNKNOWN
        try:
            answer = await self._ask(caller, mark, self.chance.choice([0.0, 0.1, 0.3]))
        except (OSError, asyncio.IncompleteReadError) as error:
            self.happened.append(f"{mark}: {error!r}")
            if isinstance(error, ConnectionRefusedError):
                self.told[mark] = NOT_DONE
            is_killed = victim == "relay" and caller.port == self.there.port
            assert is_killed, (
                "only who speaks to a caller can leave it without a word: of a framed one, its client"
            )
        else:
            self.told[mark] = self._what(mark, answer)

    async def _ask(self, caller: McpClient, mark: str, delay_s: float) -> Json:
        peer = await caller.send("POST", caller.request("x/mark", {"mark": mark, "delay_s": delay_s}))
        try:
            answer = await peer.answer()
        finally:
            await peer.aclose()
        assert answer.status == 200, (answer, self.happened)
        assert answer.headers["content-type"] == "application/json", answer
        said: Json = json.loads(answer.body)
        return said

    def _what(self, mark: str, answer: Json) -> str:
        if "result" in answer:
            assert answer["result"]["mark"] == mark
            return DONE
        error = answer["error"]
        assert error["data"]["reason"] in REASONS, error
        self.happened.append(f"{mark}: {error['data']['reason']}: {error['message']}")
        return NOT_DONE if error["data"]["retryable"] else UNKNOWN

    async def _go_on(self, caller: McpClient) -> None:
        """The same session; who is told that nothing was done asks again."""
        async with within(2 * BOUND_S):
            while True:
                mark = f"mark-{len(self.told)}"
                with suppress(ConnectionRefusedError):
                    self.told[mark] = self._what(mark, await self._ask(caller, mark, 0.0))
                    if self.told[mark] == DONE:
                        return
                    assert self.told[mark] == NOT_DONE, mark
                await asyncio.sleep(0.2)

    # Kills

    async def _kill(self, victim: str) -> None:
        if victim == "relay":
            await self.there.relay.kill()
        elif victim == "agent":
            await self.there.agent.kill()
        else:
            pid = self._daemon() if victim == "daemon" else self.chance.choice(sorted(self._children()))
            with suppress(ProcessLookupError):  # it was ending by itself
                os.kill(pid, signal.SIGKILL)
            await until(lambda: not alive(pid))

    async def _revive(self, victim: str) -> None:
        if victim == "relay":
            await self.there.open_relay()
        elif victim == "agent":
            await self.there.connect()
        elif victim == "daemon":
            await self.there.workstation.done("daemon", "start")
        else:
            # A new generation: that it is given up after too many deaths is told elsewhere.
            await self.there.workstation.done("restart", SERVER)

    def _daemon(self) -> int:
        pid = holder(self.there.workstation.state / "daemon.lock")["pid"]
        assert isinstance(pid, int)
        return pid

    def _children(self) -> set[int]:
        return servers(self.there.workstation)

    # What must be true

    def check(self) -> None:
        """What was told agrees with what was done."""
        marks = self.ledger.marks()
        twice = {mark: count for mark, count in marks.items() if count > 1}
        assert not twice, (twice, self.happened)
        by_outcome = {
            outcome: {mark for mark, told in self.told.items() if told == outcome}
            for outcome in (DONE, NOT_DONE)
        }
        assert by_outcome[DONE] <= set(marks)
        assert not by_outcome[NOT_DONE] & set(marks), (by_outcome[NOT_DONE] & set(marks), self.happened)
        assert by_outcome[DONE], "most of them"


@asynccontextmanager
async def callers_of(there: Place) -> AsyncIterator[list[McpClient]]:
    """Those that call by HTTP, and one by our own framing: each with a session."""
    async with AsyncExitStack() as stack:
        words = ("connect", there.address, "--client", "--server", f"{AGENT}/{SERVER}")
        client = await stack.enter_async_context(there.command(*words, token=there.phone))
        port = urlsplit(await client.printed("http://127.0.0.1")).port or 0
        made = [there.caller(SERVER) for _ in range(CALLERS - 1)]
        made.append(McpClient(port, path=f"/{AGENT}/{SERVER}/mcp"))
        for caller in made:
            await stack.enter_async_context(caller)
            await caller.initialize()
        sessions = {caller.session for caller in made}
        await until(lambda: sessions <= set(written_sessions(there.workstation, SERVER)))
        yield made
        assert await client.end() == 0, client.told()


@pytest.mark.parametrize(
    ("seed", "rounds"),
    [(1, 4), (2, 4), pytest.param(3, 80, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])],
)
async def test_whoever_is_killed_every_call_ends_and_none_is_done_twice(
    tmp_path: Path, seed: int, rounds: int
) -> None:
    ledger = Ledger(tmp_path / "ledger")
    async with place(tmp_path, {SERVER: ledger.command}) as there, callers_of(there) as callers:
        story = Story(there, ledger, seed)
        victims = [VICTIMS[number % len(VICTIMS)] for number in range(rounds)]
        story.chance.shuffle(victims)
        for victim in victims:
            await story.round(victim, callers)
        story.check()


async def test_whoever_calls_in_our_framing_hears_of_a_killed_relay_in_words(tmp_path: Path) -> None:
    """Whoever speaks HTTP to it sees that break, at once; the other's call is held, for it may come back."""
    ledger = Ledger(tmp_path / "ledger")
    async with place(tmp_path, {SERVER: ledger.command}) as there, callers_of(there) as callers:
        story = Story(there, ledger, 0)
        direct, *_, framed = callers
        broken = asyncio.create_task(story._ask(direct, "direct", LONG_S))
        held = asyncio.create_task(story._ask(framed, "framed", LONG_S))
        await until(lambda: ledger.has("direct") and ledger.has("framed"))
        await there.relay.kill()
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await broken
        assert not held.done()
        async with within(BOUND_S):
            error = (await held)["error"]
        assert error["data"] == {"reason": "relay_lost", "retryable": False}
        await there.open_relay()
        await story._go_on(framed)
