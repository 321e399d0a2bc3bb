"""In front of the proxy: does a request's session live here, at another replica, or nowhere yet?

    here, and the lease holds     served at once, without asking anybody
    at another that lives         passed on to it
    nobody's, or of a dead one    taken over, then served here
    unknown, or another's         as without replicas: there is no such session
    Redis does not answer         waited for, then 503: nothing was done

- A request that was passed on is not passed on again: it is served, or 421 says that nothing was done.
- While we drain we take nothing: what is not ours any more, and what is new, goes to another replica.
- A request that may have been done is never sent twice. That it was not is known if it was not sent, if the
  other said so, or if the other has let go of the session in peace since.
"""

import asyncio
import logging
import random
import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import NamedTuple
from urllib.parse import parse_qs

import msgspec

from mooring.errors import MooringError, RemoteProtocolError, Unavailable
from mooring.http.client import ClientResponse
from mooring.http.client_errors import AnswerLost, NotSent
from mooring.proxy import refusals
from mooring.proxy.addressing import is_call, request_state_of, session_id_of
from mooring.proxy.calls import JSON_HEADERS
from mooring.proxy.proxy import RESUMED, Proxy
from mooring.proxy.session import Session
from mooring.proxy.streams import PassedStream
from mooring.replicas.forwarding import MISDIRECTED, NEIGHBOURS_PATH, Forwarding
from mooring.replicas.holdings import SEPARATOR, Holdings
from mooring.replicas.membership import Membership
from mooring.replicas.policy import ReplicaPolicy
from mooring.replicas.records import Replica
from mooring.replicas.seal import HEADER, Seal
from mooring.replicas.shared_store import Place, SharedStore, StoredStream
from mooring.replicas.store_errors import StoreUnavailable
from mooring.wire import jsonrpc
from mooring.wire.events import parse_event_id
from mooring.wire.http import App, Exchange, Request, Response
from mooring.wire.jsonrpc import INTERNAL_ERROR, Id
from mooring.wire.memory import READS
from mooring.wire.request_state import replica_of

__all__ = ["Front"]

log = logging.getLogger("mooring.replicas")

SESSION_ID = re.compile(r"[A-Za-z0-9_.-]{8,200}")
"""Of what is looked for in Redis: our own, and those of no other kind."""
LEAVING_LOOK_S = 0.02
HELD_LOST = "the replica that had the call was lost; it may have been executed"
STREAM_LOST = "the replica that had the call was lost before it was answered; it may have been executed"


class _Known(NamedTuple):
    """Where a session was, when last seen."""

    owner: str
    fence: int
    principal: str


class _Seen(NamedTuple):
    """The same, and how to get there."""

    known: _Known
    replica: Replica


