"""`mooring connect --client`: servers that an agent elsewhere offers, at a port of this machine.

In place of HTTP to the relay it is our own framing: the link to the relay may break, and what is under way
goes on.
"""

import asyncio
from collections.abc import Callable

from mooring.host.connection_file import Wish
from mooring.host.loops import run_with_signals
from mooring.host.network import watching_network
from mooring.host.places import Places
from mooring.host.relay_target import CLIENT_PATH, options_of
from mooring.host.stop import Stop
from mooring.host.waits import until
from mooring.http.guard import Guard, guarded
from mooring.http.listener import Listener
from mooring.relay.agent import Agent
from mooring.relay.callers import HttpCaller, SocketCaller, opening_of
from mooring.relay.link import Stream
from mooring.relay.passing_on import PATHS
from mooring.relay.policy import AgentPolicy, RelayPolicy
from mooring.relay.refusals import call_id, refusal
from mooring.relay.words import Reset
from mooring.wire.http import Exchange

__all__ = ["main", "run"]

LOST_CALL = 3
FLUSH_S = 1.0

Told = Callable[[dict[str, str]], None]


def main(wish: Wish, places: Places, port: int, *, drain_timeout_s: float, on_listening: Told) -> int:
    """Run until a signal says stop; returns the exit status."""
    return run_with_signals(
        lambda stop: run(wish, places, port, stop, drain_timeout_s=drain_timeout_s, on_listening=on_listening)
    )


async def run(
    wish: Wish, places: Places, port: int, stop: Stop, *, drain_timeout_s: float, on_listening: Told
) -> int:
    """Serve until `stop`. Raises MooringError when the relay refuses for good."""
    options = options_of(wish, places, wish.servers, path=CLIENT_PATH)
    agent = Agent(options.target, AgentPolicy())
    calling = _Calling(agent, frozenset(wish.servers))
    listener = Listener(guarded(calling, Guard()))
    running = asyncio.create_task(agent.run(), name="client")
    stopping = asyncio.create_task(stop.wait_requested(), name="stop")
    try:
        [(host, chosen)] = await listener.listen_tcp("127.0.0.1", port)
        on_listening({server: f"http://{host}:{chosen}/{server}/mcp" for server in wish.servers})
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
    """The app: each request becomes a connection on the link."""

    def __init__(self, agent: Agent, servers: frozenset[str]) -> None:
        self._agent = agent
        self._servers = servers
        self._hold_s = RelayPolicy().hold_s
        self._callers: set[HttpCaller | SocketCaller] = set()
        self._quiet = asyncio.Event()
        self._quiet.set()

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
        make: type[HttpCaller | SocketCaller] = SocketCaller if opening.websocket else HttpCaller
        caller: HttpCaller | SocketCaller = make(exchange, self._forget)
        self._callers.add(caller)
        if caller.is_call:
            self._quiet.clear()
        stream = self._agent.link.open(opening, caller)
        caller.begin(stream)
        if not self._agent.is_connected:
            asyncio.get_running_loop().call_later(self._hold_s, self._give_up, stream)

    def _give_up(self, stream: Stream) -> None:
        if not self._agent.is_connected:
            reset = Reset("relay_lost", "there is no connection to the relay")
            stream.give_up(stream.with_what_is_known(reset))

    def _forget(self, caller: HttpCaller | SocketCaller) -> None:
        self._callers.discard(caller)
        if not any(one.is_call for one in self._callers):
            self._quiet.set()

    async def wait_quiet(self) -> None:
        """Until no call is under way."""
        await self._quiet.wait()

    def cut(self, cause: str) -> int:
        """End what is left; how many calls that were."""
        left = tuple(self._callers)
        for caller in left:
            caller.cut(Reset("shutting_down", f"mooring connect is ending ({cause})", close=1001))
        return sum(caller.is_call for caller in left)
