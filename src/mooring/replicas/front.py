"""In front of the proxy: does a request's session live here, at another replica, or nowhere yet?

    here, and the lease holds     served at once, without asking anybody
    at another that lives         passed on to it
    nobody's, or of a dead one    taken over, then served here
    unknown                       the others are asked: it may be Redis that has lost it
    nobody knows it, or another's as without replicas: there is no such session
    Redis does not answer         waited for, then 503: nothing was done

- A request that was passed on is not passed on again: it is served, or 421 says that nothing was done.
  Whether it was, is seen when it comes: its seal may run out while it waits.
- While we drain we take nothing: what is not ours any more, and what is new, goes to another replica.
- A request that may have been done is never sent twice. That it was not is known if it was not sent, if the
  other said so, or if the other has let go of the session in peace since.
"""

import asyncio
import logging
import random
import re
from collections import OrderedDict
from collections.abc import Callable, Container, Coroutine
from typing import NamedTuple

from mooring.errors import Unavailable
from mooring.proxy.addressing import SESSION_FIELD, is_call, request_state_of, session_id_of
from mooring.proxy.proxy import RESUMED, Proxy
from mooring.proxy.session import Session
from mooring.replicas import answers
from mooring.replicas.errands import Outcome
from mooring.replicas.forwarding import MISDIRECTED, NEIGHBOURS_PATH, Forwarding
from mooring.replicas.holdings import ENDED_BY_REQUEST, SEPARATOR, Holdings
from mooring.replicas.membership import Membership
from mooring.replicas.newcomers import Newcomers
from mooring.replicas.owners import Owners
from mooring.replicas.passing import Passing
from mooring.replicas.policy import ReplicaPolicy
from mooring.replicas.reception import Reception
from mooring.replicas.records import Replica
from mooring.replicas.resuming import go_on_with
from mooring.replicas.seal import HEADER, INSPECTOR, Seal
from mooring.replicas.searching import Searching
from mooring.replicas.shared_store import Place, SharedStore
from mooring.replicas.store_errors import StoreUnavailable
from mooring.wire.events import parse_event_id
from mooring.wire.http import App, Exchange, Request, Response
from mooring.wire.request_state import replica_of

__all__ = ["Front"]

log = logging.getLogger("mooring.replicas")

