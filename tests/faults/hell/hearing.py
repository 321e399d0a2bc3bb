"""What a client hears, and what can be judged on the spot.

A message belongs to the session that hears it, and comes once. An answer comes where its call was sent,
progress where its call was sent. An event id names one message; on a stream they rise by one or more,
and so do the numbers that a child gives to its log messages.

Where all sessions share their instances nobody is asked anything, and each hears of what it has
subscribed to, and of the log what it has asked for. So it is without sessions (2026-07-28), for each
request alone.
"""

import json
from collections.abc import Callable, Iterable

from mooring.wire.sse import Event
from tests.faults.hell.facts import Call, Facts, Id, Json
from tests.faults.hell.meant import ACKNOWLEDGED, LISTS, is_for_call, is_for_guest, is_for_listener

__all__ = ["EVERYBODYS", "Hearing", "Reading"]

EVERYBODYS = "everybody's"
"""A progress token that a client has many calls under: nobody can tell them apart."""
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
OWN_METHODS = LISTS | {"notifications/message", "notifications/cancelled", ACKNOWLEDGED}
"""What Mooring says by itself, or says in other words: all else bears the name of its session."""


class Reading:
    """The reading of one answer, which may carry the answers to these calls."""

    def __init__(self, calls: Iterable[Call] = (), *, at: str = "") -> None:
        self.calls = {call.id: call for call in calls}
        self.at = at
        """The last event."""
        self.status = 0
        self.headers: dict[str, str] = {}
        self.events = 0
        self.is_over = False
        self.last_notes: dict[str, int] = {}

    def __str__(self) -> str:
        return " ".join(call.token for call in self.calls.values()) or "news"

    def negotiated(self) -> str:
        """The revision that the answer to `initialize` names; empty if that is no revision."""
        [call] = self.calls.values()
        [answer] = call.answers.values() or [{}]
        result = answer.get("result")
        revision = result.get("protocolVersion") if isinstance(result, dict) else None
        return revision if isinstance(revision, str) else ""


