"""Can the server be reached? One task finds out, everybody else waits for it, as long as they may.

It goes on for as long as there is a client. People hear of it once, and when the server is back.
"""

import asyncio
import logging
from collections.abc import Callable

from mooring.http.client import Client
from mooring.http.client_errors import NoPlace, NotSent, NotTrusted
from mooring.remote.policy import RemotePolicy
from mooring.remote.waits import delays_s

__all__ = ["Reach", "Unreachable"]

log = logging.getLogger("mooring.remote")


class Unreachable(NotSent):
    """It was waited for as long as somebody may wait, and nothing was sent."""


class Reach:
    """Up until somebody could not send; then down until a connection can be made."""

    def __init__(
        self,
        client: Client,
        url: str,
        policy: RemotePolicy,
        on_change: Callable[[NotSent | None], None] = lambda why: None,
        *,
        is_told: bool = True,
    ) -> None:
        """`on_change`: it cannot be reached any more, for this reason; or (None) can be again.

        `is_told`: people hear of it; not if somebody else tells them why.
        """
        self._client = client
        self._url = url
        self._policy = policy
        self._on_change = on_change
        self._levels = (logging.WARNING, logging.INFO) if is_told else (logging.DEBUG, logging.DEBUG)
        self._why = NotSent("it was never tried")
        self._up = asyncio.Event()
        self._up.set()
        self._probe: asyncio.Task[None] | None = None

    @property
    def is_up(self) -> bool:
        """As far as anybody knows."""
        return self._up.is_set()

    @property
    def why(self) -> NotSent:
        """It could not be reached when it was last tried."""
        return self._why

    async def wait(self, *, for_ever: bool = False) -> None:
        """Until it is worth trying. Raises Unreachable when patience is at its end."""
        if self._up.is_set():
            return
        try:
            async with asyncio.timeout(None if for_ever else self._policy.patience_s):
                await self._up.wait()
        except TimeoutError:
            why = self._why
            text = f"{self._url} cannot be reached: {why.message}"
            raise Unreachable(text, code=why.code, hint=why.hint) from why

    def lost(self, why: NotSent) -> None:
        """Somebody could not send."""
        self._why = why
        if self._probe is None:
            log.log(
                self._levels[0],
                "cannot reach %s (%s); waiting for it",
                self._url,
                why.message,
                extra={"event": "unreachable", "url": self._url},
            )
            self._up.clear()
            self._probe = asyncio.create_task(self._find(), name="reach")
            self._on_change(why)

    async def aclose(self) -> None:
        """Stop trying."""
        probe, self._probe = self._probe, None
        if probe is not None:
            probe.cancel()
            await asyncio.gather(probe, return_exceptions=True)

    async def _find(self) -> None:
        for delay_s in delays_s(self._policy):
            await asyncio.sleep(delay_s)
            try:
                await self._client.connect()
            except NotSent as error:
                log.debug("still not there: %s", error.message)
                if not isinstance(error, NoPlace):
                    self._why = error
                if isinstance(error, NotTrusted) and self._policy.patience_s is None:
                    break  # somebody answers: who would wait for ever is told what is wrong
                continue
            about = {"event": "reachable", "url": self._url}
            log.log(self._levels[1], "%s can be reached", self._url, extra=about)
            break
        self._probe = None
        self._up.set()
        self._on_change(None)
