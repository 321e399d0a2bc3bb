"""Keeps the entries of servers in clients' files true: what `following` decides is carried out, turn by turn.

Invariants:
- The position in the journal moves past an event when all that it asked for is done: entries are out, in the
  ledger too, and back for long enough that their clients have come. Who is killed before hears it again.
- No turn sleeps. Between out and back a client gets the time it needs to notice; that is a moment to come
  (`due`), which begins anew in another life.
- A file in trouble is told once and tried again, less and less often; it holds up nothing else.
- Nobody is fought: sessions that are lost again and again, and entries that vanish again and again, are
  followed more and more slowly, or left alone.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from math import inf
from typing import NamedTuple, TypeAlias

from mooring.clients.drifting import Drifting
from mooring.clients.entries import Target
from mooring.clients.following import (
    ASKING,
    WHY_LOST,
    Back,
    Forget,
    News,
    Out,
    Outside,
    Renew,
    ServerNow,
    Step,
    decide,
)
from mooring.clients.ledger import Ledger
from mooring.clients.outcomes import Change, Outcome
from mooring.clients.patience import Tries, Turns
from mooring.clients.records import Contents, Intent, Owned
from mooring.clients.registry import Registry
from mooring.clients.table import Client, load_table

__all__ = ["Keeper", "Told"]

FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 60.0
"""Between two tries of what could not be done: from the first it doubles up to this."""
REFRESH_S = 10.0
LONGEST_REFRESH_S = 600.0
"""Between two times that lost sessions of a server make clients connect anew, in the same way: if it does not
help, whoever comes with those sessions is none of the clients that are told."""
WINDOW_S = 3600.0
CONNECTED_S = 5.0
"""For clients to connect after an entry has come back: until then, whoever is killed begins anew."""
MOST_UNNOTED = 200
"""Events that asked for nothing, after which the position is written down nevertheless."""
FOR_THE_USER = frozenset({"entry_foreign", "entry_changed", "entry_shared", "entry_not_kept"})
"""Refusals that only the user can decide about: to try again is of no use."""

TargetOf: TypeAlias = Callable[[str], Target | None]


class Told(NamedTuple):
    """Something to be told of a server."""

    server: str
    text: str


class Asked(NamedTuple):
    """What an event has asked for, and what is left of it."""

    out: Out
    only: frozenset[str] | None = None
    """Clients whose files were in trouble; None: it was not tried yet."""


class Keeper:
    """See the module. `clock` never goes back. One turn at a time."""

    def __init__(self, registry: Registry, ledger: Ledger, clock: Callable[[], float]) -> None:
        self._registry = registry
        self._ledger = ledger
        self._clock = clock
        self._stamp: tuple[int, ...] = ()
        self._read = Contents()
        self._heard: int | None = None
        self._asking = 0
        """The number of the last event that may have asked for something."""
        self._asked: dict[str, Asked] = {}
        self._unfinished: dict[str, tuple[int, float]] = {}
        """What was begun: the number of the event that asked for it, and when it is over (inf: not yet)."""
        self._not_back_before: dict[str, float] = {}
        self._renewed: set[str] = set()
        self._tries = Tries(FIRST_WAIT_S, LONGEST_WAIT_S)
        self._refreshes = Turns(WINDOW_S)
        self._drifting = Drifting(registry)
        self._troubles: dict[Hashable, str] = {}
        self._told: list[Told] = []
        self._now = 0.0
        self.missing: list[str] = []
        """Names with entries and without a server: somebody removed it, or it was lost."""
        self.due: float | None = None
        """When there is something to do although nothing happens."""

    @property
    def after(self) -> int:
        """The number of the last event that need not be told here any more; 0: none was ever."""
        return self._contents().position if self._heard is None else self._heard

    def begin_at(self, number: int) -> None:
        """What happened up to there is of no interest, or was in another journal."""
        if self._contents().position != number:
            self._registry.read_to(number)
        self._heard = number

    def turn(
        self,
        news: Sequence[News],
        servers: Mapping[str, ServerNow],
        target_of: TargetOf,
        was_removed: Mapping[str, bool],
    ) -> list[Told]:
        """Do what is to be done now; returns what is to be told. Raises UserError: the ledger is in trouble.

        `servers` are all that there are; `target_of` says where one is at this very moment (None: gone).
        `was_removed` tells of those that were `missing` in the turn before.
        """
        self.due, self._now = None, self._clock()
        contents = self._settled()
        entries = [entry for record in contents.files.values() for entry in record.entries]
        names = sorted({entry.server for entry in entries})
        outside = outside_of(contents)
        self.missing = [name for name in names if name not in servers]
        steps = decide(names, news, servers, outside, was_removed)
        self._take_note(steps, servers, names, outside)
        self._take_out_failed(steps)
        self._take_out_asked()
        self._note_position(news, contents)
        for step in steps:
            if isinstance(step, Back):
                self._put_back(step.name, entries, target_of)
            elif isinstance(step, Forget):
                self._forget(step.name, target_of)
            elif isinstance(step, Renew):
                self._renew(step.name, target_of)
        waited_for = outside.keys() | self._asked.keys()
        looked_after = {name for name in servers if name not in waited_for}
        drifted = self._drifting.look(looked_after, target_of, self._now, repair=contents.repair == "auto")
        told, self._told = [*self._told, *(Told(server, text) for server, text in drifted)], []
        return told

    def _contents(self) -> Contents:
        """The ledger, read when it has changed."""
        try:
            found = self._ledger.path.stat()
        except OSError:
            return Contents()
        stamp = (found.st_mtime_ns, found.st_ino, found.st_size)
        if stamp != self._stamp:
            self._read = self._ledger.read()
            self._stamp = stamp
        return self._read

    def _settled(self) -> Contents:
        """The ledger, after what somebody was killed in the middle of; if that can be told."""
        contents = self._contents()
        has_intent = any(record.intent is not None for record in contents.files.values())
        if has_intent and self._is_time(self._tries.begin(Intent, self._now)):
            self._registry.read_to(contents.position)
        if not has_intent:
            self._tries.end(Intent)
        return self._contents()

    def _take_note(
        self,
        steps: Sequence[Step],
        servers: Mapping[str, ServerNow],
        names: Sequence[str],
        outside: Mapping[str, Outside],
    ) -> None:
        """Of what events ask for; and forget what is over."""
        for step in steps:
            if isinstance(step, Out) and step.number is not None:
                known = self._asked.get(step.name)
                is_wider = known is not None and step.is_everywhere and not known.out.is_everywhere
                if known is None or known.only is not None or is_wider:
                    self._asked[step.name] = Asked(step)
                    self._tries.end((Asked, step.name))  # a file in trouble is not waited for
        for name in list(self._asked):
            now = servers.get(name)
            if name not in names or now is None or now.refresh == "never" or now.state == "failed":
                del self._asked[name]  # it is seen to otherwise, or not wanted any more
        self._not_back_before = {
            name: moment for name, moment in self._not_back_before.items() if name in outside
        }
        self._renewed &= set(names)
        for name in self._unfinished.keys() - outside.keys():
            self._connecting(name)
        self._unfinished = {
            name: (number, until)
            for name, (number, until) in self._unfinished.items()
            if name in names and until > self._now
        }
        asked = {(Asked, name) for name in self._asked}
        self._tries.keep({Intent, *asked, *((type(step), step.name) for step in steps)})

    def _is_time(self, moment: float) -> bool:
        """Is it over? Otherwise it is due then."""
        if moment > self._now:
            self.due = moment if self.due is None else min(self.due, moment)
        return moment <= self._now

    # Out

    def _take_out_failed(self, steps: Iterable[Step]) -> None:
        for out in (step for step in steps if isinstance(step, Out) and step.number is None):
            if self._is_time(self._tries.begin((Out, out.name), self._now)):
                self._take_out(out, None)

    def _take_out_asked(self) -> None:
        for name, asked in list(self._asked.items()):
            is_refresh = asked.out.why == WHY_LOST and asked.only is None
            if is_refresh and not self._is_time(self._next_refresh(name)):
                continue
            if not self._is_time(self._tries.begin((Asked, name), self._now)):
                continue
            if asked.only is None and asked.out.number is not None:
                number, _ = self._unfinished.get(name, (asked.out.number, inf))
                self._unfinished[name] = (min(number, asked.out.number), inf)
            in_trouble = self._take_out(asked.out, asked.only)
            if is_refresh:
                self._refreshes.note(name, self._now)
            if in_trouble:
                self._asked[name] = Asked(asked.out, in_trouble)
                self._is_time(self._tries.when((Asked, name)))
            else:
                del self._asked[name]
                self._tries.end((Asked, name))

    def _next_refresh(self, name: str) -> float:
        moments = self._refreshes.of(name, self._now)
        if not moments:
            return self._now
        return moments[-1] + min(REFRESH_S * 2.0 ** (len(moments) - 1), LONGEST_REFRESH_S)

    def _take_out(self, out: Out, only: frozenset[str] | None) -> frozenset[str]:
        """Returns the clients whose files are in trouble."""

        def is_meant(client: Client) -> bool:
            if only is not None:
                return client.id in only
            return out.is_everywhere or client.reload.may_notice

        outcomes = self._registry.take_out(out.name, out.why, only=is_meant)
        if gone := _changed(outcomes):
            moment = self._now + _settle_s(outcome.client for outcome in gone)
            self._not_back_before[out.name] = max(moment, self._not_back_before.get(out.name, moment))
            self._is_time(moment)
            self._tell(out.name, f"taken out of {_names(gone)}: {out.why}")
        return self._tell_troubles(outcomes)

    def _note_position(self, news: Sequence[News], contents: Contents) -> None:
        """Up to what has to wait, or is not finished."""
        self._heard = max([event.number for event in news], default=self.after)
        waiting = [asked.out.number for asked in self._asked.values() if asked.only is None]
        begun = [number for number, _ in self._unfinished.values()]
        position = min([self._heard, *(number - 1 for number in (*waiting, *begun) if number is not None)])
        self._asking = max([self._asking, *(event.number for event in news if event.kind in ASKING)])
        is_worth_it = contents.position < min(position, self._asking)
        if is_worth_it or position - contents.position > MOST_UNNOTED:
            self._registry.read_to(position)

    # Back, and for good

    def _put_back(self, name: str, entries: Iterable[Owned], target_of: TargetOf) -> None:
        if name not in self._not_back_before:  # another life took it out, or a command did
            settle_s = _settle_s(entry.client for entry in entries if entry.server == name)
            self._not_back_before[name] = self._now + settle_s
        if not self._is_time(self._not_back_before[name]):
            return
        if not self._is_time(self._tries.begin((Back, name), self._now)):
            return
        if (target := target_of(name)) is not None:
            self._tell_changes(name, "put back into", self._registry.put_back(target))
            if name in self._unfinished:  # what is in trouble is in the ledger, and needs no event
                self._connecting(name)

    def _connecting(self, name: str) -> None:
        """Its entries are back: what was begun is over soon."""
        number, until = self._unfinished[name]
        self._unfinished[name] = (number, min(until, self._now + CONNECTED_S))

    def _forget(self, name: str, target_of: TargetOf) -> None:
        if self._is_time(self._tries.begin((Forget, name), self._now)):
            # Asked once more for each file: it may have been run again since.
            outcomes = self._registry.forget(name, is_gone=lambda: target_of(name) is None)
            self._tell_changes(name, "was removed: taken out of", outcomes)

    def _renew(self, name: str, target_of: TargetOf) -> None:
        if name in self._renewed or not self._is_time(self._tries.begin((Renew, name), self._now)):
            return
        if (target := target_of(name)) is not None:
            outcomes = self._registry.renew(target)
            if not self._tell_changes(name, "its address has changed: renewed in", outcomes):
                self._renewed.add(name)

    # Telling

    def _tell(self, server: str, text: str) -> None:
        self._told.append(Told(server, text))

    def _tell_changes(self, name: str, what: str, outcomes: Sequence[Outcome]) -> frozenset[str]:
        """Returns the clients whose files are in trouble."""
        if done := _changed(outcomes):
            self._tell(name, f"{what} {_names(done)}")
        return self._tell_troubles(outcomes)

    def _tell_troubles(self, outcomes: Iterable[Outcome]) -> frozenset[str]:
        """Each once, until it is over or another. Returns the clients whose files are worth trying again."""
        again = set()
        for outcome in outcomes:
            where = (outcome.client, outcome.path, outcome.server)
            if outcome.change is not Change.REFUSED:
                if outcome.change is not Change.UNCHANGED:
                    self._troubles.pop(where, None)
                continue
            if outcome.code not in FOR_THE_USER:
                again.add(outcome.client)
            if self._troubles.get(where) != outcome.error:
                self._troubles[where] = outcome.error
                hint = f" ({outcome.hint})" if outcome.hint else ""
                self._tell(outcome.server, f"{outcome.client}: {outcome.error}{hint}")
        return frozenset(again)


def outside_of(contents: Contents) -> dict[str, Outside]:
    """Which entries are out of their files, or may be: a change that was begun may have been done."""
    states: dict[str, list[Owned]] = {}
    table = load_table()
    for record in contents.files.values():
        about_to_be = record.intent.done.entries if record.intent is not None else ()
        maybe_out = {(entry.client, entry.server): entry for entry in about_to_be if entry.state == "out"}
        for entry in record.entries:
            if entry.client in table:  # others are of a newer version, which sees to them
                known = entry if entry.state == "out" else maybe_out.get((entry.client, entry.server), entry)
                states.setdefault(entry.server, []).append(known)
    return {
        server: Outside(len(out) == len(every))
        for server, every in states.items()
        if (out := [entry for entry in every if entry.state == "out"])
    }


def _changed(outcomes: Iterable[Outcome]) -> list[Outcome]:
    return [one for one in outcomes if one.change not in (Change.UNCHANGED, Change.REFUSED)]


def _names(outcomes: Iterable[Outcome]) -> str:
    return ", ".join(dict.fromkeys(outcome.client for outcome in outcomes))


def _settle_s(clients: Iterable[str]) -> float:
    """As long as the slowest of them needs to notice."""
    table = load_table()
    return max((table[client].reload.settle_s for client in clients if client in table), default=0.0)
