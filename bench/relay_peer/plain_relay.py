"""A relay as anybody would write it with `websockets`: `python -m bench.relay_peer.plain_relay PORT`.

One agent at `/server`, any number of clients at `/client`. What a client says goes to the agent in an
envelope of JSON that says whose it is; what the agent says in such an envelope goes to that client. No
tokens, no names, no flow control, and nothing survives a lost connection. On the same loop as Mooring's.
"""

import json
import sys
from contextlib import suppress
from itertools import count

import uvloop
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed


class Relay:
    """Who is there, and who is told what."""

    def __init__(self) -> None:
        self._agent: ServerConnection | None = None
        self._clients: dict[str, ServerConnection] = {}
        self._ids = count(1)

    async def serve(self, connection: ServerConnection) -> None:
        assert connection.request is not None
        if connection.request.path == "/server":
            await self._serve_agent(connection)
        else:
            await self._serve_client(connection)

    async def _serve_agent(self, connection: ServerConnection) -> None:
        self._agent = connection
        async for message in connection:
            envelope = json.loads(message)
            client = self._clients.get(envelope["id"])
            if client is not None:
                with suppress(ConnectionClosed):  # its own handler sees that too
                    await client.send(envelope["data"])

    async def _serve_client(self, connection: ServerConnection) -> None:
        id = str(next(self._ids))
        self._clients[id] = connection
        try:
            async for message in connection:
                if self._agent is None:
                    await connection.close(1013, "the agent is not there")
                    return
                await self._agent.send(json.dumps({"id": id, "data": message}))
        finally:
            del self._clients[id]


async def main(port: int) -> None:
    async with serve(Relay().serve, "127.0.0.1", port) as server:
        await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
