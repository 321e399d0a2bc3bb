"""The client from hell of 2026-07-28: no session; each request carries all that it needs.

Whoever leaves has cancelled. What a server asks comes as a result, and is answered by calling again: with
answers, without, twice, with a state that was changed or belongs to another call, or never. Who wants news
listens for them (`subscriptions/listen`).
"""

import json
import random
from collections.abc import Sequence
from dataclasses import replace

from tests.faults.hell.client import COMMON, LEVELS, READS, Client
from tests.faults.hell.facts import Call, Json
from tests.faults.hell.hearing import Reading
from tests.faults.hell.wires import GONE, PLAIN, Manner

__all__ = ["ENVELOPE", "ModernClient"]

VERSION = "2026-07-28"
ENVELOPE = "io.modelcontextprotocol/"
METHODS = (
    *(("tools/call", "work"),) * 5,
    ("tools/call", "safe"),
    ("resources/read", ""),
    ("tools/list", ""),
    ("server/discover", ""),
)
EVERYTHING: Json = {"elicitation": {}, "sampling": {}, "roots": {}}
CAPABILITIES: tuple[Json, ...] = ({}, {}, {"elicitation": {}}, EVERYTHING, EVERYTHING, {"extensions": {}})
MOST_ROUNDS = 4
RETURNS = ("answers", "answers", "answers", "nothing", "twice", "changed", "another", "never")


