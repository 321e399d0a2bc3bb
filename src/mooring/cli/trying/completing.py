"""A shell completes the names of tools, prompts and resources: the server is asked, within a patience."""

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any

from mooring.api.client import ApiClient
from mooring.cli.trying.errands import PROMPTS, RESOURCES, TOOLS, names_of, running_url
from mooring.cli.who import identity
from mooring.errors import MooringError
from mooring.host import visiting
from mooring.host.places import find_places
from mooring.host.stop import SECOND_AFTER_S, Stop
from mooring.host.visiting import VisitOptions
from mooring.remote.visitor import Json, Visitor

__all__ = ["names"]

PATIENCE_S = 2.0
"""For a server to say what it has; it may have to start first, and whoever pressed Tab waits."""
ENDED = "SIGALRM"
KINDS = {kind.plural: kind for kind in (TOOLS, RESOURCES, PROMPTS)}


class Nobody:
    """Completion is silent, and nobody can be asked."""

    def progressed(self, _note: Json) -> None:
        """Nobody looks."""

    def logged(self, _note: Json) -> None:
        """Nobody looks."""

    def answers(self, _method: str) -> Callable[[Json], Awaitable[Json]] | None:
        """Nobody does."""
        return None


def names(given: dict[str, Any], what: str) -> list[tuple[str, str]]:
    """Names and what is said of them, of the server on the command line; none if it does not tell in time."""
    logging.disable()
    found: list[tuple[str, str]] = []

    async def errand(visitor: Visitor) -> int:
        if visitor.offers(what):
            found.extend(await names_of(visitor, KINDS[what], PATIENCE_S))
        return 0

    async def visit(options: VisitOptions) -> None:
        stop = Stop(time.monotonic)
        loop = asyncio.get_running_loop()
        loop.call_later(PATIENCE_S, stop.request, ENDED)
        loop.call_later(PATIENCE_S + SECOND_AFTER_S, stop.request, ENDED)
        await visiting.run(options, Nobody(), errand, stop)

    try:
        url = _url_of(given["server"])
        asyncio.run(visit(VisitOptions(url=url, open_timeout_s=PATIENCE_S, **identity(given))))
    except (MooringError, OSError, KeyError):
        return []
    return found


def _url_of(server: str) -> str:
    """No daemon is started for a completion, and one that does not answer is not waited for."""
    if ":" in server:
        return server
    client = ApiClient(find_places(os.environ).socket)
    return running_url(client.ask("GET", f"/servers/{server}", timeout_s=PATIENCE_S))
