"""The last versions of each file from before our changes.

They may hold whatever the file holds, tokens too: so they are in our own folder, for the user alone. A folder
for each file, a number for each version; numbers rise, and the oldest gives way.

Versions of the other program that came between are kept too, but apart (`aside`): however many there are,
they do not push out those to which a change of ours can be undone.
"""

import hashlib
import re
from pathlib import Path

from mooring.clients import disk
from mooring.clients.looking import look

__all__ = ["MOST_BACKUPS", "Backups", "key_of"]

MOST_BACKUPS = 10
"""Of one file."""

_NUMBER = re.compile(r"[0-9]{8}")


def key_of(path: Path) -> str:
    """A name for what is kept about a file: people see which one it is, and no two files have the same."""
    digest = hashlib.sha256(str(path).encode("utf-8", "surrogateescape")).hexdigest()
    return f"{re.sub(r'[^A-Za-z0-9._-]', '_', path.name)[:60]}-{digest[:16]}"


class Backups:
    """Of all files, in `directory`, which is there. Writers of one file's hold the lock of that file."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @property
    def aside(self) -> "Backups":
        """Of versions that nobody asked to keep."""
        return Backups(self._directory / "aside")

    def next_number(self, path: Path) -> str:
        """Of the version that is kept next of the file at that real path."""
        return f"{int(max(self.numbers(path), default='0')) + 1:08}"

    def keep(self, path: Path, number: str, data: bytes) -> None:
        """Have that version. Raises OSError."""
        folder = self._folder(path)
        disk.make_folders(folder)
        disk.write_over(folder / number, data, is_synced=True)

    def read(self, path: Path, number: str) -> bytes | None:
        """One version; None: it gave way, or there never was one. Raises UserError."""
        if not _NUMBER.fullmatch(number):
            return None
        seen = look(self._folder(path) / number)
        return None if seen is None else seen.data

    def numbers(self, path: Path) -> list[str]:
        """Of the versions of a file, the oldest first."""
        try:
            names = [one.name for one in self._folder(path).iterdir()]
        except FileNotFoundError:
            return []
        return sorted(name for name in names if _NUMBER.fullmatch(name))

    def drop(self, path: Path, number: str) -> None:
        """It is of no use after all."""
        (self._folder(path) / number).unlink(missing_ok=True)

    def prune(self, path: Path) -> None:
        """Let the oldest give way."""
        for number in self.numbers(path)[:-MOST_BACKUPS]:
            self.drop(path, number)

    def _folder(self, path: Path) -> Path:
        return self._directory / key_of(path)
