"""Who answers requests at a daemon that has handed over: itself, for what is still under way with it.

    for a session that it still has   served; but a call waits until the session has gone, so that it can go
                                      (unless the session is bound to its connection: that one stays)
    going on with a parked call       served
    all else                          put back: it goes to the successor, with its connection

A call that waits is one that the session could have had under way beside others. If those take longer than
`HOLD_S`, it is served here after all, and calls wait again when they are over.
"""

import asyncio
from collections.abc import Callable
from typing import cast

from mooring.http.exchange import HttpExchange
from mooring.proxy.addressing import is_call, request_state_of, session_id_of
from mooring.proxy.calls import Call
from mooring.proxy.proxy import RESUMED
from mooring.proxy.session import Session
from mooring.wire.http import App, Exchange, Request
from mooring.wire.request_state import Sealer
from mooring.workloads.generation import Generation

__all__ = ["HOLD_S", "Leaving", "goes_on_with_parked", "put_back"]

HOLD_S = 5.0
"""A call for its session to go."""


class Leaving:
    """An app in front of the daemon's own."""

    def __init__(self, app: App, live: Callable[[], dict[str, Generation]]) -> None:
        self._app = app
        self._live = live
        self._held: dict[Session, list[Exchange]] = {}
        self._since: dict[Session, float] = {}
        self._holds = True
        self._long: dict[Session, list[Call]] = {}
        """Calls that took too long for others to wait for their end."""

    def __call__(self, exchange: Exchange) -> None:
        """One request."""
        request = exchange.request
        generation = self._live().get(request.path.split("/", 2)[1])
        proxy = generation.workload.proxy if generation is not None else None
        id = session_id_of(request)
        session = proxy.sessions.get(id) if proxy is not None and id is not None else None
        if session is not None:
            if self._holds and session.transport in RESUMED and is_call(request) and self._may_wait(session):
                self._held.setdefault(session, []).append(exchange)
            else:
                self._app(exchange)
        elif proxy is not None and goes_on_with_parked(request, proxy.stateless.parking):
            self._app(exchange)
        else:
            put_back(exchange)

    def _may_wait(self, session: Session) -> bool:
        long = [call for call in self._long.pop(session, ()) if session.is_pending(call)]
        if long:
            self._long[session] = long
            return False
        self._since.setdefault(session, asyncio.get_running_loop().time())
        return True

    def tick(self) -> None:
        """Let those go whose session has gone, to the successor or for good; serve who has waited enough."""
        now = asyncio.get_running_loop().time()
        for session, since in list(self._since.items()):
            if session.is_closed:
                for exchange in self._take(session):
                    put_back(exchange)
            elif now - since >= HOLD_S:
                self._long[session] = list(session.calls.values())
                for exchange in self._take(session):
                    self._app(exchange)
        for session in [session for session in self._long if session.is_closed]:
            del self._long[session]

    def serve_all(self) -> None:
        """There is no successor any more: nobody waits for it."""
        self._holds = False
        for session in list(self._held):
            for exchange in self._take(session):
                self._app(exchange)

    def _take(self, session: Session) -> list[Exchange]:
        self._since.pop(session, None)
        return [exchange for exchange in self._held.pop(session, ()) if not exchange.disconnected]


def put_back(exchange: Exchange) -> None:
    """For the other daemon."""
    cast("HttpExchange", exchange).put_back()


def goes_on_with_parked(request: Request, parking: Sealer | None) -> bool:
    """Does it say again what a parked call was given, by this one?"""
    state = request_state_of(request) if parking is not None else ""
    return parking is not None and bool(state) and parking.has_sealed(state)
