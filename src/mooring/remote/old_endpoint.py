"""Requests of the HTTP+SSE transport of 2024-11-05: a stream where the server is, messages where it says."""

from mooring.errors import RemoteProtocolError
from mooring.http.client import ClientResponse
from mooring.http.client_errors import NotSent
from mooring.remote.endpoint import Endpoint
from mooring.wire.http import Headers

__all__ = ["OldEndpoint"]

MAX_SHOWN = 200
"""Characters of an address that is not used, for people."""


class OldEndpoint(Endpoint):
    """One URL, for one conversation."""

    _mailbox: Endpoint | None = None

    def move(self, reference: str) -> None:
        """The server says where messages go. Raises RemoteProtocolError if that is not its own to say."""
        target = self._client.origin.resolve(reference, self._target)
        if target is None:
            shown = "".join(c for c in reference if c.isprintable())[:MAX_SHOWN]
            text = f"the server wants messages to be sent to {shown!r}, which is not a place of its own"
            raise RemoteProtocolError(text, code="foreign_endpoint")
        self._mailbox = Endpoint(self._client, target, self.credentials, self._policy, also=self._also)

    async def post(
        self, line: bytes, headers: Headers, *, head_timeout_s: float | None = None
    ) -> ClientResponse:
        """Send a message. No header of this transport says to which session: its address does."""
        if self._mailbox is None:
            raise NotSent("the server has not said where messages go", code="no_stream")
        self._mailbox.may_speak = self.may_speak
        return await self._mailbox.post(line, [], head_timeout_s=head_timeout_s)
