"""Handing a request to a certain replica, for as long as that lives, and what is known of it afterwards."""

import asyncio
import logging
from collections.abc import AsyncIterator, Container
from contextlib import asynccontextmanager
from enum import Enum

from mooring.http.client import ClientResponse
from mooring.http.client_errors import AnswerLost, NoAnswer, NotSent
from mooring.replicas.forwarding import MISDIRECTED, Forwarding
from mooring.replicas.membership import Membership
from mooring.replicas.records import Replica
from mooring.replicas.store_errors import StoreUnavailable
from mooring.wire.http import Exchange

__all__ = ["Outcome", "Passing"]

log = logging.getLogger("mooring.replicas")


class Outcome(Enum):
    """What became of a request at another replica."""

    ANSWERED = "answered, as far as its client wanted it"
    NOT_DONE = "not sent, or the other said that it did nothing"
    UNANSWERED = "the other closed the connection in order, without a word: whatever it did is done"
    LOST = "may have been done, may still be"


class Passing:
    """Requests that are at other replicas. They end with those, also with one that was only stopped."""

    def __init__(self, forwarding: Forwarding, membership: Membership) -> None:
        self._forwarding = forwarding
        self._membership = membership
        self._bounds: dict[str, set[asyncio.Timeout]] = {}
        self._asking: set[asyncio.Task[None]] = set()
        self._answering: set[Exchange] = set()
        membership.on_dead = self._give_up

    @property
    def answering(self) -> int:
        """How many are being answered. It may take days: the bound of those who look for a session is not
        for them."""
        return len(self._answering)

    async def hand_to(
        self, name: str, replica: Replica, exchange: Exchange, *, not_done: Container[int] = (MISDIRECTED,)
    ) -> Outcome:
        """`not_done`: the statuses by which it says that it did nothing."""
        try:
            async with self._while_alive(name):
                response = await self._forwarding.send(exchange.request, replica)
                if response.status in not_done:
                    response.close()
                    return Outcome.NOT_DONE
                await self._answer(exchange, response)
        except NotSent as error:
            log.debug("%s cannot be reached: %s", replica.address, error.message)
            return Outcome.NOT_DONE
        except (AnswerLost, TimeoutError) as error:
            is_over = isinstance(error, NoAnswer) and error.is_clean
            return Outcome.UNANSWERED if is_over else Outcome.LOST
        return Outcome.ANSWERED

    async def _answer(self, exchange: Exchange, response: ClientResponse) -> None:
        self._answering.add(exchange)
        try:
            await self._forwarding.answer(exchange, response)
        finally:
            self._answering.discard(exchange)
            response.close()

    @asynccontextmanager
    async def _while_alive(self, name: str) -> AsyncIterator[None]:
        """For as long as that replica has a lease: one that was stopped says nothing. Raises TimeoutError."""
        async with asyncio.timeout(None) as bound:
            bounds = self._bounds.setdefault(name, set())
            bounds.add(bound)
            try:
                yield
            finally:
                bounds.discard(bound)
                if not bounds:
                    self._bounds.pop(name, None)

    def _give_up(self, name: str) -> None:
        """It has no lease: whoever waits for it waits no longer, unless it may act all the same."""
        if self._bounds.get(name):
            task = asyncio.get_running_loop().create_task(self._give_up_if_dead(name))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)

    async def _give_up_if_dead(self, name: str) -> None:
        try:
            replica = await self._membership.address_of(name)
        except StoreUnavailable:
            return  # the next look tells
        if replica is not None and await self._forwarding.holds(replica, name):
            return
        now = asyncio.get_running_loop().time()
        for bound in self._bounds.get(name, ()):
            bound.reschedule(now)

    async def aclose(self) -> None:
        """Nobody is asked any more."""
        for task in (asking := set(self._asking)):
            task.cancel()
        if asking:
            await asyncio.wait(asking)
