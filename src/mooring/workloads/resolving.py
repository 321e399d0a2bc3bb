"""The references of a server followed while others are served: in a thread, for a bounded time.

Each start of an instance looks anew, so that a value that was changed is the next one's. A look that hangs
(a keyring that waits for its user, a disk that is gone) costs its own server only: there is one at a time for
each name, and who waits too long is told.
"""

import asyncio
from pathlib import Path
from weakref import WeakValueDictionary

from mooring.errors import MooringError, UserError
from mooring.secrets.resolving import NOTHING, Resolved, Resolver
from mooring.secrets.threads import in_thread
from mooring.workloads.definition import ServerOptions

__all__ = ["Resolving"]

RESOLVE_S = 10.0
"""For all references of a server."""


class Resolving:
    """For all servers of one Mooring. `Resolver` says what is raised."""

    def __init__(self, resolver: Resolver, logins: Path | None = None) -> None:
        """`logins`: the state directory, where those are kept that servers elsewhere ask for."""
        self._resolver = resolver
        self.logins = logins
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def resolve(self, options: ServerOptions) -> Resolved:
        """What its references lead to now. Raises UserError that names the first that leads nowhere."""
        if not options.elsewhere:
            return NOTHING
        turn = self._turns.setdefault(options.name, asyncio.Lock())
        try:
            async with asyncio.timeout(RESOLVE_S):
                await turn.acquire()
                return await self._begin(options, turn)
        except TimeoutError:
            what = ", ".join(map(str, options.references))
            raise UserError(
                f"{options.name}: {what} could not be read within {RESOLVE_S:g} s",
                code="references_slow",
                hint="unlock the keyring, or see whether the disk of the file answers",
            ) from None

    async def _begin(self, options: ServerOptions, turn: asyncio.Lock) -> Resolved:
        """A look, which keeps the turn until it is over, whether anybody still waits for it or not."""

        def look() -> Resolved:
            try:
                return self._resolver.resolve(options.elsewhere)
            except MooringError as error:
                raise UserError(
                    f"{options.name}: {error.message}", code=error.code, hint=error.hint
                ) from None

        try:
            looking = in_thread(look, f"the references of {options.name}")
        except BaseException:
            turn.release()
            raise
        looking.add_done_callback(lambda _: turn.release())
        return await asyncio.shield(looking)
