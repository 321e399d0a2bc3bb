"""`mooring connect`: an agent, until it is told to end or the relay refuses it.

Its end: no new calls are taken, those under way finish within the drain time, then the relay is told goodbye,
so that its callers hear of it at once.

Exit statuses: 0 ended as asked · 1 there is no relay · 2 usage, or the relay refuses · 3 a call was cut off.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from mooring.host.agent_door import DaemonDoor
from mooring.host.network import watching_network
from mooring.host.places import Places
from mooring.host.stop import Stop
from mooring.host.waits import until
from mooring.relay.agent import Agent, AgentStatus, Target
from mooring.relay.answering import Answering
from mooring.relay.policy import AgentPolicy
from mooring.relay.words import Welcome

__all__ = ["ConnectOptions", "Connection", "run_connection"]

log = logging.getLogger("mooring.host")

LOST_CALL = 3


@dataclass(frozen=True, kw_only=True)
class ConnectOptions:
    """Which relay, and what is offered there."""

    places: Places
    target: Target
    policy: AgentPolicy = field(default_factory=AgentPolicy)
    drain_timeout_s: float | None = 10.0
    on_connected: Callable[[AgentStatus], None] = lambda status: None
    """Told each time that a link begins."""


async def run_connection(connection: "Connection", stop: Stop) -> int:
    """Stay connected until `stop`; nothing is left. Raises MooringError when the relay refuses for good."""
    running = asyncio.create_task(connection.run(), name="agent")
    stopping = asyncio.create_task(stop.wait_requested(), name="stop")
    try:
        with watching_network(connection.hurry):
            await asyncio.wait([running, stopping], return_when=asyncio.FIRST_COMPLETED)
            if not stop.requested:
                running.result()
        cut = await connection.leave(stop, stop.cause or "")
    finally:
        for task in (running, stopping):
            task.cancel()
        await asyncio.gather(running, stopping, return_exceptions=True)
        await connection.aclose()
    return LOST_CALL if cut else 0


class Connection:
    """An agent with what it needs: for the command, and for the daemon that holds one in the background."""

    def __init__(self, options: ConnectOptions, *, keeps_trying: bool = False) -> None:
        """`keeps_trying`: as of an `Agent`."""
        self._options = options
        self._door = DaemonDoor(options.places, options.target.servers, options.policy.max_streams)
        self._answering = Answering(self._door, options.policy)
        self._agent = Agent(
            options.target,
            options.policy,
            on_open=self._answering.open,
            on_welcome=self._on_welcome,
            keeps_trying=keeps_trying,
        )

    async def run(self) -> None:
        """Raises MooringError when the relay refuses for good."""
        await self._agent.run()

    def hurry(self) -> None:
        """The network has changed."""
        self._agent.hurry()

    @property
    def status(self) -> AgentStatus:
        """What there is to tell."""
        return self._agent.status(self._answering.calls)

    def _on_welcome(self, welcome: Welcome) -> None:
        self._answering.name = welcome.name
        log.info(
            "%s to %s as %s",
            "connected again" if self._agent.reconnects else "connected",
            self._options.target.shown,
            welcome.name,
            extra={"event": "connected", "relay": self._options.target.shown},
        )
        self._options.on_connected(self.status)

    async def leave(self, stop: Stop | None, cause: str, *, is_final: bool = True) -> int:
        """Finish what is under way, and say goodbye; returns how many calls were cut.

        Not `is_final`: another one takes the place, for whom callers wait.
        """
        if is_final:
            self._answering.refuse_new(cause)
        await until(stop, self._options.drain_timeout_s, self._answering.wait_quiet())
        cut = self._answering.calls_in_flight
        await self._agent.leave(cause, is_final=is_final)
        return cut

    async def aclose(self) -> None:
        """Leave nothing."""
        await self._agent.aclose()
        await self._answering.aclose()
        await self._door.aclose()
