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
from mooring.proxy.policy import SessionPolicy
from mooring.proxy.ports import ExitLike
from mooring.proxy.riders import Ride
from mooring.proxy.stateless_call import StatelessCall
from mooring.proxy.trunk import Trunk
from mooring.proxy.trunks import Trunks
from mooring.wire.eras import served_here, under_subscription
from mooring.wire.jsonrpc import Envelope, note_line
from mooring.wire.modern import ACKNOWLEDGED, ASKS_BY_RESULT, DISCOVER, LISTEN, LOG
from mooring.wire.notes import is_extension
from mooring.wire.params import subscription_of_note, without_token

__all__ = ["ModernServer"]

MOST_LISTENERS = 1024


class _Passenger:
    """A request on its way."""

    __slots__ = ("acknowledged", "call", "clock")

    counts = True
    heard = True
    """Whoever goes has cancelled."""

    def __init__(self, call: StatelessCall, clock: Callable[[], float]) -> None:
        self.call = call
        self.clock = clock
        self.acknowledged = False
        """A listener that was told what it will hear."""

    @property
    def wants_log(self) -> bool:
        request = self.call.request
        return request.log_level is not None and request.method != LISTEN  # which has no log

    def answered(self, ride: Ride, response: Envelope, now: float) -> None:
        try:
            if response.result and ride.lasting:
                response.result = Raw(under_subscription(response.result, ride.id))
            elif response.result and ride.method == DISCOVER:
                response.result = Raw(served_here(response.result))
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

    def hear_news(self, ride: Ride, note: Envelope, now: float) -> None:
        """A listener hears what it asked for; of a new instance it need not know that it was told again."""
        if note.method == ACKNOWLEDGED:
            ride.acknowledged = True
            if self.acknowledged:
                return
            self.acknowledged = True
        note.params = Raw(under_subscription(note.params, ride.id))
        self.call.reply.note(note_line(note.method, note.params), now)


class ModernServer:
    """See the module."""

    def __init__(self, trunks: Trunks, policy: SessionPolicy, clock: Callable[[], float]) -> None:
        self._all = trunks
        self._clock = clock
        self._policy = policy
        self._trunks: list[Trunk] = []
        self._retired: list[Trunk] = []
        """Where somebody read the log who has gone: they are used no more."""
        self._silent: set[Trunk] = set()
        """The same where instances are shared: what they log is not passed on any more."""
        self._faces: dict[Trunk, dict[ModernFace, None]] = {}

    @property
    def calls_in_flight(self) -> int:
        """Listeners do not count, nor what sessions count themselves."""
        return sum(not ride.lasting for _, ride, _ in self._passengers())

    def _passengers(self) -> list[tuple[Trunk, Ride, _Passenger]]:
        return [
            (trunk, ride, ride.rider)
            for trunk in (*self._trunks, *self._retired)
            for ride in list(trunk.rides.values())
            if isinstance(ride.rider, _Passenger)
        ]

    # Sessions

    def seat(self) -> tuple[Trunk, bool]:
        """See `modern_face.Host`."""
        return (self._any(), False) if self._policy.shared else (self._all.make(self), True)

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
        request, passenger = call.request, _Passenger(call, self._clock)
        trunk = self._free_for_log() if passenger.wants_log else self._any()
        listens = request.method == LISTEN
        if trunk is None or (listens and self._count_listeners() >= MOST_LISTENERS):
            text = "too many wait for news, or for the log of their calls"
            call.fail(Failure("too_many_listeners", text, retryable=True), self._clock())
            return
        if listens:
            call.reply.begin_stream(self._clock())
        params, token = bytes(request.params), request.progress_token
        ride = trunk.ride(
            request.id,
            request.method,
            without_token(params) if token is None else params,
            passenger,
            token=token,
            lasting=listens,
        )
        call.reply.on_gone(partial(self._leave, trunk, ride, passenger))

    def tell(self, note: Envelope) -> None:
        """A notification of a client that no revision knows."""
        self._any().tell(note_line(note.method, note.params))

    def _leave(self, trunk: Trunk, ride: Ride, passenger: _Passenger) -> None:
        """The client disconnected. What is still logged for it must not be read by the next one."""
        trunk.leave(ride, "the client disconnected")
        if not passenger.wants_log:
            return
        self.stop_logging(trunk)
        if not self._policy.shared and trunk in self._trunks:
            self._trunks.remove(trunk)
            self._retired.append(trunk)
            if not trunk.rides:
                self.on_empty(trunk)

    def _any(self) -> Trunk:
        most = self._policy.shared or 1
        best = min(self._trunks[:most], key=lambda trunk: len(trunk.rides), default=None)
        if best is None or (best.rides and len(self._trunks) < most):
            return self._add()
        return best

    def _free_for_log(self) -> Trunk | None:
        for trunk in self._trunks:
            if _log_reader(trunk) is None and not self._is_silenced(trunk):
                return trunk
        return self._add() if len(self._trunks) + len(self._retired) < self._policy.max_sessions else None

    def _count_listeners(self) -> int:
        return sum(ride.lasting for _, ride, _ in self._passengers())

    @property
    def has_listeners(self) -> bool:
        """Somebody waits for news."""
        return self._count_listeners() > 0

    def _add(self) -> Trunk:
        trunk = self._all.make(self)
        self._trunks.append(trunk)
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
            if ride is not None and isinstance(ride.rider, _Passenger | Subscription):
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

    def on_changed(self, trunk: Trunk, error: MooringError) -> None:
        """It was not introduced."""

    def on_empty(self, trunk: Trunk) -> None:
        """One is kept; it goes when it is idle."""
        if trunk in self._retired:
            self._retired.remove(trunk)
        elif trunk in self._trunks[max(self._policy.shared, 1) :]:
            self._trunks.remove(trunk)
        else:
            return
        self._silent.discard(trunk)
        self._all.end(trunk, "not in use")

    # Time and endings

    def tick(self, now: float) -> None:
        """Those who wait see that somebody is there."""
        for _, _, passenger in self._passengers():
            passenger.call.reply.tick(now)

    def hang_up(self) -> None:
        """Listeners are told that this was all."""
        for trunk, ride, passenger in self._passengers():
            if ride.lasting:
                result = b'{"resultType":"complete"}'
                passenger.call.answer_result(under_subscription(Raw(result), ride.id), self._clock())
                trunk.leave(ride, "shutting down")

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
