"""`mooring relay`: until it is told to end. The shutdown contract, for links:

1. `/readyz` says 503. No upgrade is granted any more, no call taken: whoever comes is told so.
2. Calls under way finish; streams that only listen end.
3. At the deadline the rest gets an error that names the cause.
4. Every link is flushed, and closed with 1001, or with 1012 and a moment to come back if it is a restart: all
   at once, spread a little. Then all listeners end, beside the goodbyes of the peers. Then force.

Exit statuses: 0 ended as asked · 1 a listener failed · 2 usage or configuration · 3 a call was cut off.
"""

import asyncio
import fcntl
import logging
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from mooring.errors import ListenFailed, Unavailable
from mooring.host.loops import run_with_signals
from mooring.host.relay_options import Address, RelayOptions, check
from mooring.host.relay_pages import control_app, metrics_app
from mooring.host.stop import Stop
from mooring.host.waits import unless_stopped, until
from mooring.http.client_proxies import Proxies
from mooring.http.guard import Guard, guarded
from mooring.http.limits import Limits
from mooring.http.listener import Listener
from mooring.http.neighbours import Neighbours
from mooring.http.tls import server_context
from mooring.relay.admission import FAILURES, ClientAddress, RateLimiter, unasked, upgrades
from mooring.relay.certificates.policy import LETS_ENCRYPT, Authority
from mooring.relay.gate import Gate
from mooring.relay.meters import BytePolicy, Meters
from mooring.relay.relay import Relay
from mooring.relay.state_folder import control_socket, make_state, tokens_path
from mooring.relay.token_book import TokenBook
from mooring.wire.http import Request, Response

if TYPE_CHECKING:
    import ssl

    from mooring.relay.certificates.keeper import Certificates

__all__ = ["control_socket", "main", "run"]

log = logging.getLogger("mooring.host")

LOST_CALL = 3
BEGIN_ANEW = -1
"""Instead of an exit status."""
BACKLOG = 4096
"""Agents that come back all at once wait there for a moment; who finds no room comes seconds later."""
RESTART = "restart asked for"
PROBES = frozenset({"/healthz", "/readyz"})


def main(options: RelayOptions) -> int:
    """Run until a signal says stop; returns the exit status. A restart that was asked for begins it anew."""
    status = run_with_signals(lambda stop: _run(options, stop), keeps_memory=True)
    if status == BEGIN_ANEW:
        sys.stdout.flush()
        sys.stderr.flush()
        os.execv(sys.executable, [sys.executable, "-m", "mooring", *sys.argv[1:]])  # noqa: S606 - ourselves
    return status


async def run(options: RelayOptions, stop: Stop) -> int:
    """Serve until `stop`; returns the exit status. Raises MooringError for what cannot even begin."""
    return max(0, await _run(options, stop))


async def _run(options: RelayOptions, stop: Stop) -> int:
    check(options, is_root=hasattr(os, "geteuid") and os.geteuid() == 0)
    make_state(options.state)
    failure: BaseException | None = None
    with _owning(options.state / "relay.lock"):
        relaying = _Relaying(options, stop)
        try:
            await unless_stopped(stop, relaying.begin())
            if not stop.requested:
                failure = await relaying.until_stopped()
            cut = await relaying.shut_down()
        finally:
            await relaying.aclose()
    if failure is not None:
        raise failure
    if relaying.wants_restart:
        return BEGIN_ANEW
    return LOST_CALL if cut else 0


