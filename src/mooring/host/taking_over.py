"""The side of the daemon that takes over; `docs/adr/0012-handing-over.md` has the states, and why.

Until `Predecessor.take` has said `Taken`, nothing is done that anybody could see: the old daemon goes on if
this one ends. After that it is the daemon, whatever becomes of the old one.
"""

import asyncio
import contextlib
import logging
import os
import socket
import struct
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from mooring import __version__
from mooring.api.client import ApiClient, NotRunning
from mooring.errors import MooringError, RemoteProtocolError
from mooring.host.handover_words import (
    COLD_RESTART,
    VERSION,
    ConnectionGoes,
    Farewell,
    Greeting,
    HandoverFailed,
    InstanceGoes,
    NotNow,
    Offer,
    OfferEnds,
    Ready,
    SessionGoes,
    Taken,
    Word,
    check_version,
    read_word,
    write_word,
)
from mooring.host.parcel_post import ParcelPost
from mooring.host.places import Places, using
from mooring.runtimes.containers.passing import PassedContainer
from mooring.runtimes.passing import PassedProcess
from mooring.workloads.makers import Passed

__all__ = ["Arrival", "Inheritance", "Predecessor", "meeting", "peer_of"]

log = logging.getLogger("mooring.host")

CALL_S = 10.0
"""For the old daemon to call, once it has said that it will."""
OFFER_S = 90.0
"""For its offer: it may have to wait for changes that somebody asked for."""


class Arrival(NamedTuple):
    """A session or an instance that came, with the process or container if there is one."""

    word: SessionGoes | InstanceGoes
    instance: Passed | None


@dataclass
class Inheritance:
    """What moves at once. Whoever has it owns its descriptors."""

    offer: Offer
    lock: int
    sockets: dict[str, list[socket.socket]]
    arrivals: list[Arrival]
    is_claimed: bool = False
    """Others own the descriptors by now, but for the lock."""

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """At the end nothing of it is left open that nobody has claimed."""
        try:
            yield
        finally:
            if not self.is_claimed:
                self.close()

    def close(self) -> None:
        """Of all but the lock."""
        for sock in (sock for sockets in self.sockets.values() for sock in sockets):
            sock.close()
        for came in self.arrivals:
            _close_all(came.instance.descriptors if came.instance is not None else ())


class Predecessor:
    """The daemon that hands over."""

    def __init__(self, post: ParcelPost, greeting: Greeting) -> None:
        self._post = post
        self.pid = greeting.pid
        self.version = greeting.mooring

    async def inherit(self) -> Inheritance:
        """Say that we are ready; then its offer, whole. Raises HandoverFailed."""
        self._say(Ready(VERSION, __version__))
        try:
            async with asyncio.timeout(OFFER_S):
                return await self._receive_offer()
        except TimeoutError:
            raise _failed("the old daemon does not hand over in time") from None
        except RemoteProtocolError as error:
            raise _failed(error.message) from error

    async def _receive_offer(self) -> Inheritance:
        offer, descriptors = await self._expect()
        if not isinstance(offer, Offer) or len(descriptors) != 1 + sum(offer.sockets.values()):
            _close_all(descriptors)
            raise _failed("the old daemon has gone on without us; its log says why")
        lock, *numbers = descriptors
        sockets = {
            place: [socket.socket(fileno=numbers.pop(0)) for _ in range(count)]
            for place, count in offer.sockets.items()
        }
        inheritance = Inheritance(offer, lock, sockets, [])
        try:
            while not isinstance((came := await self._expect())[0], OfferEnds):
                inheritance.arrivals.append(arrival(*came))
        except BaseException:
            inheritance.close()
            os.close(lock)
            raise
        return inheritance

    async def _expect(self) -> tuple[Word, tuple[int, ...]]:
        came = await self.receive()
        if came is None:
            raise _failed("the old daemon has gone on without us; its log says why")
        if isinstance(came[0], NotNow):
            raise HandoverFailed(came[0].message, code=came[0].code, hint=came[0].hint)
        return came

    def take(self) -> None:
        """It is ours. Raises HandoverFailed if the old one has hung up: then it goes on, or is dead."""
        if not self._say(Taken()):
            raise _failed("the old daemon has gone on without us; its log says why")

    def hang_up(self) -> None:
        """We do not understand each other: the old one ends, as by a signal."""
        self._post.close()

    def say_farewell(self) -> None:
        """Nothing is sent back any more."""
        self._say(Farewell())

    async def receive(self) -> tuple[Word, tuple[int, ...]] | None:
        """The next word, and its descriptors; None: it has hung up. Raises RemoteProtocolError."""
        parcel = await self._post.receive()
        return None if parcel is None else (read_word(parcel.data), parcel.descriptors)

    def give(self, place: str, number: int, begun: bytes) -> bool:
        """A connection on which something is asked that only the old daemon can answer; false: it is gone.

        The descriptor is the caller's only if it is.
        """
        return self._post.give(write_word(ConnectionGoes(place, begun)), (number,))

    def _say(self, word: Word, descriptors: tuple[int, ...] = ()) -> bool:
        return self._post.send(write_word(word), descriptors)


