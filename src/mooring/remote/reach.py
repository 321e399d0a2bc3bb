"""Can the server be reached? One task finds out, everybody else waits for it.

It goes on for as long as there is a client. People hear of it once, and when the server is back.
"""

import asyncio
import logging

from mooring.http.client import Client
from mooring.http.client_errors import NotSent, NotTrusted
from mooring.remote.policy import RemotePolicy
from mooring.remote.waits import delays_s

__all__ = ["Reach"]

log = logging.getLogger("mooring.remote")


class Reach:
    """Up until somebody could not send; then down until a connection can be made."""

    def __init__(self, client: Client, url: str, policy: RemotePolicy) -> None:
        self._client = client
        self._url = url
        self._policy = policy
        self._up = asyncio.Event()
        self._up.set()
        self._probe: asyncio.Task[None] | None = None

    @property
    def is_up(self) -> bool:
        """As far as anybody knows."""
        return self._up.is_set()

    async def wait(self) -> None:
        """Until it is worth trying."""
        await self._up.wait()

    def lost(self, why: NotSent) -> None:
        """Somebody could not send."""
        if self._probe is None:
            log.warning(
                "cannot reach %s (%s); waiting for it",
                self._url,
                why.message,
                extra={"event": "unreachable", "url": self._url},
            )
            self._up.clear()
            self._probe = asyncio.create_task(self._find(), name="reach")

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
            except NotTrusted:
                break  # somebody answers: what is wrong is told to whoever asks next
            except NotSent as error:
                log.debug("still not there: %s", error.message)
                continue
            log.info("%s can be reached", self._url, extra={"event": "reachable", "url": self._url})
            break
        self._probe = None
        self._up.set()
