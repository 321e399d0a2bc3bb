"""Requests of revision 2026-07-28: each for itself, served by whatever the server speaks.

The era of the server is found out with the first request and remembered; requests that come meanwhile
wait. Then each goes to `modern_server` (passed through) or `handshake_server` (bridged). A server that told
nothing is supposed to take handshakes: until it has, those who come later ask again.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from mooring.errors import MooringError
from mooring.proxy.call_errors import Failure
from mooring.proxy.era import Discovery, find_era
from mooring.proxy.handshake_server import HandshakeServer
from mooring.proxy.later_server import LaterServer
from mooring.proxy.modern_face import ModernFace
from mooring.proxy.modern_server import ModernServer
from mooring.proxy.passed_trunk import PassedTrunk
from mooring.proxy.policy import SessionPolicy
from mooring.proxy.ports import Channel
from mooring.proxy.sharing import Sharing
from mooring.proxy.stateless_call import StatelessCall, StatelessReply
from mooring.proxy.trunks import Trunks
from mooring.wire.eras import REMOVED
from mooring.wire.jsonrpc import METHOD_NOT_FOUND, Envelope
from mooring.wire.modern import ModernRequest
from mooring.wire.notes import is_extension
from mooring.wire.request_state import Sealer
from mooring.wire.revisions import MODERN

__all__ = ["Stateless"]

log = logging.getLogger("mooring.session")

SILENCE_S = 10.0
"""How long a server that takes handshakes may leave the question for its era unanswered."""


class Service(Protocol):
    """How requests are served by servers of one era."""

    def take(self, call: StatelessCall) -> None:
        """Serve a request; it will be answered through its reply, whatever happens."""
        ...

    def adopt(self, passed: PassedTrunk, channel: Channel) -> bool:
        """Go on with an instance that another Mooring had; False: it is of no use here."""
        ...

    def tick(self, now: float) -> None:
        """Whatever is due."""
        ...

    def cut(self, reason: str, message: str) -> int:
        """Answer every request with an error, now; returns how many there were."""
        ...

    def hang_up(self) -> None:
        """End the streams that wait for news."""
        ...

    @property
    def has_listeners(self) -> bool:
        """Somebody waits for news."""
        ...

    @property
    def calls_in_flight(self) -> int:
        """Requests that have not been answered; streams that wait for news do not count."""
        ...


class Stateless:
    """All of them, for one workload."""

    def __init__(
        self, trunks: Trunks, policy: SessionPolicy, clock: Callable[[], float], sharing: Sharing | None
    ) -> None:
        self._trunks = trunks
        self._sharing = sharing
        self._policy = policy
        self._clock = clock
        self.takes_handshakes: bool | None = None
        """Has the server taken, or refused, an `initialize` that was as it should be?"""
        self._discovery: Discovery | None = None
        self._service: Service | None = None
        self._supposed: HandshakeServer | None = None
        """Who serves those that waited when the server had told nothing."""
        self._finding: asyncio.Task[Discovery] | None = None
        self._waiting: list[StatelessCall] = []
        self._replica = ""
        self.on_known: Callable[[Discovery], None] | None = None
        """Hears what the server speaks, as soon as that is known."""

    def be_replica(self, name: str) -> None:
        """One of several, and by what name: a call that waits for its client's answers is found by that."""
        self._replica = name
        for service in self._services:
            if isinstance(service, ModernServer):
                service.replica = name
            elif isinstance(service, HandshakeServer):
                service.sealer.replica = name

    @property
    def calls_in_flight(self) -> int:
        """Requests that have not been answered."""
        waiting = sum(1 for call in self._waiting if not call.reply.is_over)
        return waiting + sum(service.calls_in_flight for service in self._services)

    @property
    def discovery(self) -> Discovery | None:
        """What is known for sure of the server's era."""
        return self._discovery

    @property
    def parking(self) -> Sealer | None:
        """The seal of those calls that wait for their clients to answer a question; None: there are none."""
        for service in self._services:
            if isinstance(service, HandshakeServer) and service.parked_calls:
                return service.sealer
        return None

    @property
    def _services(self) -> "set[Service]":
        return {service for service in (self._service, self._supposed) if service is not None}

    @property
    def is_busy(self) -> bool:
        """Something is going on here that has a time-out."""
        listeners = any(service.has_listeners for service in self._services)
        return bool(self._waiting or self._finding is not None or self._trunks.is_busy or listeners)

    def take(self, request: ModernRequest, reply: StatelessReply, principal: str) -> None:
        """Serve one."""
        call = StatelessCall(request, reply, principal)
        now = self._clock()
        if request.method in REMOVED:
            call.refuse(METHOD_NOT_FOUND, f"{request.method} is not part of this revision", now)
        elif (service := self._service or self._still_supposed()) is not None:
            service.take(call)
        elif len(self._waiting) >= self._policy.max_calls or not self._has_room(request):
            text = "too many requests wait for the server to start"
            call.fail(Failure("too_many_calls", text, retryable=True), now)
        else:
            self._waiting.append(call)
            self._find_out()

    def tell(self, note: Envelope) -> None:
        """A notification of an extension, for a server that may know it; no other is defined for clients."""
        if isinstance(self._service, ModernServer) and is_extension(note.method):
            self._service.tell(note)

    def _has_room(self, request: ModernRequest) -> bool:
        held = sum(len(call.request.params) for call in self._waiting)
        return not held or held + len(request.params) <= self._policy.waiting_bytes

    def _still_supposed(self) -> Service | None:
        """The server told nothing of its era: does a handshake show it, or may one that is under way?"""
        supposed = self._supposed
        if supposed is None:
            return None
        if supposed.has_worked:
            self.known(Discovery())
        return supposed if supposed.has_worked or supposed.calls_in_flight else None

    def known(self, discovery: Discovery) -> None:
        """The era of the server is known, from an earlier life say, or supposed."""
        if self._discovery is not None:
            return
        if not discovery.is_sure:
            self._supposed = self._supposed or self._handshake_server()
            return
        self._discovery = discovery
        log.info(
            "the server speaks %s",
            MODERN if discovery.is_modern else ", ".join(discovery.later) or "a handshake revision",
            extra={"event": "era", "modern": discovery.is_modern},
        )
        if discovery.is_modern:
            self._service = modern = ModernServer(self._trunks, self._policy, self._clock)
            modern.replica = self._replica
        elif discovery.later:
            self._service = LaterServer(discovery.later, self._clock)
        else:
            self._service = self._supposed or self._handshake_server()
        if self.on_known is not None:
            self.on_known(discovery)

    def _handshake_server(self) -> HandshakeServer:
        server = HandshakeServer(self._trunks, self._policy, self._clock, self._sharing)
        server.sealer.replica = self._replica
        return server

    @property
    def may_be_modern(self) -> bool:
        """The server speaks 2026-07-28, or we do not know yet."""
        return self._discovery is None or self._discovery.is_modern

    async def discover(self) -> Discovery:
        """What is known of the server's era, or found out now. Raises MooringError."""
        if self._discovery is not None:
            return self._discovery
        return await asyncio.shield(self._find_out())

    def _find_out(self) -> "asyncio.Task[Discovery]":
        """One instance is asked, whoever wants to know."""
        if self._finding is None:
            self._finding = asyncio.create_task(self._find(), name="finding the era of the server")
            self._finding.add_done_callback(self._on_found)
        return self._finding

    async def _find(self) -> Discovery:
        bound_s = self._policy.handshake_timeout_s
        bound_s = min(bound_s, SILENCE_S) if self.takes_handshakes else bound_s
        discovery = await find_era(self._trunks.backend, bound_s)
        self.known(discovery)
        return discovery

    def _on_found(self, finding: "asyncio.Task[Discovery]") -> None:
        """Serve those who waited, or tell them why not."""
        self._finding = None
        error = None if finding.cancelled() else finding.exception()
        if isinstance(error, MooringError):
            self._tell_all(Failure(error.code, error.message, retryable=True))
        elif error is not None:  # a bug of ours: never a request that waits for ever
            log.error("the era of the server could not be found out", exc_info=error)
            self._tell_all(Failure("internal", "the request failed inside Mooring; its log says why"))
        service = self._service or self._supposed
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            if service is not None and not call.reply.is_over:
                self._take_late(service, call)

    def _take_late(self, service: Service, call: StatelessCall) -> None:
        try:
            service.take(call)
        except Exception:  # a bug of ours: never a request that waits for ever, nor those behind it
            log.exception("%s could not be taken", call.request.method)
            call.fail(
                Failure("internal", "the request failed inside Mooring; its log says why"), self._clock()
            )

    async def modern_face(self) -> ModernFace | None:
        """The server for a session of a handshake client, if it speaks 2026-07-28. Raises MooringError."""
        discovery = await self.discover()
        if not isinstance(self._service, ModernServer):
            return None
        return ModernFace(self._service, discovery.result, self._clock)

    def adopt(self, passed: PassedTrunk, channel: Channel) -> bool:
        """See `Service`."""
        service = self._service or self._supposed
        return service is not None and service.adopt(passed, channel)

    def seated(self, passed: PassedTrunk, channel: Channel) -> ModernFace | None:
        """The same for a session that has this instance to itself, as `modern_face`."""
        if self._discovery is None or not isinstance(self._service, ModernServer):
            return None
        seat = self._service.adopt_seat(passed, channel)
        return ModernFace(self._service, self._discovery.result, self._clock, seat)

    def _tell_all(self, failure: Failure) -> None:
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            call.fail(failure, self._clock())

    def tick(self, now: float) -> None:
        """Whatever is due."""
        for call in self._waiting:
            call.reply.tick(now)
        for service in self._services:
            service.tick(now)
        self._trunks.tick(now)  # after those who may say that one of them is needed

    def hang_up(self) -> None:
        """End the streams that wait for news."""
        for service in self._services:
            service.hang_up()

    def cut(self, reason: str, message: str) -> int:
        """Answer every request with an error, now."""
        count = sum(1 for call in self._waiting if not call.reply.is_over)
        self._tell_all(Failure(reason, message, retryable=True))
        return count + sum(service.cut(reason, message) for service in self._services)

    async def aclose(self, reason: str) -> None:
        """End all; nothing of it runs afterwards."""
        self.cut("session_ended", reason)
        if self._finding is not None:
            self._finding.cancel()
            await asyncio.gather(self._finding, return_exceptions=True)
        await self._trunks.aclose(reason)
