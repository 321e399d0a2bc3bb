"""An instance that is none: what a session takes for its own server, on a trunk.

It is a `Channel`: the session says lines to it and hears lines from it, and knows nothing of the rest. An
instance that dies under it is the trunk's business, so that a face never ends by itself: calls that
were lost are answered with an error, as the session would have done.

No message is parsed twice: calls come, and answers go, as whoever had them before has parsed them.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, cast

import msgspec
from msgspec import Raw

from mooring.errors import RemoteProtocolError
from mooring.proxy.call_errors import Failure
from mooring.proxy.ports import Receiver
from mooring.proxy.riders import Ride
from mooring.proxy.trunk import Trunk
from mooring.wire import jsonrpc
from mooring.wire.jsonrpc import INVALID_PARAMS, Envelope, Id, error_response

__all__ = ["Face"]

NOTHING = Raw()
MAX_MISSED_BYTES = 64 * 1024
"""Of the news that are kept for a client that reads slowly; then the oldest are dropped."""


class FaceReceiver(Receiver, Protocol):
    """Who hears a face: the link of a session."""

    def on_answer(self, response: Envelope, line: bytes) -> None:
        """One line that is an answer, and what it says."""
        ...

    def on_failed(self, id: Id, failure: Failure) -> None:
        """A call of the client cannot be answered by the server."""
        ...

    def on_related(self, line: bytes, id: Id) -> None:
        """One line that belongs to the client's call of that id, which a pipe would not tell."""
        ...


class Face(ABC):
    """What all of them have in common; those for an era or for sharing say what each message means."""

    def __init__(self, trunk: Trunk, clock: Callable[[], float], *, is_alone: bool) -> None:
        self.trunk = trunk
        self._clock = clock
        self.is_alone = is_alone
        """Nobody else is on the trunk."""
        self._held_back = False
        self._missed: dict[bytes, None] = {}
        """News for a client that does not keep up; each once."""
        self._receiver: FaceReceiver | None = None
        self._listens = False
        """It is being told something: what it says to that comes by way of the loop, as from a pipe."""

    # A channel

    @property
    def pid(self) -> int:
        """Of the instance behind it; 0 while there is none."""
        return self.trunk.pid or 0

    writable = True
    """The trunk queues, within its bound."""

    is_paused = False
    """What stands behind it is the trunk's business."""

    consumed = 1
    """All of it, wherever that begins: what was sent is with the trunk, and not to be sent again."""

    def attach(self, receiver: Receiver) -> None:
        """From now on `receiver` hears it."""
        self._receiver = cast("FaceReceiver", receiver)

    def send(self, line: bytes) -> int:
        """A line of the client."""
        with suppress(RemoteProtocolError):  # (the session has parsed it before)
            message = jsonrpc.parse(line)
            if message.is_request:
                self.take_call(message.request_id, message.method or "", message.params)
            else:
                self._take_other(message)
        return 0

    def take_call(self, id: Id, method: str, params: bytes | Raw) -> int:
        """A call of the client; otherwise as `send`."""
        self._listens = True
        try:
            self.take_request(id, method, params)
        except msgspec.DecodeError as error:  # well-formed, and not what they must be
            self._say(error_response(id, INVALID_PARAMS, f"malformed params: {error}"))
        finally:
            self._listens = False
        return 0

    def pause_reading(self) -> None:
        """The client does not keep up: what comes is left in the pipe, if it is this client's own.

        Where others are on the trunk, nobody is held up: it misses progress, and hears news later.
        """
        if self.is_alone:
            self.trunk.hold_back(True)
        else:
            self._held_back = True

    def resume_reading(self) -> None:
        """It does again."""
        if self.is_alone:
            self.trunk.hold_back(False)
            return
        self._held_back = False
        missed, self._missed = self._missed, {}
        for line in missed:
            self._say(line)

    @abstractmethod
    def release(self, reason: str) -> None:
        """The session needs it no longer."""

    # For those who know what messages mean

    @abstractmethod
    def take_request(self, id: Id, method: str, params: bytes | Raw) -> None:
        """A call of the client."""

    @abstractmethod
    def take_note(self, note: Envelope) -> None:
        """A notification of the client."""

    @abstractmethod
    def take_response(self, response: Envelope) -> None:
        """An answer of the client."""

    def close(self, reason: str) -> None:
        """The session is over, or goes elsewhere: nothing is heard any more."""
        self._receiver = None
        for ride in self.trunk.rides_of(self):
            self.trunk.leave(ride, reason)

    def _take_other(self, message: Envelope) -> None:
        self._listens = True
        try:
            with suppress(msgspec.DecodeError):
                if message.is_notification:
                    self.take_note(message)
                else:
                    self.take_response(message)
        finally:
            self._listens = False

    def _say(self, line: bytes, related: Id | None = None) -> None:
        """A line for the session; `related`: it belongs to that call of the client."""
        if self._listens:
            asyncio.get_running_loop().call_soon(self._say, line, related)
        elif self._receiver is None:
            return
        elif related is None:
            self._receiver.on_line(line)
        else:
            self._receiver.on_related(line, related)

    def hear_news(self, line: bytes) -> None:
        """A notification that belongs to no call."""
        if not self._held_back:
            self._say(line)
            return
        missed = self._missed
        missed[line] = None
        while sum(map(len, missed)) > MAX_MISSED_BYTES:
            del missed[next(iter(missed))]

    def hear_log(self, line: bytes) -> None:
        """A log message."""
        if not self._held_back:
            self._say(line)

    def _say_answer(self, response: Envelope, line: bytes) -> None:
        """An answer; `line` says the same."""
        if self._listens:
            asyncio.get_running_loop().call_soon(self._say_answer, response, line)
        elif self._receiver is not None:
            self._receiver.on_answer(response, line)

    def _say_result(self, id: Id, result: bytes) -> None:
        line = jsonrpc.result_line(id, result)
        self._say_answer(Envelope("2.0", id, None, NOTHING, Raw(result)), line)

    def _say_error(self, id: Id, error: bytes) -> None:
        self._say(jsonrpc.error_line(id, error))

    # A rider

    def leave(self, id: Id, reason: str) -> None:
        """The client wants no answer to this call."""
        for ride in self.trunk.rides_of(self):
            if ride.id == id:
                self.trunk.leave(ride, reason)

    @abstractmethod
    def answered(self, ride: Ride, response: Envelope, now: float) -> None:
        """See `Rider`."""

    def noted(self, ride: Ride, note: Envelope, now: float) -> None:
        """Progress, under the client's own token."""
        if not self._held_back:
            self._say(jsonrpc.note_line(note.method, note.params))

    counts = False
    """The session does."""
    heard = True
    """The session has a clock of its own."""

    def failed(self, ride: Ride, failure: Failure, now: float) -> None:
        """The call will not be answered by the server."""
        self._say_failure(ride.id, failure)

    def _say_failure(self, id: Id, failure: Failure) -> None:
        if self._listens:
            asyncio.get_running_loop().call_soon(self._say_failure, id, failure)
        elif self._receiver is not None:
            self._receiver.on_failed(id, failure)
