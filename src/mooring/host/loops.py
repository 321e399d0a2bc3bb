"""How a long-running command runs: on the fastest event loop there is, until it is told to stop."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext

from mooring.host.allocator import giving_back_at_rest, keep_freed_memory
from mooring.host.signals import signals_to
from mooring.host.stop import Stop
from mooring.runtimes.descriptors import DESCRIPTORS

__all__ = ["loop_factory", "run_with_signals"]


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where there is one; None stands for asyncio's own."""
    try:
        import uvloop  # noqa: PLC0415 - not everywhere: plain asyncio does it too, at half the speed
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def run_with_signals(run: Callable[[Stop], Awaitable[int]], *, keeps_memory: bool = False) -> int:
    """Run with signals connected; returns the exit status. `keeps_memory`: many messages come and go.

    With as many descriptors as the system allows: every session and every connection takes some.
    """

    async def with_signals() -> int:
        stop = Stop(time.monotonic)
        with signals_to(stop), giving_back_at_rest() if keeps_memory else nullcontext():
            return await run(stop)

    if keeps_memory:
        keep_freed_memory()

    with DESCRIPTORS.raised(), asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(with_signals())
