"""A request on its way to another replica and back by a link, without a task of its own.

    sent → answered, whole or piece by piece, no faster than the client reads; or over, with an outcome

Whoever sent it hears once how it ended, unless its client has gone: then nobody wants to know.
"""

from collections.abc import Callable
from enum import Enum

from mooring.http.client_errors import NoAnswer, NotSent
from mooring.http.exchange import HttpExchange
from mooring.replicas.forwarding import REFUSALS
from mooring.replicas.link_asking import AskingLink
from mooring.replicas.link_frames import WINDOW_BYTES
from mooring.replicas.records import Replica

__all__ = ["ANSWERED", "Errand", "Outcome", "outcome_of"]


class Outcome(Enum):
    """What became of a request at another replica."""

    ANSWERED = "answered, as far as its client wanted it"
    NOT_DONE = "not sent, or the other said that it did nothing"
    UNANSWERED = "the other closed the connection in order, without a word: whatever it did is done"
    LOST = "may have been done, may still be"


ANSWERED = Outcome.ANSWERED
"""Of nearly every call: a member of an enum takes ten times as long to look up as this."""


def outcome_of(error: Exception) -> Outcome:
    """What an error says of the request that it ended."""
    if isinstance(error, NotSent):
        return Outcome.NOT_DONE
    is_over = isinstance(error, NoAnswer) and error.is_clean
    return Outcome.UNANSWERED if is_over else Outcome.LOST


class Errand:
    """See `mooring.replicas.link_asking.Asker`, which this is."""

    __slots__ = (
        "_exchange",
        "_link",
        "_number",
        "_on_over",
        "_on_refused",
        "_owed_bytes",
        "is_begun",
        "replica",
        "to",
    )

    def __init__(
        self,
        to: str,
        exchange: HttpExchange,
        replica: Replica,
        on_refused: Callable[[str, Replica, int], None],
        on_over: "Callable[[Errand, Outcome | None], None]",
    ) -> None:
        """`to`: its name. `on_refused` hears by which status that replica said that it did nothing. `on_over`
        hears the outcome, once; None: its client has gone."""
        self.to = to
        self._exchange = exchange
        self.replica = replica
        self._on_refused = on_refused
        self._on_over = on_over
        self.is_begun = False
        self._owed_bytes = 0

    def set_out(self, link: AskingLink, head: int) -> None:
        """Go."""
        self._link = link
        self._number = link.call(head, self._exchange.request.body, self)
        self._exchange.on_disconnect = self.cancel

    def cancel(self) -> None:
        """Its client has gone."""
        self._link.cancel(self._number)
        self._end(None)

    def give_up(self) -> None:
        """The other has gone."""
        self._link.cancel(self._number)
        self.on_lost()

    # For the link.

    def on_answer(self, status: int, head: bytes, body: bytes) -> None:
        """See `Asker`."""
        if status in REFUSALS:
            self._refuse(status)
        else:
            self._end(ANSWERED)
            self._exchange.relay(head, body)

    def on_begin(self, status: int, head: bytes) -> None:
        """See `Asker`."""
        if status in REFUSALS:
            self._link.cancel(self._number)
            self._refuse(status)
            return
        self.is_begun = True
        self._exchange.on_writable = self._catch_up
        self._exchange.relay_begin(head)

    def on_piece(self, data: bytes) -> None:
        """See `Asker`."""
        self._exchange.relay_more(data)
        self._owed_bytes += len(data)
        if self._owed_bytes >= WINDOW_BYTES // 2 and self._exchange.writable:
            self._catch_up()

    def on_end(self) -> None:
        """See `Asker`."""
        self._end(ANSWERED)
        self._exchange.relay_end()

    def on_not_done(self) -> None:
        """See `Asker`."""
        self._end(Outcome.NOT_DONE)

    def on_lost(self) -> None:
        """See `Asker`."""
        if not self.is_begun:
            self._end(Outcome.LOST)
            return
        self._end(ANSWERED)
        self._exchange.abort()  # visibly incomplete: an event stream is resumed, wherever its events are

    def _catch_up(self) -> None:
        owed, self._owed_bytes = self._owed_bytes, 0
        if owed:
            self._link.credit(self._number, owed)

    def _refuse(self, status: int) -> None:
        self._on_refused(self.to, self.replica, status)
        self._end(Outcome.NOT_DONE)

    def _end(self, outcome: Outcome | None) -> None:
        self._exchange.on_disconnect = self._exchange.on_writable = None
        self._on_over(self, outcome)
