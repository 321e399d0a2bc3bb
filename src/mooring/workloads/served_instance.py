"""One session with a program that we have started and that serves all sessions, as an instance.

Invariants:
- Nothing is said to the program before it listens: what is said earlier waits here, and was never read.
- Of the program's exit its receiver hears once, after all that the program has answered. A connection that
  breaks is mostly the first sign of an exit: whoever waits for an answer is told of the exit, which says why;
  only if there is none, that the connection was lost.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from mooring.proxy.ports import ExitLike, Receiver
from mooring.remote.conversation import Conversation
from mooring.runtimes.output import call
from mooring.wire.failures import Failure
from mooring.workloads.makers import Instance
from mooring.workloads.remote_instance import RemoteInstance

__all__ = ["ServedInstance"]

DOUBT_S = 1.0
"""For the news of an exit, after a connection was lost: an engine takes a while to tell of a container's."""
REMEMBERED_LINES = 64
"""Of which is known whether anything of them has gone out; older ones count as read."""
LOSSES = frozenset({"connection_lost", "unreachable"})
"""How calls fail whose program has exited, as long as that is not known."""


class ServedInstance(RemoteInstance):
    """See `makers.Instance`."""

    def __init__(self, n: int, program: Instance, *, on_ended: Callable[[], None]) -> None:
        super().__init__(n, program.started_at, on_ended=on_ended)
        self._program = program
        self._early: list[bytes] | None = []
        self._exit: ExitLike | None = None
        self._recent: deque[tuple[int, int]] = deque(maxlen=REMEMBERED_LINES)
        """Where lines began that the conversation has got, and their identities."""
        self._left_at: int | None = None
        """What was said from here on came after the program's exit."""
        self._read_bytes: int | None = None
        """Of what was said to it, once it is lost."""
        self._doubt: asyncio.TimerHandle | None = None
        self._doubted: Failure | None = None

    # What it is a session with

    @property
    def container(self) -> str:
        """That of the program."""
        return self._program.container

    @property
    def process(self) -> int:
        """That of the program."""
        return self._program.process

    @property
    def is_paused(self) -> bool:
        """The program is."""
        return self._program.is_paused

    @property
    def was_meddled_with(self) -> bool:
        """The program was."""
        return self._program.was_meddled_with

    @property
    def title(self) -> str:
        """Names it, for people."""
        return f"{self._program.title}, session {self.n}"

    def __repr__(self) -> str:
        return f"<ServedInstance {self.n} of {self._program!r}>"

    # Speaking to it

    @property
    def writable(self) -> bool:
        """Not before the program listens."""
        return self._early is None

    @property
    def consumed(self) -> int:
        """Nothing before the program has listened, and nothing of which not a byte has gone out."""
        if self._early is not None:
            return 0
        return super().consumed if self._read_bytes is None else self._read_bytes

    def open(self, conversation: Conversation) -> None:
        """The program listens."""
        if self.is_ending:
            return
        early, self._early = self._early or [], None
        self.begin(conversation)
        for line in early:
            super()._say(line)
        if self.outlet.receiver is not None:
            call(self.outlet.receiver.on_writable)

    def _say(self, line: bytes) -> None:
        if self._early is not None:
            self._early.append(line)
        elif self._left_at is None:
            self._recent.append((self._sent_bytes - len(line) - 1, id(line)))
            super()._say(line)

    def attach(self, receiver: Receiver) -> None:
        """From now on `receiver` hears it."""
        if self._exit is None:
            super().attach(receiver)
        else:
            asyncio.get_running_loop().call_soon(call, receiver.on_gone, self._exit)

    def on_outcome(self, failure: Failure | None) -> None:
        """A call was answered: by the program, or by us in its place."""
        if failure is None or failure.reason not in LOSSES or self.is_ending:
            super().on_outcome(failure)
            return
        self._doubted = failure
        self.outlet.set_next_aside()
        if self._doubt is None and self._left_at is None:
            self._doubt = asyncio.get_running_loop().call_later(DOUBT_S, self._believe)

    def _believe(self) -> None:
        """The program has not exited: connections were lost."""
        self._doubt = None
        super().on_outcome(self._doubted)
        self.outlet.deliver_aside()

    # Its end

    def leave(self) -> None:
        """Its program has exited: nothing more is said to it, and what it has answered is still heard."""
        if self._left_at is None:
            self._left_at = self._sent_bytes
        self._forget_doubt()

    @property
    def calls_sent(self) -> int:
        """Calls that may still be answered."""
        return 0 if self._conversation is None else self._conversation.calls_sent

    def lose(self, exit: ExitLike) -> None:
        """Its program is no more; there is nobody to take leave of. Not if it was to end anyway."""
        if self.is_ending:
            return
        self._exit = exit
        self.leave()
        self._read_bytes = self._find_read()
        self.outlet.deliver()
        receiver, self.outlet.receiver = self.outlet.receiver, None
        self.hurry()
        self._begin_ending()
        if receiver is not None:
            call(receiver.on_gone, exit)

    def _find_read(self) -> int:
        """Up to the last line of which something has gone out: those after it can be said to another."""
        unsent = self._conversation.unsent if self._conversation is not None else frozenset[int]()
        read = self._left_at or 0
        for position, line in reversed(self._recent):
            # (A line that is no more may have had the same identity. It was answered, so it does no harm.)
            if line not in unsent:
                break
            read = position
        return read

    async def _end(self) -> None:
        self._forget_doubt()
        await super()._end()

    def _forget_doubt(self) -> None:
        if self._doubt is not None:
            self._doubt.cancel()
            self._doubt = None
