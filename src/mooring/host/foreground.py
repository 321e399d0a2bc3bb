"""`mooring run --foreground`: one workload behind one listener, until it is told to end.

Exit statuses: 0 ended as asked · 1 the listener failed, or the server ended under `--no-restart` ·
2 usage or configuration · 3 a call was cut off at the deadline.
"""

import asyncio
import logging
import os
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

from mooring.host.access import make_guard
from mooring.host.alone import Alone
from mooring.host.capacity import connections_within, few_descriptors
from mooring.host.grace import missing_grace
from mooring.host.loops import run_with_signals
from mooring.host.options import ForegroundOptions, ListenOptions, ReplicaOptions, ServerOptions
from mooring.host.pages import Pages
from mooring.host.routes import add_routes
from mooring.host.shutdown import DrainPolicy, shut_down, stop_children
from mooring.host.stop import Stop
from mooring.host.waits import first_of, unless_stopped
from mooring.http.guard import guarded
from mooring.http.limits import Limits
from mooring.http.listener import Listener
from mooring.http.router import Router
from mooring.http.tls import server_context
from mooring.replicas.redis_needed import redis_needed
from mooring.replicas.seal import HEADER
from mooring.runtimes.descriptors import DESCRIPTORS
from mooring.runtimes.household import Household
from mooring.secrets.resolving import Resolver
from mooring.secrets.vault import Vault
from mooring.wire.http import App, Exchange
from mooring.workloads.resolving import Resolving
from mooring.workloads.workload import Workload

if TYPE_CHECKING:
    from mooring.host.replicated import Replicated
    from mooring.runtimes.containers.harbours import Harbours

__all__ = ["main", "run"]

log = logging.getLogger("mooring.host")

LOST_CALL, SERVER_ENDED = 3, 1
PAGES = frozenset({"/livez", "/readyz", "/metrics"})


def main(options: ForegroundOptions) -> int:
    """Run until a signal says stop; returns the exit status."""
    return run_with_signals(lambda stop: run(options, stop), keeps_memory=True)


async def run(options: ForegroundOptions, stop: Stop) -> int:
    """Serve until `stop`; returns the exit status. Raises MooringError for what cannot even begin."""
    clock = time.monotonic
    ended = asyncio.Event()
    household = Household(clock)
    harbours = _harbours(household) if options.server.container is not None else None
    alone = Alone(socket.gethostname(), os.environ, shares=options.replicas is not None)
    workload = Workload(
        options.server,
        clock=clock,
        on_ended=ended.set,
        on_happening=alone.on_happening,
        on_unwanted=stop.request,
        household=household,
        harbours=harbours,
        resolving=_resolving(options.secrets),
    )
    router = Router(hint="MCP is at /mcp")
    guard = make_guard(options.listen)
    door = Door(router)
    listener = Listener(
        guarded(door, guard),
        admit=guard.admit,
        limits=_limits(options.server),
        clock=clock,
    )
    pages = Pages(workload, listener, stop)
    _route(router, workload, pages)
    policy = DrainPolicy(
        delay_s=options.drain_delay_s,
        timeout_s=options.drain_timeout_s,
        children_s=options.server.patience.eof_grace_s + options.server.patience.stop_grace_s,
    )
    if (warning := missing_grace(policy, os.environ)) is not None:
        log.warning(warning, extra={"event": "short_grace"})
    alone.begin()
    replicated: Replicated | None = None
    try:
        await unless_stopped(stop, workload.check())
        if options.replicas is not None and not stop.requested:
            replicated = await _join(options.replicas, workload, router)
            guard.vouched, guard.voucher_field = replicated.vouch, HEADER
            door.app, pages.replicated = replicated.front, replicated
            replicated.front.own_pages = PAGES
        urls = [] if stop.requested else await _listen(listener, options.listen)
        if not stop.requested:
            workload.start()
            for url in urls:
                _announce(workload.name, url, options)
            _warn_of_few_descriptors(options.server)
            await first_of(stop.wait_requested(), ended.wait())
        cut = await shut_down(
            listener,
            workload,
            stop,
            policy=policy,
            cause=stop.cause or "the server ended",
            clock=clock,
            replicated=replicated,
        )
    finally:
        if replicated is not None:
            await replicated.leave()
        await stop_children(workload, stop, options.drain_timeout_s, "ending")
        if harbours is not None:
            await harbours.aclose()
        await household.aclose()
        await listener.aclose()
    log.info("%s has stopped", workload.name, extra={"event": "ended", "cut": cut})
    if ended.is_set() and not stop.requested:
        return SERVER_ENDED
    return LOST_CALL if cut else 0


