"""Looks that may hang (a keyring that waits for its user, a disk that is gone), each in a thread of its own.

Not one of an executor: those are few, and waited for at exit.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from mooring.errors import Unavailable

__all__ = ["in_thread"]

T = TypeVar("T")


def in_thread(work: Callable[[], T], name: str) -> "asyncio.Future[T]":
    """What comes of it; who stops waiting must not cancel it. Raises Unavailable if there is no thread."""
    loop = asyncio.get_running_loop()
    found: asyncio.Future[T] = loop.create_future()

    def end(result: T | None, error: BaseException | None) -> None:
        if found.cancelled():
            return
        if error is not None:
            found.set_exception(error)
        else:
            found.set_result(result)  # type: ignore[arg-type]

    def look() -> None:
        result: T | None = None
        problem: BaseException | None = None
        try:
            result = work()
        except BaseException as error:
            problem = error
        with suppress(RuntimeError):  # the loop is closed: nobody is left to be told
            loop.call_soon_threadsafe(end, result, problem)

    try:
        threading.Thread(target=look, name=name, daemon=True).start()
    except RuntimeError:
        raise Unavailable(
            f"the system has no thread left for {name}",
            code="no_resources",
            hint="raise the limit of processes: ulimit -u (systemd: TasksMax=)",
        ) from None
    found.add_done_callback(_look_at)
    return found


def _look_at(found: "asyncio.Future[T]") -> None:
    """Nobody may wait any more for what went wrong."""
    if not found.cancelled():
        found.exception()
