"""The client from hell: one session of a run, over real sockets, drawing its misdeeds from the seed.

Everything is decided before it is begun, by dice that belong to this session alone: a repetition of
the seed does the same, whatever comes first.
"""

import asyncio
import json
import os
import random
import signal
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from tests.faults.hell.facts import HANG_S, Call, Facts, Id, Json
from tests.faults.hell.garbage import GARBAGE, NO_HTTP
from tests.faults.hell.hearing import EVERYBODYS, Reading
from tests.faults.hell.talker import Talker
from tests.faults.hell.wires import GONE, PLAIN, Address, Manner
from tests.support import within

__all__ = ["Client"]

REVISIONS = ("2025-11-25", "2025-11-25", "2025-06-18", "2025-03-26", "2025-03-26", "2024-11-05")
SET_LEVEL = ("logging/setLevel", "")
METHODS = (
    *(("tools/call", "work"),) * 4,
    ("tools/call", "safe"),
    ("resources/read", ""),
    ("tools/list", ""),
    SET_LEVEL,
    ("resources/subscribe", ""),
    ("resources/unsubscribe", ""),
)
COMMON = "hell://common"
"""A resource that many subscribe to."""
LEVELS = ("debug", "debug", "info", "emergency")
READS = ("resources/read", "tools/list")
WEIGHTS = {
    "call": 10.0,
    "calls": 3.0,
    "batch": 1.0,
    "pipeline": 1.0,
    "twins": 1.0,
    "wait": 3.0,
    "pause": 3.0,
    "cancel": 3.0,
    "notify": 1.0,
    "stray": 1.0,
    "garbage": 1.0,
    "no-http": 0.5,
    "listen": 3.0,
    "hang-up": 1.0,
    "come-back": 1.5,
    "trespass": 1.0,
    "greet-again": 0.5,
    "murder": 1.0,
    "delete": 0.3,
}


