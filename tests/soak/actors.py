"""The kinds of load. Each actor is one visit of one client: it comes, does what it does, and leaves.

Actors check every answer. What fails is counted by the ledger, with its cause; after a cause that
leaves the session in place the same session is used again.
"""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from tests.soak.client import Client, Incoming, Json, OldClient, StatelessClient, result_of, text_of
from tests.soak.command import Target
from tests.soak.ledger import Failed, Ledger, Over

__all__ = [
    "CROWD",
    "IDLE_TIMEOUT_S",
    "QUICK_CROWD",
    "Actor",
    "Scene",
    "desert",
    "echo",
    "visit_again_and_again",
]

IDLE_TIMEOUT_S = 1.0
"""Mooring is told so; whoever is to be found asleep is away for longer."""
NEWS_PATIENCE_S = 10.0


@dataclass
class Scene:
    """Where an actor plays."""

    target: Target
    random: random.Random

    @property
    def port(self) -> int:
        return self.target.port

    @property
    def ledger(self) -> Ledger:
        return self.target.ledger

    async def pause(self, mean_s: float) -> None:
        await asyncio.sleep(self.random.expovariate(1 / mean_s))


Actor = Callable[[Scene], Awaitable[None]]


async def visit_again_and_again(actor: Actor, scene: Scene, leaving: asyncio.Event) -> None:
    """Visits of one actor, one after the other."""
    while not leaving.is_set():
        try:
            await actor(scene)
        except Over:
            await scene.pause(0.5)


@asynccontextmanager
async def session(scene: Scene, client: Client) -> AsyncIterator[None]:
    """An open session; at the end it is ended, deserted or torn off."""
    try:
        await _open(scene, client)
        yield
        how = scene.random.choice(("close", "close", "desert", "tear off"))
        scene.ledger.done[f"sessions left by {how}"] += 1
        if how == "close" and client.session:
            await scene.ledger.count("close", client.close())
        await client.disconnect(reset=how == "tear off")
    finally:
        await client.disconnect()


async def _open(scene: Scene, client: Client) -> None:
    if await scene.ledger.count("open", client.open()) is None:
        raise Over


async def caller(scene: Scene) -> None:
    """Small calls, several at a time."""
    client = Client(scene.port)
    async with session(scene, client):
        for _ in range(scene.random.randint(5, 40)):
            together = scene.random.choice((1, 1, 1, 4))
            await _all(*(echo(scene, client, 20) for _ in range(together)))
            await scene.pause(0.05)


