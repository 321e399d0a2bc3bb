"""What a Mooring tells of the one before it, if that one did not end as it should."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from mooring.errors import MooringError
from mooring.runtimes.leftovers import Leftover
from mooring.store.records import Owner
from mooring.store.store import Store
from mooring.workloads.happenings import Kind
from mooring.workloads.state import State

if TYPE_CHECKING:
    from mooring.runtimes.containers.leftovers import ContainerLeftover

__all__ = ["tell_of_container", "tell_of_damage", "tell_of_leftovers", "tell_of_predecessor"]

log = logging.getLogger("mooring.workload")


def tell_of_damage(store: Store) -> None:
    """In the log: somebody has to know that what was there is there no more."""
    if store.set_aside is not None:
        log.error(
            "the state in %s was damaged: it is kept as %s, and a new one is begun without any server; "
            "add them again with mooring run",
            store.path,
            store.set_aside.name,
            extra={"event": "state_damaged", "kept": str(store.set_aside)},
        )


def tell_of_predecessor(before: Owner | None, boot: str) -> None:
    """In the log. One that ended as asked has given up the store; `before` is one that has not."""
    if before is not None:
        how = "was killed" if before.boot == boot else "was running when the system went down"
        text = "the daemon before this one (pid %d) %s; what should run is brought back"
        log.warning(text, before.pid, how, extra={"event": "recovering", "predecessor": before.pid})


async def tell_of_leftovers(leftovers: list[Leftover], state: State) -> None:
    """In the log, and in the history of each server that there still is."""
    for leftover in leftovers:
        text = _words(leftover)
        about = {"event": "leftover_ended", "server": leftover.name, "pids": leftover.pids}
        log.warning("%s: %s", leftover.name, text, extra=about)
        try:
            await state.do(_note(leftover.name, text))
        except MooringError as error:
            log.warning("this cannot be written down: %s", error.message, extra={"event": error.code})


def tell_of_container(left: "ContainerLeftover", state: State) -> None:
    """The same of a container, as soon as it was found; written down when that can be done."""
    what = "removed" if left.is_removed else "could not remove"
    text = f"{what} what a killed Mooring had left: container {left.id[:12]} ({left.state})"
    about = {"event": "leftover_ended", "server": left.name, "container": left.id}
    log.warning("%s: %s", left.name, text, extra=about)
    writing = state.do(_note(left.name, text))
    writing.add_done_callback(lambda done: done.cancelled() or done.exception())  # it is in the log, too


def _words(leftover: Leftover) -> str:
    text = f"ended what a killed Mooring had left: pid {', '.join(map(str, leftover.pids))}"
    if leftover.survivors:
        text += f"; not to be ended: {', '.join(map(str, leftover.survivors))}"
    return text


def _note(name: str, text: str) -> Callable[[Store], None]:
    def write(store: Store) -> None:
        workload = store.workload(name)
        if workload is not None:
            store.tell(name, workload.generation, Kind.LEFTOVER_ENDED, text)

    return write
