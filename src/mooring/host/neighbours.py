"""A port that the daemon wants and somebody else has: who that is, and what to do."""

import asyncio

from mooring.api.level import LASTING_PREFIX
from mooring.errors import ListenFailed

__all__ = ["advice", "explained"]

PATIENCE_S = 1.0
"""For whoever has the port to say who it is."""
MAX_ANSWER_BYTES = 4096
QUESTION = f"GET {LASTING_PREFIX}/daemon HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


async def explained(error: ListenFailed, host: str, port: int) -> ListenFailed:
    """The error as it is to be told by a daemon, which has no option for its port."""
    if error.code != "port_taken":
        return error
    message = error.message
    if await _is_mooring(host, port):
        message += ": another Mooring, of another user or with another MOORING_STATE_DIR"
    return ListenFailed(message, code=error.code, hint=advice(port))


def advice(port: int) -> str:
    """What to do if somebody else has it."""
    return f"end that program, or choose another port: MOORING_PORT={port + 1 if port < 65535 else 4671}"


async def _is_mooring(host: str, port: int) -> bool:
    """Does the API of a daemon answer there? It asks strangers for a token, in its own name."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(QUESTION.encode())
                return b'realm="mooring"' in await reader.read(MAX_ANSWER_BYTES)
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return False
