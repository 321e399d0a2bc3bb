"""Files for their owner alone that are whole at every moment, however a writer ends.

They are written beside their place, then put there in one step. Who is killed in between leaves the one
before, and at most a `….new`, which the next writer replaces. All of it waits for a disk, and raises OSError.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["waiting_lock", "write_beside", "write_whole"]

LOOK_AGAIN_S = 0.02


def write_whole(path: Path, data: bytes) -> None:
    """Have this in that file, or what was there before."""
    begun = write_beside(path, data)
    try:
        begun.replace(path)
        _sync(path.parent)
    except OSError:
        with suppress(OSError):
            begun.unlink(missing_ok=True)
        raise


def write_beside(path: Path, data: bytes) -> Path:
    """The first half of it: where it is now."""
    begun = path.with_name(f"{path.name}.new")
    try:
        begun.unlink(missing_ok=True)  # of somebody who was killed
        descriptor = os.open(begun, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        with suppress(OSError):
            begun.unlink(missing_ok=True)
        raise
    return begun


def _sync(directory: Path) -> None:
    """So that the new name outlives a crash of the system."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def waiting_lock(path: Path, timeout_s: float) -> Iterator[bool]:
    """One writer at a time. False: another one has it, and does not finish in time."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield _is_had(descriptor, time.monotonic() + timeout_s)
    finally:
        os.close(descriptor)


def _is_had(descriptor: int, give_up_at: float) -> bool:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= give_up_at:
                return False
        time.sleep(LOOK_AGAIN_S)
