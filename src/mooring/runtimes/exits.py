"""How a child ended, and being told that it did.

Exits are told, not polled: by a pidfd where the kernel has them, by a waiting thread elsewhere.
Being told does not reap. Until `reap` the child is a zombie whose number nobody else can get,
which is what makes it safe to signal its group and session.
"""

import asyncio
import contextlib
import errno
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import NamedTuple

from mooring.errors import MooringError

__all__ = ["CAN_PEEK", "UNKNOWN", "Exit", "ExitWatch", "peek", "reap", "signal_name"]

CAN_PEEK = hasattr(os, "waitid")
"""False on macOS before Python 3.13: there `peek` has to reap."""
_NO_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


class Exit(NamedTuple):
    """How a process ended. Neither is known if somebody else reaped it."""

    code: int | None
    """Exit status, if it exited by itself."""
    signal: int | None
    """Number of the signal that ended it, if one did."""

    @property
    def reason(self) -> str:
        """A stable code, as calls that it has cut off are told."""
        return "server_exited"

    @property
    def out_of_memory(self) -> bool:
        """The kernel does not tell of a process why it was killed."""
        return False

    @property
    def is_its_own(self) -> bool:
        """It says something of the program; not so if what it ran in was taken from under it."""
        return True

    @property
    def error(self) -> MooringError | None:
        """What was wrong from the beginning, so that another attempt is not worth it."""
        return None

    def __str__(self) -> str:
        if self.signal is not None:
            return f"signal {self.signal} ({signal_name(self.signal)})"
        return "exit status unknown" if self.code is None else f"exit status {self.code}"


def signal_name(number: int) -> str:
    """Of that number; one that the system has no name for is called by it."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


UNKNOWN = Exit(None, None)


def peek(pid: int) -> Exit | None:
    """How the child ended, without reaping it; None if it has not."""
    if not CAN_PEEK:
        return reap(pid)
    try:
        info = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return UNKNOWN
    if info is None:
        return None
    if info.si_code == os.CLD_EXITED:
        return Exit(info.si_status, None)
    return Exit(None, info.si_status)


def reap(pid: int) -> Exit | None:
    """Take the child's exit from the kernel; None if it has not ended."""
    try:
        reaped, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return UNKNOWN
    if not reaped:
        return None
    code = os.waitstatus_to_exitcode(status)
    return Exit(code, None) if code >= 0 else Exit(None, -code)


class ExitWatch:
    """Calls `on_exit` once, from the loop, when the child has ended. Close it to be told nothing more.

    `pidfd`: of a process that is another's child; it is ours from now on.
    """

    def __init__(self, pid: int, on_exit: Callable[[], None], pidfd: int | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_exit = on_exit
        self._told = False
        self._pidfd = _pidfd(pid) if pidfd is None else pidfd
        if self._pidfd is not None:
            self._loop.add_reader(self._pidfd, self._tell)
        else:
            name = f"exit of {pid}"
            threading.Thread(target=self._wait, args=(pid,), name=name, daemon=True).start()

    @property
    def pidfd(self) -> int | None:
        """By which it is told; None: it has been, or by other means."""
        return self._pidfd

    def close(self) -> None:
        """Idempotent."""
        self._told = True
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None

    def _tell(self) -> None:
        if not self._told:
            self.close()
            self._on_exit()

    def _wait(self, pid: int) -> None:
        _block_until_exit(pid)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to be told
            self._loop.call_soon_threadsafe(self._tell)


def _pidfd(pid: int) -> int | None:
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        if error.errno in _NO_RESOURCES:
            raise
        return None  # an old kernel, or a sandbox that forbids it


def _block_until_exit(pid: int) -> None:
    if sys.platform == "darwin":
        import select  # noqa: PLC0415 - kqueue only exists there

        with select.kqueue() as queue:
            event = select.kevent(pid, select.KQ_FILTER_PROC, select.KQ_EV_ADD, select.KQ_NOTE_EXIT)
            try:
                queue.control([event], 1)
            except ProcessLookupError:
                return
    else:
        try:
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        except ChildProcessError:
            return
