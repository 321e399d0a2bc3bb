"""What meets what."""

from itertools import product
from typing import NamedTuple

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
MODERN = REVISIONS[-1]
TRANSPORTS = ("http", "sse", "ws", "stdio")


class Cell(NamedTuple):
    """A client of one revision at a server of another, on a transport.

    As programs do, both speak the older revisions of their era too, but nothing newer.
    """

    client: str
    server: str
    transport: str

    @property
    def common(self) -> str:
        """The older of the two: what it does not have, cannot work."""
        return min(self.client, self.server)

    @property
    def told(self) -> str:
        """The revision that the client speaks in the end."""
        return MODERN if self.client == MODERN else self.common

    @property
    def served(self) -> str:
        """The revision that the server speaks in the end: its own where Mooring translates."""
        return self.server if MODERN in (self.client, self.server) else self.common

    def __str__(self) -> str:
        return f"{self.client}-client-{self.server}-server-{self.transport}"


def _exists(transport: str, client: str) -> bool:
    """The SSE transport needs a session."""
    return transport != "sse" or client != MODERN


CELLS = [
    Cell(client, server, transport)
    for client, server, transport in product(REVISIONS, REVISIONS, TRANSPORTS)
    if _exists(transport, client)
]


def _covering() -> list[Cell]:
    """One transport for each pair, diagonally: so every client and every server has them all."""
    chosen = []
    for (row, client), (column, server) in product(enumerate(REVISIONS), enumerate(REVISIONS)):
        transport = TRANSPORTS[(row + column) % len(TRANSPORTS)]
        chosen.append(Cell(client, server, transport if _exists(transport, client) else "http"))
    return chosen


COVERING = _covering()
