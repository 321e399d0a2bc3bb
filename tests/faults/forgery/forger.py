"""Somebody who tries everything, with a token of its own."""

import asyncio
import base64
import json
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from mooring.wire.jsonrpc import Id
from mooring.wire.modern import CAPABILITIES_KEY, VERSION_KEY
from mooring.wire.request_state import Claims, Sealer, digest
from tests.faults.forgery.victim import HELD, MARK, SECRET, TOKEN, Victim
from tests.http_client import Answer, Peer
from tests.mcp_client import ACCEPT, Json, McpClient
from tests.support import within
from tests.websocket_client import WsClient, ws_client

Fields = Sequence[tuple[str, str]]
MODERN_VERSION = "2026-07-28"
SOON_S = 0.02
"""What would be replayed on a stream comes with its head."""


class Forger:
    """`known` are the names that Mooring gave out, to whomever."""

    session: McpClient

    def __init__(
        self,
        port: int,
        headers: dict[str, str],
        victim: Victim,
        known: list[str],
        rng: random.Random,
        *,
        parks: bool,
    ) -> None:
        self._port = port
        self._headers = headers
        self._victim = victim
        self._known = known
        self._rng = rng
        self.tries: list[Callable[[], Awaitable[None]]] = [
            self.take_a_session,
            self.take_an_old_session,
            self.come_without_a_token,
            self.resume_a_stream,
            self.send_notes,
            self.answer_questions,
            self.use_odd_ids,
            self.write_tokens_oddly,
            self.contradict_the_head,
            self.speak_on_a_socket,
        ]
        if parks:
            self.tries += [self.take_a_state, self.bend_a_state]

    @asynccontextmanager
    async def there(self) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            self.session = await stack.enter_async_context(McpClient(self._port, headers=self._headers))
            await self.session.initialize()
            await self._list_tools()
            yield

    async def _list_tools(self) -> None:
        """From now on it is known which arguments are headers too."""
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": self.envelope()}}
        version, method, _ = _routing("tools/list", "")
        assert (await self.shoot("POST", json.dumps(message).encode(), [version, method])).status == 200

    async def try_something(self) -> None:
        await self._rng.choice(self.tries)()

    # Means

    async def shoot(
        self, method: str, body: bytes, fields: Fields, *, path: str = "/mcp", token: bool = True
    ) -> Answer:
        """One request, to the byte; what comes is not the victim's, whatever it is."""
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Accept: {ACCEPT}"]
        lines += [f"{name}: {value}" for name, value in self._headers.items() if token]
        if method == "POST":
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in fields]
        async with within():
            peer = Peer(*await asyncio.open_connection("127.0.0.1", self._port))
            peer.send("\r\n".join([*lines, "", ""]).encode() + body)
            answer = await peer.head()
            if method == "GET" and answer.status == 200:
                answer = Answer(answer.status, answer.headers, await _what_comes_soon(peer))
            else:
                answer = await peer.rest(answer)
            await peer.aclose()
        assert SECRET.encode() not in answer.body and answer.status < 500, answer
        if answer.status >= 400:
            assert json.loads(answer.body)["error"], answer
        return answer

    async def call_mine(self, message: Json | bytes, *statuses: int) -> Answer:
        """On a session of its own."""
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        fields = [("Mcp-Session-Id", self.session.session), ("Mcp-Protocol-Version", self.session.version)]
        answer = await self.shoot("POST", body, fields)
        assert answer.status in (statuses or (200,)), answer
        return answer

    def foreign_id(self) -> str:
        """A session of the victim, perhaps not quite."""
        id = self._rng.choice([known for known in self._known if known != self.session.session])
        return self._rng.choice(
            [id, id, id, id[:-1], id + "A", id.swapcase(), f'"{id}"', id.replace("-", "%2D")]
        )

    def any_id(self) -> Id:
        """Of somebody's call: the victim's, a shared process's, or one of Mooring's own."""
        name, small = self._rng.choice(self._known), self._rng.randrange(60)
        ids: list[int | str | float] = [HELD, str(HELD), TOKEN, "asking", small, small + 60, float(small)]
        ids += [f"mooring-asks-{small % 3}", f"mooring-trunk-{small % 4}-0", f"mooring-trunk-{small % 4}"]
        ids += [f"mooring-{name[:12]}-{small % 3}", f"mooring-{name[:12]}"]
        return self._rng.choice(ids)

    def envelope(self, **more: Any) -> Json:
        return {VERSION_KEY: MODERN_VERSION, CAPABILITIES_KEY: {"elicitation": {}, "sampling": {}}, **more}

    def mine(self) -> Json:
        return {"jsonrpc": "2.0", "id": self.any_id(), "method": "tools/call", "params": _echo()}

    def note(self, method: str, **params: Any) -> Json:
        return {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params}

    def forged_messages(self) -> list[Json]:
        """What would do harm on somebody else's session."""
        return [
            self.mine(),
            self.note("cancelled", requestId=HELD),
            self.note("progress", progressToken=TOKEN, progress=1, message=MARK),
            self.answer_to(self.any_id()),
            {"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": {"level": "debug"}},
        ]

    def answer_to(self, id: Id) -> Json:
        return {"jsonrpc": "2.0", "id": id, "result": {"action": "accept", "content": {"by": MARK}}}

    # Tries

    async def take_a_session(self) -> None:
        body = json.dumps(self._rng.choice(self.forged_messages())).encode()
        method = self._rng.choice(["POST", "POST", "GET", "DELETE"])
        foreign = ("Mcp-Session-Id", self.foreign_id())
        version = ("Mcp-Protocol-Version", self._rng.choice(["2025-11-25", "2024-11-05"]))
        answer = await self.shoot(method, body, [foreign, version])
        assert answer.status == 404, answer
        own = ("Mcp-Session-Id", self.session.session)
        fields = self._rng.choice([[own, foreign], [foreign, own]])
        answer = await self.shoot("POST", body, [*fields, version])
        assert answer.status in (200, 202, 400, 404), answer

    async def take_an_old_session(self) -> None:
        id = self._rng.choice([self.foreign_id(), self.session.session])
        body = json.dumps(self._rng.choice(self.forged_messages())).encode()
        path = f"/messages?session_id={id.replace(chr(34), '%22')}"
        assert (await self.shoot("POST", body, (), path=path)).status == 404

    async def come_without_a_token(self) -> None:
        fields = [("Mcp-Session-Id", self._rng.choice(self._known))]
        wrong = [
            ("Authorization", self._rng.choice(["Bearer", "Bearer x", "Basic dDp0", f"Bearer {SECRET}"]))
        ]
        method = self._rng.choice(["POST", "GET", "DELETE"])
        path = self._rng.choice(["/mcp", "/sse", "/ws", f"/messages?session_id={self._known[0]}"])
        more = self._rng.choice([[], wrong])
        answer = await self.shoot(method, b"{}", [*fields, *more], path=path, token=False)
        assert answer.status in (401, 405), answer

    async def resume_a_stream(self) -> None:
        event = self._rng.choice(self._victim.event_ids)
        stream, _, n = event.rpartition("-")
        event = self._rng.choice([event, f"{stream}-0", f"{stream}-{int(n) + 1}", stream, f"-{n}", "g1-0"])
        own = ("Mcp-Session-Id", self.session.session)
        answer = await self.shoot("GET", b"", [own, ("Last-Event-ID", event)])
        assert answer.status in (200, 400), answer
        assert answer.status == 400 or b'"jsonrpc"' not in answer.body, "of a stream with nothing on it"

    async def send_notes(self) -> None:
        await self.call_mine(self.note("cancelled", requestId=self.any_id(), reason=MARK), 202)
        await self.call_mine(
            self.note("progress", progressToken=self.any_id(), progress=1, message=MARK), 202
        )
        key = self._rng.choice(['"requestId"', '"request\\u0049d"'])
        note = '{"jsonrpc":"2.0","method":"notifications\\u002fcancelled","params":{%s:%s}}'
        await self.call_mine((note % (key, json.dumps(self.any_id()))).encode(), 202)

    async def answer_questions(self) -> None:
        question = getattr(self._victim, "question", {"id": 1})["id"]
        answer = self.answer_to(self._rng.choice([question, self.any_id()]))
        await self.call_mine(answer, 202)
        body = json.dumps(answer).encode()
        assert (await self.shoot("POST", body, ())).status == 400
        assert (await self.shoot("POST", body, [("Mcp-Protocol-Version", MODERN_VERSION)])).status == 400

    async def use_odd_ids(self) -> None:
        message = self.mine()
        [answer] = _messages(await self.call_mine(message))
        assert (answer["id"], type(answer["id"])) == (message["id"], type(message["id"]))
        assert MARK in answer["result"]["content"][0]["text"]

    async def write_tokens_oddly(self) -> None:
        """However the token of progress is written, what comes of it comes here, or nowhere."""
        number = self._rng.choice([1, 2, 3, 4, self._rng.randrange(60)])
        meta = self._rng.choice(
            [
                '"_meta":{"progress\\u0054oken":%d}',
                '"\\u005fmeta":{"progressToken":%d}',
                '"_meta":{"progressToken":%d},"_meta":{"progressToken":"mine"}',
                '"_meta":{"progressToken":"mine"},"_meta":{"progressToken":%d}',
                '"_meta":{"progressToken":%d,"progressToken":null}',
                '"_meta":{"progressToken":%d,"progress\\u0054oken":"mine"}',
                '"_meta":{"progressToken":%d.0}',
                '"_meta":{"progressToken":%de0}',
                '"_meta":{"progressToken":[%d]}',
            ]
        )
        meta %= number
        name = self._rng.choice(["tools/call", "tools\\/call"])
        call = '{"jsonrpc":"2.0","id":%d,"method":"%s","params":{"name":"progress","arguments":{},%s}}'
        if self._rng.random() < 0.5:
            await self.call_mine((call % (number, name, meta)).encode())
            return
        envelope = json.dumps(self.envelope())[1:]
        key, _, rest = meta.partition("{")
        # (What has no envelope in the `_meta` that counts is refused.)
        body = call % (
            number,
            name,
            key + "{" + rest.replace("{", "{" + envelope[:-1] + ",")[:-1] + "," + envelope,
        )
        answer = await self.shoot("POST", body.encode(), _routing("tools/call", "progress"))
        assert answer.status in (200, 400), answer

    async def contradict_the_head(self) -> None:
        """A call of its own whose head says something else."""
        params = {"name": "echo", "arguments": {"region": "us", "by": MARK}, "_meta": self.envelope()}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
        version, method, name = _routing("tools/call", "echo")
        region = ("Mcp-Param-Region", "us")
        answer = await self.shoot("POST", body, [version, method, name, region])
        assert answer.status == 200 and MARK.encode() in answer.body
        fields = self._rng.choice(
            [
                [version, method, name],
                [version, method, region],
                [version, name, region],
                [version, method, name, region, region],
                [version, method, name, name, region],
                [version, method, method, name, region],
                [version, version, method, name, region],
                [version, ("Mcp-Method", "tools/list"), name, region],
                [version, ("Mcp-Method", "Tools/call"), name, region],
                [version, method, ("Mcp-Name", "hold"), region],
                [version, method, ("Mcp-Name", _sentinel("hold")), region],
                [version, method, ("Mcp-Name", _sentinel("echo").replace("=?=", "?=")), region],
                [version, method, ("Mcp-Name", _sentinel("echo").replace("base64", "BASE64")), region],
                [version, method, ("Mcp-Name", _sentinel(_sentinel("echo"))), region],
                [version, method, name, ("Mcp-Param-Region", "eu")],
                [version, method, name, ("Mcp-Param-Region", _sentinel("eu"))],
                [version, method, name, ("Mcp-Param-Region", ""), region],
                [("Mcp-Protocol-Version", "2027-01-01"), method, name, region],
            ]
        )
        answer = await self.shoot("POST", body, fields)
        assert answer.status == 400, (fields, answer)
        assert json.loads(answer.body)["error"]["code"] in (-32020, -32022), answer

    async def speak_on_a_socket(self) -> None:
        """Everything at once, on a connection of its own; the last one shows that all of it was taken."""
        forged = self._rng.sample(self.forged_messages(), 3)
        version = self._rng.choice(["", "2025-11-25"])
        async with ws_client(self._port, version=version, additional_headers=self._headers) as socket:
            for message in forged:
                await socket.connection.send(json.dumps(message))
            await socket.connection.send(json.dumps(self._stateless(HELD)))
            if version:  # the id of its own session, on another transport
                here = [("Mcp-Session-Id", self._known[-1])]
                assert (await self.shoot("POST", json.dumps(self.mine()).encode(), here)).status == 404
            await socket.connection.send(json.dumps(self._stateless("last")))
            assert MARK in str(await self._answer_on(socket, "last"))

    async def _answer_on(self, socket: WsClient, id: str) -> Json:
        answer = await socket.answer(id)
        assert SECRET not in str([*socket.notes, answer]), socket.notes
        return answer

    def _stateless(self, id: Id) -> Json:
        params = {**_echo(), "_meta": self.envelope()}
        return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}

    # States

    async def take_a_state(self) -> None:
        """The victim's own call, word by word; but it is not the victim who makes it."""
        await self._call_with_state(self._victim.parked.state, self._victim.parked.arguments)

    async def bend_a_state(self) -> None:
        parked, rng = self._victim.parked, self._rng
        state = parked.state
        data = bytearray(base64.urlsafe_b64decode(state))
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        members = {"name": '"ask"', "arguments": json.dumps(parked.arguments)}
        params = "{" + ",".join(f'"{name}":{value}' for name, value in members.items()) + "}"
        claims = Claims(
            rng.choice(self._known), rng.randrange(3), 1e12, digest("forger", "tools/call", params.encode())
        )
        bent = rng.choice(
            [
                base64.urlsafe_b64encode(data).decode(),
                state[: rng.randrange(len(state))],
                state + rng.choice(["=", "A", "AAAA", " ", state]),
                rng.choice([" ", "\n", "é", "\ud800"]) + state,
                state.swapcase(),
                Sealer().seal(claims),
                Sealer(bytes(32)).seal(claims),
                "A" * 5000,
                "",
            ]
        )
        arguments = rng.choice([parked.arguments, {**parked.arguments, "n": -1}, {}])
        await self._call_with_state(bent, arguments)

    async def _call_with_state(self, state: str, arguments: Json) -> None:
        params = {
            "name": "ask",
            "arguments": arguments,
            "inputResponses": {self._victim.parked.key: self.answer_to(1)["result"]},
            "requestState": state,
            "_meta": self.envelope(),
        }
        message = {"jsonrpc": "2.0", "id": "state", "method": "tools/call", "params": params}
        if self._rng.random() < 0.8:
            answer = await self.shoot("POST", json.dumps(message).encode(), _routing("tools/call", "ask"))
            assert (answer.status, json.loads(answer.body)["error"]["code"]) == (400, -32602), answer
            return
        async with ws_client(self._port, version="", additional_headers=self._headers) as socket:
            await socket.connection.send(json.dumps(message))
            assert (await self._answer_on(socket, "state"))["error"]["code"] == -32602


def _echo() -> Json:
    return {"name": "echo", "arguments": {"by": MARK}}


def _routing(method: str, name: str) -> list[tuple[str, str]]:
    return [("Mcp-Protocol-Version", MODERN_VERSION), ("Mcp-Method", method), ("Mcp-Name", name)]


def _sentinel(text: str) -> str:
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def _messages(answer: Answer) -> list[Json]:
    if answer.headers["content-type"] == "application/json":
        return [json.loads(answer.body)]
    return [json.loads(data) for data in re.findall(rb"^data: (.+)$", answer.body, re.MULTILINE)]


async def _what_comes_soon(peer: Peer) -> bytes:
    data = b""
    try:
        async with asyncio.timeout(SOON_S):
            while piece := await peer.reader.read(65536):
                data += piece
    except TimeoutError:
        pass
    return data
