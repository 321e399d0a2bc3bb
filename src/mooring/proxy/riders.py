"""Who has calls on a trunk, and those calls."""

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from mooring.proxy.call_errors import Failure
from mooring.proxy.calls import Call
from mooring.wire.jsonrpc import Envelope

__all__ = ["Errand", "Indifferent", "LogReader", "Ride", "Rider", "Window"]


class Rider(Protocol):
    """Who has calls on a trunk."""

    @property
    def counts(self) -> bool:
        """Are they calls of a client, and counted nowhere else?"""
        ...

    @property
    def heard(self) -> bool:
        """Does somebody wait for the answer, this very moment?"""
        ...

    def answered(self, ride: "Ride", response: Envelope, now: float) -> None:
        """The server has answered; the id is still the trunk's number."""
        ...

    def failed(self, ride: "Ride", failure: Failure, now: float) -> None:
        """It will not be answered."""
        ...

    def noted(self, ride: "Ride", note: Envelope, now: float) -> None:
        """Progress, or whatever else the server says of this call; the token is the client's own."""
        ...


class Indifferent:
    """A rider that does not care what becomes of its ride; others care for a part of it."""

    counts = False
    heard = True

    def answered(self, ride: "Ride", response: Envelope, now: float) -> None:
        """So be it."""

    def failed(self, ride: "Ride", failure: Failure, now: float) -> None:
        """So be it."""

    def noted(self, ride: "Ride", note: Envelope, now: float) -> None:
        """So be it."""


class Errand(Indifferent):
    """A request of our own that is about no client; what to do when it is answered, or cannot be."""

    def __init__(self, then: Callable[[Failure | None], None]) -> None:
        self._then = then

    def answered(self, ride: "Ride", response: Envelope, now: float) -> None:
        """Done."""
        self._then(None)

    def failed(self, ride: "Ride", failure: Failure, now: float) -> None:
        """It will not be."""
        self._then(failure)


class Ride(Call):
    """One call on a trunk."""

    number: int = 0
    rider: Rider | None = None
    lasting: bool = False
    """It has no end of its own: a listener."""
    acknowledged: bool = False
    """A listener that was heard: the next instance is given it too. One that was not may be what kills it."""


class LogReader(Rider, Protocol):
    """A rider that may want to hear what the server logs."""

    @property
    def log_level(self) -> str | None:
        """From which level on; None: nothing."""
        ...

    def hear_log(self, line: bytes) -> None:
        """A log message that can only be about its own calls."""
        ...


class Window(Struct, eq=False):
    """The time in which one client has an instance to itself, so that a log message can be only its own.

    It opens with the answer to a ping, behind which nothing of an earlier call should be waiting, and
    is over as soon as anybody else rides.
    """

    reader: LogReader
    is_open: bool = False

    def is_disturbed_by(self, rider: Rider | None) -> bool:
        """Could what is logged be about this one?"""
        return rider is not self.reader and not isinstance(rider, Errand)
