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

    def do(self, work: Callable[[Store], T]) -> "asyncio.Future[T]":
        """Have it done after all that was asked for before, whether anybody waits for it or not."""
        done = asyncio.get_running_loop().run_in_executor(self._thread, work, self._store)
        done.add_done_callback(self._notice_fence)
        return done

    def expect_fence(self, expected: bool) -> None:
        """Another is about to take over, as it should: nobody need be told. Or not, after all."""
        self._is_fenced = expected

    def _notice_fence(self, done: "asyncio.Future[T]") -> None:
        if not done.cancelled() and isinstance(done.exception(), Fenced) and not self._is_fenced:
            self._is_fenced = True
            self._on_fenced()

    async def aclose(self) -> None:
        """After everything that is under way."""
        await self.do(Store.close)
        self._thread.shutdown(wait=True)
