"""Requests of Streamable HTTP: which method, which headers, and who asks. Nothing of what they mean.

Whatever is asked: when the server wants other credentials (401), and there are others, it is asked once more.
What was refused so was not executed.
"""

import logging
from collections.abc import Callable
from typing import NamedTuple, Protocol

from mooring import __version__
from mooring.errors import Unavailable
from mooring.http.client import Client, ClientResponse
from mooring.remote.policy import RemotePolicy
from mooring.wire.http import Headers

__all__ = ["Credentials", "Endpoint", "Standing"]

log = logging.getLogger("mooring.remote")

AGENT = f"mooring/{__version__}".encode()
POSTED: Headers = [
    (b"Accept", b"application/json, text/event-stream"),
    (b"Content-Type", b"application/json"),
]
EVERYWHERE: Headers = [(b"User-Agent", AGENT), (b"Accept-Encoding", b"identity")]
"""Whoever names no coding is content with any (RFC 9110 §12.5.3), and we undo none."""
LISTENING: Headers = [(b"Accept", b"text/event-stream")]


class Credentials(Protocol):
    """Headers that say who asks."""

    @property
    def headers(self) -> Headers:
        """To be sent with every request."""
        ...

    async def ready(self) -> None:
        """Before a request: what is about to expire is renewed. Raises nothing."""
        ...

    async def renew(self, status: int = 401, challenge: bytes | None = None) -> bool:
        """The server did not accept them: are there others by now? `challenge`: what it says it wants."""
        ...


class Standing(NamedTuple):
    """How we stand with the server: the session as it named it, and which one that is, counted from 0."""

    generation: int = 0
    session: bytes | None = None
    version: str | None = None

    @property
    def headers(self) -> Headers:
        """What every message of the session carries."""
        headers: Headers = []
        if self.version is not None:
            headers.append((b"Mcp-Protocol-Version", self.version.encode("ascii", "replace")))
        if self.session is not None:
            headers.append((b"Mcp-Session-Id", self.session))
        return headers


class Endpoint:
    """One URL."""

    def __init__(
        self,
        client: Client,
        target: str,
        credentials: Credentials,
        policy: RemotePolicy,
        *,
        also: Callable[[], Headers] = list,
    ) -> None:
        """`also`: what every request carries beside, and is no part of who asks."""
        self._client = client
        self._target = target
        self._policy = policy
        self._also = also
        self.credentials = credentials
        self.may_speak: Callable[[], bool] | None = None
        """Asked as each message goes out, if others may have the session by now."""

    async def post(
        self, line: bytes, headers: Headers, *, head_timeout_s: float | None = None
    ) -> ClientResponse:
        """Send a message."""
        return await self._request("POST", [*POSTED, *headers], line, head_timeout_s)

    async def get(self, standing: Standing, last_event_id: str) -> ClientResponse:
        """Open a stream, or resume one."""
        headers = [*LISTENING, *standing.headers]
        if last_event_id:
            headers.append((b"Last-Event-ID", last_event_id.encode()))
        return await self._request("GET", headers, b"", self._policy.note_timeout_s)

    async def delete(self, standing: Standing) -> ClientResponse:
        """End the session."""
        return await self._request("DELETE", standing.headers, b"", self._policy.farewell_timeout_s)

    async def _request(
        self, method: str, headers: Headers, body: bytes, head_timeout_s: float | None
    ) -> ClientResponse:
        await self.credentials.ready()
        identity = self.credentials.headers
        response = await self._request_as(identity, method, headers, body, head_timeout_s)
        if response.status not in (401, 403) or not await self._is_renewed(identity, response):
            return response
        response.close()
        log.info("the token has changed; trying again with the new one", extra={"event": "token_renewed"})
        return await self._request_as(self.credentials.headers, method, headers, body, head_timeout_s)

    async def _request_as(
        self, identity: Headers, method: str, headers: Headers, body: bytes, head_timeout_s: float | None
    ) -> ClientResponse:
        return await self._client.request(
            method,
            self._target,
            [*EVERYWHERE, *identity, *self._also(), *headers],
            body,
            head_timeout_s=head_timeout_s,
            check=self._check_lease if method == "POST" and self.may_speak is not None else None,
        )

    def _check_lease(self) -> None:
        if self.may_speak is not None and not self.may_speak():
            raise Unavailable("another replica may have the session by now", code="lease_lost")

    async def _is_renewed(self, refused: Headers, response: ClientResponse) -> bool:
        """Are there other credentials than those that were refused?"""
        if response.status == 401 and self.credentials.headers != refused:
            return True  # another request, which was refused before, has found them
        # Several fields of one name are one, with commas (RFC 9110 §5.3).
        challenges = [value for name, value in response.headers if name == b"www-authenticate"]
        return await self.credentials.renew(response.status, b", ".join(challenges) or None)
