"""The messages of one HTTP answer, whether it is JSON or a stream of events."""

from collections import deque
from typing import Self

from mooring.errors import RemoteProtocolError
from mooring.http.client import ClientResponse
from mooring.http.client_errors import BadAnswer
from mooring.wire.budget import Budget
from mooring.wire.pieces import Pieces, keep_piece
from mooring.wire.sse import EVENT_TEXT, Event, EventDecoder
from mooring.wire.verdicts import Verdict, judge

__all__ = ["EventMessages", "Events", "JsonMessages", "Messages", "verdict_on"]


def verdict_on(response: ClientResponse, *, in_session: bool) -> Verdict:
    """What it means, by its head alone."""
    return judge(
        response.status,
        response.header(b"content-type") or b"",
        response.header(b"retry-after"),
        response.header(b"date"),
        in_session=in_session,
    )


class _Held:
    """What an unfinished message takes of the bytes that all may have."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._bytes = 0

    def add(self, number: int) -> None:
        """More of it has come. Raises BadAnswer if there is no room."""
        if not self._budget.has_room(number, self._bytes):
            text = f"the answers that arrive are over {self._budget.limit_bytes} bytes together"
            raise BadAnswer(text, code="too_busy")
        self._bytes += number
        self._budget.taken_bytes += number

    def clear(self) -> None:
        """It is whole, or given up."""
        self._budget.taken_bytes -= self._bytes
        self._bytes = 0


class JsonMessages:
    """One body, which is one message."""

    last_event_id = ""
    retry_ms: int | None = None

    def __init__(self, response: ClientResponse, limit_bytes: int, budget: Budget) -> None:
        self._response = response
        self._limit_bytes = limit_bytes
        self._held = _Held(budget)
        self._done = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        """Raises AnswerLost if it breaks off."""
        if self._done:
            raise StopAsyncIteration
        self._done = True
        pieces: Pieces = []
        length = 0
        try:
            async for piece in self._response:
                length += len(piece)
                if length > self._limit_bytes:
                    raise BadAnswer(f"the answer is over {self._limit_bytes} bytes", code="message_too_long")
                self._held.add(len(piece))
                keep_piece(pieces, piece)
        finally:
            self._held.clear()
        return b"".join(pieces)


class Events:
    """The events of a stream that have data; `last_event_id` and `retry_ms` say how to go on after a cut."""

    def __init__(
        self, response: ClientResponse, limit_bytes: int, budget: Budget, last_event_id: str = ""
    ) -> None:
        self.last_event_id = last_event_id
        self.retry_ms: int | None = None
        self._response = response
        self._decoder = EventDecoder(limit_bytes)
        self._held = _Held(budget)
        self._ready: deque[Event] = deque()

    async def next_event(self) -> Event:
        """Raises AnswerLost if it breaks off, StopAsyncIteration at its proper end."""
        while not self._ready:
            try:
                piece = await anext(self._response)
                self._held.add(len(piece))
                events = self._decoder.feed(piece)
            except RemoteProtocolError as error:
                self._held.clear()
                if error.code == "event_too_long":
                    raise BadAnswer(error.message, code="message_too_long") from None
                raise
            except BaseException:
                self._held.clear()
                raise
            for event in events:
                self._held.clear()
                if event.id and event.id.isprintable():  # (what no header can say cannot be asked for)
                    self.last_event_id = event.id
                self.retry_ms = event.retry_ms if event.retry_ms is not None else self.retry_ms
                if event.data:
                    self._ready.append(event)
        return self._ready.popleft()


class EventMessages(Events):
    """The messages among them."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        """Raises AnswerLost if it breaks off."""
        while (event := await self.next_event()).event != "message":
            pass
        return event.data.encode(*EVENT_TEXT)


Messages = JsonMessages | EventMessages
