"""What an engine says of a container, as a value, and what that means for one life of it. Pure.

A life is named by the moment of its start, as the engine tells it: a container that was started again is the
same container, and another life.
"""

from enum import StrEnum

from msgspec import Struct

from mooring.runtimes.containers.exits import ContainerExit, Ending

__all__ = ["Seen", "State", "Verdict", "judge"]


class State(Struct, rename="pascal"):
    """Of `State` in the answer to an inspection, as far as it is needed."""

    status: str = ""
    running: bool = False
    paused: bool = False
    started_at: str = ""
    exit_code: int = 0
    pid: int = 0
    o_o_m_killed: bool = False


class Binding(Struct, rename="pascal"):
    """Where a port is published."""

    host_port: str = ""


class NetworkSettings(Struct, rename="pascal"):
    """Of the same answer."""

    ports: dict[str, list[Binding] | None] | None = None


class Seen(Struct, rename="pascal"):
    """An inspection."""

    id: str
    state: State
    network_settings: NetworkSettings | None = None

    @property
    def published_port(self) -> int | None:
        """Of this machine, which leads to a port of the container; None: none does."""
        ports = self.network_settings.ports if self.network_settings is not None else None
        found = (binding.host_port for bindings in (ports or {}).values() for binding in bindings or ())
        return next((int(port) for port in found if port.isdecimal() and int(port)), None)


class Verdict(StrEnum):
    """What is the case, where the life has not ended."""

    RUNS = "runs"
    PAUSED = "paused"
    NOT_STARTED = "not_started"
    ENDING = "ending"
    """Somebody has asked for its end, or its restart; until then it may still answer."""
    BEING_REMOVED = "being_removed"
    """It has ended, and somebody is at it: soon it is gone."""


def judge(life: str, seen: Seen | None) -> ContainerExit | Verdict:
    """What became of the life that began at `life`. None: the engine knows no such container."""
    if seen is None:
        return ContainerExit(ending=Ending.REMOVED)
    state = seen.state
    if state.started_at != life and (state.running or state.paused):
        return ContainerExit(ending=Ending.RESTARTED)
    if state.paused:
        return Verdict.PAUSED
    if state.running:
        return Verdict.RUNS
    if state.status in ("created", "configured", "initialized"):
        return Verdict.NOT_STARTED
    if state.status == "removing":
        return Verdict.BEING_REMOVED
    if state.status in ("stopping", "restarting"):
        return Verdict.ENDING
    # Started again and ended again: of the life in between nobody knows, and this is not its exit.
    code = state.exit_code if state.started_at == life else None
    return ContainerExit(code, out_of_memory=state.o_o_m_killed and code is not None)
