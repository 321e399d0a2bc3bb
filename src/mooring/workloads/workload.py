"""One workload put together: supervisor, instances and sessions.

Hands out instances (`Crew` knows what each is for) and finds out whether the server works. An exit of a spare
or lent instance is unasked and goes to the supervisor *before* the session hears of it: what the session then
does is already decided by policy.
"""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from mooring.errors import MooringError, ServerFailed, Unavailable, UserError
from mooring.proxy.link import LinkState
from mooring.proxy.ports import Channel, Upstream
from mooring.proxy.proxy import Proxy
from mooring.runtimes.exits import Exit
from mooring.runtimes.household import Household
from mooring.secrets.masking import Mask
from mooring.supervise.reasons import Reason, ReasonCode
from mooring.supervise.snapshot import Snapshot, SupervisedSoFar
from mooring.supervise.states import State
from mooring.supervise.supervisor import Supervisor
from mooring.wire.budget import Budget
from mooring.wire.failures import Failure
from mooring.wire.memory import Handshake
from mooring.workloads.crew import Crew, InstanceReport, Lent
from mooring.workloads.definition import ServerOptions
from mooring.workloads.happenings import (
    Happening,
    Kind,
    exit_happening,
    given_up_happening,
    state_happening,
)
from mooring.workloads.makers import Ears, Instance, make_maker
from mooring.workloads.moving import Moving
from mooring.workloads.obstacles import LOOK_AGAIN_S, Obstacles
from mooring.workloads.probe import Deaf
from mooring.workloads.recollection import Ended, Recollection
from mooring.workloads.resolving import Resolving
from mooring.workloads.trial import Trial
from mooring.workloads.words import ENVIRONMENT_HINT, exit_line, failure_line, hint_if_silent, state_line

if TYPE_CHECKING:
    from mooring.runtimes.containers.harbours import Harbours

__all__ = ["InstanceReport", "Workload"]

log = logging.getLogger("mooring.workload")
server_log = logging.getLogger("mooring.server")
Made = TypeVar("Made", bound=Instance | None)

ENDING = frozenset({State.DRAINING, State.STOPPING, State.STOPPED})
TAKEN = {
    "engine_gone": ReasonCode.ENGINE_UNREACHABLE,
    "server_exited": ReasonCode.RESTARTING,
    "server_restarted": ReasonCode.RESTARTING,
}
"""Instances that were lost through no fault of the server, by the reason of their end."""
REFUSED_AGAIN_S = 5.0
"""In `failed`, between two attempts at a server elsewhere: it is asked, and not started."""
MOST_SPARES_LOST = 3
"""In a row: a server that does not stay while nobody speaks to it gets no more spares."""


