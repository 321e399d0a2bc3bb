"""Mooring's side of the guardian: starting it, telling it who to end, starting it again.

One guardian per household, started with the first child. It is told of a child right after its
start and of its reaping, of a container right before it is made and of its removal; should it end
before us, a new one is told of all that live. Without a guardian everything works but one thing:
children and containers of a Mooring that is killed may outlive it. So failing to have one is a
warning, once, and no error.
"""

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from mooring.runtimes.exits import ExitWatch, reap
from mooring.runtimes.proctable import Session

__all__ = ["Guardian"]

logger = logging.getLogger(__name__)

PROGRAM = Path(__file__).with_name("guardian_main.py")
CLOSE_PATIENCE_S = 2.0
"""With nobody registered it exits at the end of its input, in a millisecond."""
QUICK_DEATH_S = 5.0
QUICK_DEATHS = 3
"""So many guardians in a row that did not live QUICK_DEATH_S: it does not work here, stop trying."""
MAX_UNREAD_BYTES = 1024 * 1024
"""A guardian that is so far behind does not read at all; replace it."""
# What a Python that is not installed in a usual place may need to find its own library.
_LOADER_NAMES = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


class Guardian:
    """The guardian process, kept alive while there are children or containers."""

    def __init__(self, clock: Callable[[], float], *, command: Sequence[str] | None = None) -> None:
        self._clock = clock
        self._command = command or (sys.executable, "-I", "-S", str(PROGRAM))
        self._sessions: dict[int, Session] = {}
        self._registrations: dict[str, str] = {}
        """Who is to be ended if we cannot, by the guardian's word for it → the line that tells of it."""
        self._pid: int | None = None
        self._started_at = 0.0
        self._watch: ExitWatch | None = None
        self._pipe: int | None = None
        self._unwritten = bytearray()
        self._quick_deaths = 0
        self._warned = False
        self._closing: asyncio.Future[None] | None = None

    @property
    def pid(self) -> int | None:
        """Of the guardian that runs, if one does."""
        return self._pid

    @property
    def sessions(self) -> list[Session]:
        """Of the children that it knows of."""
        return list(self._sessions.values())

    def ensure(self) -> None:
        """Have a guardian, if one can be had."""
        if self._pid is None and self._quick_deaths < QUICK_DEATHS and self._closing is None:
            self._start()

    def register(self, session: Session) -> None:
        """From now on this child is to be ended if we cannot."""
        self._sessions[session.leader] = session
        self._tell_of(str(session.leader), f"{session.started} {session.marker}")

    def forget(self, pid: int) -> None:
        """The child is reaped: its number may be somebody else's from now on."""
        self._sessions.pop(pid, None)
        self._tell_no_more_of(str(pid))

    def register_container(self, name: str, where: str) -> None:
        """A container of that name is about to be made: from now on it is to be removed if we cannot.

        `where` its engine is: the absolute path of a socket, or HOST:PORT (an IPv6 address in brackets).
        """
        if "\n" in where + name or " " in name:
            logger.debug("the guardian cannot be told of the container %r at %r", name, where)
        else:
            self._tell_of(f"@{name}", where)

    def forget_container(self, name: str) -> None:
        """It is removed, or another's from now on."""
        self._tell_no_more_of(f"@{name}")

    async def aclose(self) -> None:
        """Let it go, and reap it; unless containers are left, of an engine that did not answer us in time.

        Then it goes on without us, for some seconds, and is reaped when it has done what it can: here, if we
        are still there.
        """
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_future()
            if self._pid is None:
                self._closing.set_result(None)
            self._close_pipe()
        await asyncio.wait((self._closing,), timeout=CLOSE_PATIENCE_S)
        if not any(who.startswith("@") for who in self._registrations):
            self.end_now()

    def end_now(self) -> None:
        """End it without waiting for it to leave; blocks for the moment that this takes."""
        self._close_pipe()
        if self._pid is not None:
            os.kill(self._pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._pid, 0)
            self._drop()

    def _start(self) -> None:
        try:
            process, self._pipe = self._spawn()
            self._pid, self._started_at = process.pid, self._clock()
            self._watch = ExitWatch(process.pid, self._on_exit)
        except OSError as error:
            self._warn(str(error))
            self.end_now()
            return
        for line in self._registrations.values():
            self._write(line)

    def _spawn(self) -> "tuple[subprocess.Popen[bytes], int]":
        """The guardian, and the write end of its pipe."""
        read_end, write_end = os.pipe()
        try:
            process = subprocess.Popen(
                self._command,
                stdin=read_end,
                # Not ours: whoever reads our output must see its end when we die.
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={name: os.environ[name] for name in _LOADER_NAMES if name in os.environ},
                start_new_session=True,
            )
        except OSError:
            os.close(write_end)
            raise
        finally:
            os.close(read_end)
        process.returncode = 0  # we reap it; disarms the Popen's own attempts
        os.set_blocking(write_end, False)
        return process, write_end

    def _on_exit(self) -> None:
        if self._pid is not None:
            reap(self._pid)
        self._drop()
        if self._closing is not None:
            if not self._closing.done():
                self._closing.set_result(None)
            return
        lived_s = self._clock() - self._started_at
        self._quick_deaths = self._quick_deaths + 1 if lived_s < QUICK_DEATH_S else 0
        if self._quick_deaths >= QUICK_DEATHS:
            self._warn("it ends right after its start")
        elif self._registrations:
            logger.info("the guardian has ended; starting another")
            self.ensure()

    def _drop(self) -> None:
        if self._watch is not None:
            self._watch.close()
        self._close_pipe()
        self._watch = self._pid = None

    def _tell_of(self, who: str, what: str) -> None:
        self._registrations[who] = f"+{who} {what}\n"
        self._write(self._registrations[who])

    def _tell_no_more_of(self, who: str) -> None:
        if self._registrations.pop(who, None) is not None:
            self._write(f"-{who}\n")

    def _write(self, text: str) -> None:
        """Queue a line for the guardian. Written at once if the pipe has room, and it nearly always has."""
        if self._pipe is None or self._pid is None:
            return
        self._unwritten += text.encode(errors="surrogateescape")  # as paths may need it
        if len(self._unwritten) > MAX_UNREAD_BYTES:
            os.kill(self._pid, signal.SIGKILL)  # unreaped, so the number is its own
        else:
            self._flush(self._pipe)

    def _flush(self, pipe: int) -> None:
        loop = asyncio.get_running_loop()
        try:
            written = os.write(pipe, self._unwritten)
        except BlockingIOError:
            written = 0
        except BrokenPipeError:
            self._close_pipe()  # it has ended; its successor is told everything
            return
        del self._unwritten[:written]
        if self._unwritten:
            loop.add_writer(pipe, self._flush, pipe)
        else:
            loop.remove_writer(pipe)

    def _close_pipe(self) -> None:
        if self._pipe is not None:
            asyncio.get_running_loop().remove_writer(self._pipe)
            os.close(self._pipe)
            self._pipe = None
        self._unwritten.clear()

    def _warn(self, why: str) -> None:
        if not self._warned:
            self._warned = True
            logger.warning("no guardian (%s): if this process is killed, its servers may go on running", why)
