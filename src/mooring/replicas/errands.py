"""A request on its way to another replica and back, without a task of its own: most answers are short.

    sent → answered; or over, with an outcome; or its answer is long, and a task goes on with it

Whoever sent it hears once how it ended, unless its client has gone: then nobody wants to know.
"""

from collections.abc import Callable
from enum import Enum

from mooring.http.client import Client, ClientResponse
from mooring.http.client_connection import ClientConnection
from mooring.http.client_errors import NoAnswer, NotSent
from mooring.replicas.forwarding import fields_of_answer, is_short
from mooring.wire.http import Exchange, Response

__all__ = ["Errand", "Outcome", "outcome_of"]


class Outcome(Enum):
    """What became of a request at another replica."""

    ANSWERED = "answered, as far as its client wanted it"
    NOT_DONE = "not sent, or the other said that it did nothing"
    UNANSWERED = "the other closed the connection in order, without a word: whatever it did is done"
    LOST = "may have been done, may still be"


def outcome_of(error: Exception) -> Outcome:
    """What an error says of the request that it ended."""
    if isinstance(error, NotSent):
        return Outcome.NOT_DONE
    is_over = isinstance(error, NoAnswer) and error.is_clean
    return Outcome.UNANSWERED if is_over else Outcome.LOST


class Errand:
    """Has a connection until it is over. `on_end` hears the outcome, or gets an answer that is long."""

    __slots__ = ("_client", "_connection", "_exchange", "_is_not_done", "_on_end")

    def __init__(
        self,
        exchange: Exchange,
        client: Client,
        connection: ClientConnection,
        is_not_done: Callable[[int], bool],
        on_end: "Callable[[Errand, Outcome | ClientResponse | None], None]",
    ) -> None:
        """`connection`: the request was just sent there. `is_not_done`: does a status say that nothing was?
        `on_end` gets None if its client has gone."""
        self._exchange = exchange
        self._client = client
        self._connection = connection
        self._is_not_done = is_not_done
        self._on_end = on_end
        connection.on_news = self._look
        exchange.on_disconnect = self.cancel

    def cancel(self) -> None:
        """Its client has gone: closing the connection tells the other."""
        self._let_go()
        self._on_end(self, None)

    def give_up(self) -> None:
        """The other has gone."""
        self._end(Outcome.LOST)

    def _look(self) -> None:
        connection = self._connection
        answer = connection.answer
        if answer is None:
            if connection.fault is not None:
                self._end(outcome_of(connection.fault))
            return
        status, headers = answer
        if self._is_not_done(status):
            self._end(Outcome.NOT_DONE)
        elif not is_short(headers):
            connection.on_news = self._exchange.on_disconnect = None
            self._on_end(self, ClientResponse(self._client, connection, status, headers))
        elif connection.is_complete:
            body = connection.take_body()
            self._end(Outcome.ANSWERED)
            self._exchange.respond(Response(status, body, fields_of_answer(headers)))
        elif connection.fault is not None:
            self._end(outcome_of(connection.fault))

    def _end(self, outcome: Outcome) -> None:
        self._let_go()
        self._on_end(self, outcome)

    def _let_go(self) -> None:
        """A connection whose answer has not come to its end is closed by that."""
        self._connection.on_news = self._exchange.on_disconnect = None
        self._client.give_back(self._connection)
