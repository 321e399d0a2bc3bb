"""What goes through a relay: how much of each token, and how many of everything. Pure.

Counts have no ids and no addresses: each label has a few values that are declared before anything is counted.
`host` makes the page of metrics from them, as it does for everything else.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from typing import NamedTuple

from msgspec import Struct

__all__ = ["LEAST_BYTES_PER_MINUTE", "ByteMeter", "BytePolicy", "Count", "Counters", "Family", "Meters"]

MIB = 1024 * 1024
LEAST_BYTES_PER_MINUTE = 8 * MIB
"""That anybody may ask for: the largest message of a link in each turn of one that has sent too much."""


# Bytes of each token --------------------------------------------------------------------------


class BytePolicy(Struct, frozen=True, kw_only=True):
    """What one token may send, on all its connections together."""

    bytes_per_minute: int | None = 512 * MIB
    """Some 70 Mbit/s: more than most workstations' lines carry upwards, so that an honest one is hardly ever
    slowed; and a tenth of what a small rented machine has, so that no token has it alone. A tool's picture
    has a few MiB, the largest message 64 MiB. None: as much as comes."""
    burst_minutes: float = 1.0
    """What passes at once before anybody is slowed: eight of the largest messages."""
    turn_s: float = 2.0
    """The links of a token that has sent far too much take turns, one each: what they say stays few, but none
    is silent for so long that it seems dead."""

    def __post_init__(self) -> None:
        if (self.bytes_per_minute is not None and self.bytes_per_minute < 1) or self.burst_minutes < 0:
            raise ValueError("a token that may send nothing is of no use")


class ByteMeter:
    """Of one token. What was read is counted, never refused: who has sent too much is read from later."""

    __slots__ = ("_burst_s", "_clock", "_full_at", "_resting", "_second_bytes", "_turn_s")

    def __init__(self, policy: BytePolicy, clock: Callable[[], float]) -> None:
        self._clock = clock
        minute_bytes = policy.bytes_per_minute
        self._second_bytes = None if minute_bytes is None else minute_bytes / 60
        self._burst_s = policy.burst_minutes * 60
        self._turn_s = policy.turn_s
        self._full_at = float("-inf")
        self._resting: dict[object, float] = {}
        """Links that rest, and until when."""

    def count(self, amount_bytes: int) -> float:
        """So much was read. Returns for how long nothing more should be; mostly 0."""
        if self._second_bytes is None:
            return 0.0
        now = self._clock()
        full_at = self._full_at
        self._full_at = full_at = (full_at if full_at > now else now) + amount_bytes / self._second_bytes
        beyond_s = full_at - self._burst_s - now
        return beyond_s if beyond_s > 0.0 else 0.0

    def counting(self, slowed: "Count") -> Callable[[int], float]:
        """`count`, for a connection that is counted each time that it is slowed."""

        def count(amount_bytes: int) -> float:
            wait_s = self.count(amount_bytes)
            if wait_s:
                slowed.value += 1
            return wait_s

        return count

    def counting_turns(self, slowed: "Count") -> Callable[[int], float]:
        """The same for a link, on which signs of life come too: it rests no longer than until its turn."""
        link, count_whole = object(), self.counting(slowed)

        def count(amount_bytes: int) -> float:
            debt_s = count_whole(amount_bytes)
            return self._until_turn_s(link, debt_s) if debt_s else 0.0

        return count

    def _until_turn_s(self, link: object, debt_s: float) -> float:
        now = self._clock()
        self._resting = {one: until for one, until in self._resting.items() if until > now and one != link}
        wait_s = min(debt_s, self._turn_s * (len(self._resting) + 1))
        self._resting[link] = now + wait_s
        return wait_s

    def has_room(self, amount_bytes: int) -> bool:
        """May so much be sent now? Nothing at all may not, while too much was."""
        if self._second_bytes is None:
            return True
        now = self._clock()
        return max(self._full_at, now) + amount_bytes / self._second_bytes <= now + self._burst_s

    def could_have_room(self, amount_bytes: int) -> bool:
        """For somebody who has sent nothing yet?"""
        return self._second_bytes is None or amount_bytes / self._second_bytes <= self._burst_s


class Meters:
    """One meter for each token, by its id. It outlives its connections: coming again pays no debt."""

    def __init__(self, policy: BytePolicy, clock: Callable[[], float]) -> None:
        self._policy = policy
        self._clock = clock
        self._meters: dict[str, ByteMeter] = {}

    def __len__(self) -> int:
        return len(self._meters)

    def of(self, token_id: str) -> ByteMeter:
        """The same for all connections with that token. There are no more than there are tokens."""
        meter = self._meters.get(token_id)
        if meter is None:
            meter = self._meters[token_id] = ByteMeter(self._policy, self._clock)
        return meter

    def forget(self, token_ids: Iterable[str]) -> None:
        """These are not good any more."""
        for token_id in token_ids:
            self._meters.pop(token_id, None)


# Counts ---------------------------------------------------------------------------------------

_NAME, _VALUE = re.compile("[a-z][a-z0-9_]*"), re.compile("[a-z0-9_]+")


class Family(NamedTuple):
    """Counts of one kind. Without labels it is a single one."""

    name: str
    """Ends with `_total`; what is before it on the page is added there."""
    text: str
    labels: Mapping[str, tuple[str, ...]] = {}
    """By label: all values that it can have."""


class Count:
    """One of them: for whoever counts often, to be looked up once."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class Counters:
    """All counts of a relay, each there from the beginning with 0."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._families: dict[str, Family] = {}
        self._counts: dict[str, dict[tuple[str, ...], Count]] = {}
        for family in families:
            _check(family, self._families)
            self._families[family.name] = family
            self._counts[family.name] = {values: Count() for values in product(*family.labels.values())}

    def find(self, name: str, *values: str) -> Count:
        """The count with these values, in the order of the family's labels. Raises KeyError: a bug."""
        return self._counts[name][values]

    def add(self, name: str, *values: str, amount: int = 1) -> None:
        """So many more. Raises KeyError: a bug."""
        self.find(name, *values).value += amount

    def samples(self) -> Iterator[tuple[Family, list[tuple[dict[str, str], int]]]]:
        """Each family with all its samples: labels, and the count."""
        for name, family in self._families.items():
            counts = self._counts[name].items()
            yield (
                family,
                [(dict(zip(family.labels, values, strict=True)), one.value) for values, one in counts],
            )


def _check(family: Family, known: Mapping[str, Family]) -> None:
    """Words that are as plain as the page needs them. Raises ValueError: a bug."""
    names = (family.name, *family.labels)
    values = [value for some in family.labels.values() for value in some]
    if not all(map(_NAME.fullmatch, names)) or not all(map(_VALUE.fullmatch, values)):
        raise ValueError(f"{family.name!r} cannot be counted: not all of its words are plain")
    if not family.name.endswith("_total") or "\n" in family.text or not all(family.labels.values()):
        raise ValueError(f"{family.name!r} cannot be counted: it is no total, or a label has no values")
    if family.name in known:
        raise ValueError(f"{family.name!r} is declared twice")
