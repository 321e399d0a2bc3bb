"""What each server says on stderr, and what becomes of it, in a file of its own.

A line is `TIME KIND TEXT`: the time in UTC, the kind `stderr` or a level, the text with nothing in it that
means something to a terminal. A file that is too long or too old is put aside, under the same name with a
number; so there is a bound for each server.
"""

import logging
import os
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

__all__ = ["ServerLogs"]

MAX_FILE_BYTES = 5 * 1024 * 1024
MOST_OLD_FILES = 3
OLD_S = 7 * 86400.0
"""A file that was begun so long ago is put aside, whatever its length."""
SERVER_LOGGER = "mooring.server"


class ServerLogs(logging.Handler):
    """Give it to the logger `mooring`. Records say by `server` whose they are."""

    def __init__(self, directory: Path, wall: Callable[[], float] = time.time) -> None:
        directory.mkdir(mode=0o700, exist_ok=True)
        super().__init__(logging.INFO)
        self._directory = directory
        self._wall = wall
        self._files: dict[str, _File] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line. A disk that is full costs the line, and nobody is held up."""
        name = getattr(record, "server", None)
        if not isinstance(name, str):
            return
        kind = "stderr" if record.name == SERVER_LOGGER else record.levelname.lower()
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        text = (
            record.getMessage().encode("unicode_escape").decode() if _is_odd(record) else record.getMessage()
        )
        with suppress(OSError):
            self._file(name).write(f"{moment.replace('+00:00', 'Z')} {kind} {text}\n", self._wall())

    def forget(self, name: str) -> None:
        """The server was removed: its files go too."""
        if (file := self._files.pop(name, None)) is not None:
            file.close()
        for path in [self._directory / f"{name}.log", *self._directory.glob(f"{name}.log.*")]:
            path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close all files."""
        for file in self._files.values():
            file.close()
        self._files.clear()
        super().close()

    def _file(self, name: str) -> "_File":
        if name not in self._files:
            self._files[name] = _File(self._directory / f"{name}.log")
        return self._files[name]


class _File:
    """One file that is put aside when it is too long or too old."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._begun = _begun(path)
        self._descriptor = _appending(path)
        self._size = os.fstat(self._descriptor).st_size

    def write(self, line: str, now: float) -> None:
        if self._size and (self._size + len(line) > MAX_FILE_BYTES or now - self._begun > OLD_S):
            self._put_aside(now)
        # Unbuffered: what a full disk does not take must not come up again when the file is closed.
        self._size += os.write(self._descriptor, line.encode(errors="backslashreplace"))

    def close(self) -> None:
        os.close(self._descriptor)

    def _put_aside(self, now: float) -> None:
        """Begin another. If that fails the full one stays open, and the next line tries again."""
        if self._path.exists():  # else the try before has come so far
            for number in range(MOST_OLD_FILES - 1, 0, -1):
                older = Path(f"{self._path}.{number}")
                if older.exists():
                    older.replace(f"{self._path}.{number + 1}")
            self._path.replace(f"{self._path}.1")
        fresh = _appending(self._path)
        self.close()
        self._descriptor, self._size, self._begun = fresh, 0, now


def _appending(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def _begun(path: Path) -> float:
    """When its first line was written; now if there is none."""
    with suppress(FileNotFoundError, ValueError), path.open("rb") as file:
        stamp = file.readline(64).split(b" ", 1)[0].decode("ascii", "replace")
        return datetime.fromisoformat(stamp).timestamp()
    return time.time()


def _is_odd(record: logging.LogRecord) -> bool:
    return not record.getMessage().replace("\t", " ").isprintable()
