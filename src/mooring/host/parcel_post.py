"""Parcels between two processes, on a connected unix socket.

Invariants:
- What is sent keeps its order. A descriptor that is to be sent is held as a copy of our own from `send` until
  it has gone, or the post is closed.
- What has come and was not received when the post is closed, is closed with it.
- At most `MOST_WAITING` parcels wait for whoever receives them; beyond that, the other side has to wait.
"""

import array
import asyncio
import contextlib
import errno
import os
import socket
from collections import deque

from mooring.errors import RemoteProtocolError
from mooring.host.parcels import MOST_DESCRIPTORS, Parcel, ParcelDecoder, encode_parcel

__all__ = ["ParcelPost"]

MOST_WAITING = 256
_READ_BYTES = 256 * 1024
_ROOM = socket.CMSG_SPACE(MOST_DESCRIPTORS * array.array("i").itemsize)
_IN_FLIGHT_PAUSE_S = 0.01
"""When more descriptors are under way than this user may have open (ETOOMANYREFS)."""
_CLOEXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


class ParcelPost:
    """One end. Takes the socket; made inside a running loop."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self._decoder = ParcelDecoder()
        self._outgoing: deque[tuple[memoryview, tuple[int, ...]]] = deque()
        self._arrived: deque[Parcel] = deque()
        self._news = asyncio.Event()
        self._all_sent = asyncio.Event()
        self._all_sent.set()
        self._is_over = False
        """The other side has gone: nothing more comes."""
        self._is_broken = False
        """Nothing can be sent any more; what was sent to us may still come."""
        self._closed = False
        self._pause: asyncio.TimerHandle | None = None
        self._writing = False
        self._reading = True
        self._loop.add_reader(sock, self._read)

    @property
    def is_over(self) -> bool:
        """Nothing more can be sent or will come."""
        return self._is_over or self._closed

    # Sending

    def send(self, data: bytes, descriptors: tuple[int, ...] = ()) -> bool:
        """Send a parcel, now or when there is room; the descriptors stay the caller's.

        False: the other side has gone. (It may go later, before it has read it.)
        Raises OSError if no descriptor is left for copies.
        """
        copies: list[int] = []
        is_taken = False
        try:
            for number in descriptors:
                copies.append(os.dup(number))
            is_taken = self.give(data, tuple(copies))
        finally:
            if not is_taken:
                _close_all(copies)
        return is_taken

    def give(self, data: bytes, descriptors: tuple[int, ...]) -> bool:
        """The same with descriptors that are the caller's no more; False: they still are."""
        whole = memoryview(encode_parcel(data, descriptors))
        if self.is_over or self._is_broken:
            return False
        self._outgoing.append((whole, descriptors))
        self._all_sent.clear()
        if self._write():
            return True
        self._outgoing.pop()  # this one
        self._end_sending()
        return False

    async def wait_sent(self) -> None:
        """Until all that was given to `send` has gone, or the other side has."""
        await self._all_sent.wait()

    def _write(self) -> bool:
        """As much as there is room for; False: the other side has gone, and nothing more goes."""
        try:
            while self._outgoing:
                self._write_one(*self._outgoing.popleft())
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            if error.errno == errno.ETOOMANYREFS:
                self._stop_writing()
                self._pause = self._pause or self._loop.call_later(_IN_FLIGHT_PAUSE_S, self._write_on)
                return True
            self._is_broken = True
            return False
        if self._outgoing and not self._writing:
            self._writing = True
            self._loop.add_writer(self._sock, self._write_on)
        elif not self._outgoing:
            self._stop_writing()
            self._all_sent.set()
        return True

    def _write_on(self) -> None:
        self._pause = None
        if not self._write():
            self._end_sending()

    def _write_one(self, data: memoryview, descriptors: tuple[int, ...]) -> None:
        rights = (
            [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        )
        try:
            number = self._sock.sendmsg([data], rights)
        except OSError:
            self._outgoing.appendleft((data, descriptors))
            raise
        _close_all(descriptors)
        if number < len(data):
            self._outgoing.appendleft((data[number:], ()))

    def _stop_writing(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        if self._writing:
            self._writing = False
            self._loop.remove_writer(self._sock)

    def _end_sending(self) -> None:
        for _, descriptors in self._outgoing:
            _close_all(descriptors)
        self._outgoing.clear()
        self._stop_writing()
        self._all_sent.set()

    # Receiving

    async def receive(self) -> Parcel | None:
        """The next parcel; None: the other side has gone."""
        while not self._arrived:
            if self.is_over:
                return None
            self._news.clear()
            await self._news.wait()
        parcel = self._arrived.popleft()
        if not self._reading and not self.is_over and len(self._arrived) < MOST_WAITING // 2:
            self._reading = True
            self._loop.add_reader(self._sock, self._read)
        return parcel

    def _read(self) -> None:
        try:
            data, rights, flags, _ = self._sock.recvmsg(_READ_BYTES, _ROOM, _CLOEXEC)
            descriptors = _descriptors_in(rights)
            self._arrived += self._decoder.feed(data, descriptors)
            if not data or flags & socket.MSG_CTRUNC:
                self._end_reading()
        except (BlockingIOError, InterruptedError):
            return
        except (OSError, RemoteProtocolError):
            self._end_reading()
        if self._reading and len(self._arrived) >= MOST_WAITING:
            self._reading = False
            self._loop.remove_reader(self._sock)
        self._news.set()

    def _end_reading(self) -> None:
        self._is_over = True
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._sock)
        _close_all(self._decoder.take_unclaimed())
        self._end_sending()
        with contextlib.suppress(OSError):  # it is over for the other side, too
            self._sock.shutdown(socket.SHUT_RDWR)
        self._news.set()

    def close(self) -> None:
        """Hang up. Idempotent."""
        if self._closed:
            return
        self._end_reading()
        self._closed = True
        for parcel in self._arrived:
            _close_all(parcel.descriptors)
        self._arrived.clear()
        self._sock.close()


def _descriptors_in(rights: list[tuple[int, int, bytes]]) -> list[int]:
    numbers = array.array("i")
    for level, kind, data in rights:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            numbers.frombytes(data[: len(data) - len(data) % numbers.itemsize])
    return list(numbers)


def _close_all(descriptors: "tuple[int, ...] | list[int]") -> None:
    for number in descriptors:
        with contextlib.suppress(OSError):
            os.close(number)