@contextmanager
def _owning(path: Path) -> Iterator[None]:
    """One relay for one folder: the lock goes with the process, however that ends."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Unavailable(
                f"another relay uses {path.parent}",
                code="relay_running",
                hint="mooring relay status shows it; give this one a folder of its own with --state",
            ) from None
        yield
    finally:
        os.close(descriptor)


class _Relaying:
    """One life of a relay, with all that it owns."""

    def __init__(self, options: RelayOptions, stop: Stop) -> None:
        self._options = options
        self._stop = stop
        clock = time.monotonic
        book = TokenBook.load(tokens_path(options.state))
        addresses = ClientAddress(options.trust_proxies)
        gate = Gate(
            book,
            addresses,
            upgrades=RateLimiter(upgrades(options.upgrades_per_second), clock),
            failures=RateLimiter(FAILURES, clock),
        )
        meters = Meters(BytePolicy(bytes_per_minute=options.bytes_per_minute), clock)
        self._urls: list[str] = []
        self._relay = Relay(book, gate, meters, options.policy, url=self._url)
        self._guard = Guard(
            hosts=[options.domain] if options.domain else ["*"],
            origins=options.allow_origins,
            exempt_paths=PROBES,
        )
        limits = Limits(
            max_connections=options.max_connections,
            backlog=BACKLOG,
            max_body_bytes=options.policy.max_body_bytes,
            linger_timeout_s=options.policy.goodbye_s,
        )
        self._public = Listener(
            guarded(self._relay, self._guard),
            admit=self._admit,
            limits=limits,
            clock=clock,
            neighbours=Neighbours(
                unasked(options.upgrades_per_second, options.max_connections), addresses.place
            ),
        )
        self._certificates: Certificates | None = self._make_certificates()
        self._others: list[Listener] = []
        self._tasks: list[asyncio.Task[None]] = []

    def _url(self) -> str:
        """Empty: agents know it as well as we do, from where they dialled."""
        options = self._options
        return options.public_url or (self._urls[0] if options.domain else "")

    def _admit(self, request: Request) -> Response | None:
        return self._guard.admit(request) or self._relay.admit(request)

    def _make_certificates(self) -> "Certificates | None":
        options, acme = self._options, self._options.acme
        if not options.domain:
            return None
        from mooring.relay.certificates.entrance import open_certificates  # noqa: PLC0415 - optional

        authority = Authority(
            url=acme.directory or LETS_ENCRYPT,
            ca_file=acme.ca_file,
            email=acme.email or None,
            proxies=Proxies.from_environment(os.environ),
        )
        folder = options.state / "certificates"
        return open_certificates(
            [options.domain], folder, authority, challenge=acme.challenge, policy=acme.policy
        )

    # Its beginning.

    async def begin(self) -> None:
        """Open what is to be reached; when it returns, the relay is."""
        control = self._listener(control_app(self._relay, self._certificates, self._urls, self._restart))
        socket = control_socket(self._options.state)
        make_state(socket.parent)  # which may be elsewhere
        socket.unlink(missing_ok=True)  # the lock is ours: whoever made it is gone
        await control.listen_unix(socket)
        if self._options.metrics_listen is not None:
            metrics = self._listener(metrics_app(self._relay, self._public))
            await metrics.listen_tcp(*self._options.metrics_listen)
        await self._open_public()
        self._tasks.append(asyncio.create_task(self._relay.run(), name="relay"))
        if self._certificates is not None:
            self._tasks.append(asyncio.create_task(self._certificates.run(), name="certificates"))
        for url in self._urls:
            log.info("relaying at %s", url, extra={"event": "listening", "url": url})

    def _listener(self, app: "Listener | object") -> Listener:
        listener = Listener(app, limits=Limits(max_connections=64))  # type: ignore[arg-type]
        self._others.append(listener)
        return listener

    async def _open_public(self) -> None:
        options, certificates = self._options, self._certificates
        tls: ssl.SSLContext | None = None
        address = options.insecure_listen or options.listen
        if options.tls_cert is not None and options.tls_key is not None:
            tls = server_context(options.tls_cert, options.tls_key)
        if certificates is not None:
            tls = certificates.context
            await self._open_port_80(certificates, options.http_listen)
        bound = await self._public.listen_tcp(*address, tls=tls)
        scheme = "http" if tls is None else "https"
        self._urls[:] = (
            [options.public_url or f"https://{options.domain}{_port_suffix(bound[0][1], 443)}"]
            if options.domain
            else [_url(scheme, host, port) for host, port in bound]
        )
        if certificates is not None:
            await _obtain(certificates)

    async def _open_port_80(self, certificates: "Certificates", address: Address | None) -> None:
        if address is None:
            return
        listener = self._listener(certificates.challenges)
        try:
            await listener.listen_tcp(*address)
        except ListenFailed as error:
            if self._options.acme.challenge == "http-01":
                raise
            log.warning(
                "port %d cannot be had, so the authority is answered by TLS: %s", address[1], error.message
            )
        else:
            certificates.has_port_80 = True

    # Its life.

    async def until_stopped(self) -> BaseException | None:
        """Returns what ended one of its parts before: none of them ends by itself."""
        stopping = asyncio.ensure_future(self._stop.wait_requested())
        watching = [asyncio.ensure_future(_watch(listener)) for listener in (self._public, *self._others)]
        try:
            parts = [*watching, *self._tasks]
            done, _ = await asyncio.wait([stopping, *parts], return_when=asyncio.FIRST_COMPLETED)
            return next((part.exception() for part in done if part is not stopping), None)
        finally:
            for task in (stopping, *watching):
                task.cancel()
            await asyncio.gather(stopping, *watching, return_exceptions=True)

    def _restart(self) -> bool:
        """Begin to; False: it ends for another reason. Asking again is no second signal: that forces."""
        if not (self._stop.requested or self._relay.is_draining):
            self._stop.request(RESTART)
        return self.wants_restart

    @property
    def wants_restart(self) -> bool:
        """That was asked for, and no signal came since: whoever sends one wants it to end."""
        return self._stop.last_cause == RESTART

    # Its end.

    async def shut_down(self) -> int:
        """See the module; returns how many calls were cut."""
        cause = self._stop.cause or "a part of it failed"
        total_s = self._options.drain_timeout_s
        calls = self._relay.calls_in_flight
        agents, clients = self._relay.registry.counts
        log.info(
            "%s: stopping, with %s under way, %s and %s",
            cause,
            _counted(calls, "call"),
            _counted(agents, "agent"),
            _counted(clients, "client"),
            extra={"event": "draining", "cause": cause, "calls": calls},
        )
        everywhere = (self._public, *self._others)
        for listener in everywhere:
            listener.announce_drain()
        is_restart = self.wants_restart or self._options.announce_restart
        calls_s = max(total_s - self._relay.closing_s, total_s / 2)
        give_up_at = asyncio.get_running_loop().time() + total_s
        draining = asyncio.ensure_future(self._relay.drain(cause, calls_s=calls_s, is_restart=is_restart))
        await until(self._stop, total_s, draining)
        self._relay.cut(cause)  # in case that nobody waited for calls any more
        if not draining.cancelled():
            draining.result()
        cut = self._relay.calls_cut
        for listener in everywhere:  # until now whoever came was told why it is not served
            listener.stop_accepting(min(1.0, total_s / 4))
        left_s = max(0.1, give_up_at - asyncio.get_running_loop().time())
        await until(self._stop, left_s, *(listener.wait_drained() for listener in everywhere))
        log.info("the relay has stopped", extra={"event": "ended", "cut": cut})
        return cut

    async def aclose(self) -> None:
        """No port answers, and no task is left."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._relay.aclose()
        for listener in (self._public, *self._others):
            await listener.aclose()
        if self._certificates is not None:
            await self._certificates.aclose()


async def _obtain(certificates: "Certificates") -> None:
    """A first order that fails is tried again, by a relay that stays: ended and started anew each time, it
    would soon have used up what the authority forgives. Raises UserError for what time does not heal."""
    with suppress(Unavailable):  # it has said so
        await certificates.obtain()


async def _watch(listener: Listener) -> None:
    """Raises ListenFailed when nobody can reach it any more."""
    await listener.wait_dead()
    raise ListenFailed(
        f"{' and '.join(listener.addresses)} cannot be listened on any more",
        code="listener_died",
        hint="start the relay again; systemd does so with Restart=always",
    )


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _url(scheme: str, host: str, port: int) -> str:
    shown = "localhost" if host in ("::", "0.0.0.0") else host  # noqa: S104 - only told
    bracketed = f"[{shown}]" if ":" in shown else shown
    return f"{scheme}://{bracketed}{_port_suffix(port, 443 if scheme == 'https' else 80)}"


def _port_suffix(port: int, usual: int) -> str:
    return "" if port == usual else f":{port}"
