"""The agent that answers by itself: `python -m bench.relay_peer.agent WAY PORT [TOKEN]`.

It says `connected` when it is, and ends with the relay.
"""

import asyncio
import sys

import uvloop

from bench.relay_peer.ways import PATIENCE_S, answering


async def main(way: str, port: int, token: str = "") -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                socket = await answering(way, port, token)
                break
            except ConnectionError:  # the relay does not listen yet
                await asyncio.sleep(0.05)
    print("connected", flush=True)
    await socket.lost


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:]))
