"""One look at the processes for all who end at the same time.

Nobody tells us of what a child started, so a session is looked through when it ends. A look costs a
few microseconds for every process there is, ours or not: a thousand sessions that end together
must not take a thousand of them. So whoever wants to know waits for the next look, which is taken
for all who wait, after the last of them has asked: it never shows less than they could have seen.

Looks take a tenth of the loop's time at most, however many ask for them.
"""

import asyncio
import os
import time

from mooring.runtimes import proctable
from mooring.runtimes.proctable import Process, Session

__all__ = ["Lookout", "look_now"]

SHARE = 0.1
"""Of the time of the loop."""


class Lookout:
    """Looks at the processes on behalf of all sessions of a household."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Session, asyncio.Future[list[Process]]]] = []
        self._next_look = 0.0

    async def members(self, session: Session) -> list[Process]:
        """What runs in the session, as seen after this was called. Raises OSError if nothing can be seen."""
        loop = asyncio.get_running_loop()
        seen: asyncio.Future[list[Process]] = loop.create_future()
        if not self._waiting:
            if (wait_s := self._next_look - time.monotonic()) > 0:
                loop.call_later(wait_s, self._look)
            else:
                # At the loop's next turn: until then, others of whom this one tells may ask too.
                loop.call_soon(self._look)
        self._waiting.append((session, seen))
        return await seen

    def _look(self) -> None:
        waiting, self._waiting = self._waiting, []
        began = time.monotonic()
        try:
            found = proctable.in_sessions()
            for session, seen in waiting:
                if not seen.done():
                    seen.set_result(_members(session, found))
        except Exception as error:  # whoever waits must hear of a bug too, or would wait for ever
            for _, seen in waiting:
                if not seen.done():
                    seen.set_exception(error)
        took_s = time.monotonic() - began
        self._next_look = began + took_s / SHARE


def look_now(session: Session) -> list[Process]:
    """The same for one session, without giving the loop a turn."""
    return _members(session, proctable.in_sessions())


def _members(session: Session, found: dict[int, list[int]]) -> list[Process]:
    pids = found.get(session.leader, [])
    if os.getpid() == 1:  # a container's only process inherits orphans and has to reap them
        session.reap_adopted(pids)
    return session.members(pids)
