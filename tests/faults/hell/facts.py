"""What is known of a run: the client's calls, the children's ledger, the order in which it all happened."""

import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["HANG_S", "Call", "Facts", "Id", "Json", "Ledger"]

Json = dict[str, Any]
Id = int | str | float

HANG_S = 40.0
"""The one generous bound: whoever waits for longer waits for ever."""


@dataclass(eq=False, kw_only=True)
class Call:
    """A call, and all that became of it."""

    token: str
    id: Id
    method: str
    tool: str = ""
    pad: int = 0
    spaced: bool = False
    progress: Id | None = None
    level: str = ""
    """That it asks for."""
    uri: str = ""
    """That it is about."""
    session_id: str = ""
    repeatable: bool = False
    """Executing it twice does no harm, as the server says."""
    forbidden: bool = False
    """It goes to a session that is not for its client, or to none; or it breaks a rule."""
    capabilities: Json | None = None
    """Of its client, which has no session (2026-07-28)."""
    wanted: Json | None = None
    """What it listens for."""
    is_acknowledged: bool = False
    """It has heard the first message of a listener."""
    state: str = ""
    """With which it comes back to a call that waits for its answers,"""
    state_is: str = ""
    """which is good, may have been used, or is bad."""
    responses: Json | None = None
    """These."""
    twin: "Call | None" = None
    """Another call of that id: who answers one of them late may answer the other."""
    whole: bool = False
    """All of it may have been sent."""
    left: bool = False
    """Its client does not wait for the answer any more."""
    cut: bool = False
    """Its connection ended without an answer."""
    status: int = 0
    """Of an HTTP answer that was no answer to the call."""
    answers: dict[str, Json] = field(default_factory=dict)
    """By the event that carried them."""


class Deed(NamedTuple):
    """Something that somebody did."""

    at: float
    who: str
    word: str
    rest: str


class Ledger:
    """What the children of one run wrote down; complete once all of them are gone."""

    def __init__(self, path: Path) -> None:
        self.deeds: list[Deed] = []
        self.pids: set[int] = set()
        self.executed: dict[str, list[str]] = {}
        for line in path.read_text().splitlines() if path.exists() else []:
            at, n, pid, word, rest = line.split(" ", 4)
            self.deeds.append(Deed(float(at), f"child {n} ({pid})", word, rest))
            self.pids.add(int(pid))
            if word == "executed":
                token, value = rest.split()
                self.executed.setdefault(token, []).append(value)

    def said(self, word: str) -> list[Deed]:
        return [deed for deed in self.deeds if deed.word == word]


class Facts:
    """One run."""

    def __init__(self, seed: int, *, shared: bool = False, modern: bool = False) -> None:
        self.seed = seed
        self.shared = shared
        """All sessions have their instances in common."""
        self.modern = modern
        """The server speaks 2026-07-28."""
        self.is_ending = False
        """Nobody new is let in."""
        self.calls: list[Call] = []
        self.problems: list[str] = []
        self.outcomes: Counter[str] = Counter()
        self.closed: dict[str, str] = {}
        """The sessions that have ended, by the beginning of their ids, and why."""
        self._trace: list[Deed] = []

    def tell(self, who: str, text: str) -> None:
        self._trace.append(Deed(time.monotonic(), who, "", text))

    def problem(self, text: str) -> None:
        self.tell("ORACLE", text)
        self.problems.append(text)

    def story(self, ledger: Ledger) -> str:
        """What each side did, in order."""
        deeds = sorted([*self._trace, *ledger.deeds])
        begun = deeds[0].at if deeds else 0.0
        return "\n".join(f"{d.at - begun:9.4f}  {d.who:18} {d.word} {d.rest}".rstrip() for d in deeds)
