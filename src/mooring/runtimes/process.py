"""One child process: its pipes, its exit, its end.

Invariants:
- The leader is reaped last, after all else in its session has ended. Until then its number names
  nobody else, so its group and session can be signalled safely. Its exit is told before that.
- One task, owned here, ends an instance: begun by `stop`, by its exit, or by a pipe that closed
  without an exit. Callers wait for it, none of them runs it.
- A receiver hears all lines, then `on_gone`, once; whoever made the runtime hears that just before.
  What they raise is logged and harms nobody.
"""

import asyncio
import logging
from collections.abc import Callable

from mooring.runtimes.exits import CAN_PEEK, UNKNOWN, Exit, ExitWatch, peek, reap
from mooring.runtimes.input import InputPipe
from mooring.runtimes.lookout import Lookout
from mooring.runtimes.output import LineOutput, Receiver, TextOutput, call
from mooring.runtimes.passing import PassedProcess, Passport
from mooring.runtimes.pipes import Descriptor
from mooring.runtimes.proctable import Session
from mooring.runtimes.stopping import (
    StopOutcome,
    StopPatience,
    end_session,
    end_session_now,
    first_of,
)
from mooring.wire.budget import Budget

__all__ = ["DESCRIPTORS_EACH", "ProcessInstance"]

logger = logging.getLogger(__name__)

DESCRIPTORS_EACH = 4
"""Of an instance: its stdin, stdout and stderr, and the pidfd that tells of its exit."""
OUTPUT_GRACE_S = 1.0
"""After the exit, for the end of its output: something it started may hold the pipe open for ever."""
LEAVING_GRACE_S = 1.0
"""At least this for the exit after it closed its stdin or stdout itself: a program that exits does that."""


