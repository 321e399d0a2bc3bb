"""What a relay tells those who run it: `mooring relay status`, and the page of metrics."""

import asyncio
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from mooring import __version__
from mooring.host.prometheus import CONTENT_TYPE, Page, Teller, by
from mooring.http.listener import Listener
from mooring.http.problems import problem
from mooring.http.router import Router
from mooring.relay.keeper import AGENT, CLIENT, Keeper
from mooring.relay.relay import Relay
from mooring.wire.http import Exchange, Headers, Response

if TYPE_CHECKING:
    from mooring.relay.certificates.keeper import Certificates

__all__ = ["control_app", "metrics_app"]

JSON: Headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]


def control_app(
    relay: Relay, certificates: "Certificates | None", urls: list[str], restart: Callable[[], bool]
) -> Router:
    """For the commands of whoever may use the relay's folder. `restart` does, or returns False."""

    def status(exchange: Exchange) -> None:
        body = msgspec.json.encode(_status(relay, certificates, urls))
        exchange.respond(Response(200, body, JSON))

    def begin_restart(exchange: Exchange) -> None:
        exchange.respond(Response(200, b'{"restarting":true}', JSON) if restart() else _stopping())

    return Router().add("GET", "/status", status).add("POST", "/restart", begin_restart)


def _stopping() -> Response:
    hint = "start it again when it has ended: mooring relay"
    return problem(409, "relay_stopping", "the relay is shutting down, and not to come back", hint=hint)


def _status(relay: Relay, certificates: "Certificates | None", urls: list[str]) -> dict[str, Any]:
    live = relay.registry.snapshot()
    return {
        "pid": os.getpid(),
        "version": __version__,
        "started_at": relay.started_at,
        "urls": urls,
        "state": _state(relay, certificates),
        "agents": [_told(keeper) for keeper in live if keeper.kind == AGENT],
        "clients": [_told(keeper) for keeper in live if keeper.kind == CLIENT],
        "calls_in_flight": relay.calls_in_flight,
        "certificate": None if certificates is None else msgspec.to_builtins(certificates.status),
    }


def _state(relay: Relay, certificates: "Certificates | None") -> str:
    if relay.is_draining:
        return "draining"
    is_reached = certificates is None or certificates.status.valid_until is not None
    return "ready" if is_reached else "no certificate"


def _told(keeper: Keeper) -> dict[str, Any]:
    trip_s = keeper.round_trip_s
    return {
        "name": keeper.name,
        "servers": sorted(keeper.servers),
        "state": "connected" if keeper.is_attached else "lost",
        "connected_since": keeper.since,
        "round_trip_ms": None if trip_s is None else round(trip_s * 1000, 2),
        "calls": keeper.calls,
        "open": len(keeper.link.streams),
        "reconnects": keeper.reconnects,
        "bad_envelopes": keeper.link.bad,
    }


def metrics_app(relay: Relay, listener: Listener) -> Router:
    """For a collector on this machine. No value names anybody."""

    def metrics(exchange: Exchange) -> None:
        exchange.respond(Response(200, _metrics(relay, listener), [(b"content-type", CONTENT_TYPE)]))

    return Router().add("GET", "/metrics", metrics).add("HEAD", "/metrics", metrics)


def _metrics(relay: Relay, listener: Listener) -> bytes:
    page = Page()
    tell = Teller(page, {})
    live = relay.registry.snapshot()
    states = [(kind, attached) for kind in (AGENT, CLIENT) for attached in (True, False)]
    counts = [
        (
            {"kind": kind, "state": "connected" if attached else "lost"},
            sum(keeper.kind == kind and keeper.is_attached == attached for keeper in live),
        )
        for kind, attached in states
    ]
    tell.gauge("relay_links", "Links of agents and clients.", counts)
    tell.gauge(
        "relay_calls_in_flight", "Requests of callers that are not answered.", [({}, relay.calls_in_flight)]
    )
    tell.gauge("relay_draining", "1 while it shuts down.", [({}, int(relay.is_draining))])
    kept = sum(keeper.link.unacknowledged_bytes for keeper in live)
    tell.gauge("relay_unacknowledged_bytes", "Kept to be sent again after a loss.", [({}, kept)])
    for family, samples in relay.counters.samples():
        tell.counter(f"relay_{family.name}", family.text, samples)
    tell.gauge("build_info", "Which Mooring this is.", [({"version": __version__}, 1)])
    tell.gauge("connections", "Open connections.", [({}, listener.connections)])
    tell.gauge("websockets", "How many of them are WebSockets.", [({}, listener.websockets)])
    tell.counter(
        "connections_refused_total", "Connections for which there was no room.", [({}, listener.refused)]
    )
    tell.counter(
        "requests_refused_total",
        "Requests that were malformed, too slow or too large, or refused by their head alone.",
        by("reason", listener.house.refused),
    )
    tell.gauge("tasks", "Tasks of the event loop.", [({}, len(asyncio.all_tasks()))])
    tell.gauge("objects", "Blocks of memory that Python objects occupy.", [({}, sys.getallocatedblocks())])
    return page.encode()
