"""Requests of 2026-07-28 to a server of 2026-07-28: passed through, all on one instance.

Such a server keeps nothing between requests, so that one instance may serve everybody. Only what names a
request (its id, the progress token, the id of a subscription) is mapped. A log message names none:
a request that wants them rides where no other does that wants them too.

Sessions of handshake clients (`ModernFace`) have an instance each; with `--shared` they ride with the
rest, and whoever would have to have an instance of its own to hear the log hears none.
"""

from collections.abc import Callable
from functools import partial

import msgspec
from msgspec import Raw

from mooring.errors import MooringError
from mooring.proxy.call_errors import Failure
from mooring.proxy.modern_face import ModernFace, Subscription
from mooring.proxy.modern_listening import Listening
from mooring.proxy.passed_trunk import MODERN, NOBODY, SEAT, PassedTrunk, Purpose
from mooring.proxy.policy import SessionPolicy
from mooring.proxy.ports import Channel, ExitLike
from mooring.proxy.riders import Ride
from mooring.proxy.stateless_call import StatelessCall
from mooring.proxy.trunk import Trunk
from mooring.proxy.trunks import Trunks
from mooring.wire.eras import served_here
from mooring.wire.jsonrpc import Envelope, note_line
from mooring.wire.modern import ASKS_BY_RESULT, DISCOVER, LISTEN, LOG, without_level
from mooring.wire.notes import is_extension
from mooring.wire.params import subscription_of_note, unambiguous
from mooring.wire.request_state import named, unnamed

__all__ = ["ModernServer"]

MOST_LISTENERS = 1024


class _Passenger:
    """A request on its way."""

    __slots__ = ("call", "clock", "replica", "wants_log")

    counts = True
    heard = True
    """Whoever goes has cancelled."""

    def __init__(
        self, call: StatelessCall, clock: Callable[[], float], *, wants_log: bool, replica: str
    ) -> None:
        self.call = call
        self.replica = replica
        self.clock = clock
        self.wants_log = wants_log

    def answered(self, ride: Ride, response: Envelope, now: float) -> None:
        try:
            if response.result and ride.method == DISCOVER:
                response.result = Raw(served_here(response.result))
            elif response.result and self.replica:
                response.result = Raw(named(bytes(response.result), self.replica))
        except msgspec.DecodeError as error:
            self.call.fail(Failure("bad_answer", f"the server's answer is malformed: {error}"), now)
            return
        self.call.answer(response, now)

    def failed(self, ride: Ride, failure: Failure, now: float) -> None:
        self.call.fail(failure, now)

    def hear_log(self, line: bytes) -> None:
        self.call.reply.note(line, self.clock())

    def noted(self, ride: Ride, note: Envelope, now: float) -> None:
        self.call.reply.note(note_line(note.method, note.params), now)


