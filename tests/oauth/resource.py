"""A protected MCP server: 401 with a challenge, metadata about itself, and an answer for a good token."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mooring.http.client import Client
from mooring.http.origin import parse_url
from mooring.oauth.credentials import OAuthCredentials
from tests.oauth.authority import Authority
from tests.raw_server import Asked, RawServer, Wire, answer
from tests.support import within

WELL_KNOWN = "/.well-known/oauth-protected-resource"


class Protected:
    """What it says of itself can be changed by a test; `seen` are the tokens that came."""

    def __init__(self, authority: Authority | None = None) -> None:
        self._authority = authority
        self._server = RawServer(self._answer)
        self.metadata: dict[str, Any] = {}
        self.places = [f"{WELL_KNOWN}/mcp"]
        self.names_place = True
        self.challenge: dict[str, str] = {"scope": "mcp:read"}
        self.words = b"{}"
        """Of a refusal."""
        self.wanted_scope = ""
        self.pages: dict[str, bytes] = {}
        """Whatever else it has, by path: whole answers."""
        self.seen: list[str] = []

    @property
    def url(self) -> str:
        return self._server.url

    @property
    def origin(self) -> str:
        return self.url.removesuffix("/mcp")

    @property
    def requests(self) -> list[Asked]:
        return self._server.requests

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["Protected"]:
        await self._server.open()
        self.metadata = {"resource": self.url, "scopes_supported": ["mcp:read"]}
        if self._authority is not None:
            self.metadata["authorization_servers"] = [self._authority.issuer]
        try:
            yield self
        finally:
            await self._server.close()

    async def _answer(self, asked: Asked, _wire: Wire) -> bytes:
        path = asked.target.partition("?")[0]
        if path in self.pages:
            return self.pages[path]
        if path in self.places:
            return answer(self.metadata)
        if path != "/mcp":
            return answer(b"not here", "404 Not Found", kind="text/plain")
        return await self._call(asked)

    async def _call(self, asked: Asked) -> bytes:
        scheme, _, token = asked.headers.get("authorization", "").partition(" ")
        known = None
        if scheme == "Bearer" and self._authority is not None:
            self.seen.append(token)
            known = await self._authority.control("token", token)
        if known is None or known["audience"] != self.metadata["resource"]:
            return answer(self.words, "401 Unauthorized", WWW_Authenticate=self._challenged(self.challenge))
        if self.wanted_scope and self.wanted_scope not in known["scope"].split():
            challenge = {"error": "insufficient_scope", "scope": self.wanted_scope}
            return answer(self.words, "403 Forbidden", WWW_Authenticate=self._challenged(challenge))
        return answer({"jsonrpc": "2.0", "id": 1, "result": {}})

    def _challenged(self, parameters: dict[str, str]) -> str:
        if self.names_place:
            parameters = {**parameters, "resource_metadata": f"{self.origin}{self.places[0]}"}
        return "Bearer " + ", ".join(f"{name}={json.dumps(value)}" for name, value in parameters.items())


async def call(url: str, credentials: OAuthCredentials) -> int:
    """One request as `remote` makes it: ready, once more if the token was renewed. Its status."""
    origin, target = parse_url(url)
    client = Client(origin)
    try:
        async with within(60):
            for _ in range(2):
                await credentials.ready()
                response = await client.request("POST", target, credentials.headers, b"{}")
                await response.read(1 << 20)
                challenge = response.header(b"www-authenticate")
                if response.status < 400 or not await credentials.renew(response.status, challenge):
                    break
            return response.status
    finally:
        await client.aclose()
