"""Handing a request to a certain replica, for as long as that lives, and what is known of it afterwards."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Container
from contextlib import asynccontextmanager

from mooring.http.client import ClientResponse
from mooring.http.client_errors import AnswerLost, NotSent
from mooring.http.exchange import HttpExchange
from mooring.replicas.errands import ANSWERED, Errand, Outcome, outcome_of
from mooring.replicas.forwarding import MISDIRECTED, UNTRUSTED, Forwarding
from mooring.replicas.membership import Membership
from mooring.replicas.records import Replica
from mooring.replicas.store_errors import StoreUnavailable
from mooring.wire.http import Exchange

__all__ = ["Passing"]

log = logging.getLogger("mooring.replicas")

DOUBTS = 3
"""So many looks, in the span of a lease, has one of which Redis has lost the name: it may be busy to have its
sessions again, under another."""


class Passing:
    """Requests that are at other replicas. They end with those, also with one that was only stopped."""

    def __init__(self, forwarding: Forwarding, membership: Membership) -> None:
        self._forwarding = forwarding
        self._membership = membership
        self._bounds: dict[str, set[asyncio.Timeout]] = {}
        self._places: dict[str, Replica] = {}
        """Where those are that have bounds."""
        self._doubted: Counter[str] = Counter()
        """How often those were asked in vain of which Redis knows nothing."""
        self._errands: set[Errand] = set()
        """Those that are under way."""
        self._told: set[str] = set()
        """With whom there is trouble, of which the log has been told."""
        self.forwards = 0
        """Requests that another replica has dealt with."""
        self._asking: set[asyncio.Task[None]] = set()
        membership.on_dead = self._give_up

    @property
    def errands(self) -> int:
        """How many are under way without a task."""
        return len(self._errands)

    def hand_now(
        self,
        name: str,
        replica: Replica,
        exchange: Exchange,
        on_end: Callable[[Outcome], None],
    ) -> bool:
        """Hand a POST over if there is a link for it; `on_end` hears what came of it, if that is not an
        answer. False: nothing was sent."""
        if not isinstance(exchange, HttpExchange) or not exchange.can_relay:
            return False
        way = self._forwarding.link_to(replica, exchange.request)
        if way is None:
            return False

        def over(errand: Errand, outcome: Outcome | None) -> None:
            self._errands.discard(errand)
            if outcome is ANSWERED:
                self.forwards += 1
                self._told.discard(name)
            elif outcome is not None:
                on_end(outcome)

        errand = Errand(name, exchange, replica, self._note_refusal, over)
        self._errands.add(errand)
        errand.set_out(*way)
        return True

    async def hand_to(
        self, name: str, replica: Replica, exchange: Exchange, *, not_done: Container[int] = (MISDIRECTED,)
    ) -> Outcome:
        """`not_done`: the statuses by which it says that it did nothing."""
        try:
            async with self._while_alive(name, replica):
                response = await self._forwarding.send(exchange.request, replica)
                if response.status in not_done or response.status in UNTRUSTED:
                    self._note_refusal(name, replica, response.status)
                    response.close()
                    return Outcome.NOT_DONE
                self._told.discard(name)
                self.forwards += 1
                await self._answer(exchange, response)
        except NotSent as error:
            self._tell(name, "replica_unreachable", f"{replica.address} cannot be reached: {error.message}")
            return outcome_of(error)
        except (AnswerLost, TimeoutError) as error:
            log.debug("%s has not answered: %s", replica.address, error)
            return outcome_of(error)
        return Outcome.ANSWERED

    async def _answer(self, exchange: Exchange, response: ClientResponse) -> None:
        try:
            await self._forwarding.answer(exchange, response)
        finally:
            response.close()

    def _note_refusal(self, name: str, replica: Replica, status: int) -> None:
        if status in UNTRUSTED:
            cause = "its key is another, or its clock"
            text = f"{replica.address} does not believe that we are a replica: {cause}"
            self._tell(name, "replica_untrusted", text)

    def _tell(self, name: str, event: str, text: str) -> None:
        """Once, until it answers again."""
        if name not in self._told:
            self._told.add(name)
            log.warning("%s", text, extra={"event": event, "replica": name})

    @asynccontextmanager
    async def _while_alive(self, name: str, replica: Replica) -> AsyncIterator[None]:
        """For as long as that replica has a lease: one that was stopped says nothing. Raises TimeoutError."""
        async with asyncio.timeout(None) as bound:
            bounds = self._bounds.setdefault(name, set())
            bounds.add(bound)
            self._places[name] = replica
            try:
                yield
            finally:
                bounds.discard(bound)
                if not bounds:
                    self._bounds.pop(name, None)
                    self._places.pop(name, None)

    def _give_up(self, name: str) -> None:
        """It has no lease: whoever waits for it waits no longer, unless it may act all the same."""
        self._told.discard(name)
        if (replica := self._place_of(name)) is None:
            self._doubted.pop(name, None)
            return
        task = asyncio.get_running_loop().create_task(self._give_up_if_dead(name, replica))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    def _place_of(self, name: str) -> Replica | None:
        """Where it is, if something is there for which somebody waits."""
        if (replica := self._places.get(name)) is not None:
            return replica
        return next((errand.replica for errand in self._errands if errand.to == name), None)

    async def _give_up_if_dead(self, name: str, replica: Replica) -> None:
        try:
            is_known = await self._membership.address_of(name) is not None
        except StoreUnavailable:
            return  # the next look tells
        if await self._forwarding.holds(replica, name):
            self._doubted.pop(name, None)
            return
        if not is_known:
            self._doubted[name] += 1
            if self._doubted[name] < DOUBTS:
                return
            del self._doubted[name]
        now = asyncio.get_running_loop().time()
        for bound in self._bounds.get(name, ()):
            if not bound.expired():
                bound.reschedule(now)
        for errand in [errand for errand in self._errands if errand.to == name]:
            errand.give_up()

    def give_up_all(self) -> None:
        """We end: whoever waits is told so, rather than cut off."""
        now = asyncio.get_running_loop().time()
        for bound in [bound for bounds in self._bounds.values() for bound in bounds]:
            if not bound.expired():
                bound.reschedule(now)
        for errand in list(self._errands):
            errand.give_up()

    async def aclose(self) -> None:
        """Nobody is asked any more, and nothing is under way."""
        for errand in list(self._errands):
            errand.cancel()
        for task in (asking := set(self._asking)):
            task.cancel()
        if asking:
            await asyncio.wait(asking)
