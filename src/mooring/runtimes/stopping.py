"""Ending everything that runs in a child's session.

The same way whether a stop was asked for or the leader left by itself: SIGTERM to the group and
to what its session holds beyond it, patience, SIGKILL until none is left.

The leader's exit is told. What it started are not our children, nobody tells us of those: they
are looked for while, and only while, a session is being ended.
"""

import asyncio
import logging
import signal
import time
from typing import Any, NamedTuple

from msgspec import Struct

from mooring.runtimes.exits import Exit
from mooring.runtimes.lookout import Lookout, look_now
from mooring.runtimes.proctable import Process, Session

__all__ = [
    "StopOutcome",
    "StopPatience",
    "end_session",
    "end_session_now",
    "first_of",
]

logger = logging.getLogger(__name__)

KILL_PATIENCE_S = 10.0
"""SIGKILL acts as soon as the process is given a processor, which takes seconds on a machine that has far too
much to do. One that hangs in the kernel is reported, not awaited."""
BLOCKING_PATIENCE_S = 2.0
"""The same where everything else waits meanwhile."""
_FIRST_LOOK_S = 0.002
_SLOWEST_LOOK_S = 0.05


class StopPatience(Struct, frozen=True):
    """How long each step of a stop may take before the next."""

    eof_grace_s: float = 2.0
    """After the end of its input; 0: go on at once. The MCP SDKs' clients give 2 s."""
    stop_grace_s: float = 5.0
    """After SIGTERM."""


class StopOutcome(NamedTuple):
    """What a stop came to."""

    exit: Exit | None
    """None: it hangs in the kernel, and will be reaped should it ever leave it."""
    survivors: tuple[int, ...]
    """Pids that even SIGKILL did not end, or that we may not signal."""


async def first_of(*events: "asyncio.Future[Any]", timeout_s: float | None) -> None:
    """Wait until one of them is done or the time is over; leaves them alone, also when cancelled."""
    await asyncio.wait(events, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)


async def end_session(
    session: Session,
    lookout: Lookout,
    stop_grace_s: float,
    *,
    exited: "asyncio.Future[Exit]",
    hurried: "asyncio.Future[None]",
) -> tuple[int, ...]:
    """End what runs in the session; the pids that could not be ended. Does not reap the leader.

    1. SIGTERM to all.
    2. Wait until all are gone, at most `stop_grace_s`, not at all once `hurried`.
    3. SIGKILL to all, again until all are gone, at most KILL_PATIENCE_S.
    """
    loop = asyncio.get_running_loop()
    left = await _look(session, lookout)
    if exited.done() and not left:
        return ()
    if not hurried.done():
        # 1
        _signal(session, signal.SIGTERM, left)
        _signal(session, signal.SIGCONT, left)  # one that is suspended cannot act on it
        # 2
        deadline = loop.time() + stop_grace_s
        await first_of(exited, hurried, timeout_s=stop_grace_s)
        pause_s = _FIRST_LOOK_S
        while not hurried.done() and (left_s := deadline - loop.time()) > 0:
            if not await _look(session, lookout) and exited.done():
                break
            await first_of(hurried, timeout_s=min(pause_s, left_s))
            pause_s = min(2 * pause_s, _SLOWEST_LOOK_S)
    # 3
    deadline = loop.time() + KILL_PATIENCE_S
    pause_s = _FIRST_LOOK_S
    # (That nobody was seen says nothing if nothing could be seen; of the leader's exit we hear.)
    while ((left := await _look(session, lookout)) or not exited.done()) and loop.time() < deadline:
        _signal(session, signal.SIGKILL, left)
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, _SLOWEST_LOOK_S)
    survivors = {process.pid for process in left}
    return tuple(sorted(survivors if exited.done() else survivors | {session.leader}))


def end_session_now(session: Session) -> tuple[int, ...]:
    """Only SIGKILL, and without giving the loop a turn: for when there is no time left."""
    deadline = time.monotonic() + BLOCKING_PATIENCE_S
    _signal(session, signal.SIGKILL, [])
    while (left := _look_now(session)) and time.monotonic() < deadline:
        _signal(session, signal.SIGKILL, left)
        time.sleep(_FIRST_LOOK_S)
    return tuple(process.pid for process in left)


async def _look(session: Session, lookout: Lookout) -> list[Process]:
    try:
        return await lookout.members(session)
    except OSError as error:
        return _unseen(session, error)


def _look_now(session: Session) -> list[Process]:
    try:
        return look_now(session)
    except OSError as error:
        return _unseen(session, error)


def _signal(session: Session, signum: signal.Signals, members: list[Process]) -> None:
    try:
        session.signal(signum, members)
    except OSError as error:
        logger.warning("cannot signal all of process %d: %s", session.leader, error.strerror)


def _unseen(session: Session, error: OSError) -> list[Process]:
    """No descriptor is free to look with, although closing its stdin and its pidfd freed two.

    The leader's group is signalled all the same.
    """
    logger.warning("cannot see what is left of process %d: %s", session.leader, error.strerror)
    return []
