"""A session's line to its server: one instance after another, and the messages that wait for one.

States:

    asleep       no instance; the next message brings one
    connecting   an instance is being acquired and told what its predecessor knew
    live         messages flow
    closed       nothing is sent any more

    asleep → connecting → live → asleep …, and from each of them → closed

Invariants:
- Nothing of the client reaches an instance before it has been initialized by the client's own words.
- Messages keep their order; while they cannot be sent they wait, and their senders with them.
- The owner hears of the end of an instance exactly once, after all its lines.
- Where others may have the session, no instance is brought, and nothing said to one, without a look at
  whether it is still ours.
"""

import asyncio
import logging
from collections.abc import Callable
from enum import StrEnum
from typing import Protocol, cast

from msgspec import Raw

from mooring.errors import MooringError, ServerFailed, Unavailable
from mooring.proxy.calls import Call
from mooring.proxy.health import SILENCE, Health, Pulse
from mooring.proxy.introduction import introduce
from mooring.proxy.link_owner import LinkOwner
from mooring.proxy.own_requests import OwnRequests
from mooring.proxy.policy import SessionPolicy
from mooring.proxy.ports import Backend, Channel, ExitLike, Fence, Guarded, Upstream, named
from mooring.proxy.waiting import Waiting, WaitingLine
from mooring.wire.budget import Budget
from mooring.wire.jsonrpc import Envelope, Id

__all__ = ["LARGE_BYTES", "Link", "LinkState"]

log = logging.getLogger("mooring.session")

REFUSED = ("initialize_failed", "initialize_refused")
FENCED = "another replica may have the session by now; this was not executed"
LARGE_BYTES = 256 * 1024
"""A line from this size on is more than what an instance leaves unread anyway, and is counted."""


class LinkState(StrEnum):
    """See the module's table."""

    ASLEEP = "asleep"
    CONNECTING = "connecting"
    LIVE = "live"
    CLOSED = "closed"


# An enum's members are looked up by name each time; these are on the path of every call.
ASLEEP, CONNECTING, LIVE, CLOSED = LinkState


class CallTaker(Protocol):
    """A channel that is no pipe: it takes a call as it was parsed."""

    def take_call(self, id: Id, method: str, params: bytes | Raw) -> int:
        """See `Channel.send`."""
        ...