class Workload:
    """A named server, kept reachable."""

    def __init__(
        self,
        definition: ServerOptions,
        *,
        clock: Callable[[], float],
        wall: Callable[[], float] = time.time,
        on_ended: Callable[[], None] = lambda: None,
        on_happening: Callable[[Happening], None] = lambda happening: None,
        on_unwanted: Callable[[str], None] = lambda why: None,
        household: Household | None = None,
        harbours: "Harbours | None" = None,
        resolving: Resolving | None = None,
        generation: int = 0,
    ) -> None:
        """`on_unwanted`: somebody has removed what it runs in, so that it is to end.

        `harbours`: where its containers are, if it runs in any. `resolving`: who follows its references, if
        it has any.
        """
        if definition.elsewhere and resolving is None:
            raise ValueError("references need somebody who follows them")
        self.definition = definition
        self._resolving = resolving
        self.mask = Mask()
        self.name = definition.name
        self.exits = 0
        self._clock = clock
        self._wall = wall
        self._on_ended = on_ended
        self._on_happening = on_happening
        self._on_unwanted = on_unwanted
        self.recollection = Recollection()
        self.proxy = Proxy(self, definition.sessions, clock, definition.name)
        self.proxy.noise.mask = self.mask
        self.proxy.lost_sessions.on_lost = self._on_session_lost
        self.unfinished = Budget(definition.sessions.budget_bytes, definition.max_instances)
        """What instances have written of lines that have not ended."""
        loop = asyncio.get_running_loop()
        is_elsewhere = definition.remote is not None
        self.supervisor = Supervisor(
            replace(definition.restarts, failed_retry_s=REFUSED_AGAIN_S)
            if is_elsewhere
            else definition.restarts,
            clock=clock,
            call_later=loop.call_later,
            random=random.random,
            on_change=self._on_change,
            name=definition.name,
        )
        self._obstacles = Obstacles(self.name, self.supervisor, self._someone_must_try)
        maker = make_maker(
            definition,
            Ears(
                on_stderr=self._on_stderr,
                on_gone=self._on_gone,
                on_program_gone=self._on_program_gone,
                on_removed=self._on_removed,
                on_paused=self._obstacles.on_paused,
                on_progress=self._obstacles.on_progress,
                on_engine=self._on_engine,
                on_decided=self._on_decided,
                on_trouble=self._on_trouble,
                on_excused=self.supervisor.excuse,
            ),
            unfinished=self.unfinished,
            clock=clock,
            household=household,
            harbours=harbours,
            look_up=self._look_up,
            logins=resolving.logins if resolving is not None else None,
            generation=generation,
            trail=self.proxy.trail,
        )
        self._crew = Crew(maker)
        hint = hint_if_silent(definition.served, definition.remote)
        self.trial = Trial(self.name, self.proxy, self.supervisor, self._obstacles.in_trouble, hint)
        self.trial.is_elsewhere = is_elsewhere
        self.moving = Moving(self._crew, self.proxy, self.supervisor)
        self.moving.on_useless = lambda instance: self.release(instance, "nobody can use it")
        self._spares_lost = 0
        self._later: asyncio.TimerHandle | None = None
        self._state = self.supervisor.state
        self._was_ready = False
        self._launching = 0
        self._is_parted = False
        self._is_unwanted = False
        self._tasks: set[asyncio.Task[None]] = set()

    # What is known

    def report(self) -> list[InstanceReport]:
        """One line for each instance."""
        return self._crew.report(self.proxy, self._clock())

    # Life

    async def check(self) -> None:
        """Can it be started at all? Raises UserError."""
        await self._crew.maker.check(await self._look_up())

    def start(self) -> None:
        """Begin: speak to one instance, to see whether the server works."""
        self._someone_must_try()

    def go_on(self, so_far: SupervisedSoFar) -> None:
        """Instead of `start`: another Mooring has come so far."""
        self.supervisor.go_on(so_far)
        if self.definition.elsewhere:
            self._spawn(self._learn_values(), "learning what to mask")
        self._state = self.supervisor.state
        self._was_ready = so_far.is_ready
        self._someone_must_try()

    def part(self) -> None:
        """Another Mooring has it from now on: what becomes of the rest of it here is no news."""
        self._is_parted = True
        self._dismiss_spares("another daemon has taken over")

    def drain(self, cause: str, code: ReasonCode = ReasonCode.SIGNAL) -> None:
        """Shutdown has begun."""
        self._dismiss_spares("shutting down")
        self.supervisor.drain(cause, code=code)

    async def stop(self, reason: str) -> None:
        """End the sessions, then every instance; returns when none is left. Idempotent."""
        self.supervisor.stop(reason)
        await self.proxy.aclose(reason)
        self._obstacles.close()
        if self._later is not None:
            self._later.cancel()
        self._crew.lent.clear()  # from here on every exit is asked for
        self._dismiss_spares(reason)
        for task in list(self._tasks):
            task.cancel()
        await self._crew.maker.aclose()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self.proxy.noise.end_second()
        self.supervisor.stopped()

    def hurry(self) -> None:
        """No more patience with instances that are being stopped."""
        self._crew.maker.hurry()

    # Handing out instances: the proxy's Backend

    def refusal(self) -> Unavailable | None:
        """Why no new session can be served within the time that a client waits."""
        refusal = self.supervisor.refusal()
        if isinstance(refusal, Unavailable):
            return refusal
        if refusal is not None:
            return Unavailable(refusal.message, code=refusal.code, hint=refusal.hint)
        seen = self.supervisor.snapshot()
        retry_in_s = seen.retry_in_s or 0.0
        if seen.state is State.BACKOFF and retry_in_s > self.definition.sessions.recovery_wait_s:
            text = f"{self.name} is restarted in {retry_in_s:.0f} s; last exit: {seen.last_exit}"
            return Unavailable(text, code=str(seen.reason.code), retry_after_s=retry_in_s)
        return None if self._crew.spares else self._refusal_when_full(1)

    async def acquire(self, *, expendable: bool = False) -> Channel:
        """An instance nobody has spoken to: one that comes back, a spare, or a new one."""
        await self.supervisor.admit()
        if not expendable and (trouble := self._obstacles.trouble) is not None:
            raise trouble
        instance = None if expendable else await self._regain()
        if instance is None and (instance := self._crew.take_spare()) is not None:
            self._spares_lost = 0  # this one stayed
        if instance is None:
            instance = await self._launch()
        self._crew.lend(instance, self._clock(), expendable=expendable)
        if self._is_asked_again and not expendable:
            await self._ask_first(instance)
        return instance

    async def _ask_first(self, instance: Instance) -> None:
        """Where no client is introduced, nothing else would show that it works before calls do."""
        discovery = self.proxy.stateless.discovery
        if discovery is None or not discovery.is_modern:
            return
        try:
            failure = await self.trial.ask(instance)
        except asyncio.CancelledError:
            self.release(instance, "nobody needs it any more")
            raise
        if failure is not None:
            self.release(instance, failure.message)
            raise Unavailable(f"{self.name}: {failure.message}", code=failure.reason)
        self._note_works(instance)

    async def _regain(self) -> Instance | None:
        """A container that somebody has restarted is gone on with, and not replaced."""
        if not self._crew.maker.may_return:
            return None
        return await self._made(self._crew.maker.regain)

    def spoke(self, channel: Channel) -> None:
        """It works; so the workload does, and is in use: a spare is worth having."""
        self._note_works(channel)
        if len(self._crew.spares) > self.definition.spare:
            asyncio.get_running_loop().call_soon(self._trim_spares)  # when its link knows that it is live
        if channel in self._crew.lent and self._wants_spare() and self.supervisor.state is State.READY:
            self._spawn(self._make_spare(), "making a spare")

    def _note_works(self, channel: Channel) -> None:
        if (lent := self._crew.lent.get(channel)) is not None:
            self._crew.working.add(channel)
            self._obstacles.none()
            self.supervisor.instance_spoke(lent.instance.n)

    def release(self, channel: Channel, reason: str, *, failed: bool = False) -> None:
        """Stop an instance that is no longer needed."""
        worked = channel in self._crew.working
        lent = self._crew.take_back(channel)
        if lent is None:
            return
        reason = self.mask(reason)  # it may be what the server said
        if failed and self.definition.remote is not None:
            self._lose_elsewhere(lent.instance, reason, worked=worked)
        elif not (failed or worked or lent.expendable) and self._is_asked_again:
            self.trial.heard(lent.instance)
        elif failed:
            # First: those that are sessions with the same program do not work any more either.
            self._crew.maker.replace(lent.instance, reason)
            self._on_failed(lent, reason)
        self._dismiss(lent.instance, reason)
        self.settle()
        # It may have been the only one that tried whether the server works.
        asyncio.get_running_loop().call_soon(self._someone_must_try)

    def _lose_elsewhere(self, instance: Instance, reason: str, *, worked: bool) -> None:
        """What runs elsewhere is not ours to restart, so that nothing is counted: it is looked at again.

        Of one that worked and fell silent no more is known than that: the next attempt is made at once. What
        only people can put right is told at once, too, by whoever has met it first.
        """
        if not (worked or self._crew.working) and self.trial.heard(instance):
            return
        trouble = instance.trouble
        if trouble is None and worked:
            about = self._about(instance, "server_given_up")
            log.warning("%s: %s is opened anew: %s", self.name, instance.title, reason, extra=about)
        else:
            trouble = trouble and trouble._replace(message=self.mask(trouble.message))
            self._obstacles.in_trouble(trouble or Failure("unreachable", reason))
        why = Reason(ReasonCode.UNREACHABLE, trouble.message if trouble is not None else reason)
        self.supervisor.unusable(why, others_working=bool(self._crew.working))

    def doubt_handshakes(self) -> bool:
        """See `Backend`: here nothing is known of eras."""
        return False

    def take_leave(self, backend: str, upstream: str, handshake: Handshake) -> None:
        """See `Backend`."""
        remote = self.definition.remote
        if remote is not None and remote.shown_url == backend:  # otherwise it is another server's
            self._spawn(self._take_leave(backend, upstream, handshake), "taking leave")

    async def _take_leave(self, backend: str, upstream: str, handshake: Handshake) -> None:
        try:
            channel = await self.acquire()
        except MooringError as error:
            log.debug("%s: the server does not hear of the end of a session: %s", self.name, error.message)
            return
        if isinstance(channel, Upstream) and channel.backend == backend:
            channel.go_on_with(upstream, handshake)
        self.release(channel, "its session has ended")

    def settle(self) -> None:
        """A spare is kept only while somebody needs instances."""
        if self._crew.lent or any(s.state is LinkState.CONNECTING for s in self.proxy.sessions.values()):
            return
        self._dismiss_spares("not in use")
        self.supervisor.idle()

    async def _launch(self) -> Instance:
        if (full := self._refusal_when_full(0)) is not None:
            self._obstacles.met(full)
            raise full
        return await self._made(self._crew.maker.start)

    async def _made(self, make: Callable[[Mapping[str, str]], Awaitable[Made]]) -> Made:
        """What `make` gives, and what is to be done if it cannot."""
        self._launching += 1
        try:
            instance = await make(await self._look_up())
        except (UserError, ServerFailed) as error:
            # It could when we looked before listening: a program was removed, a directory renamed. Of one
            # that works it says nothing more than that there is no other now.
            if not self._crew.working:
                self.supervisor.cannot_start(error)
            raise Unavailable(error.message, code="cannot_start", hint=error.hint) from error
        except Unavailable as error:
            self._obstacles.met(error)
            raise
        finally:
            self._launching -= 1
        if instance is None:
            return instance
        if self._is_unwanted:
            self._dismiss(instance, "somebody has removed another")
            raise Unavailable(f"{self.name} is ending", code="shutting_down")
        self.supervisor.instance_started(instance.n, instance.started_at)
        log.debug(
            "%s: %s started", self.name, instance.title, extra=self._about(instance, "instance_started")
        )
        return instance

    async def _look_up(self) -> dict[str, str]:
        """The variables that its references lead to now: those of one start, not of the next."""
        if self._resolving is None or not self.definition.elsewhere:
            return {}
        resolved = await self._resolving.resolve(self.definition)
        self.mask.learn(resolved.values.items())
        return dict(resolved.variables)

    async def _learn_values(self) -> None:
        """Processes that another Mooring has started may say them."""
        try:
            await self._look_up()
        except MooringError as error:
            log.warning("%s: what it says cannot be masked: %s", self.name, error.message)

    def _refusal_when_full(self, wanted: int) -> Unavailable | None:
        """Sessions can come and go faster than their processes end."""
        most = self.definition.max_instances
        if len(self._crew) + self._launching + wanted <= most:
            return None
        return Unavailable(
            f"{self.name} has {most} instances, many of which are being stopped; no more are started",
            code="too_many_processes",
            hint="a server should end when its input does; --eof-grace and --stop-grace end it sooner",
            retry_after_s=LOOK_AGAIN_S,
        )

    def _wants_spare(self) -> bool:
        return (
            not self._is_parted
            and len(self._crew.spares) < self.definition.spare
            and self._spares_lost < MOST_SPARES_LOST
        )

    async def _make_spare(self) -> None:
        if self._launching or not self._wants_spare() or not self._crew.lent:
            return
        try:
            instance = await self._launch()
        except MooringError as error:
            log.debug("%s: no spare could be started: %s", self.name, error.message)
            return
        if self._crew.lent and self._wants_spare():
            self._crew.spares.append(instance)
        else:
            self._dismiss(instance, "not in use")

    def _dismiss_spares(self, reason: str) -> None:
        spares, self._crew.spares = self._crew.spares, []
        for spare in spares:
            self._dismiss(spare, reason)

    def _dismiss(self, instance: Instance, reason: str) -> None:
        instance.attach(Deaf())
        log.debug(
            "%s: %s is stopped: %s",
            self.name,
            instance.title,
            reason,
            extra=self._about(instance, "instance_stopping"),
        )
        self._spawn(self._stop_instance(instance), f"stopping {instance.title}")

    async def _stop_instance(self, instance: Instance) -> None:
        outcome = await instance.stop()
        if outcome.survivors:
            log.error(
                "%s: %s could not be ended: %s",
                self.name,
                instance.title,
                ", ".join(map(str, outcome.survivors)),
                extra=self._about(instance, "survivors"),
            )

    # What instances do by themselves

    def _on_stderr(self, pid: int, text: str) -> None:
        text = self.mask(text)
        self.recollection.heard(pid, text)
        if self.proxy.noise.admits(len(text)):
            server_log.info("%s", text, extra={"server": self.name, "pid": pid, "event": "server_stderr"})

    def _on_gone(self, instance: Instance, exit: Exit) -> None:
        """An instance has ended. Called before its receiver hears of it."""
        self._obstacles.on_gone(instance)
        if (lent := self._crew.lent.get(instance)) is not None and lent.expendable and exit.is_its_own:
            log.debug("%s: %s did not bear what it was asked: %s", self.name, instance.title, exit)
            return
        self._crew.take_back(instance)
        if self._crew.forget(instance):
            self._spares_lost += exit.is_its_own
            if self._crew.working:
                # It serves nobody, and others show that the server works: no reason to hold back.
                log.debug("%s: spare %s ended: %s", self.name, instance.title, exit)
                return
        elif lent is None:
            return  # asked for
        ran_s = self._clock() - instance.started_at
        self._note_end(instance, exit, str(exit), exit_happening(instance.title, exit, ran_s))
        self._draw_conclusions(instance, exit, lent.since if lent is not None else instance.started_at)
        line = exit_line(self.name, instance.title, exit, self.supervisor.snapshot())
        about = self._about(instance, "server_exited")
        log.log(line.level, line.text, extra={**about, "code": exit.code, "signal": exit.signal})
        if not self._was_ready and self.exits == 1 and self.definition.is_process:
            log.info("%s: %s", self.name, ENVIRONMENT_HINT, extra={"event": "hint", "server": self.name})
        # Not at once: the session that has lost its instance will want the spare, now or at its next call.
        if (idle_s := self.definition.sessions.idle_timeout_s) is not None:
            if self._later is not None:
                self._later.cancel()
            self._later = asyncio.get_running_loop().call_later(idle_s, self.settle)

    def _on_program_gone(self, instances: Sequence[Instance], exit: Exit | None) -> None:
        """It has ended once, however many were sessions with it: one of them tells of it, as the last."""
        telling = None if exit is None else self._most_telling(instances)
        for instance in instances:
            if instance is not telling:
                self._obstacles.on_gone(instance)
                self._crew.take_back(instance)
                self._crew.forget(instance)
        if telling is not None and exit is not None:
            self._on_gone(telling, exit)

    def _most_telling(self, instances: Sequence[Instance]) -> Instance | None:
        """One that somebody needed, if there is any."""
        lent = [one for one in instances if (it := self._crew.lent.get(one)) and not it.expendable]
        return next(iter(lent or instances), None)

    def _draw_conclusions(self, instance: Instance, exit: Exit, since: float) -> None:
        """The supervisor is told. Of a removal it knows already."""
        others_work = bool(self._crew.working)
        if exit.error is not None:
            self.supervisor.cannot_start(exit.error)
        elif exit.is_its_own and not instance.was_meddled_with:
            self.supervisor.instance_exited(instance.n, since, str(exit), others_working=others_work)
        elif (code := TAKEN.get(exit.reason)) is not None:
            self.supervisor.instance_taken(instance.n, str(exit), code=code, others_working=others_work)

    def _on_failed(self, lent: Lent, reason: str) -> None:
        """An instance runs, and does not do its part: it counts as if it had ended by itself."""
        instance = lent.instance
        self._note_end(instance, Exit(None, None), "given up", given_up_happening(instance.title, reason))
        others_work = bool(self._crew.working)
        self.supervisor.instance_exited(instance.n, lent.since, reason, others_working=others_work)
        line = failure_line(self.name, instance.title, reason, self.supervisor.snapshot())
        log.log(line.level, line.text, extra=self._about(instance, "server_given_up"))

    def _on_engine(self, trouble: MooringError | None) -> None:
        if not self._is_parted:
            # What is elsewhere is gone with its address; what runs here goes on without its engine.
            goes_on = bool(self._crew.working) and self.definition.remote is None
            self._obstacles.on_engine(trouble, others_working=goes_on)

    def _on_trouble(self, failure: Failure | None) -> None:
        if not self._is_parted:
            masked = failure and failure._replace(message=self.mask(failure.message))
            self._obstacles.on_trouble(masked)

    def _on_decided(self) -> None:
        """One that others have ended has come back, or does not. If no session waits for it, we keep it."""
        if self._crew.maker.may_return and not self._is_parted and self.supervisor.state not in ENDING:
            self._spawn(self._keep_returned(), "keeping what others have restarted")
        else:
            self._someone_must_try()

    async def _keep_returned(self) -> None:
        try:
            instance = await self._regain()
        except MooringError as error:
            log.debug("%s: what came back cannot be gone on with: %s", self.name, error.message)
        else:
            if instance is not None:
                self._crew.spares.append(instance)
                self._trim_spares()
        self._someone_must_try()

    def _trim_spares(self) -> None:
        """One that came back to a session which has another by now is one too many."""
        if self._crew.lent and all(s.state is LinkState.LIVE for s in self.proxy.sessions.values()):
            while len(self._crew.spares) > self.definition.spare:
                self._dismiss(self._crew.spares.pop(), "its session has another")

    def _on_removed(self, container: str) -> None:
        """Somebody has removed one of its containers. So it is not wanted any more, and ends: just once."""
        if self._is_parted or self._is_unwanted or self.supervisor.state in ENDING:
            return
        self._is_unwanted = True
        why = f"container {container[:12]} was removed outside Mooring"
        self._on_happening(Happening(Kind.REMOVED_OUTSIDE, why))
        log.warning("%s ends: %s", self.name, why, extra={"event": "removed_outside", "server": self.name})
        self.supervisor.drain(why, code=ReasonCode.REMOVED_OUTSIDE, is_unwanted=True)
        self._on_unwanted(why)

    def _note_end(self, instance: Instance, exit: Exit, how: str, happening: Happening) -> None:
        """Before the supervisor draws its conclusions, which are news, too."""
        self.exits += 1
        ran_s = self._clock() - instance.started_at
        known = Exit(exit.code, exit.signal)
        self.recollection.exits.append(
            Ended(self._wall(), instance.process, known, ran_s, how, instance.container)
        )
        self._on_happening(happening)

    def _on_session_lost(self) -> None:
        if not self._is_parted:
            self._on_happening(Happening(Kind.SESSION_LOST, "a client came with a session that has ended"))

    # Being ready

    def _on_change(self, seen: Snapshot) -> None:
        if self._is_parted:
            return
        line = state_line(self.name, seen, self._state)
        if (happening := state_happening(seen, self._state)) is not None:
            self._on_happening(happening)
        self._state = seen.state
        self._was_ready = self._was_ready or seen.state is State.READY
        log.log(
            line.level,
            line.text,
            extra={
                "event": "state",
                "server": self.name,
                "state": str(seen.state),
                "reason": str(seen.reason.code),
                "restarts": seen.restarts,
            },
        )
        if seen.ended_for_good:
            self._on_ended()
        elif seen.state is State.STARTING:
            # Later, so that a session that lost its instance comes first: its attempt is as good as ours.
            asyncio.get_running_loop().call_soon(self._someone_must_try)

    def _someone_must_try(self) -> None:
        if self._is_parted or self._crew.maker.may_return or self._obstacles.is_waiting:
            return  # it is another's to do; or what is to come back is not there yet; or it is known when
        if self.supervisor.state is State.STARTING and not self._someone_tries():
            self._spawn(self._try(), "probing")

    def _someone_tries(self) -> bool:
        """An instance is being made, or has not said yet whether it works."""
        return bool(self._launching or self._crew.lent.keys() - self._crew.working)

    @property
    def _is_asked_again(self) -> bool:
        """A server elsewhere whose one attempt goes on, whoever has begun it: it ends with an answer."""
        return self.definition.remote is not None and self.supervisor.state is State.STARTING

    async def _try(self) -> None:
        """Speak to an instance ourselves, then let it go."""
        if self._someone_tries():
            return
        try:
            if not self._is_asked_again:
                await self.supervisor.admit()
            channel = await self._launch()
        except MooringError as error:
            log.debug("%s: no instance to speak to: %s", self.name, error.message)
            return
        self._crew.lend(channel, self._clock())
        self.release(channel, await self.trial.run(channel, partial(self._note_works, channel)))

    def _about(self, instance: Instance, event: str) -> dict[str, object]:
        return {"event": event, "server": self.name, "pid": instance.process}

    def _spawn(self, work: Coroutine[None, None, None], name: str) -> None:
        task = asyncio.get_running_loop().create_task(work, name=f"{self.name}: {name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