SESSION_ID = re.compile(r"[A-Za-z0-9_.-]{8,200}")
"""Of what is looked for in Redis: our own, and those of no other kind."""
LEAVING_LOOK_S = 0.02


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
        self._passing = Passing(forwarding, membership)
        self._owners = Owners(store, membership, forwarding)
        self._newcomers = Newcomers(store, membership, policy, clock)
        self._store = store
        self._seal = seal
        self._policy = policy
        self._clock = clock
        self._known: OrderedDict[str, _Seen] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()
        self._looking: set[Exchange] = set()
        """Those that look for their session now, since they came. What another replica has may take days; and
        whoever comes back from one that ends is many at once, and has been let in."""
        self._taking: dict[str, asyncio.Future[None]] = {}
        self.is_draining = False
        self.holds_calls = False
        """Calls for sessions that are still ours wait, so that those can go."""
        self.own_pages: Container[str] = frozenset()
        """Paths of this process: whoever asks for one needs no session, and no Redis."""
        self._is_ending = False
        """What waits here is not done here any more."""
        self._searching = Searching(forwarding, membership, policy)
        self._reception = Reception(
            self,
            seal,
            membership,
            holds=lambda: membership.holds() and not self.is_draining,
            tell_again=holdings.tell_again,
        )

    @property
    def under_way(self) -> int:
        """Requests that look for their session, or are passed on."""
        return len(self._tasks) + self._passing.errands

    @property
    def forwards(self) -> int:
        """How many requests others have dealt with."""
        return self._passing.forwards

    def __call__(self, exchange: Exchange) -> None:
        """One request. Nearly all are for a session that is here, or where it was the last time: both in as
        few steps as can be."""
        head = exchange.request.head
        named = head.fields.get(SESSION_FIELD)
        if named is not None and head.method == "POST" and not self.holds_calls:
            id = named.decode("latin-1")
            if id in self._proxy.sessions:
                if id not in self._holdings.leaving and self._membership.holds():
                    self._local(exchange)
                    return
            elif (seen := self._known.get(id)) is not None and self._pass_on_now(exchange, id, seen):
                return
        self._route(exchange)

    def _route(self, exchange: Exchange) -> None:
        request = exchange.request
        if request.path == NEIGHBOURS_PATH:
            self._reception.take(exchange)
            return
        # A HEAD is of no session; and its answer has a length without a body.
        if request.path in self.own_pages or request.method == "HEAD":
            self._local(exchange)
            return
        passed_on = self._is_passed_on(request)
        id = session_id_of(request)
        if id is None:
            self._take_without_session(exchange, passed_on)
            return
        session = self._proxy.sessions.get(id)
        if session is not None and self._may_serve(session, request):
            self._serve(exchange, session)
        elif session is None and not SESSION_ID.fullmatch(id):
            self._local(exchange)
        elif SEPARATOR in id:
            self._take_bound(exchange, id.partition(SEPARATOR)[2], passed_on)
        else:
            self._spawn(exchange, self._find_way(exchange, id, passed_on))

    def _may_serve(self, session: Session, request: Request) -> bool:
        if session.transport not in RESUMED:
            return True
        if not self._membership.holds() or session.id in self._holdings.leaving:
            return False
        return not (self.holds_calls and self.can_release and is_call(request))

    @property
    def can_release(self) -> bool:
        """Is there anybody who could have our sessions, and a way to tell them?"""
        return bool(self._membership.others) and self._membership.sees_store

    def _is_passed_on(self, request: Request) -> bool:
        return HEADER in request.head.fields and self._seal.read(request) is not None

    def _is_asked(self, request: Request) -> bool:
        """By people, and not by a client."""
        voucher = self._seal.read(request)
        return voucher is not None and voucher.replica == INSPECTOR

    # Here

    def _serve(self, exchange: Exchange, session: Session) -> None:
        request = exchange.request
        if request.method == "DELETE" and session.principal == request.principal and self._is_asked(request):
            session.close(ENDED_BY_REQUEST)
            exchange.respond(Response(204))
            return
        if request.method == "GET" and (last := request.header(b"last-event-id")):
            position = parse_event_id(last.decode("latin-1"))
            if position is not None and session.streams.find(position[0]) is None:
                self._spawn(exchange, self._resume(exchange, session, *position))
                return
        self._local(exchange)

    async def _resume(self, exchange: Exchange, session: Session, name: str, seen: int) -> None:
        """A stream that another replica had: its events are in Redis."""
        try:
            stored = await self._store.stream(session.id, name)
        except StoreUnavailable as error:
            exchange.respond(answers.unavailable(exchange.request, error))
            return
        if stored is not None and session.streams.find(name) is None:
            go_on_with(session, name, stored, seen, self._proxy.clock())
        self._local(exchange)

    # Elsewhere

    def _take_without_session(self, exchange: Exchange, passed_on: bool) -> None:
        """What begins a session, or needs none: wherever it lands. But not where all is ending."""
        request = exchange.request
        owner = replica_of(state) if (state := request_state_of(request)) else ""
        if owner and owner not in self._membership.names:
            self._take_to(owner, exchange, passed_on)
        elif self.is_draining and request.method == "POST" and self._membership.others and not passed_on:
            self._spawn(exchange, self._pass_on_to_any(exchange))
        elif self._newcomers.must_wait(request):
            self._spawn(exchange, self._begin_session(exchange))
        else:
            self._local(exchange)

    async def _begin_session(self, exchange: Exchange) -> None:
        if (trouble := await self._newcomers.trouble()) is None:
            self._local(exchange)
            return
        self._proxy.stats.sessions_refused += 1
        exchange.respond(answers.unavailable(exchange.request, trouble))

    def _take_bound(self, exchange: Exchange, owner: str, passed_on: bool) -> None:
        """For a session that lives as long as its connection, at the replica that it names."""
        if owner in self._membership.names:
            self._local(exchange)
        else:
            self._take_to(owner, exchange, passed_on)

    def _take_to(self, owner: str, exchange: Exchange, passed_on: bool) -> None:
        """To a replica that is named in the request, and is another."""
        if passed_on:
            exchange.respond(Response(MISDIRECTED))
        else:
            self._spawn(exchange, self._pass_on_parked(exchange, owner))

    async def _pass_on_parked(self, exchange: Exchange, owner: str) -> None:
        """To a replica that is named in the request; if it is gone, so is what it had, as is told here."""
        give_up_at = self._clock() + self._policy.route_s
        trouble: Unavailable = answers.nobody_there()
        while self._clock() < give_up_at and not exchange.disconnected:
            try:
                replica = await self._owners.alive(owner)
                if replica is None:
                    if await self._membership.is_refilling():
                        raise StoreUnavailable("it has lost what it knew, and is being told again")
                    self._local(exchange)
                    return
                if await self._hand_to(owner, replica, exchange):
                    return
            except StoreUnavailable as error:
                trouble = error
                self._membership.hurry()
            await asyncio.sleep(self._policy.look_again_s)
        if not exchange.disconnected:
            exchange.respond(answers.unavailable(exchange.request, trouble))

    async def _pass_on_to_any(self, exchange: Exchange) -> None:
        for name, replica in self._others():
            if await self._hand_to(name, replica, exchange, not_done=(MISDIRECTED, 503)):
                return
        self._local(exchange)

    async def _hand_to(
        self, name: str, replica: Replica, exchange: Exchange, *, not_done: Container[int] = (MISDIRECTED,)
    ) -> bool:
        """True: it has been dealt with. False: nothing was done."""
        outcome = await self._hand(name, replica, exchange, not_done)
        if outcome in (Outcome.UNANSWERED, Outcome.LOST):
            exchange.respond(answers.lost(exchange.request))
        return outcome is not Outcome.NOT_DONE

    async def _hand(
        self, name: str, replica: Replica, exchange: Exchange, not_done: Container[int] = (MISDIRECTED,)
    ) -> Outcome:
        was_looking = exchange in self._looking
        self._looking.discard(exchange)
        try:
            return await self._passing.hand_to(name, replica, exchange, not_done=not_done)
        finally:
            if was_looking:
                self._looking.add(exchange)

    def _others(self) -> list[tuple[str, Replica]]:
        """All that could take what is not ours any more, in whichever order."""
        others = list(self._membership.others.items())
        random.shuffle(others)
        return others

    async def _find_way(self, exchange: Exchange, id: str, passed_on: bool) -> None:
        """Until it is served, passed on, refused, or its client has gone."""
        give_up_at = self._clock() + self._policy.route_s
        trouble: Unavailable = answers.nobody_there()
        while self._clock() < give_up_at and not exchange.disconnected:
            if self._serve_if_here(exchange, id):
                return
            if id in self._proxy.sessions:
                # It is leaving, or our lease is: in either case it is known before long whether it stays.
                holds = self._membership.holds()
                if (self._is_ending or not holds) and passed_on:
                    exchange.respond(Response(MISDIRECTED))  # whoever asks us may know better by now
                    return
                if holds:
                    trouble = answers.stopping() if self.holds_calls else trouble
                    if self._is_ending:
                        break
                    await asyncio.sleep(LEAVING_LOOK_S)
                else:
                    trouble = self._membership.trouble or trouble
                    self._membership.hurry()
                    await asyncio.sleep(self._policy.look_again_s)
                continue
            try:
                if await self._try(exchange, id, passed_on):
                    return
            except StoreUnavailable as error:
                trouble = error
                self._membership.hurry()
            except Unavailable as error:
                trouble = error
                break
            await asyncio.sleep(self._policy.look_again_s)
        if not exchange.disconnected:
            exchange.respond(answers.unavailable(exchange.request, trouble))

    async def _try(self, exchange: Exchange, id: str, passed_on: bool) -> bool:
        """One attempt; true: the request has been dealt with."""
        request = exchange.request
        seen = self._known.get(id) if not passed_on else None
        if seen is not None and self._may_pass_on_to(seen, request):
            return await self._pass_on(exchange, id, seen.known, seen.replica)
        place = await self._store.find(id)
        if place is None and await self._membership.is_refilling():
            raise StoreUnavailable("it has lost what it knew, and is being told again")
        if place is None and await self._searching.is_held(id):
            raise StoreUnavailable("it has lost the session, and is being told of it again")
        if place is None or place.record.principal != request.principal:
            self._local(exchange)  # which knows no such session either
            return True
        owner = place.owner if place.owner not in self._membership.names else ""
        replica = await self._owners.alive(owner) if owner else None
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

    async def _pass_on(
        self, exchange: Exchange, id: str, known: _Known, replica: Replica, *, at: str = ""
    ) -> bool:
        """`at`: the name of that replica, if it is not the owner. False: it is to be looked for anew."""
        self._remember(id, known, replica)
        outcome = await self._hand(at or known.owner, replica, exchange)
        return await self._settle(exchange, id, known, outcome, replica)

    def _may_pass_on_to(self, seen: _Seen, request: Request) -> bool:
        """Where one was that has no lease any more, somebody else may be."""
        return seen.known.owner in self._membership.others and seen.known.principal == request.principal

    def _pass_on_now(self, exchange: Exchange, id: str, seen: _Seen) -> bool:
        """To where it was the last time. False: that takes a task."""
        request = exchange.request
        if HEADER in request.head.fields or not self._may_pass_on_to(seen, request):
            return False
        if request.path == NEIGHBOURS_PATH:
            return False  # with our seal on it, it would be us who asks

        def on_end(outcome: Outcome) -> None:
            self._go_on(exchange, id, seen, outcome)

        self._known.move_to_end(id)
        return self._passing.hand_now(seen.known.owner, seen.replica, exchange, on_end)

    def _go_on(self, exchange: Exchange, id: str, seen: _Seen, outcome: Outcome) -> None:
        """With what was handed over, and not answered."""

        async def work() -> None:
            if not await self._settle(exchange, id, seen.known, outcome, seen.replica):
                await self._find_way(exchange, id, passed_on=False)

        self._begin(exchange, work())

    async def _settle(
        self, exchange: Exchange, id: str, known: _Known, outcome: Outcome, asked: Replica
    ) -> bool:
        """After it was handed to another, `asked`. False: it is to be looked for anew."""
        if outcome is Outcome.ANSWERED:
            return True
        self._known.pop(id, None)
        if outcome is Outcome.NOT_DONE or exchange.request.method == "DELETE":
            return False  # to end what has ended does no harm
        if outcome is Outcome.UNANSWERED and await self._owners.was_released(id, known.fence, asked):
            return False
        exchange.respond(answers.lost(exchange.request))
        return True

    async def _pass_on_to_heir(self, exchange: Exchange, id: str, known: _Known) -> bool:
        """We end: another is asked, who takes it over, by the next fence. False: they all end, too."""
        next_known = known._replace(owner="", fence=known.fence + 1)
        for name, heir in self._others():
            if await self._pass_on(exchange, id, next_known, heir, at=name):
                return True
        return exchange.disconnected

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

    def _remember(self, id: str, known: _Known, replica: Replica) -> None:
        if known.owner:
            self._known[id] = _Seen(known, replica)
            self._known.move_to_end(id)
            while len(self._known) > self._policy.remembered_places:
                self._known.popitem(last=False)

    def _spawn(self, exchange: Exchange, work: Coroutine[None, None, None]) -> None:
        if len(self._looking) >= self._policy.max_waiting:
            work.close()
            exchange.respond(answers.unavailable(exchange.request, answers.too_many()))
            return
        self._looking.add(exchange)
        self._begin(exchange, work)

    def _begin(self, exchange: Exchange, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        exchange.on_disconnect = lambda: _cancel(task)
        task.add_done_callback(lambda done: self._on_done(exchange, done))

    def _on_done(self, exchange: Exchange, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        self._looking.discard(exchange)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a request could not be passed on", exc_info=error)
            exchange.abort()

    # Ending

    def hang_up(self) -> None:
        """Whoever passes calls on to us by a link hears that no more are taken, and which were."""
        self._reception.hang_up()

    async def release_all(self) -> None:
        """Let go of sessions, each as soon as it rests: until cancelled, since another may be about to open.

        While requests still come here, and there is nobody else for them, sessions stay with their servers.
        """
        while True:
            try:
                if self.holds_calls or self.can_release:
                    await self._holdings.release_quiet()
            except StoreUnavailable as error:
                log.debug("sessions cannot be released: %s", error.message)
                await asyncio.sleep(self._policy.look_again_s)
            await asyncio.sleep(LEAVING_LOOK_S)

    def give_up_all(self) -> None:
        """What others have not answered yet is told to be lost; what waits here, that nothing was done."""
        self._is_ending = True
        self._passing.give_up_all()

    async def aclose(self) -> None:
        """Nothing is passed on any more."""
        await self._passing.aclose()
        for task in (tasks := set(self._tasks)):
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._searching.aclose()


def _cancel(task: "asyncio.Task[None]") -> None:
    task.cancel()
