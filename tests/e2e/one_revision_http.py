"""The fixture over HTTP, of one revision only: `python one_revision_http.py REVISION`, in the part sdk-2.

What `one_revision.py` is to a server on stdio: the SDK's own transport, behind a filter that takes an era
from it.
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import fixture_server  # type: ignore[import-not-found]
from mcp.server.lowlevel import NotificationOptions
from one_revision import MODERN, refuse  # type: ignore[import-not-found]

Send = Callable[[Any], Awaitable[None]]
Receive = Callable[[], Awaitable[Any]]


class OneRevision:
    """An app around the real one."""

    def __init__(self, app: Any, revision: str) -> None:
        self._app = app
        self._revision = revision

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif scope["method"] == "POST":
            await self._post(scope, receive, send)
        elif self._revision == MODERN:
            await _respond(send, 405)
        else:
            await self._app(scope, receive, send)

    async def _post(self, scope: Any, receive: Receive, send: Send) -> None:
        message = json.loads(await _body(receive))
        refusal = refuse(message, self._revision)
        if refusal is not None:
            await _respond(send, 400, {"jsonrpc": "2.0", "id": message.get("id"), "error": refusal})
            return
        if message.get("method") == "initialize":
            message["params"]["protocolVersion"] = self._revision
        body = json.dumps(message).encode()
        headers = [(name, value) for name, value in scope["headers"] if name != b"content-length"]
        scope = {**scope, "headers": [*headers, (b"content-length", b"%d" % len(body))]}
        told = False

        async def receive_again() -> Any:
            nonlocal told
            if told:
                return await receive()
            told = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, receive_again, send)


async def _body(receive: Receive) -> bytes:
    body = b""
    while True:
        event = await receive()
        body += bytes(event.get("body", b""))
        if not event.get("more_body"):
            return body


async def _respond(send: Send, status: int, message: Any = None) -> None:
    headers = [(b"content-type", b"application/json")] if message is not None else []
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send(
        {"type": "http.response.body", "body": b"" if message is None else json.dumps(message).encode()}
    )


class Restricted:
    """A server whose app is that of `OneRevision`; it says that its lists change, as it does on stdio."""

    def __init__(self, server: Any, revision: str) -> None:
        self._server = server
        self._revision = revision
        says_so = NotificationOptions(True, True, True)
        server.create_initialization_options = partial(server.create_initialization_options, says_so)

    def streamable_http_app(self, **options: Any) -> OneRevision:
        return OneRevision(self._server.streamable_http_app(**options), self._revision)


if __name__ == "__main__":
    asyncio.run(fixture_server.serve_http(Restricted(fixture_server.build(), sys.argv[1]), 0))