class Client(Talker):
    """A session of Streamable HTTP."""

    CANNOT: tuple[str, ...] = ()
    """What is not for this kind of session."""

    def __init__(
        self,
        facts: Facts,
        address: Address,
        number: int,
        *,
        all_clients: "list[Client]",
        victims: Callable[[], list[int]],
    ) -> None:
        super().__init__(facts, address, f"s{facts.seed}-{number}")
        self._all_clients = all_clients
        self._victims = victims
        self._dice = random.Random(f"{facts.seed}/{number}")
        self._weights = [
            weight if name == "call" or (self._dice.random() < 0.6 and name not in self.CANNOT) else 0.0
            for name, weight in WEIGHTS.items()
        ]
        self._revision = ""
        self._count = 0
        self._calls: list[Call] = []
        self._answered: set[str] = set()
        """Questions."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._listening: set[asyncio.Task[None]] = set()

    # Its life

    async def talk(self) -> None:
        """Open a session, and do this and that in it; what it has begun may go on afterwards."""
        if await self.open():
            for _ in range(self._dice.randint(4, 16)):
                await self.act(self._dice.choices(list(WEIGHTS), self._weights)[0])

    async def open(self) -> bool:
        """A few attempts: a server from hell may refuse."""
        for attempt in range(3):
            self._revision = self._dice.choice(REVISIONS)
            is_confirmed, reads_log = self._dice.random() < 0.9, self._dice.random() < 0.5
            reading = await self.greet(self._new_greeting())
            session, self._revision = reading.headers.get("mcp-session-id"), reading.negotiated()
            if session and self._revision:
                self.session = session
                if is_confirmed:
                    await self.notify("notifications/initialized")
                if reads_log:
                    self.spawn(self.ask([self.new_call(SET_LEVEL)], PLAIN))
                return True
            await asyncio.sleep(0.02 * attempt)
        return False

    def _new_greeting(self) -> Call:
        self._count += 1
        call = Call(token=f"{self.marker}-hello-{self._count}", id=self._count, method="initialize")
        self._facts.calls.append(call)
        return call

    async def greet(self, call: Call) -> Reading:
        reading = Reading([call])
        await self.post(reading, self.body_of(call), PLAIN)
        return reading

    async def act(self, name: str) -> None:
        dice = self._dice
        match name:
            case "call":
                self.spawn(self.ask([self.new_call()], self._new_manner()))
            case "calls":
                for _ in range(dice.randint(2, 5)):
                    self.spawn(self.ask([self.new_call()], self._new_manner()))
            case "batch":
                self.spawn(self.ask([self.new_call() for _ in range(3)], self._new_manner()))
            case "pipeline":
                calls = [self.new_call() for _ in range(dice.randint(2, 4))]
                self.spawn(self.pipeline(calls, [self.body_of(call) for call in calls]))
            case "twins":
                call = self.new_call()
                self.spawn(self.ask([call], PLAIN))
                self.spawn(self.ask([self.new_call(twin=call)], PLAIN))
            case "wait":
                await self.settle()
            case "pause":
                await asyncio.sleep(dice.choice((0, 0.001, 0.01, 0.05, 0.3)))
            case "cancel":
                self.spawn(self.cancel(dice.randrange(8)))
            case "notify":
                self.spawn(self.notify("notifications/roots/list_changed"))
            case "stray":
                ids: list[Id] = ["nobody-asked", -12345, 1, self._count]
                self.spawn(self.respond(dice.choice(ids), {"stray": self.marker}))
            case "garbage":
                self.spawn(self.send_garbage(dice.choice(GARBAGE)))
            case "no-http":
                self.spawn(self.send_no_http(dice.choice(NO_HTTP)))
            case "listen":
                self.listen(self._new_manner(), Reading())
            case "hang-up":
                self.hang_up()
            case "come-back":
                self.come_back(dice.random(), self._new_manner())
            case "trespass":
                self.spawn(self.trespass(self.new_call(), dice.random()))
            case "greet-again":
                self.spawn(self.greet_again())
            case "murder":
                self.murder(dice.random())
            case "delete":
                await self.delete()
                await self.open()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.add(asyncio.get_running_loop().create_task(work))

    async def settle(self) -> None:
        """Until all that was begun has come to its end; each part of it has its own bound."""
        while self._tasks:
            tasks, self._tasks = self._tasks, set()
            await asyncio.gather(*tasks)

    async def finish(self) -> None:
        """Nothing of this client is left afterwards."""
        await self.settle()
        self.hang_up()
        for end in await asyncio.gather(*self._listening, return_exceptions=True):
            if isinstance(end, Exception):  # and not CancelledError, as we asked for
                raise end
        await self.settle()
        await self.wires.close_all()

    def abandon(self) -> None:
        """Cut every connection in the middle of whatever it does."""
        self.tell("abandons everything")
        self._has_left = True
        for call in self._calls:
            call.left = True
        self.wires.cut_all()

    async def delete(self) -> None:
        """End the session: every stream of it must come to its end."""
        if not self.session:
            return
        self.tell("DELETE")
        await self.simple("DELETE", b"", 204, 404)
        if self._listening:
            _, waiting = await asyncio.wait(self._listening, timeout=HANG_S)
            if waiting:
                self.problem("a stream goes on though its session was deleted")

    # Calls

    def new_call(self, kind: tuple[str, str] | None = None, *, twin: Call | None = None) -> Call:
        dice = self._dice
        self._count += 1
        n = self._count
        method, tool = kind or dice.choice(METHODS)
        ids: tuple[Id, ...] = (n, -n, n + 0.5, 10**20 + n, f"c{n}", f"\u00fc{n}")
        tokens: tuple[Id | None, ...] = (None, None, None, f"p{n}", n, EVERYBODYS)
        call = Call(
            token=f"{self.marker}-{n}",
            id=dice.choice(ids),
            method=method,
            tool=tool,
            pad=dice.randrange(200_000) if dice.random() < 0.05 else 0,
            progress=dice.choice(tokens),
            spaced=dice.random() < 0.1,
            repeatable=tool == "safe" or method in READS,
            level=dice.choice(LEVELS) if method == "logging/setLevel" else "",
            uri=dice.choice((COMMON, f"hell://{n}")) if "subscribe" in method else "",
        )
        self.hearing.expect(call)
        if twin is not None:
            call.id, call.twin, twin.twin = twin.id, twin, call
        self._calls.append(call)
        self._facts.calls.append(call)
        return call

    def _new_manner(self) -> Manner:
        dice = self._dice
        return Manner(
            sends=dice.choices(("whole", "dribbling", "half"), (20, 2, 1))[0],
            leaves=dice.choices(("", "at once", "later", "in the stream", "half"), (24, 1, 2, 4, 1))[0],
            leaves_after=dice.randrange(4),
            resets=dice.random() < 0.5,
            comes_back=dice.random() < 0.7,
            reads_slowly=dice.random() < 0.1,
            reuses=dice.random() < 0.7,
            accepts=dice.choices(
                ("application/json, text/event-stream", "application/json", "*/*"), (8, 1, 1)
            )[0],
        )

    def body_of(self, call: Call) -> bytes:
        params: Json = {"token": call.token, "session": self.marker}
        if call.pad:
            params["pad"] = "x" * call.pad
        if call.method == "initialize":
            info = {"name": self.marker, "version": "1"}
            params = {"protocolVersion": self._revision, "capabilities": {}, "clientInfo": info}
        elif call.method == "tools/call":
            params = {"name": call.tool, "arguments": params}
        elif call.uri:
            params["uri"] = call.uri
        elif call.level:
            params["level"] = call.level
        if call.progress is not None:
            params["_meta"] = {"progressToken": call.progress}
        message = {"jsonrpc": "2.0", "id": call.id, "method": call.method, "params": params}
        return json.dumps(message, indent=1 if call.spaced else None).encode()

    async def ask(self, calls: Sequence[Call], manner: Manner) -> None:
        """One call; or several, as a batch if the session's revision has that, else one by one."""
        if len(calls) > 1 and self._revision == "2025-03-26":
            await self.post(Reading(calls), b"[" + b",".join(map(self.body_of, calls)) + b"]", manner)
            return
        for call in calls:
            await self.post(Reading([call]), self.body_of(call), manner)

    async def cancel(self, back: int) -> None:
        """A call of late, if there are so many; else one that nobody made."""
        ids: list[Id] = ["nobody", -1, *(call.id for call in self._calls[-5:])]
        await self.notify("notifications/cancelled", {"requestId": ids[-1 - back % len(ids)]})

    async def notify(self, method: str, params: Json | None = None) -> None:
        self.tell(f"{method} {params or ''}")
        message: Json = {"jsonrpc": "2.0", "method": method}
        if params:
            message["params"] = params
        await self.simple("POST", json.dumps(message).encode(), 202, 404)

    async def respond(self, id: Id, result: Json, *, session: str | None = None) -> None:
        self.tell(f"answers {id!r}: {result}")
        message = {"jsonrpc": "2.0", "id": id, "result": result}
        await self.simple("POST", json.dumps(message).encode(), 202, 404, session=session)

    def on_question(self, id: Id, question: str, reading: Reading) -> None:
        """Answer: at once, late, twice or never."""
        session = reading.headers.get("mcp-session-id", self.session)
        dice = random.Random(f"{self.marker}/{question.rpartition('.')[2]}")
        for _ in range(dice.choice((0, 1, 1, 2))):
            after_s = dice.choice((0, 0.01, 0.2))
            self.spawn(self._respond_later(after_s, id, question, session))

    async def _respond_later(self, after_s: float, id: Id, question: str, session: str) -> None:
        result: Json = {"to": question}
        await asyncio.sleep(after_s)
        if question in self._answered:
            result["again"] = True
        self._answered.add(question)
        await self.respond(id, result, session=session)

    async def greet_again(self) -> None:
        """`initialize` comes once."""
        call = self._new_greeting()
        await self.simple("POST", self.body_of(call), 200, 404)
        call.left = True

    def murder(self, chosen: float) -> None:
        """The end of a server that it did not choose itself."""
        if pids := self._victims():
            pid = pids[int(chosen * len(pids))]
            self.tell(f"kills {pid}")
            os.kill(pid, signal.SIGKILL)

    # Garbage, and what belongs to others

    async def send_garbage(self, body: bytes) -> None:
        self.tell(f"POST garbage {body[:60]!r}")
        await self.simple("POST", body, 400, 404)

    async def send_no_http(self, data: bytes) -> None:
        self.tell(f"sends {data[:60]!r}")
        peer = await self.wires.take(Manner(reuses=False))
        try:
            peer.send(data.replace(b"{path}", self.path_for("POST", self.session).encode()))
            peer.writer.write_eof()
            async with within(HANG_S):
                said = await peer.reader.read()
            if said and not said.startswith(b"HTTP/1.1 4"):
                self.problem(f"{data!r} was answered with {said[:100]!r}")
        except TimeoutError:
            self.problem(f"a connection hangs after {data!r}")
        except GONE:
            pass
        finally:
            await self.wires.close(peer)

    async def trespass(self, call: Call, chosen: float) -> None:
        """A call to a session that is not there, or not for us: no server may ever execute it."""
        call.forbidden = call.whole = True
        foreign = [client.session for client in self._all_clients if client.is_foreign_to(self)]
        sessions = [*foreign, "no-such-session"]
        call.session_id = sessions[int(chosen * len(sessions))]
        self.tell(f"POST {call.token} to session {call.session_id[:8]}")
        await self.simple("POST", self.body_of(call), 400, 404, session=call.session_id)

    def is_foreign_to(self, other: "Client") -> bool:
        is_same = self.address.token == other.address.token and type(self) is type(other)
        return bool(self.session) and not is_same

    # Streams

    def listen(self, manner: Manner, reading: Reading) -> None:
        self._listening.add(asyncio.get_running_loop().create_task(self._listen(manner, reading)))

    def hang_up(self) -> None:
        for task in self._listening:
            task.cancel()

    async def _listen(self, manner: Manner, reading: Reading) -> None:
        peer, is_whole = await self.wires.take(manner), False
        try:
            for _ in range(3):
                self.tell(f"GET after {reading.at or 'nothing'}")
                await self.wires.send(peer, self.head("GET", after=reading.at))
                is_whole = await self._read(peer, reading, manner)
                if is_whole or not manner.comes_back:
                    return
                await self.wires.leave(peer, manner)
                reading.events = 0
                peer = await self.wires.take()
        except GONE:
            if not self._has_left:
                self.problem("a GET stream was cut")
        finally:
            reading.is_over = True
            for call in reading.calls.values():
                call.left = call.left or not is_whole  # it took the stream over, and does not read on
            await self.wires.close(peer)

    def come_back(self, chosen: float, manner: Manner) -> None:
        """With a position of ours, of another session, or none at all. It may take a stream over."""
        foreign = [id for client in self._all_clients for id in list(client.hearing.events)[-3:]]
        own = list(self.hearing.events)[-10:]
        positions = ["g1xabcdef-99", "p1xabcdef-1", "nonsense", "-", *foreign, *own, *own]
        at = positions[int(chosen * len(positions))]
        before = self.hearing.readings.get(at.rpartition("-")[0])
        reading = Reading(before.calls.values() if before else (), at=at)
        self.hearing.resumes(reading)
        self.listen(manner, reading)
