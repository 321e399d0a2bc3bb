"""A client of our own: it opens a session, asks, hears what comes meanwhile, and leaves.

It speaks with a handshake; to a server that refuses that, without (2026-07-28): every request then says who
asks, and what the server wants of us comes as a result, `input_required`, after which it is asked again.

Invariants:
- Whoever stops waiting for an answer (time, an interrupt) has the call cancelled at the server.
- Every question of the server is answered, once, unless the server withdraws it.
- While a question is with the user, no patience runs out: the server waits for us then.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from itertools import count
from typing import Any, Protocol

from mooring import __version__
from mooring.errors import MooringError, Unavailable
from mooring.remote.conversation import Conversation
from mooring.remote.endpoint import Endpoint
from mooring.remote.policy import RemotePolicy
from mooring.remote.reach import Reach
from mooring.wire.jsonrpc import INTERNAL_ERROR, METHOD_NOT_FOUND, Id
from mooring.wire.modern import CAPABILITIES_KEY, CLIENT_KEY, DISCOVER, INTERACTIVE, LEVEL_KEY, VERSION_KEY
from mooring.wire.revisions import LATEST, MODERN
from mooring.wire.verdicts import OTHER_ERA

__all__ = ["Company", "Json", "Refused", "Tap", "Visitor"]

Json = dict[str, Any]
Tap = Callable[[str, bytes], None]
"""Sees each message: `sent` or `received`, and its line."""

MOST_PAGES = 1000
"""Of one list. A server whose list has no end is not asked for ever."""
MAX_LIST_BYTES = 64 * 1024 * 1024
"""Of all pages of a list; what one message may have."""
MOST_ROUNDS = 10
"""In which a server of 2026-07-28 wants to know more before it answers; as Mooring's bridge has it."""
CLIENT = {"name": "mooring", "title": "Mooring", "version": __version__}


class Refused(MooringError):
    """The server answered with an error; or Mooring did in its place, and `data` says why."""

    def __init__(self, error: Any) -> None:
        known = error if isinstance(error, dict) else {"message": str(error)}
        super().__init__(str(known.get("message", "")) or "an error without a message", code="refused")
        self.error: Json = known

    @property
    def number(self) -> Any:
        """JSON-RPC's code."""
        return self.error.get("code")

    @property
    def reason(self) -> Any:
        """Why Mooring answered in place of the server; None if it did not."""
        return _object(self.error.get("data")).get("reason")


class Company(Protocol):
    """Who is there with the visitor, and hears what is not an answer."""

    def progressed(self, note: Json) -> None:
        """The server says how far it is."""
        ...

    def logged(self, note: Json) -> None:
        """The server says something for people."""
        ...

    def answers(self, method: str) -> Callable[[Json], Awaitable[Json]] | None:
        """Who answers such a question of the server's; None if nobody does."""
        ...