async def _all(*calls: Awaitable[None]) -> None:
    """Until each has ended; then what one of them raised, if one did."""
    for outcome in await asyncio.gather(*calls, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


async def old_caller(scene: Scene) -> None:
    """The same on the old transport; leaving its stream ends the session."""
    client = OldClient(scene.port)
    async with session(scene, client):
        for _ in range(scene.random.randint(5, 40)):
            await echo(scene, client, 20)
            await scene.pause(0.05)


async def carrier(scene: Scene) -> None:
    """Large messages, both ways."""
    client = Client(scene.port)
    async with session(scene, client):
        for _ in range(scene.random.randint(1, 5)):
            await echo(scene, client, scene.random.choice((100_000, 1_000_000, 4_000_000)))
            await scene.pause(0.5)


async def echo(scene: Scene, client: Client, length: int) -> None:
    """One call whose answer is the text that was sent."""
    text = f"{scene.random.getrandbits(64):x}" * (length // 16 + 1)

    async def check() -> None:
        if text_of(await client.call("echo", text=text)) != text:
            raise Failed("wrong answer")

    await scene.ledger.count("echo" if length < 1000 else "large echo", check())


async def watcher(scene: Scene) -> None:
    """Calls with progress; now and then the stream is cut and resumed. Each step comes once, in order."""
    client = Client(scene.port)
    async with session(scene, client):
        for _ in range(scene.random.randint(1, 6)):
            steps = scene.random.randint(2, 20)
            cut_at = scene.random.randint(1, steps) if scene.random.random() < 0.4 else None
            await scene.ledger.count("progress", _watch(scene, client, steps, cut_at))


async def _watch(scene: Scene, client: Client, steps: int, cut_at: int | None) -> None:
    id, incoming = await client.begin("sleep", seconds=scene.random.random(), steps=steps)
    seen: list[int] = []
    cut = False
    while (answer := await _steps(incoming, id, seen, None if cut else cut_at)) is None:
        cut = True
        scene.ledger.done["streams cut and resumed"] += 1
        incoming.reset()
        await asyncio.sleep(scene.random.random() * IDLE_TIMEOUT_S / 2)
        incoming = await client.listen(incoming.last_event_id)
    if cut and _reason(answer) == "abandoned":
        scene.ledger.done["streams resumed too late"] += (
            1  # on a busy machine half of the time may be too long
        )
        return
    result_of(answer)
    if seen != list(range(1, steps + 1)):
        raise Failed("wrong progress")


async def _steps(incoming: Incoming, id: int, seen: list[int], cut_at: int | None) -> Json | None:
    """Read progress until the answer, which is returned, or until it is time to cut: None."""
    answer: Json | None = None
    try:
        async for message in incoming.messages():
            if message.get("method") == "notifications/progress":
                seen.append(message["params"]["progress"])
                if len(seen) == cut_at:
                    return None
            elif message.get("id") == id and "method" not in message:
                answer = message
    except (OSError, EOFError):
        raise Failed("connection lost") from None
    if answer is None:
        raise Failed("stream ended")
    return answer


def _reason(answer: Json) -> str | None:
    """Why Mooring answered in the server's place."""
    reason: str | None = answer.get("error", {}).get("data", {}).get("reason")
    return reason


async def listener(scene: Scene) -> None:
    """A held stream with news: each change is told once, also over a stream that was cut."""
    client = Client(scene.port)
    async with session(scene, client):
        if (
            await scene.ledger.count("subscribe", client.ask("resources/subscribe", {"uri": "demo://note"}))
            is None
        ):
            return
        news = News(client)
        following = asyncio.create_task(news.follow())
        try:
            for _ in range(scene.random.randint(2, 15)):
                told = await scene.ledger.count("touch", client.call("touch", text="x"))
                if told is None:
                    return  # whether it was executed is not known, so its news cannot be counted on
                await scene.ledger.count("news", news.reach(following))
                if scene.random.random() < 0.2:
                    scene.ledger.done["streams cut and resumed"] += 1
                    news.cut()
                await scene.pause(0.2)
        finally:
            following.cancel()
            with suppress(asyncio.CancelledError, Failed):
                await following


class News:
    """The resource updates that one client was told of."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._incoming: Incoming | None = None
        self._cut = False
        self._expected = 0
        self._updates = 0
        self._changed = asyncio.Event()

    async def follow(self) -> None:
        """Read the stream, and go on where it was when it is cut."""
        position = ""
        while True:
            incoming = self._incoming = await self._client.listen(position)
            try:
                async for message in incoming.messages():
                    if message.get("method") == "notifications/resources/updated":
                        self._updates += 1
                        self._changed.set()
                if not self._cut:
                    raise Failed("stream ended")
            except (OSError, EOFError):
                if not self._cut:
                    raise Failed("connection lost") from None
            self._cut = False
            position = incoming.last_event_id

    def cut(self) -> None:
        if self._incoming is not None:
            self._cut = True
            self._incoming.reset()

    async def reach(self, following: "asyncio.Task[None]") -> None:
        """One more change has been made: wait until it is told."""
        self._expected += 1
        while self._updates < self._expected:
            self._changed.clear()
            waiting = asyncio.create_task(self._changed.wait())
            done, _ = await asyncio.wait(
                (waiting, following), timeout=NEWS_PATIENCE_S, return_when=asyncio.FIRST_COMPLETED
            )
            waiting.cancel()
            if following in done:
                following.result()
            if not done:
                raise Failed("news missing")
        if self._updates > self._expected:
            raise Failed("news told twice")


async def asker(scene: Scene) -> None:
    """The server asks back; what it is told is in its answer."""
    client = Client(scene.port)
    async with session(scene, client):
        for _ in range(scene.random.randint(2, 15)):
            tool = scene.random.choice(("ask", "sample", "roots"))
            async with scene.target.talk.inside():
                await scene.ledger.count(tool, _ask(scene, client, tool))
            await scene.pause(0.1)


async def _ask(scene: Scene, client: Client, tool: str) -> None:
    word = f"{scene.random.getrandbits(64):x}"

    async def answer(message: Json) -> None:
        if "id" in message and "method" in message:
            await client.say({"id": message["id"], "result": {"word": word}})

    result = await client.call(tool, answer)
    if json.loads(text_of(result)) != {"word": word}:
        raise Failed("wrong answer")


async def canceller(scene: Scene) -> None:
    """A call that is cancelled: the server gives no answer, so Mooring must."""
    client = Client(scene.port)
    async with session(scene, client):
        await scene.ledger.count("cancel", _cancel(scene, client))


async def _cancel(scene: Scene, client: Client) -> None:
    async with scene.target.talk.inside():
        id, incoming = await client.begin("sleep", seconds=120, steps=1200)
        reading = asyncio.create_task(_steps(incoming, id, [], None))
        await scene.pause(0.3)
        try:
            await client.say({"method": "notifications/cancelled", "params": {"requestId": id}})
        except Failed:
            reading.cancel()
            await asyncio.wait((reading,))
            raise
    answer = await reading
    if answer is None or "error" not in answer:
        raise Failed("wrong answer")
    if _reason(answer) != "cancelled":
        result_of(answer)


async def deserter(scene: Scene) -> None:
    """Sessions that nobody ends."""
    await desert(scene)
    await scene.pause(1.0)


async def desert(scene: Scene) -> None:
    """Open a session, call once or never, and be gone."""
    client = Client(scene.port)
    try:
        await _open(scene, client)
        if scene.random.random() < 0.5:
            await echo(scene, client, 20)
        scene.ledger.done["sessions deserted"] += 1
    finally:
        await client.disconnect(reset=scene.random.random() < 0.5)


async def breaker(scene: Scene) -> None:
    """Connections reset in the middle of calls; the session answers the next one all the same."""
    client = Client(scene.port)
    async with session(scene, client):
        for _ in range(scene.random.randint(2, 10)):
            sent = scene.random.choice((scene.random.random(), 1.0))
            scene.ledger.done["calls cut"] += 1
            await scene.ledger.count("cut", client.cut_call("echo", sent, text="x" * 5000))
            await echo(scene, client, 20)
            await scene.pause(0.2)


async def stranger(scene: Scene) -> None:
    """Calls without a session (2026-07-28), some of them cut; each is for itself."""
    client = StatelessClient(scene.port)
    try:
        for _ in range(scene.random.randint(5, 40)):
            if scene.random.random() < 0.1:
                scene.ledger.done["calls cut"] += 1
                await scene.ledger.count("cut", client.cut_call("echo", 1.0, text="x" * 5000))
            await echo(scene, client, 20)
            await scene.pause(0.05)
    finally:
        await client.disconnect()


async def sleeper(scene: Scene) -> None:
    """Is away until its server has been stopped, and finds its session as it was."""
    client = Client(scene.port)
    async with session(scene, client):
        await echo(scene, client, 20)
        await asyncio.sleep(IDLE_TIMEOUT_S + 1 + scene.random.random())
        await echo(scene, client, 20)


CROWD: dict[Actor, int] = {
    caller: 6,
    old_caller: 4,
    carrier: 1,
    watcher: 5,
    listener: 4,
    asker: 4,
    canceller: 2,
    deserter: 2,
    breaker: 2,
    stranger: 3,
    sleeper: 3,
}
"""How many of each visit the demo server at a time."""

QUICK_CROWD: dict[Actor, int] = {
    caller: 6,
    old_caller: 3,
    carrier: 2,
    deserter: 3,
    breaker: 2,
    stranger: 3,
    sleeper: 2,
}
"""The same for the quick server, which can only echo."""
