"""One session with a server elsewhere, as an instance: whatever is said to it goes into a conversation."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from mooring.http.client_limits import ClientLimits
from mooring.proxy.policy import SessionPolicy
from mooring.proxy.ports import Fence, Receiver
from mooring.remote.conversation import Conversation
from mooring.runtimes.output import call
from mooring.runtimes.stopping import StopOutcome, first_of
from mooring.wire.failures import Failure
from mooring.wire.memory import Handshake
from mooring.workloads.makers import Passed

__all__ = ["RemoteInstance", "limits_of"]

CONNECTIONS_EACH = 4
"""Of a session, at most, while all have as many: one to listen on, the others for calls."""
FEW_SESSIONS = 256
"""However few there may be, they have the connections of so many."""
CUT_OFF = "the session with the server was ended"
OWN_REASONS = frozenset(
    {
        *("already_initialized", "cancelled", "id_in_use", "lease_lost", "message_too_long"),
        *("shutting_down", "too_busy", "too_many_calls"),
    }
)
"""Failures of a call that say nothing of the server, or of the way there."""


def limits_of(sessions: SessionPolicy) -> ClientLimits:
    """For the connections of all sessions to one server.

    A ping that finds none free is told so before that could count as silence.
    """
    return ClientLimits(
        max_connections=CONNECTIONS_EACH * max(sessions.max_sessions, FEW_SESSIONS),
        place_timeout_s=min(ClientLimits.place_timeout_s, sessions.ping_timeout_s / 2),
    )


class RemoteInstance:
    """See `makers.Instance`."""

    stays = True
    published_port = None

    def __init__(self, n: int, started_at: float, *, on_ended: Callable[[], None], backend: str = "") -> None:
        """`backend`: see `proxy.ports.Upstream`."""
        self.n = n
        self.backend = backend
        self.pid = -n
        """No process; but a number that no other instance of the server has."""
        self.started_at = started_at
        self.outlet = _Outlet()
        self.speaks_modern = False
        self.trouble: Failure | None = None
        self.on_trouble: Callable[[Failure | None], None] = lambda trouble: None
        """Hears what keeps calls from being answered; None: the last one was."""
        self.on_moved: Callable[[], None] = lambda: None
        """See `proxy.ports.Upstream`."""
        self._is_left = False
        self._may_speak: Fence | None = None
        self._on_ended = on_ended
        self._sent_bytes = 0
        self._conversation: Conversation | None = None
        self._ending: asyncio.Task[None] | None = None
        self._hurried: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    # What runs there is not ours to know of.

    @property
    def container(self) -> str:
        """See `makers.Instance`."""
        return ""

    @property
    def process(self) -> int:
        """See `makers.Instance`."""
        return self.pid

    @property
    def is_paused(self) -> bool:
        """See `Channel`."""
        return False

    @property
    def was_meddled_with(self) -> bool:
        """See `makers.Instance`."""
        return False

    @property
    def title(self) -> str:
        """Names it, for people."""
        return f"connection {self.n}"

    @property
    def writable(self) -> bool:
        """What is too much is refused by the conversation, which has a bound for all that is under way."""
        return True

    def __repr__(self) -> str:
        return f"<RemoteInstance {self.n}>"

    def begin(self, conversation: Conversation) -> None:
        """It can be spoken to."""
        self._conversation = conversation
        conversation.on_moved = self._moved
        if self._may_speak is not None:
            conversation.guard(self._may_speak)

    def _moved(self) -> None:
        self.on_moved()

    @property
    def upstream(self) -> str:
        """See `proxy.ports.Upstream`."""
        session = self._conversation.upstream if self._conversation is not None else None
        return session.decode("latin-1") if session is not None else ""

    def go_on_with(self, upstream: str, handshake: Handshake) -> None:
        """See `proxy.ports.Upstream`."""
        if self._conversation is not None:
            self._conversation.go_on_with(upstream.encode("latin-1"), handshake)

    def guard(self, may_speak: Fence) -> None:
        """See `proxy.ports.Guarded`."""
        self._may_speak = may_speak
        if self._conversation is not None:
            self._conversation.guard(may_speak)

    def leave(self) -> None:
        """See `proxy.ports.Upstream`."""
        self._is_left = True

    def on_outcome(self, failure: Failure | None) -> None:
        """A call was answered: by the server, or by us in its place."""
        if failure is None or failure.reason not in OWN_REASONS:
            self.trouble = failure
            self.on_trouble(failure)

    def attach(self, receiver: Receiver) -> None:
        """From now on `receiver` hears it."""
        self.outlet.receiver = receiver

    @property
    def is_ending(self) -> bool:
        """It was asked to end, or has."""
        return self._ending is not None

    @property
    def consumed(self) -> int:
        """All of it: whether a call is sent again is for the conversation to know."""
        return self._sent_bytes

    def send(self, line: bytes) -> int:
        """Say one line; returns the position where it begins."""
        position, self._sent_bytes = self._sent_bytes, self._sent_bytes + len(line) + 1
        if self._ending is None:
            self._say(line)
        return position

    def _say(self, line: bytes) -> None:
        if self._conversation is not None:
            self._conversation.take(line)

    def pause_reading(self) -> None:
        """Hold the server back."""
        self.outlet.close_door()

    def resume_reading(self) -> None:
        """Read on."""
        self.outlet.open_door()

    def describe(self) -> Passed | None:
        """It does not go to another Mooring: see `stays`."""
        return None

    def hold(self) -> None:
        """Nothing, as it does not go."""

    def go_on(self) -> None:
        """Nothing, as it does not go."""

    def hurry(self) -> None:
        """A farewell is not waited for."""
        if not self._hurried.done():
            self._hurried.set_result(None)

    async def stop(self) -> StopOutcome:
        """End the session there, as far as the server hears of it. Cancelling the wait cuts nothing short."""
        await asyncio.shield(self._begin_ending())
        return StopOutcome(None, ())

    def _begin_ending(self) -> "asyncio.Task[None]":
        if self._ending is None:
            self._ending = asyncio.create_task(self._end(), name=f"end {self.title}")
        return self._ending

    async def _end(self) -> None:
        conversation, self._conversation = self._conversation, None
        try:
            if conversation is not None:
                conversation.refuse_new(CUT_OFF)
                conversation.cut(CUT_OFF)
                self.outlet.open_door()
                await conversation.abandon()
                if self._is_left:
                    return
                farewell = asyncio.ensure_future(conversation.aclose())
                await first_of(farewell, self._hurried, timeout_s=None)
                if not farewell.done():
                    farewell.cancel()
                await asyncio.gather(farewell, return_exceptions=True)
        finally:
            self._on_ended()


class _Outlet:
    """Where the conversation writes: to the receiver, at the loop's next turn, in order."""

    def __init__(self) -> None:
        self.receiver: Receiver | None = None
        self._lines: deque[bytes] = deque()
        self._is_next_aside = False
        self._aside: list[bytes] = []
        self._turns = asyncio.Lock()
        self._door = asyncio.Event()
        self._door.set()

    def write(self, line: bytes) -> None:
        """Not at once: whoever says something to an instance is not answered while it speaks."""
        if self._is_next_aside:
            self._is_next_aside = False
            self._aside.append(line)
            return
        if not self._lines:
            asyncio.get_running_loop().call_soon(self.deliver)
        self._lines.append(line)

    def set_next_aside(self) -> None:
        """The next line is not to be delivered before `deliver_aside`, if ever. It is one for each call."""
        self._is_next_aside = True

    def deliver_aside(self) -> None:
        """What was set aside is to be heard after all."""
        aside, self._aside = self._aside, []
        for line in aside:
            self.write(line)

    def deliver(self) -> None:
        """Whatever was written."""
        while self._lines:
            line = self._lines.popleft()
            if self.receiver is not None:
                call(self.receiver.on_line, line)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for room, and for those who came before."""
        async with self._turns:
            await self._door.wait()
            yield

    def close_door(self) -> None:
        """No room."""
        self._door.clear()

    def open_door(self) -> None:
        """Room again."""
        self._door.set()
