"""The fastest event loop there is."""

import asyncio
from collections.abc import Callable

__all__ = ["loop_factory"]


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where there is one; None stands for asyncio's own."""
    try:
        import uvloop  # noqa: PLC0415 - not everywhere: plain asyncio does it too, at half the speed
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
