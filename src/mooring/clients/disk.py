"""Small acts on the disk: new files, folders, locks. They raise OSError and leave nothing half-done."""

import contextlib
import errno
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = [
    "BEGUN",
    "Busy",
    "locked",
    "make_folders",
    "not_written_over",
    "remove_folders",
    "sync_folder",
    "take_attributes",
    "write_new",
    "write_over",
]

LOOK_AGAIN_S = 0.02
BEGUN = ".new"
"""What `write_over` begins ends in this."""
_NOT_SYNCED = {errno.EACCES, errno.EINVAL, errno.ENOTSUP}
"""A folder that we may not read, or of a system that does not do that: then it is as good as it can be."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


class Busy(Exception):
    """Somebody else has the lock, and keeps it."""


@contextlib.contextmanager
def locked(path: Path, patience_s: float) -> Iterator[None]:
    """Hold the lock that is a file of ours for the length of the block. Raises Busy, OSError.

    The file stays: whoever waits for the lock must find the same one.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        give_up_at = time.monotonic() + patience_s
        while not _try_lock(descriptor):
            if time.monotonic() >= give_up_at:
                raise Busy
            time.sleep(LOOK_AGAIN_S)
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        if sys.platform == "win32":
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def make_folders(folder: Path) -> list[Path]:
    """With those above it, for us alone; returns those that were missing, innermost last."""
    missing: list[Path] = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    made: list[Path] = []
    try:
        for one in reversed(missing):
            with contextlib.suppress(FileExistsError):
                one.mkdir(0o700)
                made.append(one)
                sync_folder(one.parent)
    except OSError:
        remove_folders(made)
        raise
    return made


def remove_folders(folders: list[Path]) -> None:
    """Those in which nobody put anything."""
    with contextlib.suppress(OSError):
        for one in reversed(folders):
            one.rmdir()


def write_new(path: Path, data: bytes, like: os.stat_result | None = None) -> None:
    """A file that was not there, on the disk for good: for us alone, or with owner and mode of another."""
    descriptor = os.open(path, _NEW, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if like is not None:
                _own(descriptor, like)
                _take_mode(descriptor, path, like.st_mode & 0o7777)
            os.fsync(descriptor)
    except BaseException:
        with contextlib.suppress(OSError):
            path.unlink()
        raise


def _own(descriptor: int, like: os.stat_result) -> None:
    """Raises PermissionError: the owner cannot be kept."""
    if sys.platform == "win32":
        return
    now = os.fstat(descriptor)
    if (now.st_uid, now.st_gid) != (like.st_uid, like.st_gid):
        os.fchown(descriptor, like.st_uid, like.st_gid)


def _take_mode(descriptor: int, path: Path, mode: int) -> None:
    if sys.platform == "win32":
        path.chmod(mode)
    else:
        os.fchmod(descriptor, mode)  # not by its name, which may be another's by now


def take_attributes(source: Path, target: Path) -> None:
    """Labels and access lists, as far as the system has them and lets us."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            for name in os.listxattr(source, follow_symlinks=False):
                with contextlib.suppress(OSError):
                    os.setxattr(
                        target, name, os.getxattr(source, name, follow_symlinks=False), follow_symlinks=False
                    )


def write_over(path: Path, data: bytes, *, is_synced: bool = False) -> None:
    """A file of our own, whole at every moment."""
    begun = not_written_over(path)
    try:
        with os.fdopen(os.open(begun, _NEW, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            if is_synced:
                os.fsync(file.fileno())
        begun.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            begun.unlink()
        raise
    if is_synced:
        sync_folder(path.parent)


def not_written_over(path: Path) -> Path:
    """Where `write_over` begins; what somebody left there who was killed is removed."""
    begun = path.with_name(f"{path.name}{BEGUN}")
    begun.unlink(missing_ok=True)
    return begun


def sync_folder(folder: Path) -> None:
    """So that new names outlive a crash of the system."""
    if sys.platform == "win32":
        return  # folders cannot be opened there
    try:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in _NOT_SYNCED:
            raise
