"""The side of the daemon that hands over; `docs/adr/0012-handing-over.md` has the states, and why.

    serving → held → leaving → ended, or back to serving while `Taken` has not come

Invariants:
- While held nothing begins and nothing is read, so that going back is only a matter of going on.
- After `Taken` a session is ours exactly while it is in its proxy; it is told before it leaves that.
- What the successor hears of a session comes before any request for it that was put back here.
"""

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from mooring import __version__
from mooring.errors import MooringError, RemoteProtocolError
from mooring.host.client_files import ClientFiles
from mooring.host.handover_words import (
    CLIENTS,
    VERSION,
    ConnectionGoes,
    Farewell,
    Greeting,
    HandoverFailed,
    InstanceGoes,
    NotNow,
    Offer,
    OfferEnds,
    ParkedNoMore,
    Ready,
    SessionEnded,
    SessionGoes,
    Taken,
    Word,
    check_version,
    read_word,
    write_word,
)
from mooring.host.leaving import Leaving, put_back
from mooring.host.parcel_post import ParcelPost
from mooring.host.waits import first_of
from mooring.http.listener import Listener
from mooring.http.passing import Passage
from mooring.proxy.passing import PassedSession
from mooring.proxy.proxy import RESUMED
from mooring.proxy.session import RESTARTED, Session
from mooring.proxy.trunk import Trunk
from mooring.runtimes.containers.passing import PassedContainer
from mooring.runtimes.passing import PassedProcess
from mooring.store.database import StoreError
from mooring.store.store import Store
from mooring.workloads.fleet import Fleet
from mooring.workloads.generation import Generation
from mooring.workloads.moving import Departure
from mooring.workloads.state import State

__all__ = ["Estate", "HandingOver"]

log = logging.getLogger("mooring.host")

READY_S = 30.0
"""For the successor to say that it is ready; it calls when it nearly is."""
SETTLE_S = 30.0
"""For changes of servers that somebody has asked for."""
TAKEN_S = 20.0
"""For the successor to take what it was offered. So long do requests wait, at most; usually milliseconds."""
CALM_S = 1.0
"""For the calls on instances that many use, while nobody else is served. If one takes longer, that instance
stays until then, and the successor starts another."""
KILLED_S = 10.0
"""For a successor that was killed to be gone: what it had not said by then, it does not say."""
FAREWELL_S = 30.0
"""For its answer to our farewell."""
LOOK_S = 0.02
STUCK_S = 5.0
"""For an instance of a quiet session that cannot be passed on: it writes a line without end, say."""
AT_ONCE = 64
"""Sessions that are told before waiting until they are gone: each takes four descriptors for a moment."""


class Estate(NamedTuple):
    """What there is to hand over."""

    fleet: Fleet
    state: State
    lock: int
    listeners: Mapping[str, Listener]
    reclaim: Callable[[Store], object]
    """Own the store again."""
    unsettled: Callable[[], str]
    """Why this is no moment to hand over; empty if it is one."""
    is_busy: Callable[[], bool]
    """Somebody waits for an answer of the API."""
    client_files: ClientFiles


