"""What Python does not offer of the system: two files change places in one step, and who is writing one.

`exchange` is what makes a lost update impossible where it exists: whatever was at the path, at that very
moment, is at the other name afterwards, and can be looked at. A plain replace would have destroyed it.
"""

import errno
import functools
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

__all__ = ["exchange", "has_writer", "move_to_free_name", "unavailable"]

_AT_FDCWD = -100
_LINUX_NO_REPLACE, _LINUX_EXCHANGE = 1, 2
_MACOS_SWAP, _MACOS_NO_REPLACE = 2, 4
_UNAVAILABLE = {errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP}


def unavailable(error: OSError) -> bool:
    """The system, or this file system, cannot do that."""
    return error.errno in _UNAVAILABLE


def exchange(path: Path, other: Path) -> None:
    """Both exist, and change places. Raises OSError: `unavailable`, or one of them is not there.

    Whoever watches the folder is told of two moves, and the one that brings something to `path` comes last:
    nobody is left with the news that it went away.
    """
    _rename(path, other, _LINUX_EXCHANGE, _MACOS_SWAP)


def move_to_free_name(source: Path, target: Path) -> None:
    """Raises FileExistsError if somebody has made `target`; it is never replaced."""
    try:
        _rename(source, target, _LINUX_NO_REPLACE, _MACOS_NO_REPLACE)
    except OSError as error:
        if not unavailable(error):
            raise
        os.link(source, target, follow_symlinks=False)
        source.unlink()


def has_writer(descriptor: int) -> bool | None:
    """Whether anybody has the file of a descriptor open for writing; None: the system does not tell.

    By a lease, which the system gives only while nobody has, and which is given back at once. Somebody who
    opens the file just then waits for that; the signal that we would get is one that nobody minds.
    """
    if sys.platform != "linux":
        return None
    import fcntl  # noqa: PLC0415

    try:
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except BlockingIOError:
        return True
    except OSError:
        return None
    return False


def _rename(source: Path, target: Path, linux_flag: int, macos_flag: int) -> None:
    function = _function()
    if function is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), str(source))
    number = function(os.fsencode(source), os.fsencode(target), linux_flag, macos_flag)
    if number:
        raise OSError(number, os.strerror(number), str(source), None, str(target))


@functools.cache
def _function() -> Callable[[bytes, bytes, int, int], int] | None:
    """Gives the number of the error, 0 for none."""
    import ctypes  # noqa: PLC0415 - most commands change no file

    if sys.platform not in ("linux", "darwin"):
        return None
    try:
        library = ctypes.CDLL(None, use_errno=True)
        found = library.renameat2 if sys.platform == "linux" else library.renamex_np
    except (OSError, AttributeError):
        return None

    def on_linux(source: bytes, target: bytes, flag: int, _: int) -> int:
        failed = found(_AT_FDCWD, source, _AT_FDCWD, target, ctypes.c_uint(flag))
        return ctypes.get_errno() if failed else 0

    def on_macos(source: bytes, target: bytes, _: int, flag: int) -> int:
        return ctypes.get_errno() if found(source, target, ctypes.c_uint(flag)) else 0

    return on_linux if sys.platform == "linux" else on_macos
