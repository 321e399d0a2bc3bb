"""The way from an agent to the servers of the daemon on the same machine."""

import asyncio
from collections.abc import Collection

from mooring.api.client import ApiClient
from mooring.errors import MooringError
from mooring.host.places import Places
from mooring.host.relayed import agent_headers, proof_of
from mooring.http.client import Client
from mooring.http.client_errors import NotSent
from mooring.http.client_limits import ClientLimits
from mooring.http.origin import Origin
from mooring.wire.http import Headers

__all__ = ["DaemonDoor"]

ASK_S = 5.0
"""For the daemon to say where its port is."""


class DaemonDoor:
    """Finds the daemon's port, and again when it is not there any more: a new daemon may have another."""

    def __init__(self, places: Places, servers: Collection[str], max_streams: int) -> None:
        self._places = places
        self._servers = frozenset(servers)
        self._limits = ClientLimits(max_connections=max_streams, max_idle_connections=64)
        self._clients: dict[int, Client] = {}
        self._client: Client | None = None
        self._proof = ""
        self._looking = asyncio.Lock()

    async def client(self) -> Client:
        """See `Door`."""
        if self._client is None:
            async with self._looking:
                if self._client is None:
                    await self._look()
        assert self._client is not None  # noqa: S101 - or it would have raised
        return self._client

    def doubt(self) -> None:
        """See `Door`."""
        self._client = None

    def headers(self, caller: str, prefix: str) -> Headers:
        """See `Door`."""
        return agent_headers(caller, prefix, self._proof)

    def is_offered(self, server: str) -> bool:
        """See `Door`."""
        return server in self._servers

    async def aclose(self) -> None:
        """Leave no connection."""
        for client in self._clients.values():
            await client.aclose()

    async def _look(self) -> None:
        try:
            port = await asyncio.to_thread(self._ask)
        except (MooringError, OSError) as error:
            text = error.message if isinstance(error, MooringError) else str(error)
            raise NotSent(f"Mooring's daemon does not answer: {text}", code="no_daemon") from None
        if port not in self._clients:
            self._clients[port] = Client(Origin(host="127.0.0.1", port=port), self._limits)
        self._client = self._clients[port]

    def _ask(self) -> int:
        port: int = ApiClient(self._places.socket).ask("GET", "/daemon", timeout_s=ASK_S)["port"]
        self._proof = proof_of(self._places.token.read_text(encoding="ascii").strip())
        return port
