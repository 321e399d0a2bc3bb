"""The shutdown contract: how a host ends without losing a call.

1. Draining: `/readyz` says 503, `/livez` 200, the listener stays open for the drain delay.
2. Answers carry `Connection: close`; requests still succeed. After the delay new sessions are refused.
3. Stop accepting. Every accepted connection may still finish its first request; idle ones are
   closed spread over a second.
4. Calls in flight finish. Streams end after an event with an id and `retry:`, WebSockets with 1001
   once no call is in flight on them.
5. At the deadline every remaining call gets an error that names the cause; then force.
6. Children are stopped after the proxy has drained.
7. A second signal goes to step 5 at once.

One of several replicas lets go of its sessions from step 1 on, each as soon as it rests, and passes on
whatever comes for them; after the delay new calls of those that are left wait for that. It goes on accepting
until they have gone: what their calls wait for, answers of clients, comes by way of other replicas.

One deadline covers everything after the delay. Stopping children needs some of it, so calls get
what remains: all but the children's patience, and at least half.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from mooring.host.stop import Stop
from mooring.host.waits import until
from mooring.http.listener import Listener
from mooring.proxy.proxy import Proxy
from mooring.workloads.workload import Workload

__all__ = ["DrainPolicy", "Replicated", "shut_down", "stop_children"]

log = logging.getLogger("mooring.host")

SPREAD_S = 1.0
FLUSH_S = 1.0
"""How long an answer given at the deadline may take to reach its client."""


class Replicated(Protocol):
    """One of several replicas: see `host.replicated`."""

    def begin_drain(self) -> None:
        """Let go of sessions as they come to rest."""
        ...

    def hang_up(self) -> None:
        """Other replicas hear that no more is taken."""
        ...

    def hold_calls(self) -> None:
        """Give the others a rest."""
        ...

    async def wait_unneeded(self) -> None:
        """Until all have gone, or nobody else could have them."""
        ...

    async def wait_released(self) -> None:
        """Until all have gone."""
        ...

    def stop_releasing(self) -> None:
        """Calls are about to be cut."""
        ...


class DrainPolicy(Struct, frozen=True, kw_only=True):
    """How long each part may take."""

    delay_s: float
    timeout_s: float | None
    children_s: float
    """What the children's own Stop sequence may need."""

    def calls_s(self) -> float | None:
        """The share of the calls."""
        if self.timeout_s is None:
            return None
        return max(self.timeout_s - self.children_s - FLUSH_S, self.timeout_s / 2)


async def shut_down(
    listener: Listener,
    workload: Workload,
    stop: Stop,
    *,
    policy: DrainPolicy,
    cause: str,
    clock: Callable[[], float],
    replicated: Replicated | None = None,
) -> int:
    """End everything; returns how many calls had to be cut."""
    proxy = workload.proxy
    calls = proxy.calls_in_flight
    extra = {"event": "draining", "cause": cause, "calls": calls, "sessions": len(proxy.sessions)}
    log.info("%s: %s", cause, _farewell(calls, policy), extra=extra)
    # 1, 2
    workload.drain(cause)
    listener.announce_drain()
    if replicated is not None:
        replicated.begin_drain()
    await stop.wait_forced(policy.delay_s)
    begun = clock()
    if replicated is not None:
        replicated.hold_calls()
    proxy.refuse_new(cause)
    # 3
    calls_s = policy.calls_s()
    if replicated is not None:
        await until(stop, calls_s, replicated.wait_unneeded())
    listener.stop_accepting(SPREAD_S)
    # 4
    proxy.hang_up()
    if replicated is not None:
        replicated.hang_up()
    left_s = None if calls_s is None else max(0.0, calls_s - (clock() - begun))
    await until(stop, left_s, _drained(listener, proxy, replicated))
    # 5
    if replicated is not None:
        replicated.stop_releasing()
    cut = proxy.cut("shutting_down", f"Mooring is shutting down ({cause}); the call was not finished")
    if cut:
        log.warning(
            "%d %s cut off",
            cut,
            "call was" if cut == 1 else "calls were",
            extra={"event": "calls_cut", "calls": cut},
        )
    proxy.hang_up()
    if listener.connections:
        await until(None, FLUSH_S, listener.wait_drained())
    listener.abort()
    # 6
    left_s = None if policy.timeout_s is None else max(0.0, policy.timeout_s - (clock() - begun))
    await stop_children(workload, stop, left_s, cause)
    await listener.aclose()
    return cut


async def _drained(listener: Listener, proxy: Proxy, replicated: Replicated | None) -> None:
    """No connection, and no call whose client has gone without cancelling it."""
    await listener.wait_drained()
    await proxy.wait_quiet()
    if replicated is not None:
        await replicated.wait_released()


def _farewell(calls: int, policy: DrainPolicy) -> str:
    if not calls:
        return "stopping"
    calls_s = policy.calls_s()
    bound = "" if calls_s is None else f", up to {policy.delay_s + calls_s:g} s"
    return f"stopping; {calls} {'call' if calls == 1 else 'calls'} to finish{bound} (again: at once)"


async def stop_children(workload: Workload, stop: Stop, timeout_s: float | None, cause: str) -> None:
    """Stop every instance; at the deadline, or when asked again, without further patience."""
    stopping = asyncio.ensure_future(workload.stop(cause))
    await until(stop, timeout_s, asyncio.shield(stopping))
    if not stopping.done():
        workload.hurry()
    await stopping
