"""Many clients on a few standing instances (`--shared`): who rides where, and who may hear what.

An instance is introduced once, by words of ours that declare nothing, so that there is nothing a server
may ask of anybody. What it says of a call has a number (`Trunk`); the rest is placed here:

    list_changed        every client of the instance
    resources/updated   whoever has subscribed to it
    log messages        a client that wants them, while it is alone: see `riders.Window`
    questions           nobody: refused
    anything else       nobody: dropped

A session stays with its instance; a request without a session goes to the least busy one.
"""

import logging
from collections.abc import Callable
from typing import Protocol

from mooring.errors import MooringError
from mooring.proxy.call_errors import Failure
from mooring.proxy.passed_trunk import SHARED, PassedTrunk, Purpose
from mooring.proxy.ports import Channel, ExitLike
from mooring.proxy.riders import Errand, LogReader, Window
from mooring.proxy.subscriptions import UPDATED, Subscriptions, updated_uri
from mooring.proxy.trunk import Trunk, TrunkKeeper
from mooring.proxy.trunks import Trunks
from mooring.wire import jsonrpc
from mooring.wire.jsonrpc import Envelope
from mooring.wire.memory import Memory
from mooring.wire.modern import LOG
from mooring.wire.shared import is_as_grave, level_of, most_verbose

__all__ = ["Guest", "Sharing"]

log = logging.getLogger("mooring.session")