class ModernClient(Client):
    """Many requests that have nothing to do with each other."""

    CANNOT: tuple[str, ...] = ("batch", "stray", "greet-again", "come-back", "delete")
    ANSWERS = (200, 400, 404)

    async def open(self) -> bool:
        self.hearing.is_stateless = True
        return True

    # Requests

    def new_call(self, kind: tuple[str, str] | None = None, *, twin: Call | None = None) -> Call:
        dice = self._dice
        call = super().new_call(kind or dice.choice(METHODS))
        call.repeatable = call.tool == "safe" or call.method in (*READS, "server/discover")
        call.level = dice.choice(LEVELS) if dice.random() < 0.3 else ""
        call.capabilities = dice.choice(CAPABILITIES)
        if twin is not None:
            call.id = twin.id  # which is nobody else's business
        return call

    def body_of(self, call: Call) -> bytes:
        message = json.loads(super().body_of(call))
        params = message["params"]
        meta = params.setdefault("_meta", {})
        meta[f"{ENVELOPE}protocolVersion"] = VERSION
        meta[f"{ENVELOPE}clientCapabilities"] = call.capabilities
        meta[f"{ENVELOPE}clientInfo"] = {"name": "anybody", "version": "1"}
        if call.level:
            meta[f"{ENVELOPE}logLevel"] = call.level
        if call.wanted is not None:
            params["notifications"] = call.wanted
        if call.state:
            params["requestState"] = call.state
        if call.responses is not None:
            params["inputResponses"] = call.responses
        return json.dumps(message, indent=1 if call.spaced else None).encode()

    def head(self, method: str, body: bytes = b"", *, after: str = "", session: str | None = None) -> bytes:
        """What is in the body is said again in the head."""
        head = super().head(method, body, after=after, session=session)
        lines = [f"Mcp-Protocol-Version: {VERSION}"]
        try:
            message = json.loads(body)
            lines.append(f"Mcp-Method: {message['method']}")
            lines.append(f"Mcp-Name: {message['params']['name']}")
        except (ValueError, TypeError, KeyError, RecursionError):
            pass
        return head.replace(b"\r\n", ("\r\n" + "\r\n".join(lines) + "\r\n").encode(), 1)

    async def send_garbage(self, body: bytes) -> None:
        self.tell(f"POST garbage {body[:60]!r}")
        await self.simple("POST", body, 400, 404, 405)

    async def trespass(self, call: Call, chosen: float) -> None:
        """A request that breaks a rule: no server may ever execute it."""
        call.forbidden = call.whole = True
        body = self.body_of(call)
        wrong = (
            body.replace(b"/protocolVersion", b"/protocolVersio"),
            body.replace(b"/clientCapabilities", b"/clientCapabilitie"),
            body.replace(VERSION.encode(), b"2099-01-01"),
            body.replace(call.method.encode(), b"ping"),
            body.replace(b'"anybody"', b"5"),
        )[int(chosen * 5)]
        self.tell(f"POST {call.token}, which breaks a rule: {wrong[:200]!r}")
        await self.simple("POST", wrong, 400, 404, 503)

    # Calling again

    async def ask(self, calls: Sequence[Call], manner: Manner) -> None:
        for call in calls:
            await self._send(call, manner)
            await self.go_on(call)

    async def go_on(self, call: Call) -> None:
        """As long as the answer is a question."""
        dice = random.Random(f"{call.token}/again")
        for _ in range(MOST_ROUNDS):
            result = next(iter(call.answers.values()), {}).get("result")
            if not isinstance(result, dict) or result.get("resultType") != "input_required":
                return
            state, answers = result["requestState"], self._answers(call, result["inputRequests"])
            how = dice.choice(RETURNS)
            self.tell(f"{call.token} is asked {list(answers.values())}: {how}")
            if how == "never":
                return
            if how == "another":
                other = replace(call, token=f"{call.token}-other", forbidden=True)
                await self._send(self._again(other, state, answers, "bad"), PLAIN)
            elif how == "changed":
                at = dice.randrange(len(state) // 2)  # (not the last, which has bits that say nothing)
                changed = state[:at] + ("A" if state[at] != "A" else "B") + state[at + 1 :]
                await self._send(self._again(call, changed, answers, "bad"), PLAIN)
            else:
                is_twice = how == "twice"
                if is_twice:
                    self.spawn(self._send(self._again(call, state, answers, "used"), PLAIN))
                given = None if how == "nothing" else answers
                call = self._again(call, state, given, "used" if is_twice else "good")
                await self._send(call, Manner(leaves="later") if dice.random() < 0.1 else PLAIN)

    async def _send(self, call: Call, manner: Manner) -> None:
        await self.post(Reading([call]), self.body_of(call), manner)

    def _again(self, call: Call, state: str, answers: Json | None, state_is: str) -> Call:
        """The next round of a call."""
        self._count += 1
        again = replace(
            call,
            id=self._count,
            state=state,
            state_is=state_is,
            responses=answers,
            whole=False,
            left=False,
            cut=False,
            status=0,
            answers={},
        )
        self._calls.append(again)
        self._facts.calls.append(again)
        return again

    def _answers(self, call: Call, requests: Json) -> Json:
        answers: Json = {}
        for key, request in requests.items():
            params = request["params"]
            answers[key] = {"to": params["note"]}
            if params["hell"] not in ("", self.marker) or params["of"] not in ("", call.token):
                self.problem(f"{call.token} is asked what is for {params}")
            if key.partition("-")[0] not in (call.capabilities or {}):
                self.problem(f"{call.token} is asked {key}, which it cannot be")
        return answers

    # News

    def listen(self, manner: Manner, reading: Reading) -> None:
        dice = self._dice
        call = self.new_call(("subscriptions/listen", ""))
        call.progress, call.level, call.pad = None, "", 0
        kinds = [kind for kind in ("tools", "prompts", "resources") if dice.random() < 0.7]
        call.wanted = {f"{kind}ListChanged": True for kind in kinds}
        call.wanted["resourceSubscriptions"] = dice.choice(([], [COMMON], ["hell://x", COMMON]))
        super().listen(manner._replace(comes_back=False), Reading([call]))

    async def _listen(self, manner: Manner, reading: Reading) -> None:
        [call] = reading.calls.values()
        self.tell(f"listens: {call.wanted}")
        peer = await self.wires.take(Manner(reuses=False))
        self.expect(reading)
        try:
            body = self.body_of(call)
            await self.wires.send(peer, self.head("POST", body) + body)
            if await self._read(peer, reading, manner):
                self.hearing.over(reading)
                call.status = 0 if reading.status in self.ANSWERS else reading.status
            else:
                call.left = True
        except GONE:
            call.cut = not call.left
        finally:
            call.left = call.left or not (call.answers or call.cut or call.status)
            await self.wires.close(peer)
