"""Run one input on an event loop, and let no failure in it pass: not in a callback, not in a log."""

import asyncio
import atexit
import logging
from collections.abc import Coroutine
from typing import Any

__all__ = ["run"]

_loop = asyncio.new_event_loop()
"""One for all inputs: making one takes longer than most of them."""
atexit.register(_loop.close)


class _Failures(logging.Handler):
    """Errors that were caught and logged, as a promise to go on; here they end the input."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[Any] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(record.exc_info or record.getMessage())


def run(scene: Coroutine[Any, Any, None]) -> None:
    """Play one input to its end."""
    failures = _Failures()
    logger = logging.getLogger("mooring")
    logger.addHandler(failures)
    _loop.set_exception_handler(lambda _, context: failures.found.append(context))
    try:
        _loop.run_until_complete(scene)
    finally:
        logger.removeHandler(failures)
    assert not failures.found, failures.found
