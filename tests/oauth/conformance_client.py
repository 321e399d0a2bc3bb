"""A small MCP client that logs in by itself, for the conformance suite: `python -m … STATE URL`.

What it does follows from the answers: log in when that is needed, log in again when more scopes are wanted,
and no more than a few times.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from mooring.errors import MooringError
from mooring.http.client import Client
from mooring.http.origin import parse_url
from mooring.oauth.credentials import OAuthCredentials
from mooring.oauth.login import ClientGiven, login
from mooring.wire.http import Headers
from mooring.wire.modern import CAPABILITIES_KEY, CLIENT_KEY, VERSION_KEY
from mooring.wire.revisions import MODERN
from tests.oauth.browser import Browser

DOCUMENT = "https://conformance-test.local/client-metadata.json"
MOST_LOGINS = 3
REVISION = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION") or "2025-11-25"
US = {"name": "mooring", "version": "1"}
POSTED: Headers = [
    (b"Accept", b"application/json, text/event-stream"),
    (b"Content-Type", b"application/json"),
]


class Visitor:
    def __init__(self, url: str, state: Path, given: ClientGiven) -> None:
        self._url = url
        self._state = state
        self._given = given
        self._credentials = OAuthCredentials(url, state, name="server")
        self._session: Headers = []
        self._logins = 0

    async def ask(self, method: str, params: dict[str, Any], number: int | None = None) -> dict[str, Any]:
        headers: Headers = []
        if REVISION == MODERN:
            params = {**params, "_meta": {VERSION_KEY: MODERN, CLIENT_KEY: US, CAPABILITIES_KEY: {}}}
            headers = [(b"Mcp-Protocol-Version", MODERN.encode()), (b"Mcp-Method", method.encode())]
            headers += [(b"Mcp-Name", params["name"].encode())] if "name" in params else []
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        body = json.dumps(message if number is None else {**message, "id": number}).encode()
        while True:
            status, text, challenge = await self._post(body, headers)
            if status < 400:
                return _message(text)
            if await self._credentials.renew(status, challenge):
                continue
            if status not in (401, 403) or self._logins >= MOST_LOGINS:
                raise SystemExit(f"{method}: HTTP {status}")
            await self._log_in()

    async def _post(self, body: bytes, more: Headers) -> tuple[int, bytes, bytes | None]:
        await self._credentials.ready()
        origin, target = parse_url(self._url)
        client = Client(origin)
        try:
            headers = [*POSTED, *self._credentials.headers, *self._session, *more]
            response = await client.request("POST", target, headers, body, head_timeout_s=10)
            text = await response.read(1 << 20)
        finally:
            await client.aclose()
        if (session := response.header(b"mcp-session-id")) is not None:
            self._session = [(b"Mcp-Session-Id", session)]
        return response.status, text, response.header(b"www-authenticate")

    async def _log_in(self) -> None:
        self._logins += 1
        opening: list[asyncio.Task[Any]] = []
        try:
            await login(
                self._url,
                self._state,
                show=lambda address: opening.append(asyncio.create_task(Browser().open(address))),
                client=self._given,
                timeout_s=10,
            )
        finally:
            await asyncio.gather(*opening, return_exceptions=True)


def _message(text: bytes) -> dict[str, Any]:
    for line in text.splitlines():
        if line.startswith(b"data:"):
            return dict(json.loads(line[5:]))
    return dict(json.loads(text)) if text.strip() else {}


async def main(state: str, url: str) -> None:
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    given = ClientGiven(context.get("client_id"), context.get("client_secret"), DOCUMENT)
    visitor = Visitor(url, Path(state), given)
    if REVISION != MODERN:
        await visitor.ask(
            "initialize", {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": US}, 1
        )
        await visitor.ask("notifications/initialized", {})
    tools = (await visitor.ask("tools/list", {}, 2)).get("result", {}).get("tools", [])
    for number, tool in enumerate(tools, 3):
        await visitor.ask("tools/call", {"name": tool["name"], "arguments": {}}, number)


if __name__ == "__main__":
    try:
        asyncio.run(main(*sys.argv[1:]))
    except MooringError as error:
        sys.exit(f"{error.code}: {error.message}")
