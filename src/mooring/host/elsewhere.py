"""Requests for what another daemon still has: they go there, with their connections."""

from mooring.host.leaving import goes_on_with_parked, put_back
from mooring.proxy.addressing import session_id_of
from mooring.wire.http import App, Exchange
from mooring.wire.request_state import Sealer

__all__ = ["Elsewhere"]


class Elsewhere:
    """In front of the app of one server, for as long as anything of it is elsewhere."""

    def __init__(self, app: App, ids: set[str], parking: Sealer | None) -> None:
        self._app = app
        self.ids = ids
        """Of sessions that are not here yet."""
        self.parking = parking
        """The seal of calls that wait there for their clients to answer; None: there are none."""

    @property
    def is_over(self) -> bool:
        """All of it is here."""
        return not self.ids and self.parking is None

    def __call__(self, exchange: Exchange) -> None:
        """One request."""
        request = exchange.request
        if session_id_of(request) in self.ids or goes_on_with_parked(request, self.parking):
            put_back(exchange)
        else:
            self._app(exchange)