def arrival(word: Word, descriptors: tuple[int, ...]) -> Arrival:
    """A session or an instance that came. Raises RemoteProtocolError if it is none."""
    if not isinstance(word, SessionGoes | InstanceGoes):
        _close_all(descriptors)
        raise RemoteProtocolError(f"{type(word).__name__} is not expected here", code="bad_parcel")
    if word.container is not None:
        return Arrival(word, PassedContainer(word.container, descriptors))
    return Arrival(word, PassedProcess(word.process, descriptors) if word.process is not None else None)


@contextlib.asynccontextmanager
async def meeting(places: Places) -> AsyncIterator[Predecessor]:
    """Ask the daemon that runs to hand over. Raises MooringError if it cannot, or does not want to."""
    with _waiting_at(places) as waiting:
        await _ask(places)
        async with _within_call():
            sock, _ = await asyncio.get_running_loop().sock_accept(waiting)
    with contextlib.closing(ParcelPost(sock)) as post:
        async with _within_call():
            came = await post.receive()
        greeting = read_word(came.data) if came is not None else None
        if not isinstance(greeting, Greeting):
            raise _failed("the old daemon hung up")
        check_version(greeting.version, greeting.mooring)
        yield Predecessor(post, greeting)


@contextlib.asynccontextmanager
async def _within_call() -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(CALL_S):
            yield
    except TimeoutError:
        raise _failed("the old daemon said that it hands over, and does not") from None


@contextlib.contextmanager
def _waiting_at(places: Places) -> Iterator[socket.socket]:
    """A socket that the old daemon can call, and nobody else but the user."""
    path = places.handover
    with using(path), contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as sock:
        path.unlink(missing_ok=True)
        sock.setblocking(False)
        sock.bind(str(path))
        try:
            path.chmod(0o600)
            sock.listen(1)
            yield sock
        finally:
            path.unlink(missing_ok=True)


async def _ask(places: Places) -> None:
    try:
        await asyncio.to_thread(ApiClient(places.socket).ask, "POST", "/daemon/handover")
    except NotRunning as error:
        raise _failed("there is no daemon to take over from", hint="mooring daemon start") from error
    except MooringError as error:
        if error.code != "not_found":
            raise
        text = "the daemon that runs is of a version that cannot hand over"
        raise _failed(text, hint=COLD_RESTART) from error


def _close_all(descriptors: Iterable[int]) -> None:
    for number in descriptors:
        os.close(number)


def peer_of(sock: socket.socket) -> tuple[int, int]:
    """Pid and user of whoever is at the other end of a unix socket."""
    size = struct.calcsize("3i")
    pid, user, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return pid, user


def _failed(text: str, hint: str = "") -> HandoverFailed:
    return HandoverFailed(text, code="handover_failed", hint=hint)
