"""A daemon after it has taken over: it serves what it has, and takes what comes later from the one before."""

import asyncio
import logging
import os
from collections.abc import Mapping
from functools import partial

import msgspec

from mooring.errors import RemoteProtocolError
from mooring.host.handover_words import (
    ConnectionGoes,
    Farewell,
    InstanceGoes,
    ParkedNoMore,
    SessionEnded,
    SessionGoes,
    Word,
)
from mooring.host.street import Street
from mooring.host.taking_over import Arrival, Inheritance, Predecessor, arrival
from mooring.http.listener import Listener
from mooring.http.passing import Passage
from mooring.runtimes.household import Household
from mooring.runtimes.leftovers import Leftover, end_leftovers
from mooring.runtimes.passing import PassedProcess, end_passed
from mooring.runtimes.roll import Roll
from mooring.wire.request_state import Sealer
from mooring.workloads.fleet import Fleet
from mooring.workloads.generation import Generation
from mooring.workloads.makers import Passed

__all__ = ["Succession"]

log = logging.getLogger("mooring.host")


class Succession:
    """Between two daemons of one state directory, at the younger one."""

    def __init__(
        self,
        predecessor: Predecessor,
        fleet: Fleet,
        street: Street,
        listeners: Mapping[str, Listener],
        household: Household,
    ) -> None:
        self._predecessor = predecessor
        self._household = household
        self._fleet = fleet
        self._street = street
        self._listeners = listeners
        self._passages: list[Passage] = []
        self._inherited: dict[str, Generation] = {}
        self._returned: list[tuple[str, int, bytes]] = []
        """Connections for the old daemon, which is gone: they wait until their sessions are here."""

    async def begin(self, inheritance: Inheritance) -> None:
        """Go on with all that moves at once. Nobody is accepted before that is done."""
        generations = inheritance.offer.generations
        for passed in generations:
            self._inherited[passed.name] = await self._fleet.go_on(passed)
        for came in inheritance.arrivals:
            await self._adopt(came)
        live = self._fleet.live
        for passed in generations:
            proxy, ids = live[passed.name].workload.proxy, set(passed.elsewhere)
            parking = Sealer(passed.parked_key) if passed.parked_key else None
            self._street.serve_beside(passed.name, proxy, ids, parking)
        for place, listener in self._listeners.items():
            self._passages.append(Passage(listener, partial(self._give, place)))

    def _give(self, place: str, number: int, begun: bytes) -> None:
        if not self._predecessor.give(place, number, begun):
            self._returned.append((place, number, begun))

    async def follow(self) -> bool:
        """What comes later, until the old daemon has hung up. False: it has ended without a farewell."""
        is_complete = False
        try:
            while (came := await self._predecessor.receive()) is not None:
                if isinstance(came[0], Farewell):
                    is_complete = True
                    self._settle()
                    self._predecessor.say_farewell()
                else:
                    await self._take(*came)
        except RemoteProtocolError as error:
            log.error("the old daemon is not understood: %s", error.message, extra={"event": error.code})
            self._predecessor.hang_up()
        except Exception:  # a bug of ours must not leave two daemons that wait for each other
            log.exception("what the old daemon sends cannot be taken")
            self._predecessor.hang_up()
        return is_complete

    async def _take(self, word: Word, descriptors: tuple[int, ...]) -> None:
        if isinstance(word, ConnectionGoes) and descriptors:
            self._listeners[word.place].adopt(descriptors[0], word.begun)
        elif isinstance(word, SessionGoes):
            await self._adopt(arrival(word, descriptors))
            self._arrived(word.name, word.session.id)
        elif isinstance(word, SessionEnded):
            self._arrived(word.name, word.id)
        elif isinstance(word, ParkedNoMore):
            self._arrived(word.name, "", parked_too=True)

    def _arrived(self, name: str, id: str, *, parked_too: bool = False) -> None:
        if (generation := self._fleet.live.get(name)) is not None:
            self._street.arrived(name, generation.workload.proxy, id, parked_too=parked_too)

    async def _adopt(self, came: Arrival) -> None:
        name, instance = came.word.name, came.instance
        generation = self._fleet.live.get(name)
        if generation is None or generation.is_ending or generation is not self._inherited.get(name):
            # The server was stopped, removed or begun anew meanwhile, and with it the sessions that are kept.
            await self._end_unwanted(instance)
            return
        moving = generation.workload.moving
        if isinstance(came.word, InstanceGoes):
            if instance is not None:
                moving.adopt_instance(came.word.trunk, instance)
            return
        try:
            moving.adopt(came.word.session, instance)
        except (msgspec.DecodeError, RemoteProtocolError) as error:
            log.error("%s: a session cannot be gone on with as it was: %s", name, error)
            generation.bring_back((came.word.session.id,))

    async def _end_unwanted(self, instance: Passed | None) -> None:
        if isinstance(instance, PassedProcess):
            await asyncio.to_thread(end_passed, instance)
            self._household.let_go(instance.about.marker)
        elif instance is not None:  # with its connection its input ends; what is left is swept by its labels
            for number in instance.descriptors:
                os.close(number)

    async def end(self, roll: Roll, *, is_lost: bool) -> list[Leftover]:
        """Nothing comes any more. `is_lost`: the sessions that did not come go on as after a kill."""
        leftovers: list[Leftover] = []
        if is_lost:
            log.warning("the old daemon is gone before all was handed over", extra={"event": "handover_cut"})
            leftovers = await asyncio.to_thread(end_leftovers, roll, self._household.has)
        self._settle()
        return leftovers

    def _settle(self) -> None:
        """Nothing is elsewhere any more: whatever is asked is answered here."""
        for name, generation in self._fleet.live.items():
            ids = self._street.still_elsewhere(name)
            if not generation.is_ending:
                generation.bring_back(ids)
            for id in list(ids):
                self._arrived(name, id)
            self._arrived(name, "", parked_too=True)
        for passage in self._passages:
            passage.close()
        for place, number, begun in self._returned:
            self._listeners[place].adopt(number, begun)
        self._returned.clear()
