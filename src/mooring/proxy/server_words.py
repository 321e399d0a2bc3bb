"""What the server of a session says besides answers: questions, progress, news.

Which message belongs to which call is `delivery`'s to decide, but for two: progress names its call by a
token, and what a face has heard on a call's behalf comes with the call.
"""

import logging
from collections.abc import Callable

from mooring.proxy.calls import Call
from mooring.proxy.delivery import Delivery
from mooring.proxy.link import Link
from mooring.proxy.policy import SessionPolicy
from mooring.wire import jsonrpc
from mooring.wire.asked import MAX_ID_CHARACTERS, Asked, OpenQuestions
from mooring.wire.jsonrpc import INTERNAL_ERROR, Envelope, Id
from mooring.wire.params import cancelled_id, progress_of_note

__all__ = ["ServerWords"]

log = logging.getLogger("mooring.session")

MAX_TASK_TOKENS = 256
"""Calls that became tasks, of which progress is still passed on; the oldest gives way."""


class ServerWords:
    """Of one session, whose `calls` these are."""

    __slots__ = ("_asked", "_calls", "_clock", "_delivery", "_link", "_policy", "_task_tokens", "_tokens")

    def __init__(
        self,
        own_id: str,
        calls: dict[Id, Call],
        delivery: Delivery,
        link: Link,
        *,
        policy: SessionPolicy,
        clock: Callable[[], float],
    ) -> None:
        self._asked = Asked(own_id, policy.max_asked)
        self._calls = calls
        self._clock = clock
        self._delivery = delivery
        self._link = link
        self._policy = policy
        self._task_tokens: dict[Id, None] = {}
        self._tokens: dict[Id, Call] = {}

    def dump(self) -> tuple[OpenQuestions, list[Id]]:
        """What is asked, and the tokens of tasks: for another Mooring."""
        return self._asked.dump(), list(self._task_tokens)

    def load(self, asked: OpenQuestions, task_tokens: list[Id]) -> None:
        """What `dump` has told."""
        self._asked.load(asked)
        self._task_tokens.update(dict.fromkeys(task_tokens))

    # Calls come and go

    def follow(self, call: Call, token: Id) -> None:
        """Progress under this token is the call's."""
        call.token = token
        self._tokens[token] = call

    def forget(self, call: Call) -> None:
        """It is over; the progress of a task goes on after the answer that names it."""
        token = call.token
        if token is None or self._tokens.get(token) is not call:
            return
        del self._tokens[token]
        if b'"task"' in call.line and len(str(token)) <= MAX_ID_CHARACTERS:
            self._task_tokens[token] = None
            if len(self._task_tokens) > MAX_TASK_TOKENS:
                del self._task_tokens[next(iter(self._task_tokens))]

    # What the server says

    def take(self, message: Envelope, line: bytes) -> None:
        """A question or a note."""
        if message.is_request:
            self._ask(message, line)
        elif message.method == "notifications/progress":
            self._tell_progress(message, line)
        else:
            self._tell(message, line)

    def take_for(self, call: Call, message: Envelope, line: bytes) -> None:
        """The same, of one that belongs to this call."""
        if not call.reply.can_deliver:
            self.take(message, line)
            return
        if message.is_request:
            if not self._asked.takes(message.request_id):
                self._refuse(message, "the client leaves too many requests unanswered")
                return
            line = self._asked.ask(message, line)
        call.touched = now = self._clock()
        call.reply.deliver(line, now)

    def _ask(self, request: Envelope, line: bytes) -> None:
        place = self._delivery.place(request, self._calls.values())
        id = request.request_id
        if request.method == "ping" and place is None:
            self._link.answer(jsonrpc.result_response(id, {}))
        elif not self._asked.takes(id) or (place is None and not self._delivery.has_room(line)):
            text = "the id is too long, or the client does not listen or leaves too many requests unanswered"
            self._refuse(request, text)
        else:
            self._delivery.put(place, request, self._asked.ask(request, line), self._clock())

    def _refuse(self, request: Envelope, text: str) -> None:
        self._link.answer(jsonrpc.error_response(request.request_id, INTERNAL_ERROR, text))

    def _tell(self, note: Envelope, line: bytes) -> None:
        if note.method == "notifications/cancelled" and (own := cancelled_id(note.params)) is not None:
            shown = self._asked.withdraw(own)
            if shown is not None and shown != own:
                line = jsonrpc.notification("notifications/cancelled", {"requestId": shown})
        self._delivery.put(self._delivery.place(note, self._calls.values()), note, line, self._clock())

    def _tell_progress(self, note: Envelope, line: bytes) -> None:
        token = progress_of_note(note.params)
        call = self._tokens.get(token) if token is not None else None
        now = self._clock()
        if call is None:
            if token in self._task_tokens:
                self._delivery.announce(note, line, now)
            else:
                log.debug("progress of no call that is running")
            return
        call.touched = now
        if self._policy.call_timeout_s is not None:
            call.deadline = now + self._policy.call_timeout_s
        if call.reply.can_deliver:
            call.reply.deliver(line, now)

    # What the client says to that

    def answer(self, response: Envelope, line: bytes) -> bytes | None:
        """The client's answer to a question, as the server must have it; None if nobody waits for it."""
        return self._asked.answer(response, line)

    def withdraw_questions(self, reason: str) -> None:
        """The client need not answer what nobody asks any more."""
        for shown in self._asked.lose():
            if not self._delivery.withdraw(shown):
                params = {"requestId": shown, "reason": reason}
                line = jsonrpc.notification("notifications/cancelled", params)
                note = jsonrpc.parse(line)
                place = self._delivery.place(note, self._calls.values())
                self._delivery.put(place, note, line, self._clock())
