"""Requests of 2026-07-28 to a server of 2026-07-28: passed through, all on one instance.

Such a server keeps nothing between requests, so that one instance may serve everybody. Only what names a
request (its id, the progress token, the id of a subscription) is mapped. A log message names none:
a request that wants them rides where no other does that wants them too.
"""

from collections.abc import Callable
from functools import partial

import msgspec
from msgspec import Raw

from mooring.errors import MooringError
from mooring.proxy.call_errors import Failure
from mooring.proxy.policy import SessionPolicy
from mooring.proxy.ports import ExitLike
from mooring.proxy.riders import Ride
from mooring.proxy.stateless_call import StatelessCall
from mooring.proxy.trunk import Trunk
from mooring.proxy.trunks import Trunks
from mooring.wire.eras import served_here, under_subscription
from mooring.wire.jsonrpc import Envelope, note_line
from mooring.wire.modern import ACKNOWLEDGED, ASKS_BY_RESULT, DISCOVER, LISTEN, LOG
from mooring.wire.params import subscription_of_note

__all__ = ["ModernServer"]

MOST_LISTENERS = 1024


class _Passenger:
    """A request on its way."""

    __slots__ = ("acknowledged", "call")

    def __init__(self, call: StatelessCall) -> None:
        self.call = call
        self.acknowledged = False
        """A listener that was told what it will hear."""

    @property
    def wants_log(self) -> bool:
        return self.call.request.log_level is not None

    @property
    def heard(self) -> bool:
        return True  # whoever goes has cancelled

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

    @property
    def calls_in_flight(self) -> int:
        """Listeners do not count."""
        return sum(not ride.lasting for _, ride in self._rides())

    def _rides(self) -> list[tuple[Trunk, Ride]]:
        trunks = [*self._trunks, *self._retired]
        return [(trunk, ride) for trunk in trunks for ride in list(trunk.rides.values())]

    def take(self, call: StatelessCall) -> None:
        """Send it on."""
        request, passenger = call.request, _Passenger(call)
        trunk = self._free_for_log() if passenger.wants_log else self._any()
        listens = request.method == LISTEN
        if trunk is None or (listens and self._count_listeners() >= MOST_LISTENERS):
            text = "too many wait for news, or for the log of their calls"
            call.fail(Failure("too_many_listeners", text, retryable=True), self._clock())
            return
        if listens:
            call.reply.begin_stream(self._clock())
        ride = trunk.ride(
            request.id,
            request.method,
            bytes(request.params),
            passenger,
            token=request.progress_token,
            lasting=listens,
        )
        call.reply.on_gone(partial(self._leave, trunk, ride, passenger))

    def _leave(self, trunk: Trunk, ride: Ride, passenger: _Passenger) -> None:
        """The client disconnected. What is still logged for it must not be read by the next one."""
        trunk.leave(ride, "the client disconnected")
        if passenger.wants_log and trunk in self._trunks:
            self._trunks.remove(trunk)
            self._retired.append(trunk)
            if not trunk.rides:
                self.on_empty(trunk)

    def _any(self) -> Trunk:
        return self._trunks[0] if self._trunks else self._add()

    def _free_for_log(self) -> Trunk | None:
        for trunk in self._trunks:
            if _log_reader(trunk) is None:
                return trunk
        return self._add() if len(self._trunks) + len(self._retired) < self._policy.max_sessions else None

    def _count_listeners(self) -> int:
        return sum(ride.lasting for _, ride in self._rides())

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
        """News for a listener, or a log message."""
        number = subscription_of_note(note.params)
        if number is not None:
            ride = trunk.rides.get(number) if type(number) is int else None
            if ride is not None and isinstance(ride.rider, _Passenger):
                ride.rider.hear_news(ride, note, self._clock())
        elif note.method == LOG and (reader := _log_reader(trunk)) is not None:
            reader.call.reply.note(line, self._clock())

    def on_up(self, trunk: Trunk, again: bool) -> None:
        """Those who ride need not know."""

    def on_lost(self, trunk: Trunk, exit: ExitLike) -> None:
        """Those who ride are told by the trunk."""

    def on_changed(self, trunk: Trunk, error: MooringError) -> None:
        """It was not introduced."""

    def on_empty(self, trunk: Trunk) -> None:
        """One is kept; it goes when it is idle."""
        if trunk in self._retired:
            self._retired.remove(trunk)
        elif trunk is not self._trunks[0]:
            self._trunks.remove(trunk)
        else:
            return
        self._all.end(trunk, "not in use")

    # Time and endings

    def tick(self, now: float) -> None:
        """Those who wait see that somebody is there."""
        for _, ride in self._rides():
            if isinstance(ride.rider, _Passenger):
                ride.rider.call.reply.tick(now)

    def hang_up(self) -> None:
        """Listeners are told that this was all."""
        for trunk, ride in self._rides():
            if ride.lasting and isinstance(ride.rider, _Passenger):
                result = b'{"resultType":"complete"}'
                ride.rider.call.answer_result(under_subscription(Raw(result), ride.id), self._clock())
                trunk.leave(ride, "shutting down")

    def cut(self, reason: str, message: str) -> int:
        """End them all."""
        self.hang_up()
        return sum(trunk.cut(reason, message) for trunk in [*self._trunks, *self._retired])


def _log_reader(trunk: Trunk) -> _Passenger | None:
    """Who rides there and wants to hear the log."""
    for ride in trunk.rides.values():
        if isinstance(ride.rider, _Passenger) and ride.rider.wants_log:
            return ride.rider
    return None
