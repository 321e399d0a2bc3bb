"""What is to be done with the entries of servers in clients' files, given what happened and what is so. Pure.

Rules:
- What is so decides; what happened only tells of what cannot be seen any more: a session that was lost, a
  process that died. So an event that was missed, or is heard twice, leaves nothing wrong behind.
- An event is about its generation: it never touches the entry of another one under the same name. Only a lost
  session is its client's trouble whatever has been begun since.
- `failed` is out of every file until it works, and so is what somebody has removed outside Mooring. A lost
  session is a matter of those clients that notice by themselves that an entry has gone and come back.
- What was stopped stays in: a call tells its client why. What was removed is forgotten. What is not known any
  more although nobody removed it (the state of the daemon was lost) is out until it is run again.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

__all__ = [
    "ASKING",
    "EXITED",
    "GIVEN_UP",
    "LOST",
    "WHY_GONE",
    "WHY_LOST",
    "Back",
    "Forget",
    "News",
    "Out",
    "Outside",
    "Refresh",
    "Renew",
    "ServerNow",
    "Step",
    "decide",
]

LOST = "session_lost"
EXITED = "exited"
GIVEN_UP = "given_up"
ENDED = (EXITED, GIVEN_UP)
ASKING = frozenset({LOST, *ENDED})
"""Events that may ask for something."""
WHY_LOST = "a session was lost"
WHY_EXITED = "a process of the server died"
WHY_FAILED = "the server has failed"
WHY_GONE = "its container was removed outside Mooring"
WHY_UNKNOWN = "Mooring has lost what it knew of the server"

Refresh: TypeAlias = Literal["auto", "always", "never"]


class News(NamedTuple):
    """An event of the daemon's journal."""

    number: int
    name: str
    generation: int
    kind: str


class ServerNow(NamedTuple):
    """A server that there is, at one moment."""

    generation: int
    state: Literal["ready", "failed", "stopped", "gone", "other"]
    """`stopped`: as somebody asked. `gone`: somebody has removed its container, and not by Mooring."""
    why: str = ""
    """Of `failed`."""
    refresh: Refresh = "auto"


class Outside(NamedTuple):
    """Which entries of a server are out of their files."""

    is_whole: bool
    """All of them."""


class Out(NamedTuple):
    """Out of the files for a while."""

    name: str
    why: str
    is_everywhere: bool = True
    """Otherwise: only of clients that notice it by themselves."""
    number: int | None = None
    """Of the event that asks for it; None: it is so, and will be found so again."""


class Back(NamedTuple):
    """Whatever is out."""

    name: str


class Forget(NamedTuple):
    """For good."""

    name: str


class Renew(NamedTuple):
    """Its address, where it is another by now."""

    name: str


Step: TypeAlias = Out | Back | Forget | Renew


def decide(
    names: Iterable[str],
    news: Sequence[News],
    servers: Mapping[str, ServerNow],
    outside: Mapping[str, Outside],
    was_removed: Mapping[str, bool],
) -> list[Step]:
    """What to do for each of the names that have entries.

    `was_removed`: of servers that there are not, whether somebody removed them, as far as that is known.
    """
    steps: list[Step] = []
    for name in names:
        now, out = servers.get(name), outside.get(name)
        if now is None:
            steps += _of_none(name, out, was_removed.get(name))
        else:
            steps += _of_one(name, now, [one for one in news if one.name == name], out)
    return steps


def _of_none(name: str, out: Outside | None, was_removed: bool | None) -> Iterable[Step]:
    if was_removed:
        yield Forget(name)
    elif was_removed is not None and (out is None or not out.is_whole):
        yield Out(name, f"{WHY_UNKNOWN}: mooring run {name} brings it back")


def _of_one(name: str, now: ServerNow, news: Sequence[News], out: Outside | None) -> Iterable[Step]:
    is_reachable = now.state in ("ready", "stopped")
    if now.refresh == "never":
        if out is not None:
            yield Back(name)
        return
    if now.state in ("failed", "gone"):
        if out is None or not out.is_whole:
            yield Out(name, _why_out(now))
        return
    if (asked := _asked(name, now, news)) is not None:
        yield asked
    elif out is not None and is_reachable:
        yield Back(name)
    if is_reachable:  # a client that comes when nobody answers may not come again
        yield Renew(name)


def _why_out(now: ServerNow) -> str:
    if now.state == "gone":
        return WHY_GONE
    return f"{WHY_FAILED}: {now.why}" if now.why else WHY_FAILED


def _asked(name: str, now: ServerNow, news: Sequence[News]) -> Out | None:
    """What events ask for."""
    if now.refresh == "always":
        for event in news:
            if event.kind in ENDED and event.generation == now.generation:
                return Out(name, WHY_EXITED, number=event.number)
    for event in news:
        if event.kind == LOST and event.generation <= now.generation:
            return Out(name, WHY_LOST, is_everywhere=False, number=event.number)
    return None
