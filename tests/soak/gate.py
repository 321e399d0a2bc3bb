"""Keeping apart what must not meet: many may be inside at once, but nobody while it is closed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

__all__ = ["Gate"]


class Gate:
    """Open, until somebody closes it for a while."""

    def __init__(self) -> None:
        self._inside = 0
        self._open = asyncio.Event()
        self._empty = asyncio.Event()
        self._open.set()
        self._empty.set()

    @asynccontextmanager
    async def inside(self) -> AsyncIterator[None]:
        """Enter, when it is open."""
        await self._open.wait()
        self._inside += 1
        self._empty.clear()
        try:
            yield
        finally:
            self._inside -= 1
            if not self._inside:
                self._empty.set()

    @asynccontextmanager
    async def closed(self) -> AsyncIterator[None]:
        """Let nobody in, and wait until nobody is inside."""
        self._open.clear()
        try:
            await self._empty.wait()
            yield
        finally:
            self._open.set()