class ModernServer:
    """See the module."""

    def __init__(self, trunks: Trunks, policy: SessionPolicy, clock: Callable[[], float]) -> None:
        self._all = trunks
        self._clock = clock
        self._policy = policy
        self.replica = ""
        """Which of several this is: what a `requestState` means may be known to one process only."""
        self._trunks: list[Trunk] = []
        self._retired: list[Trunk] = []
        """Where somebody read the log who has gone: they are used no more."""
        self._silent: set[Trunk] = set()
        """The same where instances are shared: what they log is not passed on any more."""
        self._faces: dict[Trunk, dict[ModernFace, None]] = {}
        self._listeners: dict[Listening, None] = {}

    @property
    def calls_in_flight(self) -> int:
        """Listeners do not count, nor what sessions count themselves."""
        return len(self._passengers())

    def _passengers(self) -> list[_Passenger]:
        return [
            ride.rider
            for trunk in (*self._trunks, *self._retired)
            for ride in trunk.rides.values()
            if isinstance(ride.rider, _Passenger)
        ]

    # Sessions

    def seat(self) -> tuple[Trunk, bool]:
        """See `modern_face.Host`."""
        return (self._any(), False) if self._policy.shared else (self._make_seat(), True)

    def _make_seat(self) -> Trunk:
        return self._all.make(self, purpose=Purpose(SEAT))

    def adopt_seat(self, passed: PassedTrunk, channel: Channel) -> Trunk:
        """For the session with which it came."""
        return self._adopted(self._make_seat(), passed, channel)

    def adopt(self, passed: PassedTrunk, channel: Channel) -> bool:
        """See `Service`."""
        self._adopted(self._add(), passed, channel)
        return True

    def _adopted(self, trunk: Trunk, passed: PassedTrunk, channel: Channel) -> Trunk:
        trunk.adopt(passed, channel)
        if passed.strays:
            self._silent.add(trunk)
        return trunk

    def board(self, face: ModernFace) -> None:
        """See `modern_face.Host`."""
        self._faces.setdefault(face.trunk, {})[face] = None

    def unboard(self, face: ModernFace, reason: str) -> None:
        """See `modern_face.Host`."""
        faces = self._faces.get(face.trunk, {})
        faces.pop(face, None)
        if not faces:
            self._faces.pop(face.trunk, None)
            if not self._policy.shared:
                self._all.end(face.trunk, reason)

    def may_log(self, face: ModernFace) -> bool:
        """See `modern_face.Host`."""
        reader = _log_reader(face.trunk)
        return not self._is_silenced(face.trunk) and (reader is None or reader is face)

    def stop_logging(self, trunk: Trunk) -> None:
        """See `modern_face.Host`."""
        if self._policy.shared:
            self._silent.add(trunk)

    def _is_silenced(self, trunk: Trunk) -> bool:
        """The next process never had the call that may log on."""
        return trunk in self._silent and trunk.is_live

    # Requests

    def take(self, call: StatelessCall) -> None:
        """Send it on."""
        request = call.request
        if request.method == LISTEN:
            self._listen(call)
            return
        params = unambiguous(bytes(request.params))
        trunk, wants_log = self._any(), False
        if request.log_level is not None:
            free = self._free_for_log()
            if free is not None:
                trunk, wants_log = free, True
            elif self._policy.shared:
                params = without_level(params)
            else:
                self._refuse(call, "too many want to hear the log of their calls")
                return
        if self.replica:
            params = unnamed(params)
        passenger = _Passenger(call, self._clock, wants_log=wants_log, replica=self.replica)
        ride = trunk.ride(request.id, request.method, params, passenger, token=request.progress_token)
        call.reply.on_gone(partial(self._leave, trunk, ride, passenger))

    def tell(self, note: Envelope) -> None:
        """A notification of a client that no revision knows."""
        self._any().tell(note_line(note.method, note.params))

    def _refuse(self, call: StatelessCall, text: str) -> None:
        call.fail(Failure("too_many_listeners", text, retryable=True), self._clock())

    def _listen(self, call: StatelessCall) -> None:
        if len(self._listeners) >= MOST_LISTENERS:
            self._refuse(call, "too many wait for news")
            return
        call.reply.begin_stream(self._clock())
        listener = Listening(call, self._forget)
        self._listeners[listener] = None
        call.reply.on_gone(lambda: listener.leave("the client disconnected"))
        for trunk in self._trunks or [self._add()]:
            listener.join(trunk)

    def _forget(self, listener: Listening) -> None:
        self._listeners.pop(listener, None)

    def _leave(self, trunk: Trunk, ride: Ride, passenger: _Passenger) -> None:
        """The client disconnected. What is still logged for it must not be read by the next one."""
        trunk.leave(ride, "the client disconnected")
        if not passenger.wants_log:
            return
        self.stop_logging(trunk)
        if not self._policy.shared and trunk in self._trunks:
            self._retire(trunk)

    def _retire(self, trunk: Trunk) -> None:
        self._trunks.remove(trunk)
        self._retired.append(trunk)
        trunk.purpose = NOBODY
        trunk.tells_empty = True
        if self._listeners and not self._trunks:
            self._add()
        for listener in list(self._listeners):
            listener.part(trunk, "another one is listened to")
        if not trunk.load:
            self.on_empty(trunk)

    def _any(self) -> Trunk:
        most = self._policy.shared or 1
        best = min(self._trunks[:most], key=lambda trunk: trunk.load, default=None)
        if best is None or (best.load and len(self._trunks) < most):
            return self._add()
        return best

    def _free_for_log(self) -> Trunk | None:
        for trunk in self._trunks:
            if _log_reader(trunk) is None and not self._is_silenced(trunk):
                return trunk
        most = self._policy.shared or self._policy.max_sessions
        return self._add() if len(self._trunks) + len(self._retired) < most else None

    @property
    def has_listeners(self) -> bool:
        """Somebody waits for news."""
        return bool(self._listeners)

    def _add(self) -> Trunk:
        trunk = self._all.make(self, purpose=Purpose(MODERN))
        self._trunks.append(trunk)
        trunk.tells_empty = len(self._trunks) > max(self._policy.shared, 1)
        for listener in list(self._listeners):
            listener.join(trunk)
        return trunk

    # What a trunk tells

    def on_question(self, trunk: Trunk, request: Envelope, line: bytes) -> None:
        """This revision has none."""
        trunk.refuse(request, ASKS_BY_RESULT)

    def on_note(self, trunk: Trunk, note: Envelope, line: bytes) -> None:
        """News for a listener, a log message, or something that we do not know."""
        number = subscription_of_note(note.params)
        if number is not None:
            ride = trunk.rides.get(number) if type(number) is int else None
            if ride is not None and isinstance(ride.rider, Listening | Subscription):
                ride.rider.hear_news(ride, note, self._clock())
        elif note.method == LOG and not self._is_silenced(trunk):
            reader = _log_reader(trunk) or self._only_face(trunk)
            if reader is not None and reader.wants_log:
                reader.hear_log(line)
        elif is_extension(note.method) and (face := self._only_face(trunk)) is not None:
            face.hear_news(line)

    def _only_face(self, trunk: Trunk) -> ModernFace | None:
        """The session that has this trunk to itself."""
        faces = [] if self._policy.shared else list(self._faces.get(trunk, {}))
        return faces[0] if faces else None

    def on_up(self, trunk: Trunk, again: bool) -> None:
        """Requests need not know; sessions are told that every list may differ."""
        self._silent.discard(trunk)
        for face in list(self._faces.get(trunk, {})) if again else ():
            face.tell_changed()

    def on_lost(self, trunk: Trunk, exit: ExitLike) -> None:
        """Those who ride are told by the trunk."""

    def on_let_go(self, trunk: Trunk) -> None:
        """Nothing that it asked was kept."""

    def on_changed(self, trunk: Trunk, error: MooringError) -> None:
        """It was not introduced."""

    def on_empty(self, trunk: Trunk) -> None:
        """As many are kept as there may be for all; they go when they are idle."""
        if trunk in self._retired:
            self._retired.remove(trunk)
        elif trunk in self._trunks[max(self._policy.shared, 1) :]:
            self._trunks.remove(trunk)
        else:
            return
        for listener in list(self._listeners):
            listener.part(trunk, "not in use")
        self._silent.discard(trunk)
        self._all.end(trunk, "not in use")

    def on_parted(self, trunk: Trunk) -> None:
        """Requests and sessions go there, too; listeners are told that this was all."""
        if trunk in self._trunks:
            self._trunks.remove(trunk)
        self._faces.pop(trunk, None)
        self._silent.discard(trunk)

    # Time and endings

    def tick(self, now: float) -> None:
        """Those who wait see that somebody is there."""
        for passenger in self._passengers():
            passenger.call.reply.tick(now)
        for listener in self._listeners:
            listener.tick(now)

    def hang_up(self) -> None:
        """Listeners are told that this was all."""
        for listener in list(self._listeners):
            listener.hang_up(self._clock())

    def cut(self, reason: str, message: str) -> int:
        """End them all."""
        self.hang_up()
        number = len(self._passengers())
        for trunk in (*self._trunks, *self._retired):
            trunk.cut(reason, message)
        return number


def _log_reader(trunk: Trunk) -> _Passenger | ModernFace | None:
    """Who rides there and wants to hear the log."""
    for ride in trunk.rides.values():
        if isinstance(ride.rider, _Passenger | ModernFace) and ride.rider.wants_log:
            return ride.rider
    return None
