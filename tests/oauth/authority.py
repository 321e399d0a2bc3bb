"""The real oidc-provider, as `oidc_provider.mjs` starts it."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from mooring.http.client import Client
from mooring.http.origin import parse_url
from tests import parts
from tests.e2e.program import Json, Program
from tests.support import within

SCRIPT = Path(__file__).with_name("oidc_provider.mjs")


class Authority:
    """`issuer`, and what it has seen."""

    def __init__(self, program: Program, issuer: str) -> None:
        self._program = program
        self.issuer = issuer
        self.origin = "/".join(issuer.split("/")[:3])

    def events(self, event: str, **fields: Any) -> list[Json]:
        return [message for message in self._program.messages if _fits(message, event, fields)]

    async def event(self, event: str, **fields: Any) -> Json:
        """The first, when it has come."""
        async with within():
            return await self._program.message(lambda message: _fits(message, event, fields))

    async def control(self, what: str, value: str) -> Any:
        """`token` and `refresh` look at one, `revoke` takes one away, `forget` forgets a client."""
        origin, target = parse_url(f"{self.origin}/control/{what}?{urlencode({'value': value})}")
        client = Client(origin)
        try:
            async with within():
                response = await client.request("GET", target, [])
                return json.loads(await response.read(1 << 20))
        finally:
            await client.aclose()

    async def refreshes(self) -> int:
        """How often tokens were refreshed; every earlier event has been heard."""
        marker = f"/marker/{len(self._program.messages)}"
        origin, target = parse_url(f"{self.issuer}{marker}")
        client = Client(origin)
        try:
            async with within():
                await (await client.request("GET", target, [])).read(1 << 20)
                await self._program.message(lambda message: str(message.get("path", "")).endswith(marker))
        finally:
            await client.aclose()
        return len(self.events("granted", by="refresh_token"))


def _fits(message: Json, event: str, fields: Json) -> bool:
    return message["event"] == event and all(message.get(key) == value for key, value in fields.items())


@asynccontextmanager
async def running_authority(**options: Any) -> AsyncIterator[Authority]:
    parts.require("oauth-servers", "node")
    argv: list[str | Path] = [parts.node(), SCRIPT, parts.node_modules("oauth-servers")]
    argv.append(json.dumps(options))
    async with Program(argv, environment=parts.node_environment()) as program:
        async with within(60):
            listening = await program.message(lambda message: message["event"] == "listening")
        yield Authority(program, listening["issuer"])