class Link:
    """The receiver of whatever instance serves the session at the moment."""

    __slots__ = (
        "_backend",
        "_channel",
        "_clock",
        "_fence",
        "_health",
        "_id_prefix",
        "_in_flight",
        "_mask",
        "_owner",
        "_paused",
        "_policy",
        "_pulse",
        "_requests",
        "_taker",
        "_task",
        "_unread_bytes",
        "_unread_call",
        "_waiting",
        "on_answer",
        "on_failed",
        "on_line",
        "on_long_line",
        "on_related",
        "reset_by",
        "state",
        "upstream_known",
    )

    def __init__(
        self,
        owner: LinkOwner,
        backend: Backend,
        policy: SessionPolicy,
        clock: Callable[[], float],
        id_prefix: str,
        *,
        in_flight: Budget,
        health: Health,
        mask: Callable[[str], str],
        fence: Fence | None = None,
    ) -> None:
        """`mask`: see `Noise`."""
        self.state = ASLEEP
        self.reset_by = ""
        self.upstream_known = ("", "")
        """An `upstream` that is to be gone on with: another has told of it, or we let go without a lease."""
        # Straight to the owner: this is the path of every answer.
        self.on_answer = owner.on_answer
        self.on_failed = owner.on_failed
        self.on_line = owner.on_line
        self.on_long_line = owner.on_long_line
        self.on_related = owner.on_related
        self._owner = owner
        self._backend = backend
        self._fence = fence
        self._policy = policy
        self._clock = clock
        self._health = health
        self._pulse = Pulse(health, 0.0)
        self._id_prefix = id_prefix
        self._mask = mask
        self._channel: Channel | None = None
        self._taker: CallTaker | None = None
        """The channel, if it is one."""
        self._paused = False
        self._requests = OwnRequests()
        self._task: asyncio.Task[None] | None = None
        self._waiting = Waiting(policy.waiting_bytes, in_flight)
        self._in_flight = in_flight
        self._unread_bytes = 0
        self._unread_call: Call | None = None

    @property
    def pid(self) -> int | None:
        """The instance at the other end."""
        return self._channel.pid if self._channel else None

    @property
    def channel(self) -> Channel | None:
        """To the instance at the other end."""
        return self._channel

    @property
    def is_live(self) -> bool:
        """Messages flow."""
        return self.state is LIVE

    @property
    def has_waiting(self) -> bool:
        """Messages wait for an instance."""
        return bool(self._waiting.items)

    # Sending

    def send(
        self,
        line: bytes,
        call: Call | None = None,
        accepted: Callable[[], None] | None = None,
        *,
        bound: bool = False,
    ) -> None:
        """A line of the client, now or when it can be sent; `bound`: to the present instance only."""
        channel = self._channel
        if self.state is LIVE and not self._waiting.items and channel is not None and channel.writable:
            self._write(channel, line, call, accepted)
            return
        item = WaitingLine(line, call, accepted, self._clock(), bound)
        if self.state is CLOSED:
            self._owner.on_dismissed(item, "session_ended", "the session has ended")
        elif self._waiting.fits(item):
            self._waiting.append(item)
            self.wake()
        else:
            self._owner.on_dismissed(item, "server_busy", "the server does not read its input")

    def answer(self, line: bytes, accepted: Callable[[], None] | None = None) -> None:
        """An answer to what the present instance has asked.

        Not behind the client's lines: the instance may wait for it before it does anything else, also
        while it is being introduced.
        """
        channel = self._channel
        if channel is not None and channel.writable:
            self._write(channel, line, None, accepted)
        elif accepted is not None:
            self.send(line, None, accepted, bound=True)
        # Our own answers (to a ping, say) to an instance that does not read are of no use to it.

    def send_again(self, call: Call) -> None:
        """Before all others: a call whose instance is gone."""
        call.sent = False
        self._waiting.put_back(WaitingLine(call.line, call, None, self._clock()))

    def withdraw(self, call: Call) -> None:
        """A call that waits need not be sent."""
        self._waiting.remove(call)

    def _write(
        self, channel: Channel, line: bytes, call: Call | None, accepted: Callable[[], None] | None
    ) -> None:
        if self._fence is not None and not self._fence():
            self._owner.on_dismissed(WaitingLine(line, call, accepted), "lease_lost", FENCED)
            return
        if len(line) >= LARGE_BYTES and self._taker is None:  # (else it is passed on, and counted there)
            # (A call was looked at when it came.)
            if call is None and not self._in_flight.has_room(len(line), 0):
                item = WaitingLine(line, None, accepted)
                self._owner.on_dismissed(item, "too_busy", "the messages of all sessions are too large")
                return
            # The only one: after it nothing is written until the instance is writable.
            self._count_unread(0 if call is not None else len(line), call)
        if call is None:
            channel.send(line)
        else:
            if self._taker is None:
                call.position = channel.send(line)
            else:
                call.position = self._taker.take_call(call.id, call.method, call.params)
            call.sent = True
        if accepted is not None:
            accepted()

    def disown(self, call: Call) -> None:
        """A call has ended. A large line stays in memory until the instance has read it all the same."""
        if self._unread_call is call:
            self._count_unread(len(call.line))

    def _count_unread(self, size_bytes: int, call: Call | None = None) -> None:
        """What of a large line is not counted with its call."""
        self._in_flight.taken_bytes += size_bytes - self._unread_bytes
        self._unread_bytes = size_bytes
        self._unread_call = call

    def on_writable(self) -> None:
        """The instance reads again, or is ready: send what waits."""
        if self._channel is not None and self._channel.writable:
            self._count_unread(0)
        while self._waiting.items and self.state is LIVE:
            channel = self._channel
            if channel is None or not channel.writable:
                return
            item = self._waiting.pop()
            # A call that we answered while it waited (it timed out) is not sent after all.
            if item.call is None or self._owner.is_pending(item.call):
                self._write(channel, item.line, item.call, item.accepted)

    def resolve(self, response: Envelope) -> bool:
        """Was this the answer to a request of our own? We ask only while we connect."""
        return self.state is CONNECTING and self._requests.resolve(response)

    def hear_sign(self, id: Id) -> bool:
        """An answer that belongs to no call: is it one to our own question whether the instance lives?"""
        return self._pulse.hear(id, self._clock())

    def hold_back(self, held: bool) -> None:
        """Leave the instance's output in its pipe, or read on."""
        if self._channel is None or held == self._paused:
            return
        self._paused = held
        if held:
            self._channel.pause_reading()
        else:
            self._channel.resume_reading()

    def works(self) -> None:
        """The present instance has answered the client's own `initialize`."""
        if self._channel is not None:
            self._backend.spoke(self._channel)

    # The instance comes and goes

    def wake(self, reserved: Channel | None = None) -> None:
        """Somebody needs an instance; `reserved`: this one, if it will do."""
        if self.state is ASLEEP:
            self.state = CONNECTING
            self._task = asyncio.create_task(self._connect(reserved), name=f"{self._id_prefix} connecting")

    async def wait_closed(self) -> None:
        """After `close`: until nothing of it runs any more."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _connect(self, reserved: Channel | None) -> None:
        """Bring an instance. Ends live, or asleep with everybody who waited told why."""
        try:
            self._check_fence()
            while not await self._try_instance(reserved or await self._backend.acquire()):
                self._check_fence()
                reserved = None  # it died or refused; how soon the next one comes is the backend's decision
        except MooringError as error:
            self._give_up(error)
        except Exception:  # a bug of ours, or a system out of threads: never a session that waits for ever
            log.exception("no instance could be brought")
            self._give_up(ServerFailed("an instance could not be brought; the log says why", code="internal"))

    def _check_fence(self) -> None:
        """Raises Unavailable: whoever has the session by now has an instance of its own."""
        if not self.may_speak():
            raise Unavailable(FENCED, code="lease_lost")

    def may_speak(self) -> bool:
        """Is the session still ours, as far as we know?"""
        return self._fence is None or self._fence()

    async def _try_instance(self, channel: Channel) -> bool:
        self._channel = channel
        self._taker = cast("CallTaker", channel) if hasattr(channel, "take_call") else None
        self._paused = False
        self._requests = OwnRequests()
        channel.attach(self)
        if self._fence is not None and isinstance(channel, Guarded):
            channel.guard(self.may_speak)
        self._go_on_upstream(channel)
        try:
            async with asyncio.timeout(self._policy.handshake_timeout_s):
                await introduce(
                    channel, self._owner.memory, self._requests, self._id_prefix, self._check_fence
                )
        except (ServerFailed, TimeoutError) as error:
            reason = error.message if isinstance(error, ServerFailed) else "did not answer initialize in time"
            log.warning("%s cannot take over: %s", named(channel.pid), self._mask(reason))
            # Words that no client said may be what it refuses: another instance would do the same.
            is_final = (
                self._owner.memory.is_ours and isinstance(error, ServerFailed) and error.code in REFUSED
            )
            self._drop(reason, failed=not is_final)
            if is_final:
                raise
            return False
        if self._channel is not channel:
            return False  # it ended right after its last answer
        self._task = None
        self._pulse = Pulse(self._health, self._clock())
        if _upstream_of(channel) is not None:
            self.upstream_known = ("", "")  # it has that, or another
        self.state = LIVE
        self._owner.on_up(channel)
        self.on_writable()
        return True

    def _go_on_upstream(self, channel: Channel) -> None:
        """Of a server elsewhere: with the session that another replica has opened there, if it is known."""
        elsewhere = _upstream_of(channel)
        if self._fence is None or elsewhere is None:
            return
        elsewhere.on_moved = self._owner.on_moved
        backend, upstream = self.upstream_known
        # Another server would be shown what only the one that gave it should know.
        if upstream and backend == elsewhere.backend and self._owner.memory.handshake is not None:
            elsewhere.go_on_with(upstream, self._owner.memory.handshake)

    @property
    def upstream(self) -> tuple[str, str]:
        """A server elsewhere, and the session there, for whoever goes on with it; empty: there is none."""
        elsewhere = _upstream_of(self._channel)
        if elsewhere is None or (not elsewhere.upstream and self.upstream_known[1]):
            return self.upstream_known
        return (elsewhere.backend, elsewhere.upstream) if elsewhere.backend else ("", "")

    def leave_upstream(self) -> None:
        """Another goes on with the session there."""
        self.upstream_known = ("", "")
        if (elsewhere := _upstream_of(self._channel)) is not None:
            elsewhere.leave()

    def lose(self) -> None:
        """Another has the session: what its instance has not been told yet it is not told any more."""
        self._fence = _never

    def _give_up(self, error: MooringError) -> None:
        """No instance can be had now: whoever waits for one is told, at once."""
        self._task = None
        self.state = ASLEEP
        self._drop(error.message)
        self.dismiss(error.code, error.message)
        self._owner.on_unreachable(error)

    def on_gone(self, exit: ExitLike) -> None:
        """The instance has ended by itself: an event, not an ending."""
        channel, self._channel = self._channel, None
        self._count_unread(0)
        if self.state is CLOSED or channel is None:
            return
        self.reset_by = str(exit)
        self._requests.lose(f"ended while it was being initialized ({exit})")
        if self.state is LIVE:
            self.state = ASLEEP
        self._dismiss_bound()
        self._owner.on_lost(exit, channel.consumed)
        if self._waiting.items or self._owner.wants_instance(exit):
            self.wake()

    def check_health(self, now: float, *, in_use: bool) -> None:
        """Does the instance still live? One that gives no sign of life, and has no call, is replaced."""
        channel = self._channel
        if self.state is not LIVE or channel is None or self._taker is not None:
            return  # (what stands behind a face is looked after by its trunk)
        if in_use or self._paused or not self.may_speak():  # (who is told nothing has not been silent)
            self._pulse.rest(now)
        elif self._pulse.has_stopped(now, channel, self._owner.memory):
            self._release(channel, str(SILENCE), failed=True)
            self.on_gone(SILENCE)

    def try_again(self, call: Call, reason: str) -> None:
        """The call was refused, by an instance of the wrong kind: give it to the next one."""
        self.state = ASLEEP
        self._drop(reason)
        self.send_again(call)
        self.wake()

    def sleep(self, reason: str, *, reset_by: str) -> None:
        """Let the instance go."""
        if self.state is LIVE:
            self.state = ASLEEP
            self.reset_by = reset_by
            self._drop(reason)
            if self._waiting.items:
                self.wake()  # it did not read; whoever waits for that gets another one

    def adopt(self, channel: Channel) -> None:
        """An instance that knows its client, from another who talked to it before."""
        self._channel = channel
        self._requests = OwnRequests()
        self._pulse = Pulse(self._health, self._clock())
        self.state = LIVE
        channel.attach(self)

    def part(self) -> None:
        """Another talks to the instance now; nothing waits here."""
        if self._task is not None:  # it has just ended, and another was to come
            self.leave_upstream()
            self.close("its session goes on elsewhere")
        self.state = CLOSED
        self._channel = None
        self._count_unread(0)
        self.dismiss("shutting_down", "Mooring is restarted; this was not executed")

    def close(self, reason: str) -> None:
        """For good. Idempotent."""
        if self.state is CLOSED:
            return
        self.state = CLOSED
        if self._task is not None:
            self._task.cancel()
        if self._channel is None:
            self._backend.settle()
        self._drop(reason)
        self._take_leave()
        self.dismiss("session_ended", reason)

    def _take_leave(self) -> None:
        """Of a session elsewhere that was to be gone on with, and was not."""
        backend, upstream = self.upstream_known
        if upstream and self._owner.memory.handshake is not None and self.may_speak():
            self._backend.take_leave(backend, upstream, self._owner.memory.handshake)

    def _drop(self, reason: str, *, failed: bool = False) -> None:
        channel, self._channel = self._channel, None
        self._count_unread(0)
        if channel is not None:
            self._release(channel, reason, failed=failed)
            self._dismiss_bound()
            if self.state is not LinkState.CLOSED:
                self._owner.on_let_go(reason)

    def _release(self, channel: Channel, reason: str, *, failed: bool) -> None:
        """To whoever lends instances. Another may go on with the session that it has elsewhere by now; or we,
        if that is found to be ours still."""
        elsewhere = _upstream_of(channel)
        if elsewhere is not None:
            if self.may_speak():
                self.upstream_known = ("", "")  # it ends there
            else:
                if elsewhere.backend and elsewhere.upstream:
                    self.upstream_known = (elsewhere.backend, elsewhere.upstream)
                elsewhere.leave()
        self._backend.release(channel, reason, failed=failed)

    def _dismiss_bound(self) -> None:
        """The instance is gone: no other may be given what was for this one."""
        for item in self._waiting.take_bound():
            self._owner.on_dismissed(item, "server_exited", "the server it was for has ended")

    # Time

    def tick(self, now: float) -> None:
        """Nobody's notification waits for ever."""
        for item in self._waiting.take_overdue(now - self._policy.recovery_wait_s):
            self._owner.on_dismissed(item, "server_unavailable", "the server was not ready in time")

    def dismiss(self, reason: str, message: str) -> None:
        """Tell everybody who waits that their line will not be sent."""
        for item in self._waiting.take_all():
            self._owner.on_dismissed(item, reason, message)


def _never() -> bool:
    return False


def _upstream_of(channel: object) -> Upstream | None:
    return channel if isinstance(channel, Upstream) else None