class _Asked:
    """A request under way."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self.patience = asyncio.timeout(None)
        self.left_s: float | None = None
        """Of the patience, while it does not run."""


class Visitor:
    """One session, from `open` to `aclose`."""

    def __init__(
        self, endpoint: Endpoint, reach: Reach, policy: RemotePolicy, company: Company, tap: Tap | None = None
    ) -> None:
        self._company = company
        self._tap = tap
        self._ids = count(1)
        self._asked: dict[Id, _Asked] = {}
        self._questions: dict[Id, asyncio.Task[None]] = {}
        self._loop = asyncio.get_running_loop()
        self._conversation = Conversation(endpoint, reach, self, policy)
        self._envelope: Json = {}
        """What each request says of us, in the era without handshakes."""
        self.server: Json = {}
        """What it said of itself when the session was opened."""

    # What is asked of the server ---------------------------------------------------------------

    async def open(self, capabilities: Json, *, timeout_s: float | None) -> None:
        """Get to know each other. Raises Refused, Unavailable."""
        params = {"protocolVersion": LATEST, "capabilities": capabilities, "clientInfo": CLIENT}
        try:
            self.server = await self.ask("initialize", params, timeout_s=timeout_s)
        except Refused as error:
            if error.reason is not None and error.reason not in OTHER_ERA:
                raise
            await self._discover(capabilities, error, timeout_s)
        else:
            self._send({"method": "notifications/initialized"})

    async def _discover(self, capabilities: Json, refusal: Refused, timeout_s: float | None) -> None:
        """Is it of the era without handshakes? If not, what it said first holds."""
        self._envelope = {VERSION_KEY: MODERN, CAPABILITIES_KEY: capabilities, CLIENT_KEY: CLIENT}
        try:
            self.server = await self.ask(DISCOVER, {}, timeout_s=timeout_s)
        except Refused:
            raise refusal from None

    async def hear_logs(self, level: str, *, timeout_s: float | None) -> None:
        """Have the server say what is of that level, or more important."""
        if self._envelope:
            self._envelope[LEVEL_KEY] = level
        elif self.offers("logging"):
            with suppress(Refused):  # then it says what it likes
                await self.ask("logging/setLevel", {"level": level}, timeout_s=timeout_s)

    def offers(self, what: str) -> bool:
        """Has the server said that it has tools, say?"""
        capabilities = self.server.get("capabilities")
        return isinstance(capabilities, dict) and what in capabilities

    async def ask(self, method: str, params: Json, *, timeout_s: float | None = None) -> Json:
        """The result. Raises Refused, or Unavailable if there is none in time."""
        result = await self._request(method, params, timeout_s)
        for _ in range(MOST_ROUNDS):
            if result.get("resultType") != "input_required":
                return result
            answers = await self._answer_all(_object(result.get("inputRequests")))
            state = {"requestState": result["requestState"]} if "requestState" in result else {}
            result = await self._request(method, {**params, "inputResponses": answers, **state}, timeout_s)
        raise _failed(f"the server asked {MOST_ROUNDS} times for more before it answered {method}")

    async def _request(self, method: str, params: Json, timeout_s: float | None) -> Json:
        id = next(self._ids)
        asked = self._asked[id] = _Asked()
        token = {"progressToken": id} if method in INTERACTIVE else {}
        meta = {"_meta": {**token, **self._envelope}} if token or self._envelope else {}
        self._send({"id": id, "method": method, "params": {**params, **meta}})
        reason = "interrupted"
        try:
            async with asked.patience:
                if timeout_s is not None:
                    asked.patience.reschedule(self._loop.time() + timeout_s)
                return await asked.answer
        except TimeoutError:
            reason = "timeout"
            text = f"no answer to {method} within {timeout_s:g} s; it was cancelled"
            raise Unavailable(text, code="timeout", hint="--timeout gives the server more time") from None
        finally:
            del self._asked[id]
            was_left = not asked.answer.done() or asked.answer.cancelled()
            if was_left and method != "initialize":  # which nobody may cancel
                params = {"requestId": id, "reason": reason}
                self._send({"method": "notifications/cancelled", "params": params})

    async def _answer_all(self, requests: Json) -> Json:
        """What the server wants to know before it goes on, by key."""
        answers: Json = {}
        for key, request in requests.items():
            method = str(_object(request).get("method"))
            answering = self._company.answers(method)
            if answering is None:
                raise _failed(f"the server wants {method}, which was not declared")
            answers[key] = await answering(_object(_object(request).get("params")))
        return answers

    async def list_all(self, method: str, member: str, *, timeout_s: float | None) -> tuple[list[Json], bool]:
        """Every item of a list, page after page; and whether that is all."""
        found: list[Json] = []
        params: Json = {}
        seen: set[str] = set()
        length = 0
        while len(seen) < MOST_PAGES and length <= MAX_LIST_BYTES:
            page = await self.ask(method, params, timeout_s=timeout_s)
            items = page.get(member)
            found += [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str):
                return found, True
            if cursor in seen:
                return found, False
            seen.add(cursor)
            length += len(json.dumps(page))
            params = {"cursor": cursor}
        return found, False

    async def wait_told(self) -> None:
        """Until the server has taken what wants no answer: cancellations."""
        await self._conversation.wait_told()

    async def aclose(self) -> None:
        """End the session; nothing is left running."""
        questions = list(self._questions.values())
        for question in questions:
            question.cancel()
        await asyncio.gather(*questions, return_exceptions=True)
        await self._conversation.aclose()

    def _send(self, message: Json) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}).encode()
        if self._tap is not None:
            self._tap("sent", line)
        self._conversation.take(line)

    # What the server says: we are where the conversation's client reads ------------------------

    def turn(self) -> AbstractAsyncContextManager[None]:
        """There is always room: what is heard is dealt with at once."""
        return nullcontext()

    def write(self, line: bytes) -> None:
        """A message for us."""
        if self._tap is not None:
            self._tap("received", line)
        try:
            message = json.loads(line)
        except (
            ValueError,
            RecursionError,
        ):  # it was well-formed: it is nested too deeply, or a number too long
            self._fail_all("the server sent a message that cannot be read; --raw shows it")
            return
        if "method" not in message:
            self._hear_answer(message)
        elif "id" in message:
            self._hear_question(message["id"], message["method"], _object(message.get("params")))
        else:
            self._hear_note(message["method"], _object(message.get("params")))

    def _hear_answer(self, message: Json) -> None:
        asked = self._asked.get(message.get("id"))  # type: ignore[arg-type]
        if asked is None or asked.answer.done():
            return
        if "error" in message:
            asked.answer.set_exception(Refused(message["error"]))
        else:
            asked.answer.set_result(_object(message.get("result")))

    def _fail_all(self, text: str) -> None:
        for asked in self._asked.values():
            if not asked.answer.done():
                asked.answer.set_exception(_failed(text))

    def _hear_note(self, method: str, params: Json) -> None:
        if method == "notifications/progress":
            self._company.progressed(params)
        elif method == "notifications/message":
            self._company.logged(params)
        elif method == "notifications/cancelled":
            id = params.get("requestId")
            if isinstance(id, (int, str)) and id in self._questions:
                self._questions[id].cancel()

    # Questions ---------------------------------------------------------------------------------

    def _hear_question(self, id: Id, method: str, params: Json) -> None:
        answering = self._company.answers(method)
        if method == "ping":
            self._send({"id": id, "result": {}})
        elif answering is None:
            error = {"code": METHOD_NOT_FOUND, "message": f"{method} was not declared, and is not answered"}
            self._send({"id": id, "error": error})
        else:
            task = asyncio.create_task(self._answer(id, answering(params)), name=f"question {method}")
            self._questions[id] = task
            task.add_done_callback(lambda _task: self._questions.pop(id))

    async def _answer(self, id: Id, answering: Awaitable[Json]) -> None:
        self._hold_patience()
        try:
            self._send({"id": id, "result": await answering})
        finally:
            if len(self._questions) == 1:
                self._resume_patience()

    def _hold_patience(self) -> None:
        for asked in self._asked.values():
            if (until := asked.patience.when()) is not None:
                asked.left_s = until - self._loop.time()
                asked.patience.reschedule(None)

    def _resume_patience(self) -> None:
        for asked in self._asked.values():
            if asked.left_s is not None:
                asked.patience.reschedule(self._loop.time() + asked.left_s)
                asked.left_s = None


def _failed(text: str) -> Refused:
    return Refused({"code": INTERNAL_ERROR, "message": text})


def _object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}
