"""`mooring connect --client`: servers that an agent elsewhere offers, at a port of this machine.

In place of HTTP to the relay it is our own framing: the link to the relay may break, and what is under way
goes on.
"""

import asyncio
import os
from collections.abc import Callable

import msgspec

from mooring.host.connection_file import Wish
from mooring.host.connections import telling
from mooring.host.loops import run_with_signals
from mooring.host.network import watching_network
from mooring.host.places import Places
from mooring.host.relay_target import CLIENT_PATH, options_of
from mooring.host.stop import Stop
from mooring.host.waits import until
from mooring.http.guard import Guard, guarded
from mooring.http.listener import Listener
from mooring.relay.agent import Agent, AgentStatus, Target
from mooring.relay.bodies import Bodies, Share
from mooring.relay.callers import HttpCaller, SocketCaller, opening_of
from mooring.relay.holding import Holding
from mooring.relay.link import Stream
from mooring.relay.passing_on import PATHS
from mooring.relay.policy import AgentPolicy, RelayPolicy
from mooring.relay.refusals import call_id, refusal
from mooring.relay.words import Reset
from mooring.wire.http import Exchange

__all__ = ["main", "run"]

LOST_CALL = 3
FLUSH_S = 1.0
QUIET_LOOK_S = 0.05

Caller = HttpCaller | SocketCaller
Told = Callable[[dict[str, str]], None]


def main(wish: Wish, places: Places, port: int, *, drain_timeout_s: float, on_connected: Told) -> int:
    """Run until a signal says stop; returns the exit status."""
    return run_with_signals(
        lambda stop: run(wish, places, port, stop, drain_timeout_s=drain_timeout_s, on_connected=on_connected)
    )


async def run(
    wish: Wish, places: Places, port: int, stop: Stop, *, drain_timeout_s: float, on_connected: Told
) -> int:
    """Serve until `stop`. Raises MooringError when the relay refuses for good."""
    options = options_of(wish, places, wish.servers, path=CLIENT_PATH)
    calling = _Calling(options.target, on_connected)
    agent = calling.agent
    listener = Listener(guarded(calling, Guard()))
    running = asyncio.create_task(agent.run(), name="client")
    stopping = asyncio.create_task(stop.wait_requested(), name="stop")
    try:
        [(host, chosen)] = await listener.listen_tcp("127.0.0.1", port)
        calling.urls = {server: f"http://{host}:{chosen}/{server}/mcp" for server in wish.servers}
        calling.tell()
        async with telling(places, f"client-{os.getpid()}", lambda: [calling.status]):
            with watching_network(agent.hurry):
                await asyncio.wait([running, stopping], return_when=asyncio.FIRST_COMPLETED)
                if not stop.requested:
                    running.result()
            listener.stop_accepting()
            await until(stop, drain_timeout_s, calling.wait_quiet())
            cut = calling.cut(stop.cause)
            await agent.leave(stop.cause)
            await until(None, FLUSH_S, listener.wait_drained())
    finally:
        for task in (running, stopping):
            task.cancel()
        await asyncio.gather(running, stopping, return_exceptions=True)
        await agent.aclose()
        await listener.aclose()
    return LOST_CALL if cut else 0


class _Calling:
    """The app: each request becomes a connection on the agent's link."""

    def __init__(self, target: Target, on_connected: Told) -> None:
        self._holding = Holding(RelayPolicy().hold_s, lambda: self.agent.is_connected, self._give_up)
        self.agent = Agent(
            target,
            AgentPolicy(),
            on_welcome=lambda welcome: self.tell(),
            on_lost=self._on_lost,
            on_answer=self._holding.release,
        )
        self._on_connected: Told | None = on_connected
        self.urls: dict[str, str] = {}
        """Where the servers are here."""
        self._servers = target.servers
        policy = AgentPolicy()
        self._bodies = Bodies(policy.max_waiting_bytes, policy.max_waiting_bytes_per_caller)
        self._callers: dict[Caller, Stream] = {}
        self._calls = 0

    @property
    def status(self) -> AgentStatus:
        """What there is to tell: what is called, in place of what is offered."""
        told = self.agent.status(self._calls)
        return msgspec.structs.replace(told, servers=list(self._servers), urls=self.urls)

    def tell(self) -> None:
        """Where the servers are: once, when both a port is had and the relay has let us in."""
        if self.urls and self.agent.is_connected and self._on_connected is not None:
            self._on_connected(self.urls)
            self._on_connected = None

    def __call__(self, exchange: Exchange) -> None:
        request = exchange.request
        agent, server, path = (*request.path.split("/")[1:], "", "", "")[:3]
        if path not in PATHS or request.path.count("/") != 3 or f"{agent}/{server}" not in self._servers:
            exchange.respond(refusal(Reset("no_such_server", "servers are at /AGENT/SERVER/mcp"), None))
            return
        if len(self._callers) >= AgentPolicy().max_streams:
            exchange.respond(refusal(Reset("too_many", not_executed=True), call_id(request)))
            return
        opening = opening_of(request, f"{agent}/{server}", path, "")
        self._calls += 1
        caller: Caller
        if opening.websocket:
            heard, said = (Share(self._bodies, opening.server) for _ in range(2))
            caller = SocketCaller(exchange, self._forget, heard, said)
        else:
            caller = HttpCaller(exchange, self._forget)
        self._callers[caller] = stream = self.agent.link.open(opening, caller)
        stream.on_asked = self._hold
        caller.begin(stream)
        self._hold(stream)

    def _hold(self, stream: Stream) -> None:
        """If the link is lost, it waits for it, but not for ever."""
        if not self.agent.is_connected:
            self._holding.hold([stream])

    def _on_lost(self) -> None:
        """So do calls that are under way."""
        self._holding.hold([stream for stream in self._callers.values() if stream.is_call])

    def _give_up(self, stream: Stream) -> None:
        reset = Reset("relay_lost", "there is no connection to the relay")
        stream.give_up(stream.with_what_is_known(reset))

    def _forget(self, caller: Caller) -> None:
        self._callers.pop(caller, None)

    async def wait_quiet(self) -> None:
        """Until no call is under way. There is no one place that knows: each WebSocket has its own."""
        while any(caller.is_call for caller in self._callers):  # noqa: ASYNC110
            await asyncio.sleep(QUIET_LOOK_S)

    def cut(self, cause: str) -> int:
        """End what is left; how many calls that were."""
        left = tuple(self._callers)
        for caller in left:
            caller.cut(Reset("shutting_down", f"mooring connect is ending ({cause})", close=1001))
        return sum(caller.is_call for caller in left)
