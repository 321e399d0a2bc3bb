"""One life of a container: what is said to it and heard of it, its exit, its end.

Invariants:
- What became of it is asked of the engine, never concluded: an event, the end of its output and a gap in the
  events all only make us look. An answer other than "it is not there" is no removal; no answer at all is none
  either. But callers do not wait for an engine that is busy: once its output has ended and an exit is known,
  they are told that; what else is found out later is for whoever has what is left.
- One task, owned here, looks; one ends it. Callers wait for them, none of them runs them.
- A receiver hears all lines, then `on_gone`, once; whoever made the runtime hears that just before. What they
  raise is logged and harms nobody.
- Once it is gone and not asked to end, what is left (the container) is no longer its concern: `on_left`.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from mooring.errors import MooringError, Unavailable, UserError
from mooring.runtimes.containers.attachment import Attachment
from mooring.runtimes.containers.endpoints import PODMAN
from mooring.runtimes.containers.engine import Engine
from mooring.runtimes.containers.events import Event, Happened
from mooring.runtimes.containers.exits import ContainerExit, Ending
from mooring.runtimes.containers.failures import Silence
from mooring.runtimes.containers.passing import ContainerPassport, PassedContainer
from mooring.runtimes.containers.states import Seen, Verdict, judge
from mooring.runtimes.containers.watch import Watch
from mooring.runtimes.output import Receiver, call
from mooring.runtimes.stopping import StopOutcome, StopPatience, first_of
from mooring.wire.budget import Budget

__all__ = ["ContainerInstance"]

log = logging.getLogger("mooring.containers")

OUTPUT_GRACE_S = 1.0
"""After the exit, for the end of its output."""
LEAVING_S = 1.0
"""For the exit after its output has ended: an engine ends the one a moment before it tells the other."""
ENDING_S = 5.0
"""For the end of a removal that somebody else has begun, or of a stop, its output having ended."""
DOUBT_S = 0.15
"""For the removal after a kill that may be the first half of one: callers wait for the news meanwhile."""
BUSY_S = 0.15
"""For a look at one that died, of which the exit was told: an engine that tidies up answers late."""
LOOK_AGAIN_S = 0.02
DOUBTFUL_LOOK_S = 0.05
"""Between two looks at one that may be about to be removed: each keeps Podman from its work for a moment."""
KILLED = 128 + 9
NOT_EXECUTED = (126, 127)
"""By convention: the program was not found, or is none."""
KILL_PATIENCE_S = 10.0
"""SIGKILL acts as soon as the engine and the kernel get to it, which takes seconds on a busy machine."""
HURRIED_S = 3.0
"""For an answer of the engine once there is no patience left; what it does not do then is done without us."""
ARRIVAL_S = 60.0
"""For one that another had to arrive, before it is stopped: more than it takes to meet an engine."""
MEDDLED_S = 15.0
"""An end so soon after somebody has asked for it is what was asked for: an engine itself waits for 10 s."""
MOST_EARLY_LINES = 100
"""Of stderr that come before we know its process; beyond that nobody waits for it."""
_T = TypeVar("_T")


class ContainerInstance:
    """A container that runs. Made by `ContainerRuntime` only."""

    stays = False
    speaks_modern = False
    trouble = None

    def __init__(
        self,
        *,
        name: str,
        n: int,
        max_line_bytes: int,
        unfinished: Budget,
        patience: StopPatience,
        on_stderr: Callable[[int, str], None],
        on_gone: "Callable[[ContainerInstance, ContainerExit], None]",
        on_paused: "Callable[[ContainerInstance, bool], None]",
        on_left: "Callable[[ContainerInstance], None]",
        on_closed: "Callable[[ContainerInstance], None]",
    ) -> None:
        loop = asyncio.get_running_loop()
        self.name = name
        self.n = n
        self.pid = 0
        """Of its first process, as the engine tells it; a number of its own where it tells none."""
        self.id = ""
        """Of the container."""
        self.life = ""
        self.published_port: int | None = None
        """Of this machine, which leads to the one that it was asked to publish."""
        self.started_at = 0.0
        self.is_paused = False
        self.channel = Attachment(
            max_line_bytes=max_line_bytes,
            unfinished=unfinished,
            on_text=self._on_text,
            on_writable=self._on_writable,
            on_end=self._on_output_end,
        )
        self.send = self.channel.send_line
        """Queue one line, given without its line end; returns the position where it begins, in bytes.

        Does nothing else once the instance is gone.
        """
        self.why_not: Callable[[str], UserError | None] = lambda text: None
        """Knows of a line of stderr whether it says that it can never run."""
        self.if_not_executed: UserError | None = None
        """What is wrong if its program cannot be executed."""
        self._patience = patience
        self._on_stderr = on_stderr
        self._tell_gone = on_gone
        self._tell_paused = on_paused
        self._tell_left = on_left
        self._tell_closed = on_closed
        self._engine: Engine | None = None
        self._watch: Watch | None = None
        self._looking: asyncio.Task[None] | None = None
        self._look_again = False
        self._ending: asyncio.Task[StopOutcome] | None = None
        self._output_bound: asyncio.TimerHandle | None = None
        self._news_bound: asyncio.TimerHandle | None = None
        self._doubted_at: float | None = None
        self._told_code: int | None = None
        self._told_memory = False
        self._meddled_at: float | None = None
        self._exited_at: float | None = None
        self._early: list[str] = []
        self._error: UserError | None = None
        self._is_removed = False
        self._is_being_removed = False
        """By us: then it is no removal by others that it is not there."""
        self._is_known: asyncio.Future[None] = loop.create_future()
        """There is an engine to ask about it, or never will be."""
        self._is_parted = False
        self._exited: asyncio.Future[ContainerExit] = loop.create_future()
        self._gone: asyncio.Future[None] = loop.create_future()
        self._hurried: asyncio.Future[None] = loop.create_future()

    @property
    def container(self) -> str:
        """Its id."""
        return self.id

    @property
    def process(self) -> int:
        """See `pid`."""
        return self.pid

    @property
    def title(self) -> str:
        """Names it, for people, and for whoever asks the engine about it."""
        return f"container {self.id[:12]}"

    def __repr__(self) -> str:
        return f"<ContainerInstance {self.name}:{self.n} {self.id[:12]}, {self.exit or 'running'}>"

    def expect(self, engine: Engine, watch: Watch, container: str) -> None:
        """There is a container for it: hear what happens to that."""
        self._engine, self._watch, self.id = engine, watch, container
        watch.listen(container, self)
        self._is_known.set_result(None)

    def begin(self, seen: Seen, started_at: float) -> None:
        """It runs."""
        self.life, self.started_at = seen.state.started_at, started_at
        self.published_port = seen.published_port
        self._be_known_as(seen.state.pid)
        self.look()

    def never_began(self) -> None:
        """It could not be started: nothing is heard of it any more."""
        self._is_parted = True
        self._be_known_as(0)
        self._stop_listening()
        if self._looking is not None:
            self._looking.cancel()
        self.channel.let_go()

    # Being passed on: see `passing`

    def describe(self) -> PassedContainer | None:
        """All that another needs to go on with it, now; None: it is ending, or something is under way."""
        if not self.life or self.exit or self._ending is not None or self._is_parted:
            return None
        descriptor, heard = self.channel.descriptor, self.channel.heard
        if descriptor is None or heard is None:
            return None
        about = ContainerPassport(self.id, self.life, self.pid, self.started_at, *heard, self.is_paused)
        return PassedContainer(about, (descriptor,))

    def hold(self) -> None:
        """Hear nothing of it and say nothing to it, until `go_on`."""
        self.channel.hold()

    def go_on(self) -> None:
        """After `hold`."""
        self.channel.go_on()

    def leave(self) -> None:
        """Another has it now: nothing is heard of it here any more, and nothing done to it."""
        self.never_began()

    def greet(self, passed: PassedContainer) -> None:
        """Another had it; from now on it can be spoken to."""
        about = passed.about
        self.id = about.id
        self.life, self.pid, self.started_at = about.life, about.pid, about.started_at
        self.is_paused = about.is_paused
        self.channel.begin_with(about.frames, about.stdout, about.stderr)

    def lose(self) -> None:
        """Another had it, and we cannot go on with it."""
        self._note_exit(ContainerExit(ending=Ending.ENGINE_GONE))
        if not self._is_known.done():
            self._is_known.set_result(None)

    # What the proxy needs of it

    @property
    def writable(self) -> bool:
        """Less than the high-water mark is waiting to be read by the instance."""
        return self.channel.writable

    def attach(self, receiver: Receiver) -> None:
        """From now on `receiver` hears it, and nobody else; before the first, its output is held back."""
        self.channel.attach(receiver)
        if self._gone.done():
            asyncio.get_running_loop().call_soon(call, receiver.on_gone, self._exited.result())

    def guard(self, may_speak: Callable[[], bool]) -> None:
        """See `proxy.ports.Guarded`."""
        self.channel.may_write = may_speak

    @property
    def consumed(self) -> int:
        """Up to which position (see `send`) it has read its input, at most."""
        return self.channel.consumed

    def pause_reading(self) -> None:
        """Hold back its output. Lines that were read already, and its last words, still come."""
        self.channel.pause()

    def resume_reading(self) -> None:
        """Read on."""
        self.channel.resume()

    # Its end

    @property
    def exit(self) -> ContainerExit | None:
        """How it ended, if it has."""
        return self._exited.result() if self._exited.done() else None

    @property
    def reaped(self) -> bool:
        """It is gone, and its container is removed or no longer its concern."""
        return self._is_removed

    @property
    def was_asked_to_end(self) -> bool:
        """By us."""
        return self._ending is not None

    @property
    def was_meddled_with(self) -> bool:
        """Somebody else has asked the engine for its end, or its restart, and that is why it ended."""
        if self._meddled_at is None:
            return False
        now = asyncio.get_running_loop().time() if self._exited_at is None else self._exited_at
        return now - self._meddled_at <= MEDDLED_S

    async def wait(self) -> ContainerExit:
        """Wait for its exit, as many as like."""
        return await asyncio.shield(self._exited)

    async def wait_gone(self) -> ContainerExit:
        """Wait until it has exited and its output has been read to the end."""
        await asyncio.shield(self._gone)
        return self._exited.result()

    async def stop(self) -> StopOutcome:
        """End it, and wait for that; see `_end`. Cancelling the wait does not cut the stop short."""
        return await asyncio.shield(self.begin_stop())

    def begin_stop(self) -> "asyncio.Task[StopOutcome]":
        """End it in the background. Only once: later calls join the first."""
        if self._ending is None or self._ending.cancelled():
            self._ending = asyncio.create_task(self._end(), name=f"end {self.name}:{self.n}")
            self._ending.add_done_callback(self._on_ended)
        return self._ending

    def hurry(self) -> None:
        """No more patience, now or later: a stop goes to SIGKILL at once."""
        if not self._hurried.done():
            self._hurried.set_result(None)

    async def unless_hurried(self, request: Coroutine[Any, Any, _T]) -> _T:
        """What the engine answers, which has bounds of its own; but once hurried, only HURRIED_S more for it.

        Raises Silence then: an engine that accepts and does not answer must not hold up our own end.
        """
        asking = asyncio.ensure_future(request)
        try:
            await first_of(asking, self._hurried, timeout_s=None)
            await first_of(asking, timeout_s=HURRIED_S)
            if not asking.done():
                raise Silence(str(self._engine.endpoint) if self._engine else "its socket", HURRIED_S)
            return asking.result()
        finally:
            if not asking.done():
                asking.cancel()
                await asyncio.wait([asking])

    def end_now(self) -> None:
        """SIGKILL, and remove it; blocks for the moment that this takes."""
        if self._engine is not None and self.id and not self._is_removed and not self._is_parted:
            self._is_removed = self._engine.remove_now(self.id)
        self._note_exit(ContainerExit(self._told_code))
        self.close()

    async def aclose(self) -> None:
        """Stop it, and give everything back."""
        await self.stop()
        self.close()
        if self._looking is not None:
            await asyncio.wait([self._looking])

    def close(self) -> None:
        """Give the connection back, at the loop's next turn."""
        self._stop_listening()
        if self._looking is not None:
            self._looking.cancel()
        self.channel.abort()

    async def _end(self) -> StopOutcome:
        """The Stop sequence.

        1. Close its stdin.
        2. Wait for its exit, at most `eof_grace_s`.
        3. SIGTERM to its first process, which passes it on.
        4. Wait for its exit, at most `stop_grace_s`.
        5. SIGKILL to all in it, and remove it: one request.
        6. Let its output come to its end.
        """
        if self._is_parted or self._is_removed:
            return StopOutcome(self.exit, ())
        # (One that another had has perhaps not arrived yet; in vain if that takes too long.)
        await first_of(self._is_known, self._hurried, timeout_s=ARRIVAL_S)
        await first_of(self._is_known, timeout_s=HURRIED_S)
        # 1
        self.channel.close_input()
        # 2
        if self._patience.eof_grace_s > 0 and not self.exit:
            await self._exit_within(self._patience.eof_grace_s)
        # 3, 4
        if not self.exit and not self._hurried.done() and await self._terminate():
            await self._exit_within(self._patience.stop_grace_s)
        # 5
        is_removed = await self._remove()
        # 6
        if is_removed:
            await first_of(self._exited, timeout_s=OUTPUT_GRACE_S)
        self._note_exit(
            ContainerExit(self._told_code) if is_removed else ContainerExit(ending=Ending.ENGINE_GONE)
        )
        await asyncio.shield(self._gone)
        self._is_removed = True
        self.close()
        if not is_removed:
            self._tell_left(self)
        self._tell_closed(self)
        return StopOutcome(self.exit, () if is_removed else (self.pid,))

    async def _exit_within(self, seconds: float) -> None:
        await first_of(self._exited, self._hurried, timeout_s=seconds)

    async def _terminate(self) -> bool:
        """One that is paused cannot act on a signal."""
        if (engine := self._engine) is None:
            return False
        try:
            if self.is_paused:
                await self.unless_hurried(engine.unpause(self.id))
            await self.unless_hurried(engine.kill(self.id, "SIGTERM"))
        except MooringError as error:
            log.debug("%r: no SIGTERM: %s", self, error.message)
            return False
        return True

    async def _remove(self) -> bool:
        """Until it is done, or our patience is over. An engine that is gone is not waited for."""
        if self._engine is None:
            return False
        engine, loop = self._engine, asyncio.get_running_loop()
        deadline = loop.time() + KILL_PATIENCE_S
        self._is_being_removed = True
        while True:
            try:
                if self.is_paused:
                    await self.unless_hurried(engine.unpause(self.id))
                await self.unless_hurried(engine.remove(self.id))
                return True
            except MooringError as error:
                if isinstance(error, Unavailable) or loop.time() > deadline:
                    log.warning("%r cannot be removed: %s", self, error.message, extra={"event": error.code})
                    return False
                await asyncio.sleep(10 * LOOK_AGAIN_S)

    def _on_ended(self, ending: "asyncio.Task[StopOutcome]") -> None:
        """Here and not in `_end`: a task that is cancelled before its first step runs nothing of it."""
        if ending.cancelled():
            self.end_now()
        elif error := ending.exception():
            log.error("stopping %r failed", self, exc_info=error)
            self.end_now()

    @property
    def _known_engine(self) -> Engine:
        if self._engine is None:
            raise RuntimeError("an instance without an engine")
        return self._engine

    def _stop_listening(self) -> None:
        if self._watch is not None:
            self._watch.forget(self.id, self)

    # What happens to it: `watch.Listener`

    def on_event(self, event: Event) -> None:
        """The engine tells something."""
        match event.happened:
            case Happened.MEDDLED:
                if self._ending is None:
                    self._meddled_at = asyncio.get_running_loop().time()
                return
            case Happened.OUT_OF_MEMORY:
                self._told_memory = True
                return
            case Happened.DIED:
                self._told_code = event.exit_code
                if self._is_being_removed:
                    self._note_exit(ContainerExit(event.exit_code, out_of_memory=self._told_memory))
                    return
                # (Podman's may be of the life before: they come late. What has not begun is looked at then.)
                if self.life and event.exit_code is not None and self._known_engine.kind != PODMAN:
                    self._tell_in(BUSY_S, ContainerExit(event.exit_code, out_of_memory=self._told_memory))
            case Happened.PAUSED | Happened.UNPAUSED:
                self._note_paused(event.happened is Happened.PAUSED)
                return
            case _:
                pass
        self.look()

    def on_gap(self) -> None:
        """Anything may have happened."""
        self.look()

    def look(self) -> None:
        """Find out what became of it, soon."""
        if not self.life or self._exited.done() or self._is_parted:
            return
        if self._looking is not None and not self._looking.done():
            self._look_again = True
            return
        self._looking = asyncio.create_task(self._look(), name=f"looking at {self.name}:{self.n}")
        self._looking.add_done_callback(self._on_looked)

    def _on_looked(self, looking: "asyncio.Task[None]") -> None:
        if not looking.cancelled() and (error := looking.exception()):
            log.error("looking at %r failed", self, exc_info=error)

    async def _look(self) -> None:
        """Until nothing is left to find out for now."""
        loop = asyncio.get_running_loop()
        began: float | None = None
        while not self._exited.done():
            self._look_again = False
            asked_at = loop.time()
            found = await self._ask()
            if isinstance(found, ContainerExit):
                doubt_s = self._doubt_s(found, asked_at)
                if doubt_s <= 0:
                    self._note_exit(found)
                    return
                self._tell_in(doubt_s, found)
            else:
                self._tell_later()
            if self._is_being_removed:
                return  # how it ended, only its event can tell
            if self._look_again:
                continue
            # Only with its output does it seem to be at its end: then it soon is, or we are cut off.
            is_leaving = (
                found is Verdict.BEING_REMOVED or isinstance(found, ContainerExit) or self.channel.closed
            )
            if not is_leaving:
                return
            began = loop.time() if began is None else began
            is_promised = found in (Verdict.BEING_REMOVED, Verdict.ENDING)
            bound_s = ENDING_S if is_promised else LEAVING_S
            if loop.time() - began > bound_s:
                self._note_exit(self._useless(found))
                return
            await asyncio.sleep(DOUBTFUL_LOOK_S if isinstance(found, ContainerExit) else LOOK_AGAIN_S)

    def _doubt_s(self, found: ContainerExit, asked_at: float) -> float:
        """How much longer something else than what was found, when first asked at that time, may be the case.

        Podman does not say of a container that it is being removed: it was killed, and then it is gone. One
        that somebody has sent a signal was killed, and no more. An answer that took long (as it does after a
        kill, not in the middle of a removal) has used up some of the time.
        """
        if self._known_engine.kind != PODMAN or self._ending is not None or self.was_meddled_with:
            return 0.0
        if found.ending is not Ending.EXITED or found.code != KILLED or found.out_of_memory:
            return 0.0
        if self._doubted_at is None:
            self._doubted_at = asked_at
        return self._doubted_at + DOUBT_S - asyncio.get_running_loop().time()

    def _tell_in(self, seconds: float, exit: ContainerExit) -> None:
        """That is its exit, unless something else is found by then; whatever an answer may take."""
        if self._news_bound is None:
            self._news_bound = asyncio.get_running_loop().call_later(seconds, self._tell_known, exit)

    def _tell_later(self) -> None:
        """There is more to find out than is known."""
        if self._news_bound is not None:
            self._news_bound.cancel()
            self._news_bound = None

    def _tell_known(self, exit: ContainerExit) -> None:
        self._news_bound = None
        if self.channel.closed:
            self._note_exit(exit)

    async def _ask(self) -> ContainerExit | Verdict | None:
        """What became of it; None: that is not known."""
        try:
            seen = await self._known_engine.inspect(self.id)
        except Unavailable:
            # It still speaks: that we cannot ask is no news of it.
            return ContainerExit(ending=Ending.ENGINE_GONE) if self.channel.closed else None
        except MooringError as error:
            log.debug("%r: %s", self, error.message, extra={"event": error.code})
            return None
        found = judge(self.life, seen)
        if isinstance(found, ContainerExit):
            is_ours = found.ending is Ending.REMOVED and self._is_being_removed
            return None if is_ours else self._with_what_was_told(found)
        self._note_paused(found is Verdict.PAUSED)
        return found

    def _with_what_was_told(self, found: ContainerExit) -> ContainerExit:
        """An event may have told what cannot be seen any more."""
        code = self._told_code if found.code is None else found.code
        memory = found.out_of_memory or self._told_memory
        return ContainerExit(code, ending=found.ending, out_of_memory=memory)

    def _useless(self, found: ContainerExit | Verdict | None) -> ContainerExit:
        if isinstance(found, ContainerExit):
            return found
        if found is Verdict.BEING_REMOVED:
            return ContainerExit(self._told_code)
        return ContainerExit(ending=Ending.CUT_OFF)

    def _note_paused(self, paused: bool) -> None:
        if paused != self.is_paused:
            self.is_paused = paused
            call(self._tell_paused, self, paused)

    def _note_exit(self, exit: ContainerExit) -> None:
        if self._exited.done() or self._is_parted:
            return
        error = (self.if_not_executed if exit.code in NOT_EXECUTED else None) or self._error
        if error is not None:
            exit = ContainerExit(exit.code, ending=exit.ending, out_of_memory=exit.out_of_memory, error=error)
        self._exited.set_result(exit)
        self._tell_later()
        loop = asyncio.get_running_loop()
        self._exited_at = loop.time()
        self.is_paused = False
        self.channel.read_to_end()
        if exit.ending is not Ending.EXITED:
            # There is no end of its output to wait for.
            self.channel.abort()
        self._output_bound = loop.call_later(OUTPUT_GRACE_S, self._become_gone)
        self._become_gone_if_heard()

    # Its output

    def _on_text(self, text: str) -> None:
        """Whoever looks for its last words does so by the number of its process."""
        if self._error is None:
            self._error = self.why_not(text)
        self._early.append(text)
        if self.pid or len(self._early) >= MOST_EARLY_LINES:
            self._be_known_as(0)

    def _be_known_as(self, pid: int) -> None:
        """By that number, and what was said before as well. 0: by one that no other container has.

        The number of its process cannot be known before it has begun, and not at all once it is gone.
        """
        self.pid = self.pid or pid or int(self.id[:7] or "0", 16)
        early, self._early = self._early, []
        for text in early:
            call(self._on_stderr, self.pid, text)

    def _on_writable(self) -> None:
        if self.channel.receiver is not None:
            call(self.channel.receiver.on_writable)

    def _on_output_end(self) -> None:
        if self._is_parted:
            return
        self._become_gone_if_heard()
        self.look()

    def _become_gone_if_heard(self) -> None:
        # With no receiver there is nothing to wait for, and a dead spare must not be lent.
        if self._exited.done() and (self.channel.closed or self.channel.receiver is None):
            self._become_gone()

    def _become_gone(self) -> None:
        """Exited, and heard to the end; or to the end of our patience."""
        if self._gone.done():
            return
        if self._output_bound is not None:
            self._output_bound.cancel()
        self.channel.finish()
        exit = self._exited.result()
        self._gone.set_result(None)
        if self._ending is None:
            self._leave_behind()
        call(self._tell_gone, self, exit)
        if self.channel.receiver is not None:
            call(self.channel.receiver.on_gone, exit)

    def _leave_behind(self) -> None:
        """It ended unasked: its container is the runtime's from now on."""
        self._is_removed = True
        self.close()
        self._tell_left(self)
        self._tell_closed(self)
