"""The moment a program becomes a process, and what can go wrong in it."""

import errno
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from mooring.errors import MooringError, ServerFailed, Unavailable, UserError
from mooring.runtimes.descriptors import DESCRIPTORS
from mooring.runtimes.pipes import Descriptor
from mooring.runtimes.proctable import Session, start_time
from mooring.runtimes.program import ProcessSpec, check_program
from mooring.runtimes.stopping import end_session_now

__all__ = ["abandon", "spawn", "step"]

_REMEDIES = {
    errno.EMFILE: "raise the limit of open files: ulimit -n (systemd: LimitNOFILE=), or allow fewer sessions",
    errno.ENFILE: "the whole system has no open file left: raise fs.file-max, or end what holds so many",
    errno.ENOMEM: "free some memory, or allow fewer sessions",
    errno.EAGAIN: "raise the limit of processes: ulimit -u (systemd: TasksMax=), or allow fewer sessions",
    errno.ETXTBSY: "the program is being written to; it can be started when that is over",
}
"""For what is over when somebody does something, or by itself."""
_NOT_RUNNABLE = (errno.ENOENT, errno.ENOEXEC, errno.EACCES, errno.ELIBBAD)


@contextmanager
def step(spec: ProcessSpec, doing: str) -> Iterator[None]:
    """One step of a start; an error of the system says in which it came."""
    try:
        yield
    except OSError as error:
        raise _failure(spec, doing, error) from error


def spawn(spec: ProcessSpec, marker: str, stdio: Sequence[Descriptor]) -> Session:
    """Start the process with these as its stdin, stdout and stderr, which are closed here."""
    stdin, stdout, stderr = stdio
    name, _, value = marker.partition("=")
    with step(spec, "starting the process"), DESCRIPTORS.as_given():
        # No preexec_fn and no other user: then CPython can use vfork, whatever our size.
        process = subprocess.Popen(
            spec.argv,
            stdin=stdin.fileno(),
            stdout=stdout.fileno(),
            stderr=stderr.fileno(),
            cwd=spec.cwd,
            env={**spec.env, name: value},
            start_new_session=True,
            close_fds=True,
        )
    process.returncode = 0  # we reap it; disarms the Popen's own attempts
    for descriptor in stdio:
        descriptor.close()
    session = Session(process.pid, "", marker, anchored=True)
    try:
        with step(spec, "looking at the process"):
            session.started = start_time(process.pid)
    except MooringError:
        abandon(session)
        raise
    return session


def abandon(session: Session) -> None:
    """End and reap a process that cannot be kept; blocks for the moment that this takes."""
    end_session_now(session)
    with suppress(ChildProcessError):  # where SIGCHLD is ignored the kernel reaps
        os.waitpid(session.leader, 0)


def _failure(spec: ProcessSpec, doing: str, error: OSError) -> MooringError:
    what = f"{spec.name}: {doing} failed: {error.strerror}"
    if error.errno in _REMEDIES:
        return Unavailable(what, code="no_resources", hint=_REMEDIES[error.errno])
    try:
        path = check_program(spec)
    except UserError as changed:
        return changed
    if error.errno in _NOT_RUNNABLE:
        return UserError(
            f"{spec.name}: {path} cannot be run: {error.strerror}",
            code="program_not_executable",
            hint="if it is a script, its first line must name an interpreter that exists",
        )
    return ServerFailed(what, code="cannot_start", hint="check the command, its arguments and environment")