class Front:
    """The app of a replica."""

    def __init__(
        self,
        local: App,
        proxy: Proxy,
        holdings: Holdings,
        *,
        membership: Membership,
        forwarding: Forwarding,
        store: SharedStore,
        seal: Seal,
        policy: ReplicaPolicy,
        clock: Callable[[], float],
    ) -> None:
        self._local = local
        self._proxy = proxy
        self._holdings = holdings
        self._membership = membership
        self._forwarding = forwarding
        self._store = store
        self._seal = seal
        self._policy = policy
        self._clock = clock
        self._known: OrderedDict[str, _Seen] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()
        self._taking: dict[str, asyncio.Future[None]] = {}
        self._bounds: dict[str, set[asyncio.Timeout]] = {}
        """Of requests that are at another replica, by its name: they end with it, if it does not say so
        itself."""
        self._asking: set[asyncio.Task[None]] = set()
        self._passing: set[Exchange] = set()
        """Requests that another replica is answering."""
        membership.on_dead = self._give_up
        self.is_draining = False
        self.holds_calls = False
        """Calls for sessions that are still ours wait, so that those can go."""

    @property
    def under_way(self) -> int:
        """Requests that look for their session, or are passed on."""
        return len(self._tasks)

    def __call__(self, exchange: Exchange) -> None:
        """One request."""
        request = exchange.request
        if request.path == NEIGHBOURS_PATH:
            self._answer_neighbour(exchange)
            return
        id = session_id_of(request)
        if id is None:
            self._take_without_session(exchange)
            return
        session = self._proxy.sessions.get(id)
        if session is not None and self._may_serve(session, request):
            self._serve(exchange, session)
        elif session is None and not SESSION_ID.fullmatch(id):
            self._local(exchange)
        elif SEPARATOR in id:
            self._take_bound(exchange, id.partition(SEPARATOR)[2])
        else:
            self._spawn(exchange, self._find_way(exchange, id))

    def _may_serve(self, session: Session, request: Request) -> bool:
        if session.transport not in RESUMED:
            return True
        if not self._holdings.holds or self._holdings.is_leaving(session.id):
            return False
        return not (self.holds_calls and self._can_release and is_call(request))

    @property
    def _can_release(self) -> bool:
        """Is there anybody who could have our sessions, and a way to tell them?"""
        return bool(self._membership.others) and self._membership.sees_store

    def _is_passed_on(self, request: Request) -> bool:
        return HEADER in request.head.fields and self._seal.read(request) is not None

    # Here

    def _serve(self, exchange: Exchange, session: Session) -> None:
        request = exchange.request
        if request.method == "GET" and (last := request.header(b"last-event-id")):
            position = parse_event_id(last.decode("latin-1"))
            if position is not None and session.streams.find(position[0]) is None:
                self._spawn(exchange, self._resume(exchange, session, position[0]))
                return
        self._local(exchange)

    async def _resume(self, exchange: Exchange, session: Session, name: str) -> None:
        """A stream that another replica had: its events are in Redis."""
        try:
            stored = await self._store.stream(session.id, name)
        except StoreUnavailable as error:
            exchange.respond(refusals.unavailable(error, None))
            return
        if stored is not None and session.streams.find(name) is None:
            self._go_on_with(session, name, stored)
        self._local(exchange)

    def _go_on_with(self, session: Session, name: str, stored: StoredStream) -> None:
        now = self._proxy.clock()
        last = stored.first + len(stored.messages) - 1
        ids = msgspec.json.decode(stored.ids, type=list[Id]) if stored.ids else []
        is_standalone = name.startswith("g")
        kind = 0 if is_standalone else 2 if stored.finished else 1
        ended_at = now if stored.finished else None
        stream = session.streams.load_stream(
            PassedStream(kind, name, last, stored.messages, last, stored.finished, ended_at, ids)
        )
        if is_standalone:
            session.delivery.go_on(stream, now)  # said here before its client came back
        elif not stored.finished:
            # Its replica is gone, and with it whatever answered.
            data = {"reason": "replica_lost", "retryable": False}
            for id in ids:
                session.streams.deliver(
                    stream, jsonrpc.error_response(id, INTERNAL_ERROR, STREAM_LOST, data), now
                )
            session.streams.finish(stream, now)

    # Elsewhere

    def _take_without_session(self, exchange: Exchange) -> None:
        """What begins a session, or needs none: wherever it lands. But not where all is ending."""
        request = exchange.request
        passed_on = self._is_passed_on(request)
        owner = replica_of(state) if (state := request_state_of(request)) else ""
        if owner and owner not in self._membership.names and not passed_on:
            self._spawn(exchange, self._pass_on_parked(exchange, owner))
        elif self.is_draining and request.method == "POST" and self._membership.others and not passed_on:
            self._spawn(exchange, self._pass_on_to_any(exchange))
        else:
            self._local(exchange)

    def _take_bound(self, exchange: Exchange, owner: str) -> None:
        """For a session that lives as long as its connection, at the replica that it names."""
        if owner in self._membership.names or self._is_passed_on(exchange.request):
            self._local(exchange)
        else:
            self._spawn(exchange, self._pass_on_parked(exchange, owner))

    async def _pass_on_parked(self, exchange: Exchange, owner: str) -> None:
        """To a replica that is named in the request; if it is gone, so is what it had."""
        try:
            replica = await self._membership.address_of(owner)
            if replica is not None:
                async with self._while_alive(owner):
                    await self._answer(exchange, await self._forwarding.send(exchange.request, replica))
                return
        except (AnswerLost, TimeoutError):
            self._tell_lost(exchange)
            return
        except MooringError as error:
            log.debug("%s cannot be asked: %s", owner, error.message)
        self._local(exchange)

    async def _pass_on_to_any(self, exchange: Exchange) -> None:
        for name, replica in self._others():
            try:
                async with self._while_alive(name):
                    response = await self._forwarding.send(exchange.request, replica)
                    if response.status not in (MISDIRECTED, 503):
                        await self._answer(exchange, response)
                        return
                    response.close()
            except NotSent:
                continue
            except (AnswerLost, TimeoutError):
                self._tell_lost(exchange)
                return
        self._local(exchange)

    def _others(self) -> list[tuple[str, Replica]]:
        """All that could take what is not ours any more, in whichever order."""
        others = list(self._membership.others.items())
        random.shuffle(others)
        return others

    async def _find_way(self, exchange: Exchange, id: str) -> None:
        """Until it is served, passed on, refused, or its client has gone."""
        give_up_at = self._clock() + self._policy.route_s
        trouble: Unavailable = _nobody_there()
        while self._clock() < give_up_at and not exchange.disconnected:
            if self._serve_if_here(exchange, id):
                return
            if id in self._proxy.sessions:
                # It is leaving, or our lease is: in either case it is known before long whether it stays.
                if self._holdings.holds:
                    await asyncio.sleep(LEAVING_LOOK_S)
                else:
                    trouble = self._membership.trouble or trouble
                    self._membership.hurry()
                    await asyncio.sleep(self._policy.look_again_s)
                continue
            try:
                if await self._try(exchange, id):
                    return
            except StoreUnavailable as error:
                trouble = error
                self._membership.hurry()
            except Unavailable as error:
                trouble = error
                break
            await asyncio.sleep(self._policy.look_again_s)
        if not exchange.disconnected:
            exchange.respond(refusals.unavailable(trouble, _call_of(exchange.request)[0]))

    async def _try(self, exchange: Exchange, id: str) -> bool:
        """One attempt; true: the request has been dealt with."""
        request, passed_on = exchange.request, self._is_passed_on(exchange.request)
        seen = self._known.get(id) if not passed_on else None
        if seen is not None and seen.known.principal == request.principal:
            return await self._pass_on(exchange, id, seen.known, seen.replica)
        place = await self._store.find(id)
        if place is None and await self._membership.is_refilling():
            raise StoreUnavailable("it has lost what it knew, and is being told again")
        if place is None or place.record.principal != request.principal:
            self._local(exchange)  # which knows no such session either
            return True
        owner = place.owner if place.owner not in self._membership.names else ""
        replica = await self._alive(owner) if owner else None
        is_heir_wanted = replica is None and self.is_draining and bool(self._membership.others)
        if passed_on and (replica is not None or is_heir_wanted):
            exchange.respond(Response(MISDIRECTED))
            return True
        known = _Known(owner, place.fence, place.record.principal)
        if replica is not None:
            return await self._pass_on(exchange, id, known, replica)
        if is_heir_wanted and await self._pass_on_to_heir(exchange, id, known):
            return True
        await self._take(id, place)
        return self._serve_if_here(exchange, id)

    def _serve_if_here(self, exchange: Exchange, id: str) -> bool:
        session = self._proxy.sessions.get(id)
        if session is None or not self._may_serve(session, exchange.request):
            return False
        self._serve(exchange, session)
        return True

    async def _alive(self, owner: str) -> Replica | None:
        """Where an owner is that may still act; None: its sessions are anybody's."""
        replica = await self._membership.address_of(owner)
        if not await self._membership.may_take_from(owner):
            return replica
        # Redis has no lease of it. But it may go on with one that all others have promised it.
        if replica is not None and await self._forwarding.holds(replica, owner):
            return replica
        return None

    async def _pass_on(
        self, exchange: Exchange, id: str, known: _Known, replica: Replica, *, at: str = ""
    ) -> bool:
        """`at`: the name of that replica, if it is not the owner."""
        try:
            async with self._while_alive(at or known.owner):
                response = await self._forwarding.send(exchange.request, replica)
                if response.status == MISDIRECTED:
                    response.close()
                    self._known.pop(id, None)
                    return False
                self._remember(id, known, replica)
                await self._answer(exchange, response)
        except NotSent as error:
            self._known.pop(id, None)
            log.debug("%s cannot be reached: %s", replica.address, error.message)
            return False
        except (AnswerLost, TimeoutError):
            self._known.pop(id, None)
            if exchange.request.method == "DELETE" or await self._was_released(id, known.fence):
                return False
            self._tell_lost(exchange)
        return True

    @asynccontextmanager
    async def _while_alive(self, owner: str) -> AsyncIterator[None]:
        """For as long as that replica has a lease: one that was stopped says nothing. Raises TimeoutError."""
        async with asyncio.timeout(None) as bound:
            bounds = self._bounds.setdefault(owner, set())
            bounds.add(bound)
            try:
                yield
            finally:
                bounds.discard(bound)
                if not bounds:
                    self._bounds.pop(owner, None)

    def _give_up(self, owner: str) -> None:
        """It has no lease: whoever waits for it waits no longer, unless it may act all the same."""
        if self._bounds.get(owner):
            self._keep_task(asyncio.get_running_loop().create_task(self._give_up_if_dead(owner)))

    def _keep_task(self, task: "asyncio.Task[None]") -> None:
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _give_up_if_dead(self, owner: str) -> None:
        try:
            replica = await self._membership.address_of(owner)
        except StoreUnavailable:
            return  # the next look tells
        if replica is not None and await self._forwarding.holds(replica, owner):
            return
        now = asyncio.get_running_loop().time()
        for bound in self._bounds.get(owner, ()):
            bound.reschedule(now)

    async def _pass_on_to_heir(self, exchange: Exchange, id: str, known: _Known) -> bool:
        """We end: another is asked, who takes it over, by the next fence. False: they all end, too."""
        next_known = known._replace(owner="", fence=known.fence + 1)
        for name, heir in self._others():
            if await self._pass_on(exchange, id, next_known, heir, at=name):
                return True
        return exchange.disconnected

    async def _was_released(self, id: str, fence: int) -> bool:
        """Has its owner let go of it in peace? Then it had no call of ours."""
        try:
            place = await self._store.find(id)
        except StoreUnavailable:
            return False  # not known, so it may have been done
        return place is not None and place.released >= fence

    async def _take(self, id: str, place: Place) -> None:
        """Take it over; whoever wants it at the same time waits for that."""
        if (taking := self._taking.get(id)) is not None:
            await asyncio.shield(taking)
            return
        taking = self._taking[id] = asyncio.get_running_loop().create_future()
        try:
            self._known.pop(id, None)
            await self._holdings.take(id, place)
        finally:
            del self._taking[id]
            taking.set_result(None)

    async def _answer(self, exchange: Exchange, response: ClientResponse) -> None:
        self._passing.add(
            exchange
        )  # it may take days: a bound for those who look for a session is not for it
        try:
            await self._forwarding.answer(exchange, response)
        finally:
            self._passing.discard(exchange)
            response.close()

    def _remember(self, id: str, known: _Known, replica: Replica) -> None:
        if known.owner:
            self._known[id] = _Seen(known, replica)
            self._known.move_to_end(id)
            while len(self._known) > self._policy.remembered_places:
                self._known.popitem(last=False)

    def _tell_lost(self, exchange: Exchange) -> None:
        """It was passed on, and no answer came. (One that broke off has cut the connection.)"""
        id, method = _call_of(exchange.request)
        if id is None:
            text = "the replica that was asked is gone"
            error = Unavailable(text, code="replica_lost", hint="ask again", retry_after_s=1)
            exchange.respond(refusals.unavailable(error, None))
            return
        data = {"reason": "replica_lost", "retryable": method in READS}
        exchange.respond(
            Response(200, jsonrpc.error_response(id, INTERNAL_ERROR, HELD_LOST, data), JSON_HEADERS)
        )

    def _spawn(self, exchange: Exchange, work: Coroutine[None, None, None]) -> None:
        if len(self._tasks) - len(self._passing) >= self._policy.max_waiting:
            work.close()
            text = "too many requests look for their session"
            error = Unavailable(text, code="too_many_requests", hint="try again", retry_after_s=2)
            exchange.respond(refusals.unavailable(error, _call_of(exchange.request)[0]))
            return
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        exchange.on_disconnect = lambda: _cancel(task)
        task.add_done_callback(lambda done: self._on_done(exchange, done))

    def _on_done(self, exchange: Exchange, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a request could not be passed on", exc_info=error)
            exchange.abort()

    # For other replicas

    def _answer_neighbour(self, exchange: Exchange) -> None:
        request = exchange.request
        if request.method != "POST" or not self._is_passed_on(request):
            exchange.respond(Response(404))
            return
        asked = parse_qs(request.query)
        if rest := asked.get("rest"):
            says = self._membership.promise_rest(rest[0])
        else:
            names = asked.get("holds", [""])
            says = names[0] in self._membership.names and self._holdings.holds and not self.is_draining
        exchange.respond(Response(200, b"yes" if says else b"no"))

    # Ending

    async def release_all(self) -> None:
        """Until no session is ours any more, each as soon as it rests. Cancelled at the deadline.

        While requests still come here, and there is nobody else for them, sessions stay with their servers.
        """
        while True:
            try:
                if (self.holds_calls or self._can_release) and not await self._holdings.release_quiet():
                    return
            except StoreUnavailable as error:
                log.debug("sessions cannot be released: %s", error.message)
                await asyncio.sleep(self._policy.look_again_s)
            await asyncio.sleep(LEAVING_LOOK_S)

    async def aclose(self) -> None:
        """Nothing is passed on any more."""
        for task in (tasks := self._tasks | self._asking):
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def _cancel(task: "asyncio.Task[None]") -> None:
    task.cancel()


def _nobody_there() -> Unavailable:
    text = "the replica that has the session does not answer, and its lease has not run out"
    return Unavailable(text, code="replica_unreachable", hint="try again", retry_after_s=2)


def _call_of(request: Request) -> tuple[Id | None, str]:
    """The id and the method of the call in a request; None: it is no single call."""
    try:
        message = jsonrpc.parse(request.body) if request.method == "POST" else None
    except RemoteProtocolError:
        return None, ""
    if message is None or not message.is_request:
        return None, ""
    return message.request_id, message.method or ""
