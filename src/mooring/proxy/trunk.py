"""One instance that serves many: every call under a number of ours, every answer back to whom it belongs.

A `Session` has an instance to itself and passes bytes through; here ids and progress tokens of many
clients meet, so each is mapped: towards the server a call is a number, which is its progress token too,
and nothing of what a client chose reaches it. A number is never used twice.

Invariants:
- An answer or a progress note goes to the rider whose number it has, or nowhere.
- What the server says or asks without naming a number is the keeper's to place (`TrunkKeeper`).
- A rider hears of the end of its ride exactly once, by `answered` or `failed`, unless it left.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from msgspec import Raw

from mooring.errors import MooringError, RemoteProtocolError
from mooring.proxy.call_errors import Failure, overdue, why_dropped
from mooring.proxy.calls import Call
from mooring.proxy.health import Health
from mooring.proxy.link import LARGE_BYTES, Link, LinkState
from mooring.proxy.lost_calls import lost, may_send_again
from mooring.proxy.noise import Noise
from mooring.proxy.passed_trunk import NOBODY, PassedTrunk, Purpose
from mooring.proxy.policy import SessionPolicy
from mooring.proxy.ports import Backend, Channel, ExitLike
from mooring.proxy.riders import Ride, Rider, Window
from mooring.proxy.stats import Stats
from mooring.proxy.waiting import WaitingLine
from mooring.wire import jsonrpc
from mooring.wire.budget import Budget
from mooring.wire.jsonrpc import Envelope, Id, encode_id
from mooring.wire.lines import LongLine
from mooring.wire.members import read_members, with_meta, write_members
from mooring.wire.memory import Memory, read_handshake
from mooring.wire.mirrored import MarkedTools
from mooring.wire.params import progress_of_note

__all__ = ["Trunk", "TrunkKeeper"]

log = logging.getLogger("mooring.session")

MOST_STRAYS = 1024
"""Calls given up of which we remember that the instance may still be busy with them."""


class TrunkKeeper(Protocol):
    """Who keeps a trunk, and knows what may be said to whom."""

    def on_question(self, trunk: "Trunk", request: Envelope, line: bytes) -> None:
        """The server wants something of a client."""
        ...

    def on_note(self, trunk: "Trunk", note: Envelope, line: bytes) -> None:
        """The server says something that names no call."""
        ...

    def on_up(self, trunk: "Trunk", again: bool) -> None:
        """An instance is there; `again`: it has replaced another."""
        ...

    def on_lost(self, trunk: "Trunk", exit: ExitLike) -> None:
        """The instance has died; what it had asked is asked no more."""
        ...

    def on_let_go(self, trunk: "Trunk") -> None:
        """The instance was of no use, or is not needed; what it had asked is asked no more."""
        ...

    def on_changed(self, trunk: "Trunk", error: MooringError) -> None:
        """The next instance is not what clients were told: it speaks another revision."""
        ...

    def on_empty(self, trunk: "Trunk") -> None:
        """Nobody rides any more who waits for an answer."""
        ...

    def on_parted(self, trunk: "Trunk") -> None:
        """Another Mooring has its instance: nobody rides it here any more."""
        ...


class Trunk:
    """See the module. `memory` is what each of its instances is told; empty for one of 2026-07-28."""

    __slots__ = (
        "_backend",
        "_clock",
        "_closed",
        "_in_flight",
        "_lasting",
        "_link",
        "_max_calls",
        "_next",
        "_noise",
        "_policy",
        "_stats",
        "_strays",
        "_tools",
        "_was_up",
        "keeper",
        "last_used",
        "log_level",
        "memory",
        "name",
        "purpose",
        "rides",
        "tells_empty",
        "window",
    )

    def __init__(
        self,
        name: str,
        keeper: TrunkKeeper,
        memory: Memory,
        *,
        backend: Backend,
        policy: SessionPolicy,
        stats: Stats,
        noise: Noise,
        health: Health,
        in_flight: Budget,
        clock: Callable[[], float],
        tools: MarkedTools,
        max_calls: int,
        purpose: Purpose,
    ) -> None:
        self.name = name
        self.purpose = purpose
        self.memory = memory
        self.rides: dict[int, Ride] = {}
        self.last_used = clock()
        self.tells_empty = False
        """Whether its keeper wants to hear that nobody rides any more."""
        self.log_level: str | None = None
        """What its present instance was told."""
        self.window: Window | None = None
        """Of whoever reads the log and has it to itself, where many share it (`sharing`)."""
        self.keeper = keeper
        self._backend = backend
        self._clock = clock
        self._closed = False
        self._in_flight = in_flight
        prefix = f"mooring-{name}"
        self._link = Link(
            self, backend, policy, clock, prefix, in_flight=in_flight, health=health, mask=noise.mask
        )
        self._lasting = 0
        self._max_calls = max_calls
        self._next = 0
        self._noise = noise
        self._policy = policy
        self._stats = stats
        self._strays: set[int] = set()
        """Calls that were given up, and that the present instance has not answered."""
        self._tools = tools
        self._was_up = False

    def __repr__(self) -> str:
        return f"<Trunk {self.name} {self._link.state} rides={len(self.rides)}>"

    @property
    def pid(self) -> int | None:
        """The instance that serves it now."""
        return self._link.pid

    @property
    def is_live(self) -> bool:
        """Messages flow."""
        return self._link.is_live

    @property
    def is_awake(self) -> bool:
        """It has an instance, or will have one soon."""
        return self._link.state in (LinkState.LIVE, LinkState.CONNECTING)

    @property
    def load(self) -> int:
        """Calls that wait for an answer; listeners do not."""
        return len(self.rides) - self._lasting

    @property
    def has_strays(self) -> bool:
        """The instance may be busy with a call that nobody wants any more, and log for it."""
        return bool(self._strays)

    # From clients

    def ride(
        self,
        id: Id,
        method: str,
        params: bytes,
        rider: Rider,
        *,
        token: Id | None = None,
        lasting: bool = False,
    ) -> Ride:
        """Send a call; `params` is JSON, without a progress token unless `token` is the client's."""
        now = self.last_used = self._clock()
        if self.window is not None and self.window.is_disturbed_by(rider):
            self.window = None
        self._next += 1
        number = self._next
        line = jsonrpc.request(
            number, method, params if token is None else with_meta(params, "progressToken", b"%d" % number)
        )
        ride = Ride(
            id,
            method,
            params,
            line,
            rider,  # type: ignore[arg-type]
            now,
            now,
            now,
            token,
            number=number,
            rider=rider,
            lasting=lasting,
        )
        most = self._max_calls
        if len(self.rides) - self._lasting >= most:
            text = f"{most} calls are running on this server; no more are taken"
            rider.failed(ride, Failure("too_many_calls", text, retryable=True), now)
            return ride
        in_flight = self._in_flight
        if in_flight.taken_bytes + len(line) > in_flight.limit_bytes and not self._may_add(ride):
            text = "the calls of all clients together are too large; this one was not executed"
            rider.failed(ride, Failure("too_busy", text, retryable=True), now)
            return ride
        self.rides[number] = ride
        self._lasting += lasting
        in_flight.taken_bytes += len(line)
        if rider.counts:
            self._stats.calls += 1
        if self._policy.call_timeout_s is not None and not lasting:
            ride.deadline = now + self._policy.call_timeout_s
        self._link.send(line, ride)
        return ride

    def _may_add(self, ride: Ride) -> bool:
        """There is no room but within the share of the trunk. What a session sends was looked at there."""
        if ride.rider is None or not ride.rider.counts:
            return True
        held = (other.line for other in self.rides.values() if other.rider is not None and other.rider.counts)
        return self._in_flight.has_room(len(ride.line), sum(map(len, held)))

    def carries(self, ride: Ride) -> bool:
        """Is it still to be answered?"""
        return self.rides.get(ride.number) is ride

    def rides_of(self, rider: Rider) -> list[Ride]:
        """What is still to be answered of its calls."""
        return [ride for ride in self.rides.values() if ride.rider is rider]

    def tell(self, line: bytes) -> None:
        """A notification of a client."""
        self._link.send(line, None, _nothing)

    def answer(self, line: bytes) -> None:
        """The answer to what the present instance has asked."""
        self._link.answer(line, _nothing)

    def refuse(self, request: Envelope, why: str) -> None:
        """There is nobody whom the server could ask."""
        self.answer(jsonrpc.error_response(request.request_id, jsonrpc.METHOD_NOT_FOUND, why))

    def leave(self, ride: Ride, reason: str) -> None:
        """The rider wants no answer: the server is told, and whatever it still says of it is dropped."""
        if self._finish(ride.number) is None:
            return
        if ride.sent:
            self._stray(ride)
            self._tell_cancelled(ride, reason)
        else:
            self._link.withdraw(ride)
        self._check_empty()

    def hold_back(self, held: bool) -> None:
        """Leave the instance's output in its pipe, or read on."""
        self._link.hold_back(held)

    def wake(self) -> None:
        """An instance will be wanted."""
        self._link.wake()

    # From the server

    def on_line(self, line: bytes) -> None:
        """One line of the instance's output."""
        try:
            message = jsonrpc.parse(line)
        except RemoteProtocolError as error:
            self._on_junk(line, error)
            return
        if message.method is None:
            self._on_answer(message)
        elif message.is_request:
            self.keeper.on_question(self, message, jsonrpc.one_line(line))
        elif message.method == "notifications/progress":
            self._on_progress(message)
        else:
            if message.method == "notifications/tools/list_changed":
                self._tools.are_complete = False
            self.keeper.on_note(self, message, jsonrpc.one_line(line))

    def _on_answer(self, response: Envelope) -> None:
        if self._link.resolve(response):
            return
        ride = self._finish(response.id)
        if ride is None or ride.rider is None:
            self._strays.discard(response.request_id)
            self._link.hear_sign(response.request_id)
            return
        now = self.last_used = self._clock()
        if ride.rider.counts:
            self._stats.answered(now - ride.since)
        if ride.method in Memory.WATCHED:
            self.memory.answered(ride.method, ride.params, response)
            if ride.method == "tools/list":
                self._tools.learn(response.result)
        ride.rider.answered(ride, response, now)
        if self.tells_empty:
            self._check_empty()

    def _on_progress(self, note: Envelope) -> None:
        token = progress_of_note(note.params)
        ride = self.rides.get(token) if isinstance(token, int) else None
        if ride is None or ride.rider is None or ride.token is None:
            return
        ride.touched = now = self._clock()
        if self._policy.call_timeout_s is not None:
            ride.deadline = now + self._policy.call_timeout_s
        members = read_members(note.params)
        members["progressToken"] = encode_id(ride.token)
        note.params = Raw(write_members(members))
        ride.rider.noted(ride, note, now)

    def _on_junk(self, line: bytes, error: RemoteProtocolError) -> None:
        self._stats.junk_lines += 1
        method, id = jsonrpc.identify(LongLine.of(line))
        ride = self.rides.get(id) if isinstance(id, int) and method is None else None
        if ride is not None and b'"jsonrpc"' in line:
            self._fail(ride, Failure("bad_answer", f"the server's answer is malformed: {error.message}"))
        elif (shown := self._noise.excerpt(line)) is not None:
            log.info("pid %s prints what is no message: %s", self.pid, shown)

    def on_answer(self, response: Envelope, line: bytes) -> None:
        """A trunk has real instances."""

    def on_failed(self, id: Id, failure: Failure) -> None:
        """The same."""

    def on_related(self, line: bytes, id: Id) -> None:
        """The same."""

    def on_long_line(self, line: LongLine) -> None:
        """A message over the limit: whose it was is told."""
        method, id = jsonrpc.identify(line)
        ride = self.rides.get(id) if isinstance(id, int) and method is None else None
        reason, text = why_dropped(line.length, self._policy)
        if ride is not None:
            self._fail(ride, Failure(reason, f"the server's answer was dropped: {text}"))
        elif method is not None and id is not None:
            self._link.answer(jsonrpc.error_response(id, jsonrpc.INTERNAL_ERROR, text))

    # What the link tells

    def on_up(self, channel: Channel) -> None:
        """An instance is there."""
        self._backend.spoke(channel)
        again, self._was_up = self._was_up, True
        self.keeper.on_up(self, again)

    def on_lost(self, exit: ExitLike, consumed: int) -> None:
        """The instance has died: every ride is answered, or goes on with the next one."""
        self._strays.clear()
        self.keeper.on_lost(self, exit)
        for ride in reversed(list(self.rides.values())):
            if not ride.sent:
                continue
            if ride.acknowledged or may_send_again(ride, consumed, self._policy, self.memory):
                self._stats.calls_retried += 1
                ride.waiting_since = self._clock()
                ride.acknowledged = False
                self._link.send_again(ride)
            else:
                self._fail(ride, lost(ride, exit, self.memory))

    def on_let_go(self, reason: str) -> None:
        """The instance is stopped."""
        self.keeper.on_let_go(self)

    def on_unreachable(self, error: MooringError) -> None:
        """No instance can be had now; those who waited for one have been told."""
        if error.code == "version_changed":
            self.memory.handshake = None  # whoever comes next is told what is true now
            self.memory.initialize_result = b""
            self.keeper.on_changed(self, error)

    def on_moved(self) -> None:
        """See `link_owner.LinkOwner`: what many share is not gone on with by another replica."""

    def wants_instance(self, exit: ExitLike) -> bool:
        """Only if somebody waits."""
        return False

    def is_pending(self, call: Call) -> bool:
        """Is it still to be answered?"""
        return isinstance(call, Ride) and self.carries(call)

    def on_dismissed(self, item: WaitingLine, reason: str, message: str) -> None:
        """A line that waited will not be sent."""
        if isinstance(item.call, Ride):
            self._fail(item.call, Failure(reason, message, retryable=not item.call.retried))

    # Time

    def tick(self, now: float) -> None:
        """Time-outs; and an instance that nobody uses is let go."""
        for ride in list(self.rides.values()):
            # The first instance may take its time; for later ones nobody waits so long.
            served = self._link.is_live or not self._was_up
            failure = overdue(ride, now, self._policy, served=served)
            if failure is not None:
                if ride.sent:
                    self._stray(ride)
                self._tell_cancelled(ride, failure.reason)
                self._fail(ride, failure)
        self._link.tick(now)
        self._link.check_health(now, in_use=self.load > 0)

    def sleep(self, reason: str) -> None:
        """Let the instance go; the next ride brings another."""
        self._link.sleep(reason, reset_by=reason)
        self._strays.clear()
        self._was_up = False

    # From one Mooring to the next

    @property
    def instance(self) -> Channel | None:
        """That can go to another Mooring: nobody waits for anything of it."""
        is_quiet = self._link.is_live and not self.load and not self._link.has_waiting
        return self._link.channel if is_quiet and self.purpose != NOBODY else None

    def pack(self) -> PassedTrunk:
        """What that one has to know."""
        return PassedTrunk(
            self.name,
            self.purpose,
            self.memory.initialize_result,
            self.memory.repeatable,
            self._next,
            sorted(self._strays),
            list(self.rides),
            self.log_level,
        )

    def adopt(self, passed: PassedTrunk, channel: Channel) -> None:
        """Go on with its instance. Raises RemoteProtocolError first, if what is told of it makes no sense."""
        if passed.initialize_result:
            self.memory.introduced(read_handshake(passed.initialize_result), passed.initialize_result)
        self.memory.repeatable.update(passed.repeatable)
        self.log_level = passed.log_level
        self._next = passed.numbers
        self._was_up = True
        self._link.adopt(channel)
        # Those who listened have gone, and listen anew.
        for number in passed.listeners:
            self._link.answer(_cancellation(number, "the client disconnected"))
        self._strays.update((*passed.strays, *passed.listeners))

    def part(self) -> None:
        """Another Mooring has the instance."""
        self._closed = True
        self._link.part()

    # Endings

    def cut(self, reason: str, message: str) -> int:
        """End every ride now; returns how many there were."""
        rides = list(self.rides.values())
        for ride in rides:
            self._tell_cancelled(ride, message)
            self._fail(ride, Failure(reason, message, retryable=not ride.sent))
        return len(rides)

    def close(self, reason: str) -> None:
        """For good. Idempotent."""
        if not self._closed:
            self._closed = True
            self.cut("session_ended", reason)
            self._link.close(reason)

    async def wait_closed(self) -> None:
        """After `close`: until nothing of it runs any more."""
        await self._link.wait_closed()

    def _stray(self, ride: Ride) -> None:
        """Remember it. Of too many we know only, until the instance ends, that there are some: 0 is none."""
        self._strays.add(ride.number if len(self._strays) < MOST_STRAYS else 0)

    def _tell_cancelled(self, ride: Ride, reason: str) -> None:
        if ride.sent:
            self._link.answer(_cancellation(ride.number, reason))

    def _fail(self, ride: Ride, failure: Failure) -> None:
        if self._finish(ride.number) is None or ride.rider is None:
            return
        if not ride.sent:
            self._link.withdraw(ride)
        if ride.rider.counts:
            self._stats.failed(failure.reason)
        ride.rider.failed(ride, failure, self._clock())
        self._check_empty()

    def _finish(self, number: object) -> Ride | None:
        ride = self.rides.pop(number, None) if type(number) is int else None
        if ride is None:
            return None
        self._lasting -= ride.lasting
        self._in_flight.taken_bytes -= len(ride.line)
        if len(ride.line) >= LARGE_BYTES:
            self._link.disown(ride)
        return ride

    def _check_empty(self) -> None:
        if self.tells_empty and not self.load and not self._closed:
            asyncio.get_running_loop().call_soon(self._tell_empty)

    def _tell_empty(self) -> None:
        if not self.load and not self._closed:
            self.keeper.on_empty(self)


def _cancellation(number: int, reason: str) -> bytes:
    return jsonrpc.notification("notifications/cancelled", {"requestId": number, "reason": reason})


def _nothing() -> None:
    pass