class ProcessInstance:
    """A running program. Made by `ProcessRuntime.start` only."""

    def __init__(
        self,
        *,
        name: str,
        n: int,
        max_line_bytes: int,
        unfinished: Budget,
        patience: StopPatience,
        lookout: Lookout,
        on_stderr: Callable[[int, str], None],
        on_gone: "Callable[[ProcessInstance, Exit], None]",
        on_reaped: "Callable[[ProcessInstance], None]",
        on_closed: "Callable[[ProcessInstance], None]",
        is_spoken_to: bool = True,
    ) -> None:
        """`is_spoken_to`: by its pipes, so that it is of no use without them."""
        loop = asyncio.get_running_loop()
        self.name = name
        self.n = n
        self.pid = 0
        self.started_at = 0.0
        self.stdin = InputPipe(self._on_writable, self._on_stdin_lost)
        self.send = self.stdin.send_line
        """Queue one line, given without its line end; returns the position where it begins, in bytes.

        Does nothing else once the instance is gone.
        """
        self.stdout = LineOutput(max_line_bytes, unfinished, self._on_stdout_end)
        self.stderr = TextOutput(lambda text: on_stderr(self.pid, text), self._on_pipe_closed)
        self._is_spoken_to = is_spoken_to
        self._patience = patience
        self._lookout = lookout
        self._tell_gone = on_gone
        self._tell_reaped = on_reaped
        self._tell_closed = on_closed
        self._session: Session | None = None
        self._watch: ExitWatch | None = None
        self._ending: asyncio.Task[StopOutcome] | None = None
        self._output_bound: asyncio.TimerHandle | None = None
        self._reaped = False
        self._survivors: tuple[int, ...] = ()
        self._exited: asyncio.Future[Exit] = loop.create_future()
        self._gone: asyncio.Future[None] = loop.create_future()
        self._closed: asyncio.Future[None] = loop.create_future()
        self._hurried: asyncio.Future[None] = loop.create_future()

    @property
    def title(self) -> str:
        """Names it, for people."""
        return f"pid {self.pid}"

    def __repr__(self) -> str:
        return f"<ProcessInstance {self.name}:{self.n} pid {self.pid}, {self.exit or 'running'}>"

    def begin(self, session: Session, started_at: float) -> None:
        """The process exists: watch it. Raises OSError if there is nothing left to do so with."""
        self._watch = ExitWatch(session.leader, self._on_exit)
        self.pid = session.leader
        self.started_at = started_at
        self._session = session

    # Being passed on: see `mooring.runtimes.passing`

    def describe(self) -> PassedProcess | None:
        """All that another needs to go on with it, now; None: it is ending, or something is under way."""
        session, watch = self._session, self._watch
        stdout = self.stdout.unfinished
        if session is None or watch is None or stdout is None or self.exit or self._ending is not None:
            return None
        descriptors = (
            self.stdin.descriptor,
            self.stdout.pipe.descriptor,
            self.stderr.pipe.descriptor,
            watch.pidfd,
        )
        whole = tuple(number for number in descriptors if number is not None)
        if len(whole) < len(descriptors):
            return None
        about = Passport(
            session.leader, session.started, session.marker, self.started_at, stdout, self.stderr.unfinished
        )
        return PassedProcess(about, whole)

    def hold(self) -> None:
        """Leave all that it says in its pipes, and say nothing to it, until `go_on`."""
        self.stdin.hold()
        self.stdout.hold()
        self.stderr.pipe.pause()

    def go_on(self) -> None:
        """After `hold`."""
        self.stdin.go_on()
        self.stdout.go_on()
        self.stderr.pipe.resume()

    def leave(self) -> None:
        """Another has it now: nothing is heard of it here any more, and nothing done to it."""
        self._session = None
        if self._watch is not None:
            self._watch.close()
        self.stdin.abort()
        self.stdout.let_go()
        self.stderr.let_go()

    async def arrive(self, passed: PassedProcess) -> None:
        """Another had it: read what it says, from where that one had come to, and watch it."""
        about, (_, stdout, stderr, pidfd) = passed
        self.stdout.begin_with(about.stdout)
        self.stderr.begin_with(about.stderr)
        await self.stdout.pipe.connect(Descriptor(stdout))
        self.stdout.turn()  # at once: what comes before somebody listens must stay in the pipe
        await self.stderr.pipe.connect(Descriptor(stderr))
        # Last: at its exit it must be possible to read its last words.
        self._watch = ExitWatch(self.pid, self._on_exit, pidfd)

    def greet(self, passed: PassedProcess) -> Session:
        """The first part of that, after which it can be spoken to."""
        about = passed.about
        self.pid, self.started_at = about.pid, about.started_at
        self._session = session = Session(about.pid, about.started, about.marker, anchored=False)
        self.stdin.connect(Descriptor(passed.descriptors[0]))
        return session

    # What the proxy needs of it

    container = ""
    published_port = None
    was_meddled_with = False
    stays = False
    speaks_modern = False
    trouble = None
    is_paused = False
    """Nobody can stop a process in a way that we would be told of."""

    @property
    def process(self) -> int:
        """Its pid."""
        return self.pid

    @property
    def writable(self) -> bool:
        """Less than the high-water mark is waiting to be read by the instance."""
        return self.stdin.writable

    def attach(self, receiver: Receiver) -> None:
        """From now on `receiver` hears it, and nobody else; before the first, its output is left unread."""
        self.stdout.attach(receiver)
        if self._gone.done():
            asyncio.get_running_loop().call_soon(call, receiver.on_gone, self._exited.result())

    def guard(self, may_speak: Callable[[], bool]) -> None:
        """See `proxy.ports.Guarded`."""
        self.stdin.may_write = may_speak

    @property
    def consumed(self) -> int:
        """Up to which position (see `send`) it has read its input, at most."""
        return self.stdin.consumed

    def pause_reading(self) -> None:
        """Leave its output in the pipe. Lines that were read already, and its last words, still come."""
        self.stdout.pause()

    def resume_reading(self) -> None:
        """Read on."""
        self.stdout.resume()

    # Its end

    @property
    def exit(self) -> Exit | None:
        """How it ended, if it has."""
        return self._exited.result() if self._exited.done() else None

    @property
    def reaped(self) -> bool:
        """It is no longer in the process table, nor is anything of its session."""
        return self._reaped

    @property
    def is_leftover(self) -> bool:
        """It is gone and reaped, but something that is not ours to end holds one of its pipes."""
        return self._reaped and self._gone.done()

    async def wait(self) -> Exit:
        """Wait for its exit, as many as like."""
        return await asyncio.shield(self._exited)

    async def wait_gone(self) -> Exit:
        """Wait until it has exited and its output has been read to the end."""
        await asyncio.shield(self._gone)
        return self._exited.result()

    async def stop(self) -> StopOutcome:
        """End it, and wait for that; see `_end`. Cancelling the wait does not cut the stop short."""
        return await asyncio.shield(self.begin_stop())

    def begin_stop(self) -> "asyncio.Task[StopOutcome]":
        """End it in the background. Only once: later calls join the first."""
        return self._begin_ending(self._patience.eof_grace_s)

    def hurry(self) -> None:
        """No more patience, now or later: a stop goes to SIGKILL at once."""
        if not self._hurried.done():
            self._hurried.set_result(None)

    def end_now(self) -> None:
        """SIGKILL to all, and reap; blocks for the moment that this takes."""
        if self._session is not None and not self._reaped:
            self._survivors = end_session_now(self._session)
            if self._note_exit():
                self._reap()
        self.close_pipes()

    async def aclose(self) -> None:
        """Stop it, and hear no more of what it left behind on purpose."""
        await self.stop()
        self.close_pipes()
        if self._reaped:
            await asyncio.shield(self._closed)

    def let_go(self) -> None:
        """Hear what a leftover has said so far, and no more."""
        self.stderr.pipe.read_rest()
        self.close_pipes()

    def close_pipes(self) -> None:
        """Give the descriptors back, at the loop's next turn."""
        self.stdin.abort()
        self.stdout.pipe.close()
        self.stderr.pipe.close()

    def _begin_ending(self, eof_grace_s: float, leaving_s: float = 0) -> "asyncio.Task[StopOutcome]":
        if self._ending is None or self._ending.cancelled():
            self._ending = asyncio.create_task(
                self._end(eof_grace_s, leaving_s), name=f"end {self.name}:{self.n}"
            )
            self._ending.add_done_callback(self._on_ended)
        return self._ending

    async def _end(self, eof_grace_s: float, leaving_s: float) -> StopOutcome:
        """The Stop sequence.

        1. Close its stdin.
        2. Wait for its exit, at most `eof_grace_s`. It may be deaf: then cut off what is queued.
        3. SIGTERM to its group, and to what its session holds beyond it.
        4. Wait until all are gone, at most `stop_grace_s`.
        5. SIGKILL to the same.
        6. Sweep: again until nothing is left of its session.
        7. Reap it, and let its output come to its end.
        """
        if leaving_s > 0:
            # It seems to be on its way out. Only with its exit do we know how far it read its input,
            # and closing that before would lose it.
            await first_of(self._exited, self._hurried, timeout_s=leaving_s)
        # 1
        self.stdin.close()
        # 2
        if eof_grace_s > 0:
            await first_of(self._exited, self._hurried, timeout_s=eof_grace_s)
        self.stdin.abort()
        # 3 to 6
        if self._session is not None and not self._reaped:
            self._survivors = await end_session(
                self._session,
                self._lookout,
                self._patience.stop_grace_s,
                exited=self._exited,
                hurried=self._hurried,
            )
        # 7
        if self.pid not in self._survivors:
            await asyncio.shield(self._exited)
            self._reap()
            await first_of(self._closed, timeout_s=OUTPUT_GRACE_S)
            await asyncio.shield(self._gone)
        return StopOutcome(self.exit, self._survivors)

    def _on_ended(self, ending: "asyncio.Task[StopOutcome]") -> None:
        """Here and not in `_end`: a task that is cancelled before its first step runs nothing of it."""
        if ending.cancelled():
            self.end_now()
        elif error := ending.exception():
            logger.error("stopping %r failed", self, exc_info=error)
            self.end_now()

    def _on_exit(self) -> None:
        """Called by the watch: it has exited, and nobody has reaped it."""
        self._note_exit()
        if self._ending is not None and self._ending.done():
            self._ending = None  # it gave up on this one, which has ended after all
        self._begin_ending(0)

    def _note_exit(self) -> bool:
        if self._exited.done():
            return True
        if (ended := peek(self.pid)) is None:
            return False
        self._exited.set_result(ended)
        if self._session is not None:
            self._session.anchored = CAN_PEEK and ended != UNKNOWN
        self.stdin.abort()
        self.stdout.read_to_end()
        loop = asyncio.get_running_loop()
        self._output_bound = loop.call_later(OUTPUT_GRACE_S, self._become_gone)
        self._become_gone_if_heard()
        return True

    def _reap(self) -> None:
        if self._reaped:
            return
        self._reaped = True
        if self._watch is not None:
            self._watch.close()
        if self._session is not None:
            self._session.anchored = False
        if CAN_PEEK:
            reap(self.pid)
        self._tell_reaped(self)
        self._on_pipe_closed()

    # Its pipes

    def _on_writable(self) -> None:
        if self.stdout.receiver is not None:
            call(self.stdout.receiver.on_writable)

    def _on_stdin_lost(self) -> None:
        self._on_pipe_closed()
        self._end_if_useless()

    def _on_stdout_end(self) -> None:
        self._on_pipe_closed()
        self._become_gone_if_heard()
        self._end_if_useless()

    def _on_pipe_closed(self) -> None:
        pipes_closed = self.stdin.closed and self.stdout.pipe.closed and self.stderr.pipe.closed
        if self._reaped and pipes_closed and not self._closed.done():
            self._closed.set_result(None)
            self._tell_closed(self)

    def _end_if_useless(self) -> None:
        """Without stdin or stdout nothing can be asked of it or answered, for ever: calls would hang."""
        is_up = self._session is not None and self.exit is None and self._ending is None
        if is_up and self._is_spoken_to:
            self._begin_ending(self._patience.eof_grace_s, LEAVING_GRACE_S)

    def _become_gone_if_heard(self) -> None:
        # With no receiver there is nothing to wait for, and a dead spare must not be lent.
        if self._exited.done() and (self.stdout.pipe.closed or self.stdout.receiver is None):
            self._become_gone()

    def _become_gone(self) -> None:
        """Exited, and heard to the end; or to the end of our patience with what holds its stdout."""
        if self._gone.done():
            return
        if self._output_bound is not None:
            self._output_bound.cancel()
        self.stdout.finish()
        self._gone.set_result(None)
        call(self._tell_gone, self, self._exited.result())
        if self.stdout.receiver is not None:
            call(self.stdout.receiver.on_gone, self._exited.result())
