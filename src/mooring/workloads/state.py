"""The store, for a program that must not wait for a disk: one thread does all of its work, in order.

Whoever finds that another has taken over the store is told once, and should end: it may write no more.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from mooring.store.store import Fenced, Store

__all__ = ["State"]

T = TypeVar("T")


class State:
    """Owns the store from here on."""

    def __init__(self, store: Store, on_fenced: Callable[[], None] = lambda: None) -> None:
        self._store = store
        self._on_fenced = on_fenced
        self._is_fenced = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="mooring-store")

    async def do(self, work: Callable[[Store], T]) -> T:
        """Have it done after all that was asked for before; a cancelled wait does not undo it."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work, self._store)
        except Fenced:
            if not self._is_fenced:
                self._is_fenced = True
                self._on_fenced()
            raise

    async def aclose(self) -> None:
        """After everything that is under way."""
        await self.do(Store.close)
        self._thread.shutdown(wait=True)