class Hearing:
    """The ears of one client."""

    def __init__(self, facts: Facts, session: str, on_question: Callable[[Id, str, Reading], None]) -> None:
        self._facts = facts
        self._session = session
        self._on_question = on_question
        self._heard = 0
        self._places: dict[str, str] = {}
        self.events: dict[str, str] = {}
        """Every event, by its id."""
        self.readings: dict[str, Reading] = {}
        """By the name of the stream: who reads it, or read it last."""
        self.is_stateless = False
        """It has no session: each call is alone."""
        self._levels: set[str] = set()
        self._uris: set[str] = set()
        self._contested: set[str] = set()
        """Streams that several want to read at once: nobody can tell who gets the rest."""

    def _problem(self, text: str) -> None:
        self._facts.problem(f"{self._session}: {text}")

    def expect(self, call: Call) -> None:
        """This may be asked for, so what comes of it may be heard."""
        self._levels.update({call.level} - {""})
        self._uris.update({call.uri} - {""})

    def resumes(self, reading: Reading) -> None:
        """Somebody wants to go on with a stream."""
        name = reading.at.rpartition("-")[0]
        before = self.readings.get(name)
        if before is not None and not before.is_over:
            self._contested.add(name)
        self.readings[name] = reading

    def over(self, reading: Reading) -> None:
        """A reading came to the proper end of its answer: that holds all answers, unless it was refused."""
        reading.is_over = True
        for call in reading.calls.values():
            is_missing = reading.status == 200 and not call.answers
            if is_missing and reading.at.rpartition("-")[0] not in self._contested:
                self._problem(f"{call.token}: what came back did not hold its answer")

    def body(self, data: bytes, reading: Reading) -> None:
        """An answer without a stream."""
        said = json.loads(data)
        for message in said if isinstance(said, list) else [said]:
            self._answer(message, reading, "")

    def event(self, event: Event, reading: Reading) -> None:
        reading.events += 1
        self._heard += 1
        if event.id:
            self._advance(event.id, reading, has_data=bool(event.data))
        if not event.data:
            return
        if event.id and self.events.setdefault(event.id, event.data) != event.data:
            self._problem(f"the event {event.id} is {event.data[:100]} and {self.events[event.id][:100]}")
        self._take(json.loads(event.data), reading, event.id)

    def message(self, message: Json, reading: Reading) -> None:
        """What comes on a connection that carries messages alone."""
        self._heard += 1
        self._take(message, reading, "")

    def _take(self, message: Json, reading: Reading, event: str) -> None:
        if "method" in message:
            self._said(message, reading, event or f"#{self._heard}")
        else:
            self._answer(message, reading, event)

    def _advance(self, id: str, reading: Reading, *, has_data: bool) -> None:
        """Numbers rise. A position without data may repeat where the stream stands."""
        before, number = reading.at.rpartition("-"), id.rpartition("-")
        if before[0] == number[0] and int(number[2]) < int(before[2]) + has_data:
            self._problem(f"the event {id} came after {reading.at}")
        reading.at = id
        self.readings[number[0]] = reading

    def _answer(self, message: Json, reading: Reading, event: str) -> None:
        self._facts.tell(self._session, f"  heard {json.dumps(message)[:300]}")
        call = reading.calls.get(message["id"])
        if call is None:
            self._problem(f"an answer where it does not belong ({reading}): {json.dumps(message)[:300]}")
        else:
            call.answers[event or f"#{len(call.answers)}"] = message

    def _said(self, message: Json, reading: Reading, place: str) -> None:
        method, params = message["method"], message.get("params") or {}
        session, note = params.get("hell"), params.get("note")
        if session is None and method not in OWN_METHODS:
            self._problem(f"nobody can have said {message}")
        if session not in (None, "", self._session):  # "": before it knew whom it serves
            self._problem(f"heard what was said to {session}: {message}")
        if method == "notifications/progress":
            self._progress(params["progressToken"], params.get("of"), reading)
        listener = self._listener(params, reading)
        is_question = "id" in message and (self.is_stateless or self._facts.shared)
        if (note or listener) and (is_question or not self._is_meant(method, params, reading, listener)):
            self._problem(f"heard what is not for it ({reading}): {method} {str(params)[:200]}")
        if note is None:
            return
        if listener is not None:
            note = f"{note} to {listener.token}"  # all who listen hear it
        if self._places.setdefault(note, place) != place:
            self._problem(f"{note} came twice, as {self._places[note]} and as {place}")
        if method == "notifications/message":
            self._order(note, reading)
        if "id" in message:
            self._facts.tell(self._session, f"  is asked {method}, id {message['id']!r}: {note}")
            self._on_question(message["id"], note, reading)

    def _progress(self, token: Id, of: str | None, reading: Reading) -> None:
        calls = [call for call in reading.calls.values() if call.progress == token]
        is_unique = token != EVERYBODYS or self.is_stateless
        if not calls or (is_unique and of not in (None, *(call.token for call in calls))):
            self._problem(f"progress of {token!r}, of {of}, came to {reading}")

    def _listener(self, params: Json, reading: Reading) -> Call | None:
        """The request that listens, if this is for one."""
        id = (params.get("_meta") or {}).get(SUBSCRIPTION)
        call = reading.calls.get(id) if id is not None else None
        if id is not None and (call is None or call.wanted is None):
            self._problem(f"heard what is for a listener {id!r}, which it is not: {params}")
        return call

    def _is_meant(self, method: str, params: Json, reading: Reading, listener: Call | None) -> bool:
        if listener is not None:
            is_first, listener.is_acknowledged = not listener.is_acknowledged, True
            return is_for_listener(listener, method, params) and is_first == (method == ACKNOWLEDGED)
        strict = self._facts.shared and not self._facts.modern
        if self.is_stateless:
            [call] = reading.calls.values()
            return is_for_call(call, method, params, strict=strict)
        return not self._facts.shared or is_for_guest(method, params, self._levels, self._uris, strict=strict)

    def _order(self, note: str, reading: Reading) -> None:
        _, child, number = note.split(".")
        if int(number) < reading.last_notes.get(child, 0):
            self._problem(f"{note} came after number {reading.last_notes[child]}")
        reading.last_notes[child] = int(number)
