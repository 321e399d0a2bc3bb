"""What the server has asked the client, and which answer may reach which server.

A client answers by id, perhaps twice, and servers number their requests 0, 1, 2, …: after a restart the
new server asks under ids the old one used. An answer to the dead server's question must never reach the
new one: so from then on every request goes out under an id of ours, which is never used twice, and its
answer comes back under the server's own. The same while one server lives: an id that may still be answered
is not used again towards the client. How many such ids are remembered is bounded; once one had to be
forgotten, all are ours.
"""

from msgspec import Struct

from mooring.wire import jsonrpc
from mooring.wire.jsonrpc import Envelope, Id

__all__ = ["MAX_ID_CHARACTERS", "Asked", "OpenQuestions"]

MAX_ID_CHARACTERS = 256
"""Of an id that is remembered; most are numbers, some 36 characters."""


class OpenQuestions(Struct, array_like=True):
    """An `Asked`, for another Mooring that goes on with it."""

    open: list[tuple[Id, Id]] = []
    abandoned: list[Id] = []
    count: int = 0
    renames: bool = False


class Asked:
    """The open questions of one session's server."""

    __slots__ = ("_abandoned", "_count", "_limit", "_open", "_prefix", "_renames")

    def __init__(self, prefix: str, limit: int) -> None:
        self._prefix = prefix
        self._limit = limit
        self._count = 0
        self._open: dict[Id, Id] = {}  # the id the client knows → the id the server used
        self._abandoned: dict[Id, None] = {}  # ids nobody waits for, that the client may still answer
        self._renames = False

    def __len__(self) -> int:
        return len(self._open)

    def dump(self) -> OpenQuestions:
        """All of it."""
        return OpenQuestions(list(self._open.items()), list(self._abandoned), self._count, self._renames)

    def load(self, kept: OpenQuestions) -> None:
        """What `dump` has told."""
        self._open, self._abandoned = dict(kept.open), dict.fromkeys(kept.abandoned)
        self._count, self._renames = kept.count, kept.renames

    def takes(self, id: Id) -> bool:
        """Is there room for a question of that id?"""
        is_short = not isinstance(id, str) or len(id) <= MAX_ID_CHARACTERS
        return is_short and len(self._open) < self._limit

    def ask(self, request: Envelope, line: bytes) -> bytes:
        """Record a question; returns the line for the client."""
        own = request.request_id
        if not self._renames and own not in self._open and own not in self._abandoned:
            self._open[own] = own
            return line
        self._count += 1
        shown = f"{self._prefix}-{self._count}"
        self._open[shown] = own
        return jsonrpc.with_id(request, shown)

    def answer(self, response: Envelope, line: bytes) -> bytes | None:
        """The client answers: the line for the server, or None if nobody waits for it."""
        shown = response.request_id
        if shown not in self._open:
            self._abandoned.pop(shown, None)
            return None
        own = self._open.pop(shown)
        return line if own == shown else jsonrpc.with_id(response, own)

    def withdraw(self, own: Id) -> Id | None:
        """The server no longer wants to know: the id the client knows, if the question is open."""
        for shown, id in self._open.items():
            if id == own:
                self._open.pop(shown)
                self._abandon(shown)
                return shown
        return None

    def lose(self) -> list[Id]:
        """The server is gone: the ids of its open questions, as the client knows them."""
        lost = list(self._open)
        self._open.clear()
        self._renames = True
        return lost

    def _abandon(self, shown: Id) -> None:
        self._abandoned[shown] = None
        if len(self._abandoned) > self._limit:
            del self._abandoned[next(iter(self._abandoned))]
            self._renames = True
