"""`subscriptions/listen` at a server of 2026-07-28, which answers it itself: one listener of a client.

Any instance may serve the client's next call, and tells what that changes to its own listeners only: so a
listener rides on all of them, and the client knows one. It is told once that it is heard, and that it is
over when the last instance says so.
"""

from collections.abc import Callable

import msgspec
from msgspec import Raw

from mooring.proxy.call_errors import Failure
from mooring.proxy.riders import Indifferent, Ride
from mooring.proxy.stateless_call import StatelessCall
from mooring.proxy.trunk import Trunk
from mooring.wire.eras import under_subscription
from mooring.wire.jsonrpc import Envelope, note_line
from mooring.wire.modern import ACKNOWLEDGED, LISTEN

__all__ = ["Listening"]

OVER = Raw(b'{"resultType":"complete"}')


class Listening(Indifferent):
    """See the module."""

    def __init__(self, call: StatelessCall, on_over: Callable[["Listening"], None]) -> None:
        self._call = call
        self._acknowledged = False
        self._on_over = on_over
        self._rides: dict[Trunk, Ride] = {}

    def tick(self, now: float) -> None:
        """Show the client that somebody is there."""
        self._call.reply.tick(now)

    # Where it listens

    def join(self, trunk: Trunk) -> None:
        """Hear this one too."""
        request = self._call.request
        ride = trunk.ride(request.id, LISTEN, bytes(request.params), self, lasting=True)
        if trunk.carries(ride):
            self._rides[trunk] = ride

    def part(self, trunk: Trunk, reason: str) -> None:
        """It is used no more."""
        ride = self._rides.pop(trunk, None)
        if ride is not None:
            trunk.leave(ride, reason)

    def leave(self, reason: str) -> None:
        """The client has gone."""
        self._on_over(self)
        for trunk in list(self._rides):
            self.part(trunk, reason)

    def hang_up(self, now: float) -> None:
        """This was all."""
        self._call.answer_result(under_subscription(OVER, self._call.request.id), now)
        self.leave("shutting down")

    # What instances tell

    def hear_news(self, ride: Ride, note: Envelope, now: float) -> None:
        """What it listens for, under the client's own id."""
        if note.method == ACKNOWLEDGED:
            ride.acknowledged = True
            if self._acknowledged:
                return
            self._acknowledged = True
        params = under_subscription(note.params, ride.id)
        self._call.reply.note(note_line(note.method, params), now)

    def answered(self, ride: Ride, response: Envelope, now: float) -> None:
        """An instance has ended it."""
        if not self._lose(ride):
            return
        try:
            if response.result:
                response.result = Raw(under_subscription(response.result, ride.id))
        except msgspec.DecodeError as error:
            self._call.fail(Failure("bad_answer", f"the server's answer is malformed: {error}"), now)
        else:
            self._call.answer(response, now)

    def failed(self, ride: Ride, failure: Failure, now: float) -> None:
        """An instance cannot be listened to."""
        if self._lose(ride):
            self._call.fail(failure, now)

    def _lose(self, ride: Ride) -> bool:
        """One less; true if it was the last."""
        self._rides = {trunk: other for trunk, other in self._rides.items() if other is not ride}
        if not self._rides:
            self._on_over(self)
        return not self._rides