class Door:
    """Behind the guard: what answers may still change while nobody is let in."""

    def __init__(self, app: App) -> None:
        self.app = app

    def __call__(self, exchange: Exchange) -> None:
        """One request."""
        self.app(exchange)


def _harbours(household: Household) -> "Harbours":
    from mooring.host.harbouring import foreground_harbours  # noqa: PLC0415 - only containers need it

    return foreground_harbours(household.guardian)


async def _join(options: ReplicaOptions, workload: Workload, router: Router) -> "Replicated":
    with redis_needed():
        from mooring.host.replicated import join  # noqa: PLC0415 - Redis is only for those who have replicas
    return await join(options, workload.proxy, router)


def _resolving(secrets: Path | None) -> Resolving | None:
    if secrets is None:
        return None
    whose, remedy = "the environment of this command", "set {name} where this command is run"
    return Resolving(Resolver(Vault(secrets), os.environ, whose=whose, remedy=remedy), secrets.parent)


def _limits(server: ServerOptions) -> Limits:
    """A body is one message; whatever its bound, four of the largest may be under way, either way."""
    usual, message_bytes = Limits(), server.sessions.max_message_bytes
    room = connections_within(DESCRIPTORS.soft, server.sessions.max_sessions + server.spare)
    return Limits(
        max_connections=min(usual.max_connections, room),
        max_body_bytes=message_bytes,
        max_unfinished_bytes=max(usual.max_unfinished_bytes, 4 * message_bytes),
        max_unsent_bytes=max(usual.max_unsent_bytes, 4 * message_bytes),
    )


def _route(router: Router, workload: Workload, pages: Pages) -> None:
    for base in ("", f"/{workload.name}"):
        add_routes(router, workload.proxy, base)
    for method in ("GET", "HEAD"):  # health checkers use either
        router.add(method, "/livez", pages.livez)
        router.add(method, "/readyz", pages.readyz)
        router.add(method, "/metrics", pages.metrics)


async def _listen(listener: Listener, listen: ListenOptions) -> list[str]:
    """Open the socket; returns the URLs under which it is reached."""
    tls = None
    if listen.tls_cert is not None and listen.tls_key is not None:
        tls = server_context(listen.tls_cert, listen.tls_key)
    if listen.unix is not None:
        await listener.listen_unix(listen.unix)
        return [f"unix:{listen.unix}"]
    addresses = await listener.listen_tcp(listen.host, listen.port, tls=tls)
    scheme = "https" if tls else "http"
    return [f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/mcp" for host, port in addresses]


def _announce(name: str, url: str, options: ForegroundOptions) -> None:
    log.info("%s is served at %s", name, url, extra={"event": "listening", "server": name, "url": url})
    if options.listen.allow_remote and not options.listen.token_file and not options.listen.unix:
        log.warning(
            "anybody who can reach this address can run the server's tools (--no-auth)",
            extra={"event": "open_to_all"},
        )


def _warn_of_few_descriptors(server: ServerOptions) -> None:
    """Better now than by the session for which there are none left."""
    limit = DESCRIPTORS.soft
    warning = few_descriptors(limit, server.sessions.max_sessions, server.spare)
    if warning is not None:
        log.warning(warning, extra={"event": "few_descriptors", "limit": limit})
