"""A call of a client without sessions, at a server with handshakes; parked while the client is asked.

    running  its client waits for the answer
    parked   the server waits for answers: the client was told what it is asked, and will call again
    over

A server of the handshake era asks in the middle of a call. Its client cannot be asked, but calls again
with the answers: the call waits for that, and with it the instance it has to itself. It is never begun
a second time.

Invariants:
- The reply of each round is answered exactly once.
- A state is good for the round that it was made for.
- Whatever the server asked is answered, by the client or by an error of ours, before the instance
  serves another call.
"""

import asyncio
import secrets
from collections.abc import Callable
from typing import Protocol

import msgspec

from mooring.proxy.call_errors import Failure
from mooring.proxy.riders import Ride
from mooring.proxy.stateless_call import StatelessCall
from mooring.proxy.trunk import Trunk
from mooring.wire import jsonrpc
from mooring.wire.asking import PAGES, Required, has_declared, required_for
from mooring.wire.eras import complete_result, elicitations_of, for_modern_error, input_required, needs_pages
from mooring.wire.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, Envelope, Id, error_response
from mooring.wire.members import Members, read_members, write_members
from mooring.wire.modern import INTERACTIVE, MISSING_CAPABILITY
from mooring.wire.request_state import Claims, Sealer

__all__ = ["BridgedCall", "CallOwner"]

GATHER_S = 0.02
"""A server may ask several things at once: they are put to the client together."""
PARK_S = 600.0
"""How long a client may take to call again."""


class CallOwner(Protocol):
    """Who serves the call."""

    sealer: Sealer

    def server_of(self, trunk: Trunk) -> bytes:
        """The serverInfo of its instance, as JSON."""
        ...

    def digest(self, call: StatelessCall) -> bytes:
        """To what a state is bound with which the client may come back."""
        ...

    def parked(self, call: "BridgedCall") -> None:
        """A client may come back to it, by its id."""
        ...

    def over(self, call: "BridgedCall") -> None:
        """Nothing more will come of it: its trunk is free."""
        ...


