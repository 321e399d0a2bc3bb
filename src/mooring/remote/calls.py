"""One request of the client, from its line to its answer."""

import asyncio

from mooring.wire.http import Headers
from mooring.wire.jsonrpc import Envelope, Id
from mooring.wire.verdicts import is_read

__all__ = ["Call"]


class Call:
    """In flight from when it is taken to when it is answered."""

    __slots__ = (
        "barrier",
        "cancelled",
        "headers",
        "id",
        "line",
        "message",
        "method",
        "refusals",
        "relisted",
        "reopened",
        "sent",
        "session",
        "task",
        "timer",
        "version",
    )

    def __init__(self, message: Envelope, line: bytes, version: str | None) -> None:
        self.id: Id = message.request_id
        self.method = message.method or ""
        self.message = message
        self.line = line
        self.version = version
        """The revision it names itself; None for one of a session."""
        self.headers: Headers = []
        """What it was sent with."""
        self.sent = False
        """The server may have it."""
        self.cancelled = False
        self.refusals = 0
        """How often the server asked to come back later."""
        self.relisted = False
        """The server refused its headers, and we have looked what they should be, once."""
        self.reopened = False
        """The server forgot the session under it, once."""
        self.session: bytes | None = None
        """Which session its answer opened."""
        self.barrier: asyncio.Future[None] | None = None
        """What must have been sent before it."""
        self.task: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<Call {self.id} {self.method}>"

    @property
    def is_modern(self) -> bool:
        """Of the era without sessions."""
        return self.version is not None

    @property
    def reads(self) -> bool:
        """May it be executed twice?"""
        return is_read(self.method)

    @property
    def is_stream(self) -> bool:
        """Lasts for as long as somebody listens: nobody waits for its answer."""
        return self.method == "subscriptions/listen"