MOST_CALLS = 16 * 1024
"""In flight on one instance, of all its clients together; each has its own bound, far below."""
LISTS = frozenset(f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources"))


class Guest(LogReader, Protocol):
    """A session on a shared instance."""

    trunk: Trunk

    def hear_news(self, line: bytes) -> None:
        """A notification."""
        ...

    def move_out(self, why: str) -> None:
        """The instance is not what it was: the session must look for another."""
        ...


class Others(TrunkKeeper, Protocol):
    """Who serves requests without a session, on the same instances."""

    def needs(self, trunk: Trunk) -> bool:
        """Does somebody wait for the news of this one?"""
        ...


class Sharing:
    """The shared instances, `most` of them."""

    def __init__(self, trunks: Trunks, most: int) -> None:
        self.subscriptions = Subscriptions()
        self.others: Others | None = None
        """Who serves requests without a session, and wants to hear the same."""
        self.on_made: Callable[[Trunk], None] = lambda trunk: None
        self._all = trunks
        self._most = most
        self._guests: dict[Trunk, dict[Guest, None]] = {}
        self._readers: dict[Trunk, dict[LogReader, None]] = {}
        self._causes: dict[Trunk, str] = {}
        self._came_as: dict[str, Trunk] = {}

    @property
    def trunks(self) -> list[Trunk]:
        """All that there are."""
        return list(self._guests)

    # Who rides where

    def choose(self) -> Trunk:
        """The least busy one; another one if all are busy and there may be more."""
        best = min(self._guests, key=self._load, default=None)
        if best is None or (len(self._guests) < self._most and self._load(best) != (0, 0)):
            best = self._add()
        return best

    def _add(self) -> Trunk:
        trunk = self._all.make(
            self, Memory.introducing_ourselves(), purpose=Purpose(SHARED), max_calls=MOST_CALLS
        )
        self._guests[trunk] = {}
        self._readers[trunk] = {}
        self.on_made(trunk)
        return trunk

    def adopt(self, passed: PassedTrunk, channel: Channel) -> None:
        """An instance that another Mooring had, where its sessions had known it by that name."""
        trunk = self._add()
        trunk.adopt(passed, channel)
        self._came_as[passed.name] = trunk

    def found(self, name: str) -> Trunk | None:
        """The one that has come by that name."""
        trunk = self._came_as.get(name)
        return trunk if trunk in self._guests else None

    def _load(self, trunk: Trunk) -> tuple[int, int]:
        return len(trunk.rides), len(self._guests[trunk])

    def board(self, guest: Guest) -> None:
        """A session is there."""
        self._guests[guest.trunk][guest] = None

    def leave(self, guest: Guest) -> None:
        """A session has gone, or sleeps."""
        if self._guests.get(guest.trunk, {}).pop(guest, self) is None:
            self.forget_reader(guest.trunk, guest)

    def tick(self, now: float) -> None:
        """An instance is not idle while a session is awake, or somebody waits for its news."""
        for trunk, guests in self._guests.items():
            if guests or (self.others is not None and self.others.needs(trunk)):
                trunk.last_used = now

    # What is logged

    def note_reader(self, trunk: Trunk, reader: LogReader) -> None:
        """It wants to hear the log from now on, or at another level."""
        self._readers[trunk][reader] = None
        self._set_level(trunk)

    def forget_reader(self, trunk: Trunk, reader: LogReader) -> None:
        """No longer."""
        if self._readers.get(trunk, {}).pop(reader, self) is None:
            self._set_level(trunk)
        if trunk.window is not None and trunk.window.reader is reader:
            trunk.window = None

    def open_window(self, trunk: Trunk, reader: LogReader) -> None:
        """A call of one who reads the log is about to ride: see whether it is alone."""
        if trunk.window is not None and trunk.window.reader is reader:
            return
        window = Window(reader)
        trunk.window = None
        if trunk.has_strays or any(window.is_disturbed_by(ride.rider) for ride in trunk.rides.values()):
            return

        def fenced(failure: Failure | None) -> None:
            window.is_open = failure is None

        trunk.ride(0, "ping", b"", Errand(fenced))
        trunk.window = window

    def _set_level(self, trunk: Trunk) -> None:
        wanted = [reader.log_level for reader in self._readers[trunk] if reader.log_level is not None]
        level = most_verbose(wanted)
        if level is not None and level != trunk.log_level:
            trunk.log_level = level
            trunk.ride(0, "logging/setLevel", b'{"level":"%b"}' % level.encode(), Errand(_nothing))

    # What trunks tell

    def on_question(self, trunk: Trunk, request: Envelope, line: bytes) -> None:
        """Nobody can be meant."""
        if request.method == "ping":
            trunk.answer(jsonrpc.result_response(request.request_id, {}))
        else:
            trunk.refuse(request, "this instance is shared by many clients (--shared): none can be asked")

    def on_note(self, trunk: Trunk, note: Envelope, line: bytes) -> None:
        """See the table of the module."""
        if note.method == LOG:
            self._place_log(trunk, note, line)
            return
        if note.method in LISTS:
            for guest in list(self._guests[trunk]):
                guest.hear_news(line)
        elif note.method == UPDATED:
            subscribed = self.subscriptions.of(trunk, updated_uri(note.params))
            for guest in self._guests[trunk].keys() & subscribed:
                guest.hear_news(line)
        else:
            log.debug("pid %s says %s, which concerns nobody in particular", trunk.pid, note.method)
            return
        if self.others is not None:
            self.others.on_note(trunk, note, line)

    def _place_log(self, trunk: Trunk, note: Envelope, line: bytes) -> None:
        window = trunk.window
        if window is None or not window.is_open or (least := window.reader.log_level) is None:
            return
        if is_as_grave(level_of(note.params), least):
            window.reader.hear_log(line)

    def on_up(self, trunk: Trunk, again: bool) -> None:
        """Another instance has taken over: its clients learn that its state is new."""
        self.subscriptions.replay(trunk)
        handshake = trunk.memory.handshake
        if again and handshake is not None:
            for line in handshake.news_of_restart(self._causes.get(trunk, "it had ended")):
                for guest in list(self._guests[trunk]):
                    guest.hear_news(line)
        if self.others is not None:
            self.others.on_up(trunk, again)

    def on_lost(self, trunk: Trunk, exit: ExitLike) -> None:
        """Calls are told by the trunk. While sessions are there, so is an instance."""
        self._causes[trunk] = str(exit)
        trunk.window = None
        if self._guests[trunk]:
            trunk.wake()
        if self.others is not None:
            self.others.on_lost(trunk, exit)

    def on_let_go(self, trunk: Trunk) -> None:
        """Nothing that it asked was kept."""

    def on_changed(self, trunk: Trunk, error: MooringError) -> None:
        """Its clients were promised another one: they must begin anew."""
        for guest in list(self._guests[trunk]):
            guest.move_out(error.message)

    def on_empty(self, trunk: Trunk) -> None:
        """It stays."""

    def on_parted(self, trunk: Trunk) -> None:
        """Its sessions go there, too."""
        self._guests.pop(trunk, None)
        self._readers.pop(trunk, None)
        self._causes.pop(trunk, None)
        self.subscriptions.forget(trunk)
        if self.others is not None:
            self.others.on_parted(trunk)


def _nothing(failure: Failure | None) -> None:
    pass