class BridgedCall:
    """See the module."""

    counts = True
    heard = True
    """Whoever goes has cancelled; whoever is asked may come back."""

    def __init__(
        self,
        call: StatelessCall,
        declared: Members,
        params: bytes,
        *,
        owner: CallOwner,
        clock: Callable[[], float],
    ) -> None:
        self.id = ""
        """Once a client was told of it."""
        self.trunk: Trunk | None = None
        self.expires_at = 0.0
        self._call: StatelessCall | None = call
        call.reply.on_gone(self._on_gone)
        self._declared = declared
        self._params = params
        self._owner = owner
        self._clock = clock
        self._request = call.request
        self._ride: Ride | None = None
        self._round = 0
        self._asked = 0
        self._questions: dict[str, Envelope] = {}
        self._outcome: Envelope | Failure | None = None
        self._gathering: asyncio.TimerHandle | None = None
        self._over = False

    @property
    def is_running(self) -> bool:
        """A client waits for an answer, this very moment."""
        return self._call is not None

    @property
    def is_settled(self) -> bool:
        """The server has nothing to do with it any more: what it says from now on is not about this call."""
        return self._outcome is not None or self._ride is None or not self._ride.sent

    def forget_questions(self) -> None:
        """Whoever asked is gone."""
        self._questions = {}

    def begin(self, trunk: Trunk) -> None:
        """Send it, unless it is over: its client may have gone meanwhile, or be asked already."""
        if self._over:
            return
        request = self._request
        self._ride = trunk.ride(request.id, request.method, self._params, self, token=request.progress_token)

    def tick(self, now: float) -> None:
        """Show the client that somebody is there; or give up waiting for it."""
        if self._call is not None:
            self._call.reply.tick(now)
        elif not self._over and now >= self.expires_at:
            self.cancel("nobody came back to answer what the server had asked")

    # From the server

    def answered(self, ride: Ride, response: Envelope, now: float) -> None:
        """The server is done."""
        self._settle(response, now)

    def failed(self, ride: Ride, failure: Failure, now: float) -> None:
        """It will not be."""
        self._settle(failure, now)

    def noted(self, ride: Ride, note: Envelope, now: float) -> None:
        """Progress."""
        if self._call is not None:
            self._call.reply.note(jsonrpc.note_line(note.method, note.params), now)

    @property
    def log_level(self) -> str | None:
        """See `LogReader`."""
        return self._request.log_level

    def hear_log(self, line: bytes) -> None:
        """A log message of its instance."""
        if self._call is not None and self._call.request.log_level is not None:
            self._call.reply.note(line, self._clock())

    def hear_note(self, line: bytes) -> None:
        """A notification of its instance that we do not know."""
        if self._call is not None:
            self._call.reply.note(line, self._clock())

    def ask(self, trunk: Trunk, request: Envelope) -> None:
        """The server wants something of the client."""
        required = required_for(request.method or "", request.params)
        if not required or self._request.method not in INTERACTIVE:
            trunk.refuse(
                request, f"during {self._request.method} no client can be asked for {request.method}"
            )
        elif not has_declared(self._declared, required):
            trunk.refuse(request, f"the client cannot be asked for {request.method}")
            call, self._call = self._call, None
            if call is not None:
                _refuse_undeclared(call, required, self._clock())
            self.cancel("the client lacks what the server needs")
        else:
            [kind] = required
            self._asked += 1
            self._questions[f"{kind}-{self._asked}"] = request
            self._gather()

    def withdraw(self, id: Id) -> None:
        """The server does not want to know any more. A client that was asked may answer all the same."""
        self._questions = {key: asked for key, asked in self._questions.items() if asked.request_id != id}

    # To the client

    def _gather(self) -> None:
        if self._call is not None and self._gathering is None:
            self._gathering = asyncio.get_running_loop().call_later(GATHER_S, self._put_questions)

    def _put_questions(self) -> None:
        self._gathering = None
        call, self._call = self._call, None
        if call is None or self._over or self.trunk is None or not self._questions:
            self._call = call
            return
        self._round += 1
        now = self._clock()
        self.expires_at = now + PARK_S
        if not self.id:
            self.id = secrets.token_urlsafe(12)
            self._owner.parked(self)
        digest = self._owner.digest(call)
        state = self._owner.sealer.seal(Claims(self.id, self._round, self.expires_at, digest))
        requests = {key: _question(request) for key, request in self._questions.items()}
        call.answer_result(input_required(requests, state, self._owner.server_of(self.trunk)), now)

    def resume(self, call: StatelessCall, claims: Claims) -> None:
        """The client calls again, with answers."""
        now = self._clock()
        if self._call is not None or claims.round != self._round:
            call.refuse(INVALID_PARAMS, "requestState was used before", now)
            return
        try:
            answers = read_members(call.request.input_responses)
        except msgspec.DecodeError:
            call.refuse(INVALID_PARAMS, "inputResponses must be an object", now)
            return
        if any(not answer.startswith(b"{") for answer in answers.values()):
            call.refuse(INVALID_PARAMS, "each of inputResponses must be an object, as a result is", now)
            return
        self._call = call
        call.reply.on_gone(self._on_gone)
        if self._ride is not None:
            self._ride.token = call.request.progress_token
        for key, question in list(self._questions.items()):
            if key in answers and self.trunk is not None:
                del self._questions[key]
                self.trunk.answer(jsonrpc.result_line(question.request_id, answers[key]))
        if self._outcome is not None:
            self._settle(self._outcome, now)
        elif self._questions:
            self._gather()

    def _settle(self, outcome: Envelope | Failure, now: float) -> None:
        call, self._call = self._call, None
        self._outcome = outcome
        if call is None:  # parked: for whoever calls again
            if isinstance(outcome, Failure):
                self._free()
            return
        if isinstance(outcome, Failure):
            call.fail(outcome, now)
        else:
            self._answer(call, outcome, now)
        self._end()

    def _answer(self, call: StatelessCall, response: Envelope, now: float) -> None:
        server = b"" if self.trunk is None else self._owner.server_of(self.trunk)
        try:
            if not response.error:
                call.answer_result(complete_result(response.result, self._request.method, server), now)
                return
            if needs_pages(response.error) and not has_declared(self._declared, PAGES):
                _refuse_undeclared(call, PAGES, now)
                return
            pages = elicitations_of(response.error)
            if pages is not None:
                # The server has ended the call: once the pages were visited it is made anew.
                state = self._owner.sealer.seal(Claims("", 0, now + PARK_S, self._owner.digest(call)))
                call.answer_result(input_required(pages, state, server), now)
                return
            code, error = for_modern_error(response.error)
            call.answer_error(error, code, now)
        except msgspec.DecodeError as error:
            call.fail(Failure("bad_answer", f"the server's answer is malformed: {error}"), now)

    # Endings

    def cancel(self, reason: str) -> None:
        """Nobody wants it any more: the server is told."""
        if self.trunk is not None and self._ride is not None:
            self.trunk.leave(self._ride, reason)
        self._end()

    def _on_gone(self) -> None:
        self._call = None
        self.cancel("the client disconnected")

    def fail(self, failure: Failure) -> bool:
        """End it with an error; true if a client was waiting."""
        call, self._call = self._call, None
        if call is not None:
            call.fail(failure, self._clock())
        self.cancel(failure.message)
        return call is not None

    def _end(self) -> None:
        if not self._over:
            self._over = True
            if self._gathering is not None:
                self._gathering.cancel()
            self._free()
            self._owner.over(self)
            self._ride = None  # which knows us: a circle of references would be left to gc

    def _free(self) -> None:
        """Nothing of the call is left at the server."""
        trunk, questions = self.trunk, self._questions
        self._questions = {}
        if trunk is not None:
            for question in questions.values():
                text = "the call was ended before this was answered"
                trunk.answer(error_response(question.request_id, INTERNAL_ERROR, text))


def _refuse_undeclared(call: StatelessCall, required: Required, now: float) -> None:
    text = f"the server needs a client that can be asked: {', '.join(required)}"
    call.refuse(MISSING_CAPABILITY, text, now, {"requiredCapabilities": required})


def _question(request: Envelope) -> bytes:
    members: Members = {"method": msgspec.json.encode(request.method)}
    if request.params:
        members["params"] = jsonrpc.one_line(bytes(request.params))
    return write_members(members)
