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
from urllib.parse import parse_qs

import msgspec
from msgspec import Struct

from mooring.errors import RemoteProtocolError
from mooring.http.exchange import HttpExchange
from mooring.proxy.batches import is_batch
from mooring.proxy.calls import Call
from mooring.proxy.proxy import RESUMED
from mooring.proxy.session import Session
from mooring.wire import jsonrpc
from mooring.wire.http import App, Exchange, Request
from mooring.wire.request_state import Sealer
from mooring.wire.surrogates import MALFORMED
from mooring.workloads.generation import Generation

__all__ = ["HOLD_S", "Leaving", "goes_on_with_parked", "put_back", "session_id_of"]

HOLD_S = 5.0
"""A call for its session to go."""
STATE = b'"requestState"'


class _Params(Struct, rename="camel"):
    request_state: str = ""


class _GoingOn(Struct):
    params: _Params


_read_going_on = msgspec.json.Decoder(_GoingOn).decode


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
            if self._holds and session.transport in RESUMED and _is_call(request) and self._may_wait(session):
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


def session_id_of(request: Request) -> str | None:
    """The session that a request is for; None: none, or one that begins with it."""
    named = request.header(b"mcp-session-id")
    if named is not None:
        return named.decode("latin-1")
    values = parse_qs(request.query).get("session_id") if "session_id" in request.query else None
    return values[0] if values else None


def goes_on_with_parked(request: Request, parking: Sealer | None) -> bool:
    """Does it say again what a parked call was given, by this one?"""
    if parking is None or STATE not in request.body:
        return False
    try:
        return parking.has_sealed(_read_going_on(request.body).params.request_state)
    except MALFORMED:
        return False


def _is_call(request: Request) -> bool:
    """Something would be executed. What cannot be read is refused by whoever reads it."""
    if request.method != "POST":
        return False
    body = request.body
    try:
        if is_batch(body):
            return any(message.is_request for message, _ in jsonrpc.parse_batch(body))
        return jsonrpc.parse(body).is_request
    except RemoteProtocolError:
        return False
