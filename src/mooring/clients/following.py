"""What is to be done with the entries of servers in clients' files, given what happened and what is the case. Pure.

Rules:
- What is the case decides; what happened only tells of what cannot be seen any more: a session that was lost, a
  process that died. So an event that was missed, or is heard twice, leaves nothing wrong behind.
- An event is about its generation: it never touches the entry of another one under the same name. Only a lost
  session is its client's trouble whatever has been begun since.
- `failed` is out of every file until it works. A lost session is a matter of those clients that notice by
  themselves that an entry has gone and come back.
- What was stopped stays in: a call tells its client why. What is gone is forgotten.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Literal, NamedTuple, Protocol, TypeAlias

__all__ = [
    "EXITED",
    "LOST",
    "Back",
    "Forget",
    "News",
    "Out",
    "Refresh",
    "Renew",
    "ServerNow",
    "Step",
    "decide",
]

LOST = "session_lost"
EXITED = "exited"
WHY_LOST = "a session was lost"
WHY_EXITED = "a process of the server died"
WHY_FAILED = "the server has failed"
WHY_GONE = "what Mooring knew of the server is lost"

Refresh: TypeAlias = Literal["auto", "always", "never"]


class News(Protocol):
    """An event of the daemon's journal."""

    @property
    def number(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def generation(self) -> int: ...
    @property
    def kind(self) -> str: ...


class ServerNow(NamedTuple):
    """A server that there is, at one moment."""

    generation: int
    state: Literal["ready", "failed", "stopped", "other"]
    """`stopped`: as somebody asked."""
    why: str = ""
    """Of `failed`."""
    refresh: Refresh = "auto"


class Out(NamedTuple):
    """Out of the files for a while."""

    name: str
    why: str
    is_everywhere: bool = True
    """Otherwise: only of clients that notice it by themselves."""
    number: int | None = None
    """Of the first event that asks for it; None: it is the case, and will be found so again."""


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
    news: Iterable[News],
    servers: Mapping[str, ServerNow],
    *,
    wholly_out: Collection[str],
    partly_out: Collection[str],
    is_journal_new: bool = False,
) -> list[Step]:
    """What to do, first things first, for each of the names that have entries.

    `wholly_out`: names of which every entry is out; `partly_out`: those of which some are. `is_journal_new`: the
    servers that are not there may have been lost, rather than removed.
    """
    asked = list(news)
    steps: list[Step] = []
    for name in names:
        now = servers.get(name)
        if now is not None:
            steps += _of_one(name, now, asked, is_all_out=name in wholly_out, is_some_out=name in partly_out)
        elif not is_journal_new:
            steps.append(Forget(name))
        elif name not in wholly_out:
            steps.append(Out(name, f"{WHY_GONE}: mooring run {name} brings it back"))
    return steps


def _of_one(
    name: str, now: ServerNow, news: list[News], *, is_all_out: bool, is_some_out: bool
) -> Iterable[Step]:
    if now.refresh == "never":
        if is_all_out or is_some_out:
            yield Back(name)
        return
    if now.state == "failed":
        if not is_all_out:
            yield Out(name, f"{WHY_FAILED}: {now.why}" if now.why else WHY_FAILED)
        return
    out = _asked_out(name, now, news)
    if out is not None:
        yield out
    elif (is_all_out or is_some_out) and now.state in ("ready", "stopped"):
        yield Back(name)
    if now.state in ("ready", "stopped"):
        # Not before: a client that comes when nobody answers may not come again.
        yield Renew(name)


def _asked_out(name: str, now: ServerNow, news: list[News]) -> Out | None:
    """What events ask for."""
    if now.refresh == "always":
        for event in news:
            if event.name == name and event.kind == EXITED and event.generation == now.generation:
                return Out(name, WHY_EXITED, number=event.number)
    for event in news:
        if event.name == name and event.kind == LOST and event.generation <= now.generation:
            return Out(name, WHY_LOST, is_everywhere=False, number=event.number)
    return None
