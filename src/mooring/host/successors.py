"""Who wants to take over from this daemon: one at a time, and only where it can be done."""

import asyncio
import logging
import os
import socket
import sys
from pathlib import Path

from mooring.errors import Unavailable, UserError
from mooring.host.handing_over import Estate, HandingOver
from mooring.host.handover_words import COLD_RESTART, HandoverFailed
from mooring.host.parcel_post import ParcelPost
from mooring.host.stop import Stop
from mooring.host.taking_over import peer_of
from mooring.host.waits import first_of, until

__all__ = ["Successors"]

log = logging.getLogger("mooring.host")

LOST = "the daemon that took over is gone"


class Successors:
    """The attempts of one daemon; after one that succeeded nothing is left to serve."""

    def __init__(self, path: Path, stop: Stop) -> None:
        self._path = path
        self._stop = stop
        self._attempt: HandingOver | None = None
        self._task: asyncio.Task[None] | None = None
        self._succeeded = asyncio.Event()

    async def call(self, estate: Estate) -> None:
        """Call one that waits, and begin to hand over to it. Raises MooringError."""
        if (refusal := _refusal()) is not None:
            raise refusal
        if self._stop.requested or self._attempt is not None:
            raise Unavailable("Mooring is stopping, or being handed over already", code="conflict")
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.setblocking(False)  # whoever waits has room for one who calls
        try:
            sock.connect(str(self._path))
            pid, user = peer_of(sock)
            if user != os.getuid():
                raise UserError("somebody else's process waits to take over", code="handover_failed")
            successor = os.pidfd_open(pid)
        except OSError as error:
            sock.close()
            raise HandoverFailed("nobody waits to take over", code="handover_failed") from error
        except BaseException:
            sock.close()
            raise
        self._attempt = HandingOver(estate, ParcelPost(sock), successor)
        self._task = asyncio.create_task(self._run(self._attempt), name="handing over")

    async def _run(self, attempt: HandingOver) -> None:
        succeeded = False
        try:
            succeeded = await attempt.run()
        except Exception:  # a bug of ours must not leave a daemon that neither serves nor ends
            log.exception("handing over failed")
        if succeeded:
            self._succeeded.set()
        elif attempt.is_parted:
            self._stop.request(LOST)
        else:
            attempt.close()
            self._attempt = None

    async def until_stop_or_succeeded(self, calls_s: float | None) -> bool:
        """Which of the two it was: true if another has taken over, and nothing is left.

        Told to stop after that has begun, it still has `calls_s` to come to its end; before, it is off.
        """
        await first_of(self._stop.wait_requested(), self._succeeded.wait())
        await self._call_off()
        if self._attempt is not None and self._attempt.is_parted:
            await until(self._stop, calls_s, self._over())
        return self._succeeded.is_set()

    async def _over(self) -> None:
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _call_off(self) -> None:
        """Unless another has taken over, or is found to have done so."""
        attempt = self._attempt
        if attempt is not None and not attempt.is_parted and not await attempt.call_off():
            await self._cancel()

    async def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def aclose(self) -> None:
        """Hang up, wherever it has come to."""
        await self._call_off()
        await self._cancel()
        if self._attempt is not None:
            self._attempt.close()
            self._attempt = None


def _refusal() -> UserError | None:
    """Why this daemon can never hand over; None if it can."""
    if not (sys.platform == "linux" and hasattr(os, "pidfd_open")):
        text, hint = "this system has no pidfd, by which a daemon could watch processes", COLD_RESTART
    elif os.getpid() == 1:
        text, hint = "the first process of a container cannot be replaced", "restart the container"
    elif os.environ.get("SYSTEMD_EXEC_PID") == str(os.getpid()):
        text = "systemd runs this daemon, and would end its servers with it"
        hint = "systemctl --user restart mooring: sessions are kept, connections are not"
    else:
        return None
    return UserError(text, code="cannot_hand_over", hint=hint)
