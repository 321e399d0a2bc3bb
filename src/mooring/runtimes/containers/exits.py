"""How a life of a container ended. The same in shape as the exit of a process, with more to tell.

exited           its program ended, by itself or by a signal; `out_of_memory` where the engine says so
removed          the container is there no more, and we did not remove it
restarted        somebody else has started it again: it runs, but what we spoke to is gone
cut_off          it may run on, but nothing can be said to it or heard of it any more
engine_gone      the same, because the engine does not answer; what became of it is not known
"""

from enum import StrEnum
from typing import Self

from mooring.errors import UserError
from mooring.runtimes.exits import Exit, signal_name

__all__ = ["ContainerExit", "Ending"]

BY_SIGNAL = 128
"""A shell's convention, which engines and init processes follow: beyond it are the numbers of signals."""


class Ending(StrEnum):
    """See the module. Stable: for programs."""

    EXITED = "exited"
    REMOVED = "removed"
    RESTARTED = "restarted"
    CUT_OFF = "cut_off"
    ENGINE_GONE = "engine_gone"


_WORDS = {
    Ending.EXITED: "",
    Ending.REMOVED: "removed outside Mooring",
    Ending.RESTARTED: "restarted outside Mooring",
    Ending.CUT_OFF: "cut off from its container",
    Ending.ENGINE_GONE: "engine unreachable",
}


_REASONS = {
    Ending.EXITED: "server_exited",
    Ending.REMOVED: "server_removed",
    Ending.RESTARTED: "server_restarted",
    Ending.CUT_OFF: "server_exited",
    Ending.ENGINE_GONE: "engine_gone",
}


class ContainerExit(Exit):
    """An `Exit`, which a process has; a signal shows only in its code, as the engine tells it."""

    ending: Ending
    _error: UserError | None
    _out_of_memory: bool

    def __new__(
        cls,
        code: int | None = None,
        *,
        ending: Ending = Ending.EXITED,
        out_of_memory: bool = False,
        error: UserError | None = None,
    ) -> Self:
        """`code`: None if it is not known."""
        self = super().__new__(cls, code, None)
        self.ending = ending
        self._out_of_memory = out_of_memory
        self._error = error
        return self

    @property
    def out_of_memory(self) -> bool:
        """The engine says that it took more than it may have."""
        return self._out_of_memory

    @property
    def reason(self) -> str:
        """A stable code, as calls that it has cut off are told."""
        return _REASONS[self.ending]

    @property
    def error(self) -> UserError | None:
        """What was wrong from the beginning, so that another attempt is not worth it."""
        return self._error

    @property
    def is_its_own(self) -> bool:
        """It says something of the server; the other ways to end are others' doing."""
        return self.ending in (Ending.EXITED, Ending.CUT_OFF)

    def __str__(self) -> str:
        words = [_WORDS[self.ending]]
        if self.code is not None:
            words.append(self._code_words(self.code))
        elif self.ending is Ending.EXITED:
            words.append("exit status unknown")
        if self.out_of_memory:
            words.append("out of memory")
        return ", ".join(word for word in words if word)

    def __repr__(self) -> str:
        return f"<ContainerExit {self}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ContainerExit):
            return False
        return self._all == other._all

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self._all)

    @property
    def _all(self) -> tuple[object, ...]:
        return (self.code, self.ending, self.out_of_memory)

    def _code_words(self, code: int) -> str:
        if code <= BY_SIGNAL or self.out_of_memory:
            return f"exit status {code}"
        return f"exit status {code}, as by {signal_name(code - BY_SIGNAL)}"
