"""The files in which the account and the certificate are kept, in a folder for us alone.

Invariants:
- A file is whole at every moment (`secrets.whole_files`).
- What others can read, or have put there, is not used: it holds private keys.
- A damaged file is kept as `….damaged`, the last one of each, and as good as not there.

Every method waits for a disk.
"""

import errno
import os
import stat
from pathlib import Path

from mooring.errors import UserError
from mooring.secrets.whole_files import write_beside, write_whole

__all__ = ["Folder"]

FOLDER_MODE, FILE_MODE = 0o700, 0o600
OTHERS = 0o077
FILE_BYTES = 1024 * 1024
"""No file of ours is as large."""
PROBE_BYTES = 64 * 1024
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class Folder:
    """See the module. Everything raises UserError."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def prepare(self) -> None:
        """Have it, and make sure that it is ours."""
        try:
            self.path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            found = self.path.stat()
        except OSError as error:
            raise self._unusable(self.path, error) from None
        if not stat.S_ISDIR(found.st_mode):
            raise self._unusable(self.path, NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)))
        _check_ours(self.path, found, FOLDER_MODE)

    def read(self, name: str) -> bytes | None:
        """None: there is no such file."""
        path = self.path / name
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unusable(path, error) from None
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            _check_ours(path, found, FILE_MODE)
            try:
                return file.read(FILE_BYTES)
            except OSError as error:
                raise self._unusable(path, error) from None

    def write(self, name: str, data: bytes) -> None:
        """Have this in that file, or what was there before."""
        path = self.path / name
        try:
            write_whole(path, data)
        except OSError as error:
            raise self._unusable(path, error) from None

    def check_room(self) -> None:
        """Could something be written? An authority does not sign as often as we like, so ask before."""
        path = self.path / "room"
        try:
            write_beside(path, b"\0" * PROBE_BYTES).unlink(missing_ok=True)
        except OSError as error:
            raise self._unusable(path, error) from None

    def set_aside(self, name: str) -> Path:
        """Keep a damaged file under another name."""
        path = self.path / name
        aside = path.with_name(f"{name}.damaged")
        try:
            path.replace(aside)
        except OSError as error:
            raise self._unusable(path, error) from None
        return aside

    def _unusable(self, path: Path, error: OSError) -> UserError:
        if error.errno in _FULL:
            return UserError(
                f"{path} cannot be written: {error.strerror}",
                code="disk_full",
                hint="make room on its disk",
            )
        return UserError(
            f"{path} cannot be used: {error.strerror}",
            code="certificates_unusable",
            hint="make it readable and writable for the user that the relay runs as",
        )


def _check_ours(path: Path, found: os.stat_result, mode: int) -> None:
    if found.st_uid != os.geteuid():
        raise UserError(
            f"{path} belongs to another user (number {found.st_uid}); private keys are not kept there",
            code="not_our_file",
            hint=f"have it belong to the user that the relay runs as: chown {os.geteuid()} {path}",
        )
    if found.st_mode & OTHERS:
        raise UserError(
            f"{path} is open to other users of this machine (mode {stat.S_IMODE(found.st_mode):o}),"
            " and private keys are in it",
            code="open_to_others",
            hint=f"if nobody has looked: chmod {mode:o} {path}. Otherwise remove it, and another is made",
        )
