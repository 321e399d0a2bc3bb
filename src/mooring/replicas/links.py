"""The links to all other replicas: opened when they are wanted, in the background, and again when they broke.

While there is none, nobody waits for it: requests have connections of their own (`Forwarding.send`).
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from mooring.errors import MooringError
from mooring.http.client_limits import ClientLimits
from mooring.http.origin import parse_url
from mooring.replicas.link_asking import AskingLink
from mooring.replicas.link_frames import SUBPROTOCOL
from mooring.replicas.policy import ReplicaPolicy

if TYPE_CHECKING:
    from mooring.http.websocket_client import ClientSockets

__all__ = ["Links"]

log = logging.getLogger("mooring.replicas")


class Links:
    """One to each address. `aclose` leaves none."""

    def __init__(
        self,
        path: str,
        seal: Callable[[], tuple[bytes, bytes]],
        policy: ReplicaPolicy,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`path`: where the others have their ends. `seal`: what shows them who we are."""
        self._path = path
        self._seal = seal
        self._policy = policy
        self._clock = clock
        self._sockets: ClientSockets | None = None
        self._links: dict[str, AskingLink] = {}
        self._opening: dict[str, asyncio.Task[None]] = {}
        self._not_before: dict[str, float] = {}
        self._is_closed = False

    def usable(self, address: str) -> AskingLink | None:
        """One on which a call can go out now; if there is none to that address, it is opened."""
        link = self._links.get(address)
        if link is not None:
            return link if link.is_usable else None
        may_open = not self._is_closed and address not in self._opening
        if may_open and self._clock() >= self._not_before.get(address, 0.0):
            self._open_soon(address)
        return None

    def _open_soon(self, address: str) -> None:
        now = self._clock()
        self._not_before = {one: at for one, at in self._not_before.items() if at > now}
        self._not_before[address] = now + self._policy.lease_s
        task = asyncio.get_running_loop().create_task(self._open(address))
        self._opening[address] = task
        task.add_done_callback(lambda done: self._on_opened(address, done))

    def _on_opened(self, address: str, task: "asyncio.Task[None]") -> None:
        self._opening.pop(address, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a link to %s could not be opened", address, exc_info=error)

    async def _open(self, address: str) -> None:
        try:
            origin, _ = parse_url(address)
            async with asyncio.timeout(self._policy.connect_s + self._policy.hold_s):
                socket = await self._made_sockets().open(
                    origin, self._path, [self._seal()], subprotocol=SUBPROTOCOL
                )
        except (MooringError, TimeoutError, OSError) as error:
            # An older replica has no links; whoever cannot be reached at all is told of elsewhere; and one
            # that has just been cut cannot be set up any more.
            log.debug("no link to %s: %s", address, error)
            return

        def on_closed(link: AskingLink) -> None:
            if self._links.get(address) is link:
                del self._links[address]

        self._links[address] = AskingLink(socket, on_closed)

    def _made_sockets(self) -> "ClientSockets":
        if self._sockets is None:
            from mooring.http.websocket_client import ClientSockets  # noqa: PLC0415 - 3 MB for whom it is alone

            limits = ClientLimits(connect_timeout_s=self._policy.connect_s, vanished_s=self._policy.lease_s)
            self._sockets = ClientSockets(client_limits=limits, clock=self._clock)
        return self._sockets

    async def aclose(self) -> None:
        """Cut all of them, and open no more."""
        self._is_closed = True
        for task in (opening := set(self._opening.values())):
            task.cancel()
        if opening:
            await asyncio.wait(opening)
        if self._sockets is not None:
            await self._sockets.aclose()
