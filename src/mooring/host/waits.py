"""Waiting for one of several things."""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

from mooring.host.stop import Stop

__all__ = ["first_of", "unless_stopped", "until"]

T = TypeVar("T")


async def first_of(*events: Coroutine[None, None, object]) -> None:
    """Until one of them has happened."""
    tasks = [asyncio.ensure_future(event) for event in events]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def unless_stopped(stop: Stop, work: Coroutine[None, None, T]) -> T | None:
    """What it comes to; None: somebody asked to end before, and it was given up."""
    task = asyncio.ensure_future(work)
    stopping = asyncio.ensure_future(stop.wait_requested())
    try:
        await asyncio.wait([task, stopping], return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        for each in (task, stopping):
            each.cancel()
        await asyncio.gather(task, stopping, return_exceptions=True)


async def until(stop: Stop | None, timeout_s: float | None, *events: Awaitable[None]) -> None:
    """Until all have happened, the time is over, or somebody asked a second time."""
    waits: list[asyncio.Future[Any]] = [asyncio.gather(*events)]
    if stop is not None:
        waits.append(asyncio.ensure_future(stop.wait_forced()))
    try:
        await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
