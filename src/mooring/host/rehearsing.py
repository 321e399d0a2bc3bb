"""Is a connection let in that the daemon is to hold? Asked before it takes the place of one that works."""

import asyncio
from contextlib import suppress
from dataclasses import replace

from mooring.errors import UserError
from mooring.host.connecting import ConnectOptions
from mooring.relay.agent import Agent

__all__ = ["REHEARSAL_S", "rehearse"]

REHEARSAL_S = 10.0
"""Somebody waits. A relay that takes longer has said nothing against it."""


def rehearse(options: ConnectOptions) -> None:
    """Dial once, and leave without a word. Raises MooringError for a no; a relay that cannot be asked now
    says none."""
    asyncio.run(_rehearse(options))


async def _rehearse(options: ConnectOptions) -> None:
    # Whose name is held has shown a good token: mostly the daemon itself holds it.
    agent = Agent(options.target, replace(options.policy, max_conflicts=1, conflicts_s=0.0))
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(REHEARSAL_S):
                await agent.knock()
    except UserError as error:
        if error.code != "name_held":
            raise
    finally:
        await agent.aclose()
