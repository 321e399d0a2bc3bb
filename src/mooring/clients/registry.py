"""The use-cases: servers in and out of clients' files, by commands and by the daemon.

One client's trouble is an outcome of that client, never an exception, and never stops the others. What raises
(UserError) is the ledger itself: held by somebody for too long (`ledger_busy`), full, or not to be written.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from mooring.clients.outcomes import Drift, Outcome, Standing

if TYPE_CHECKING:
    from mooring.clients.detecting import Site
    from mooring.clients.entries import Target
    from mooring.clients.machine import Machine
    from mooring.clients.table import Client

__all__ = ["Registry"]


class Registry:
    """Of one user on one machine; `state` is `<state dir>/clients`. Of many at once, one acts at a time."""

    def __init__(self, state: Path, machine: "Machine") -> None:
        self._state = state
        self._machine = machine

    def site(self, client_id: str, project: Path | None = None) -> "Site":
        """The file of that client that counts. UserError: no such client, or it cannot be here."""
        raise NotImplementedError

    def installed(self) -> list["Site"]:
        """Of every client that is here, by stat alone."""
        raise NotImplementedError

    def add(
        self,
        site: "Site",
        targets: Sequence["Target"],
        *,
        force: bool = False,
        dry_run: bool = False,
        follows_all: bool = False,
    ) -> list[Outcome]:
        """One outcome for each target; all of them are one change of the file."""
        raise NotImplementedError

    def remove(
        self, site: "Site", names: Sequence[str] | None, *, force: bool = False, dry_run: bool = False
    ) -> list[Outcome]:
        """Out of the file, and out of old files of that client. None: all that is ours."""
        raise NotImplementedError

    def replace(
        self, site: "Site", targets: Sequence[tuple[str, "Target"]], *, dry_run: bool = False
    ) -> list[Outcome]:
        """The entry of each old name becomes ours, under the name of its target, as a whole."""
        raise NotImplementedError

    def undo(self, client_id: str | None = None) -> list[Outcome]:
        """The last change of each site (of that client) by a command; the next call goes one further back."""
        raise NotImplementedError

    def sync(self, targets: Mapping[str, "Target"]) -> list[Outcome]:
        """Put right what drifted; targets are all servers that there are, by name."""
        raise NotImplementedError

    def standings(self, *, project: Path | None = None, everything: bool = False) -> list[Standing]:
        """Of clients that are installed or have entries of ours; of all that there are."""
        raise NotImplementedError

    def followers(self, server: str) -> list["Site"]:
        """Where a server of that name goes by default: sites that follow all, and those that have it."""
        raise NotImplementedError

    def servers(self) -> list[str]:
        """Names of servers with an entry in some file, in or out."""
        raise NotImplementedError

    def take_out(
        self, server: str, why: str, *, only: "Callable[[Client], bool] | None" = None
    ) -> list[Outcome]:
        """Its entries out of the files for a while. One that somebody changed is left alone, told once."""
        raise NotImplementedError

    def put_back(self, target: "Target") -> list[Outcome]:
        """Whatever is out, with all that it had. Never over what somebody put there meanwhile."""
        raise NotImplementedError

    def forget(self, server: str) -> list[Outcome]:
        """For good. One that somebody changed stays in the file, but is no longer ours."""
        raise NotImplementedError

    def renew(self, target: "Target") -> list[Outcome]:
        """Update entries that are in, as we wrote them, and lead elsewhere."""
        raise NotImplementedError

    def mend(self, target: "Target", *, client: str | None = None, path: Path | None = None) -> list[Outcome]:
        """Put in again what is missing of that server (of that client, in that file), without a backup."""
        raise NotImplementedError

    def drifted(self) -> list[Drift]:
        """Entries that do not stand as they should, all of them each time. Cheap while nothing changes."""
        raise NotImplementedError

    @property
    def position(self) -> int:
        """The number of the last event of the daemon's journal that was dealt with."""
        raise NotImplementedError

    def read_to(self, position: int) -> None:
        """That is how far it has been dealt with."""
        raise NotImplementedError

    @property
    def repair(self) -> Literal["off", "auto"]:
        """Whether the daemon puts right by itself what drifted."""
        raise NotImplementedError

    @repair.setter
    def repair(self, repair: Literal["off", "auto"]) -> None:
        raise NotImplementedError

    @property
    def damaged(self) -> Path | None:
        """Where a damaged ledger was put aside by this registry, if it met one."""
        raise NotImplementedError