class HandingOver:
    """One attempt. `is_parted`: the successor is the daemon."""

    def __init__(self, estate: Estate, post: ParcelPost, successor: int) -> None:
        self._estate = estate
        self._post = post
        self._successor = successor
        """A pidfd."""
        self._leaving = Leaving(estate.listeners[CLIENTS].house.app, lambda: estate.fleet.live)
        self._passages: list[Passage] = []
        self._told: dict[str, set[str]] = {}
        """Of each server, the sessions that the successor thinks are here."""
        self._parked: set[str] = set()
        self._trunks: set[Trunk] = set()
        """Those whose instances go, or have gone."""
        self._quiet_since: dict[Session, float] = {}
        self._may_go = False
        """The successor sends nothing back any more."""
        self._called_off = asyncio.Event()
        self._decided = asyncio.Event()
        """Whether the offer was taken."""
        self._is_offered = False
        """The successor may take it at any moment."""
        self.is_parted = False

    async def run(self) -> bool:
        """Hand over; true: nothing is left here. Otherwise all is as it was, or (`is_parted`) must end."""
        try:
            await self._meet()
            await self._settle()
            await self._hold_client_files()
            await self._offer()
        except MooringError as error:
            log.warning("not handed over: %s", error.message, extra={"event": "handover_failed"})
            self._say(NotNow(error.message, error.code, error.hint))
            return False
        finally:
            if not self.is_parted:
                self._estate.client_files.start()
        log.info("handed over; what is under way is finished", extra={"event": "handed_over"})
        return await self._lead_out()

    async def call_off(self) -> bool:
        """It is not to be, unless it is too late: what is offered may be taken. False: nothing is yet."""
        self._called_off.set()
        if self._is_offered:
            await self._decided.wait()
        return self._is_offered

    def close(self) -> None:
        """Hang up."""
        for passage in self._passages:
            passage.close()
        self._post.close()
        os.close(self._successor)

    # serving

    async def _meet(self) -> None:
        self._say(Greeting(VERSION, __version__, os.getpid()))
        async with _within(READY_S, "the new daemon did not get ready in time"):
            word = await self._hear()
        if not isinstance(word, Ready):
            raise HandoverFailed("the new daemon has ended before it was ready", code="successor_lost")
        check_version(word.version, word.mooring)

    async def _settle(self) -> None:
        give_up_at = asyncio.get_running_loop().time() + SETTLE_S
        while why := self._estate.unsettled():
            if self._post.is_over:
                raise HandoverFailed("the new daemon did not wait for the offer", code="successor_lost")
            if asyncio.get_running_loop().time() > give_up_at:
                raise HandoverFailed(why, code="conflict", hint="try again when that is done")
            await asyncio.sleep(LOOK_S)

    async def _hold_client_files(self) -> None:
        """They are not fenced as the store is: the last turn here has ended before there can be one there."""
        if not await self._estate.client_files.pause():
            text = "a file of an AI client is being changed, and that does not end"
            raise HandoverFailed(text, code="conflict", hint="see whether its disk answers, and try again")

    # held

    async def _offer(self) -> None:
        """Until it is taken. Whatever goes wrong before that: all is as it was."""
        for listener in self._estate.listeners.values():
            listener.hold()
        self._estate.state.expect_fence(True)
        generations = list(self._estate.fleet.live.values())
        for generation in generations:
            generation.workload.proxy.hold_clock()
        going: list[tuple[Generation, Departure]] = []
        try:
            await asyncio.gather(*(generation.flush() for generation in generations))
            await self._wait_calm(generations)
            if why := self._estate.unsettled():  # asked for in the very moment
                raise HandoverFailed(why, code="conflict", hint="try again when that is done")
            going += self._departures(generations)
            await self._tell_all(generations, going)
            await self._wait_taken()
        except BaseException:
            try:
                for _, departure in going:
                    departure.call_off()
                await self._go_on(generations)
            finally:
                self._decided.set()
            raise
        self._part(generations, going)

    async def _wait_calm(self, generations: list[Generation]) -> None:
        """An instance that many use can go only while none of them calls."""
        give_up_at = asyncio.get_running_loop().time() + CALM_S
        while any(generation.workload.proxy.trunks.load for generation in generations):
            if asyncio.get_running_loop().time() > give_up_at:
                return
            await asyncio.sleep(LOOK_S)

    def _departures(self, generations: list[Generation]) -> Iterator[tuple[Generation, Departure]]:
        for generation in generations:
            for departure in generation.workload.moving.all():
                departure.hold()
                yield generation, departure

    async def _tell_all(
        self, generations: list[Generation], going: list[tuple[Generation, Departure]]
    ) -> None:
        leaves = {departure.session.id for _, departure in going if departure.session is not None}
        for generation in generations:
            proxy = generation.workload.proxy
            self._told[generation.name] = proxy.sessions.keys() - leaves
            if proxy.stateless.parking:
                self._parked.add(generation.name)
        offered = [generation.describe(sorted(self._told[generation.name])) for generation in generations]
        sockets = {place: listener.listening for place, listener in self._estate.listeners.items()}
        numbers = [sock.fileno() for listening in sockets.values() for sock in listening]
        offer = Offer(offered, {place: len(listening) for place, listening in sockets.items()})
        self._say(offer, (self._estate.lock, *numbers))
        for n, (generation, departure) in enumerate(going):
            self._tell(generation, departure)
            if n % AT_ONCE == 0:
                await self._wait_sent()
        self._is_offered = True
        self._say(OfferEnds())

    async def _wait_sent(self) -> None:
        async with _within(TAKEN_S, "the new daemon does not listen"):
            await self._post.wait_sent()

    async def _wait_taken(self) -> None:
        hearing = asyncio.create_task(self._hear(), name="hearing whether it is taken")
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TAKEN_S):
                    await first_of(asyncio.wait((hearing,)), self._called_off.wait())
            if not hearing.done():
                # It may say so at any moment: make sure that it does not, then see whether it has.
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._successor, signal.SIGKILL)
                await asyncio.wait((hearing,), timeout=KILLED_S)
            if not hearing.done() or not isinstance(hearing.result(), Taken):
                raise HandoverFailed("the new daemon has ended before it took over", code="successor_lost")
        finally:
            hearing.cancel()
            await asyncio.gather(hearing, return_exceptions=True)

    async def _go_on(self, generations: list[Generation]) -> None:
        """Back to serving."""
        try:
            await self._estate.state.do(self._estate.reclaim)
        except StoreError as error:
            log.error("the state cannot be claimed again: %s", error.message, extra={"event": error.code})
        self._estate.state.expect_fence(False)
        for generation in generations:
            generation.workload.proxy.start_clock()
        for listener in self._estate.listeners.values():
            listener.go_on()

    # leaving

    def _part(self, generations: list[Generation], going: list[tuple[Generation, Departure]]) -> None:
        """The moment: from here on it is the successor who serves."""
        self.is_parted = True
        self._decided.set()
        for _, departure in going:
            departure.go()
        for generation in generations:
            generation.workload.proxy.let_out()
            generation.part()
            generation.workload.proxy.start_clock()
        for place, listener in self._estate.listeners.items():
            listener.part(self._leaving if place == CLIENTS else put_back)
            passage = Passage(listener, partial(self._give, place))
            passage.give_all()
            self._passages.append(passage)
        self._estate.fleet.part()

    async def _lead_out(self) -> bool:
        """Until nothing is left; false: the successor is gone."""
        loop = asyncio.get_running_loop()
        hearing = asyncio.create_task(self._follow(), name="hearing the successor")
        try:
            said_farewell_at: float | None = None
            while (left := self._is_anything_left()) or not self._may_go:
                if self._post.is_over:
                    self._leaving.serve_all()
                    return False
                if not left and said_farewell_at is None:
                    # Something for us may be under way: only after its answer can nothing come any more.
                    said_farewell_at = loop.time()
                    self._say(Farewell())
                if not left and said_farewell_at is not None and loop.time() > said_farewell_at + FAREWELL_S:
                    log.warning("the new daemon does not answer a farewell", extra={"event": "handover_cut"})
                    return True
                self._look()
                await asyncio.sleep(LOOK_S)
        finally:
            hearing.cancel()
            await asyncio.gather(hearing, return_exceptions=True)
        await self._wait_sent()
        return True

    def _is_anything_left(self) -> bool:
        estate = self._estate
        if any(listener.connections for listener in estate.listeners.values()) or estate.is_busy():
            return True
        proxies = [generation.workload.proxy for generation in estate.fleet.live.values()]
        return any(proxy.sessions or proxy.calls_in_flight or proxy.stateless.parking for proxy in proxies)

    def _look(self) -> None:
        for generation in self._estate.fleet.live.values():
            proxy = generation.workload.proxy
            for session in list(proxy.sessions.values()):
                if session.transport in RESUMED:
                    with contextlib.suppress(OSError):  # no descriptor is left just now: the next look may do
                        self._move_if_quiet(generation, session)
            proxy.let_out()
            self._tell_ended(generation)
        self._leaving.tick()

    def _move_if_quiet(self, generation: Generation, session: Session) -> None:
        if not session.is_quiet:
            self._quiet_since.pop(session, None)
            return
        moving, now = generation.workload.moving, asyncio.get_running_loop().time()
        departure = moving.session(session)
        if departure is None and now - self._quiet_since.setdefault(session, now) >= STUCK_S:
            session.link.sleep("it cannot be passed on", reset_by=RESTARTED)
            departure = moving.session(session)
        if departure is None:
            return
        departure.hold()
        is_told = False
        try:
            is_told = self._tell(generation, departure)
        finally:
            if not is_told:
                departure.call_off()
        if not is_told:
            return  # the successor is gone, which is noticed elsewhere
        departure.go()
        self._told[generation.name].discard(session.id)
        self._quiet_since.pop(session, None)

    def _tell_ended(self, generation: Generation) -> None:
        name, proxy = generation.name, generation.workload.proxy
        for id in self._told[name] - proxy.sessions.keys():
            self._told[name].discard(id)
            self._say(SessionEnded(name, id))
        if name in self._parked and not proxy.stateless.parking:
            self._parked.discard(name)
            self._say(ParkedNoMore(name))

    # Words

    async def _follow(self) -> None:
        """What the successor sends back, until it is gone."""
        try:
            while (parcel := await self._post.receive()) is not None:
                word = read_word(parcel.data)
                if isinstance(word, Farewell):
                    self._may_go = True
                elif isinstance(word, ConnectionGoes) and parcel.descriptors:
                    self._estate.listeners[word.place].adopt(parcel.descriptors[0], word.begun)
        except RemoteProtocolError as error:
            log.error("the new daemon is not understood: %s", error.message, extra={"event": error.code})
            self._post.close()
        except Exception:  # a bug of ours must not leave two daemons that wait for each other
            log.exception("what the new daemon sends cannot be taken")
            self._post.close()

    async def _hear(self) -> Word | None:
        parcel = await self._post.receive()
        try:
            return None if parcel is None else read_word(parcel.data)
        except RemoteProtocolError as error:
            raise HandoverFailed(error.message, code=error.code) from error

    def _say(self, word: Word, descriptors: tuple[int, ...] = ()) -> bool:
        """False: the successor is gone."""
        return self._post.send(write_word(word), descriptors)

    def _tell(self, generation: Generation, departure: Departure) -> bool:
        """Raises OSError if no descriptor is left for copies of those that go."""
        told = departure.tell(self._trunks)
        if told is None:
            return True
        numbers = told.instance.descriptors if told.instance is not None else ()
        process = told.instance.about if isinstance(told.instance, PassedProcess) else None
        container = told.instance.about if isinstance(told.instance, PassedContainer) else None
        if isinstance(told.packed, PassedSession):
            word: Word = SessionGoes(generation.name, told.packed, process, container)
        else:
            word = InstanceGoes(generation.name, process, told.packed, container)
        return self._say(word, numbers)

    def _give(self, place: str, number: int, begun: bytes) -> None:
        if not self._post.give(write_word(ConnectionGoes(place, begun)), (number,)):
            os.close(number)  # with which it ends: nobody is there to take it


@contextlib.asynccontextmanager
async def _within(seconds: float, otherwise: str) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise HandoverFailed(otherwise, code="handover_timeout") from None
