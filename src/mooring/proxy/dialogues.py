"""What a server of 2026-07-28 asks about a call, put to a client of the handshake era.

Such a server ends a call with questions, and wants to be called again with the answers and with its own
state. The client is asked by real requests, on the stream of its call:

    asked    questions are open; with the last answer the call is made again
    pausing  the server asked nothing, but gave a state: it is called again in a moment
    over     answered, refused, cancelled: what is still open is withdrawn

A call is made again once for each round, at most MOST_ROUNDS times.
"""

import asyncio
from collections.abc import Callable
from itertools import count
from typing import NamedTuple

import msgspec
from msgspec import Struct

from mooring.proxy.riders import Ride
from mooring.wire import jsonrpc
from mooring.wire.asking import Required, has_declared, required_for
from mooring.wire.jsonrpc import INTERNAL_ERROR, Envelope, Id, error_response
from mooring.wire.members import Members, read_members, write_members

__all__ = ["Dialogues"]

MOST_ROUNDS = 10
"""Of questions for one call; a server that asks on and on is not served."""
PAUSES_S = (0.05, 0.1, 0.25)
"""Before calling again when the server asks nothing, but gave a state."""
CANCELLED_ELICITATION = b'{"action":"cancel"}'


class _Question(NamedTuple):
    method: str
    params: bytes


class _Dialogue(Struct, eq=False):
    """A call about which the server has questions."""

    id: Id
    method: str
    params: bytes
    """As they were sent."""
    rounds: int = 0
    state: bytes | None = None
    answers: Members = {}
    open: dict[Id, tuple[str, str]] = {}
    """The id under which the client is asked → the server's key, and the method."""
    shown: set[Id] = set()
    """Those of which the client knows."""


class Dialogues:
    """Of one session. `say(line, call)` speaks to the client, `call(id, method, params)` to the server."""

    def __init__(
        self, say: Callable[[bytes, Id | None], None], call: Callable[[Id, str, bytes], None]
    ) -> None:
        self._say = say
        self._call = call
        self._dialogues: dict[Id, _Dialogue] = {}
        self._asked: dict[Id, Id] = {}
        """The id under which the client is asked → the id of its call."""
        self._numbers = count(1)

    def go_on(self, ride: Ride, members: Members, declared: Members) -> None:
        """The server asks, or wants to be called again. Raises msgspec.DecodeError."""
        dialogue = self._dialogues.get(ride.id)
        if dialogue is None:
            dialogue = _Dialogue(ride.id, ride.method, bytes(ride.params))
            self._dialogues[ride.id] = dialogue
        dialogue.rounds += 1
        if dialogue.rounds > MOST_ROUNDS:
            self.fail(ride.id, f"the server asked for more than {MOST_ROUNDS} rounds")
            return
        dialogue.state = members.get("requestState")
        dialogue.answers = {}
        questions = _questions(members)
        undeclared = _undeclared(questions, declared)
        if undeclared is not None:
            # It must not ask for that. In this era there is no code of its own for it.
            text = f"the server asks for what the client has not declared: {', '.join(undeclared)}"
            self.fail(ride.id, text, {"requiredCapabilities": undeclared})
        elif questions:
            self._ask(dialogue, questions)
        else:
            pause_s = PAUSES_S[min(dialogue.rounds, len(PAUSES_S)) - 1]
            asyncio.get_running_loop().call_later(pause_s, self._call_if_wanted, dialogue)

    def _ask(self, dialogue: _Dialogue, questions: dict[str, _Question]) -> None:
        lines: dict[Id, bytes] = {}
        for key, (method, params) in questions.items():
            id = f"mooring-asks-{next(self._numbers)}"
            lines[id] = jsonrpc.request(id, method, params)
            dialogue.open[id] = (key, method)
            self._asked[id] = dialogue.id
        # Only now: a question may be refused at once, and must not seem to have been the last.
        for asked, line in lines.items():
            if asked in dialogue.open:
                dialogue.shown.add(asked)
                self._say(line, dialogue.id)

    def take(self, response: Envelope) -> None:
        """An answer of the client."""
        call = self._asked.pop(response.request_id, None)
        dialogue = self._dialogues.get(call) if call is not None else None
        asked = dialogue.open.pop(response.request_id, None) if dialogue is not None else None
        if dialogue is None or asked is None:
            return
        key, method = asked
        if response.error and method != "elicitation/create":
            self.forget(dialogue.id)
            self._say(jsonrpc.error_line(dialogue.id, response.error), None)
            return
        dialogue.answers[key] = CANCELLED_ELICITATION if response.error else bytes(response.result)
        if not dialogue.open:
            self._call_again(dialogue)

    def _call_if_wanted(self, dialogue: _Dialogue) -> None:
        if self._dialogues.get(dialogue.id) is dialogue:
            self._call_again(dialogue)

    def _call_again(self, dialogue: _Dialogue) -> None:
        """With what the client has answered, and the server's own state."""
        members = read_members(dialogue.params)
        if dialogue.answers:
            members["inputResponses"] = write_members(dialogue.answers)
        if dialogue.state is not None:
            members["requestState"] = dialogue.state
        self._call(dialogue.id, dialogue.method, write_members(members))

    def fail(self, id: Id, text: str, data: dict[str, object] | None = None) -> None:
        """The call cannot be answered."""
        self.forget(id)
        self._say(error_response(id, INTERNAL_ERROR, text, data), None)

    def forget(self, id: Id) -> None:
        """The call is over."""
        dialogue = self._dialogues.pop(id, None) if self._dialogues else None
        if dialogue is None:
            return
        for asked in dialogue.open:
            self._asked.pop(asked, None)
            if asked in dialogue.shown:
                params = {"requestId": asked, "reason": "the call that wanted to know it is over"}
                self._say(jsonrpc.notification("notifications/cancelled", params), None)
        dialogue.open = {}

    def close(self) -> None:
        """Nobody is there any more."""
        self._dialogues = {}
        self._asked = {}


def _questions(members: Members) -> dict[str, _Question]:
    """What the server asks, by its keys. Raises msgspec.DecodeError."""
    questions = {}
    for key, question in read_members(members.get("inputRequests", b"")).items():
        parts = read_members(question)
        method = msgspec.json.decode(parts.get("method", b'""'), type=str)
        questions[key] = _Question(method, parts.get("params", b""))
    return questions


def _undeclared(questions: dict[str, _Question], declared: Members) -> Required | None:
    """What one of them needs and the client has not declared; None if there is nothing."""
    for method, params in questions.values():
        required = required_for(method, params)
        if not has_declared(declared, required):
            return required
    return None
