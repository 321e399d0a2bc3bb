"""The store, for a program that must not wait for a disk: one thread does all of its work, in order."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from mooring.store.store import Store

__all__ = ["State"]

T = TypeVar("T")


class State:
    """Owns the store from here on."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="mooring-store")

    def do(self, work: Callable[[Store], T]) -> "asyncio.Future[T]":
        """Have it done after all that was asked for before, whether anybody waits for it or not."""
        return asyncio.get_running_loop().run_in_executor(self._thread, work, self._store)

    async def aclose(self) -> None:
        """After everything that is under way."""
        await self.do(Store.close)
        self._thread.shutdown(wait=True)
