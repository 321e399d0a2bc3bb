"""The files of AI clients, when Mooring is uninstalled: restored, and then what was known of them goes.

What they were is known nowhere else. So all of it is kept until every file is as it should be, or until
somebody has deleted it: the ledger, one that was damaged too, and the backups.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from mooring.errors import MooringError, UserError
from mooring.host.places import Places

__all__ = ["ClientFiles"]

DAMAGED = "ledger.damaged-*"
LEDGER = ("ledger.json", "ledger.json.new", "ledger.lock", DAMAGED)
KEY = f"*-{'[0-9a-f]' * 16}"
"""What is kept about a client's file is named so: see `clients.backups.key_of`."""
NUMBER = "[0-9]" * 8


class ClientFiles:
    """See the module."""

    def __init__(self, places: Places) -> None:
        self._places, self._state, self._clients = places, places.state, places.clients
        self.is_kept = False
        """Restoring them has failed: what is known of them is not to be deleted."""

    def plan(self) -> str | None:
        """What is to be done, in words; None: nothing was ever done with such a file."""
        if not os.path.lexists(self._places.client_ledger) and not self._damaged():
            return None
        from mooring.cli.clients.access import registry_at  # noqa: PLC0415 - heavy, and not always needed
        from mooring.cli.clients.telling import shown_path  # noqa: PLC0415

        try:
            files = ", ".join(shown_path(path) for path in registry_at(self._places).files())
        except MooringError as error:
            self.is_kept = True
            files = f"which these are is not known: {error.message}"
        self.is_kept = self.is_kept or bool(self._damaged())
        return f"restore the files of AI clients: {files or 'none, as far as is known'}"

    def restore(self) -> None:
        """An entry that somebody changed, and a file in trouble, are told and left. Raises MooringError."""
        from mooring.cli.clients.access import registry_at  # noqa: PLC0415
        from mooring.cli.clients.changing import restore_everything  # noqa: PLC0415
        from mooring.clients.ledger import Ledger  # noqa: PLC0415

        self.is_kept = True
        try:
            with Ledger(self._clients).held():
                pass  # it can be written; one that is damaged is put aside
            left = restore_everything(registry_at(self._places))
        except MooringError as error:
            error.hint = "; ".join(text for text in (error.hint, self._kept_hint()) if text)
            raise
        if left:
            raise UserError(
                f"entries of Mooring are left in {'; '.join(left)}",
                code="entries_left",
                hint=self._kept_hint(),
            )
        if damaged := self._damaged():
            raise UserError(
                f"what Mooring knew of its entries was damaged: {', '.join(map(str, damaged))}",
                code="ledger_damaged",
                hint="see whether entries of Mooring are left in the files of AI clients; backups of these "
                f"are in {self._clients}, which you can delete then",
            )
        self.is_kept = False

    def _kept_hint(self) -> str:
        where = f"what these files were is kept in {self._clients}"
        return f"{where}: put them right, and run mooring uninstall again"

    def _damaged(self) -> list[Path]:
        return [] if _is_linked(self._clients, self._state) else sorted(self._clients.glob(DAMAGED))

    def made(self) -> Iterator[Path]:
        """What may be deleted."""
        for folder, patterns in self._made_folders().items():
            for pattern in patterns:
                yield from folder.glob(pattern)

    def folders(self) -> list[Path]:
        """Likewise if they are empty; each before the one that it is in."""
        return list(reversed(self._made_folders()))

    def _made_folders(self) -> dict[Path, tuple[str, ...]]:
        """Each after the one that it is in; and what is ours there. None that is elsewhere, behind a link."""
        if self.is_kept:
            return {}
        clients, backups = self._clients, self._clients / "backups"
        folders: dict[Path, tuple[str, ...]] = {
            clients: LEDGER,
            clients / "locks": (f"{KEY}.lock",),
            clients / "exchanges": (f"{KEY}.note", f"{KEY}.note.new"),
        }
        for one in (backups, backups / "aside"):
            folders[one] = ()
            found = () if _is_linked(one, self._state) else one.glob(KEY)
            folders |= {path: (NUMBER,) for path in found if path.is_dir()}
        return {folder: ours for folder, ours in folders.items() if not _is_linked(folder, self._state)}


def _is_linked(folder: Path, state: Path) -> bool:
    """Is it somewhere else, behind a link?"""
    return any(
        one.is_symlink() for one in (folder, *folder.parents) if one.is_relative_to(state) and one != state
    )
