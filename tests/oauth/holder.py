"""A process of its own that has the same login: `python -m tests.oauth.holder URL STATE LATER_S CALLS`.

Its clock is that many seconds ahead. It says "ready", waits for a line, makes that many calls at once, and
says which statuses they got.
"""

import asyncio
import json
import sys
import time
from pathlib import Path

from mooring.oauth.credentials import OAuthCredentials
from tests.oauth.resource import call


async def main(url: str, state: str, later_s: str, calls: str) -> None:
    credentials = OAuthCredentials(url, Path(state), name="mine", wall=lambda: time.time() + float(later_s))
    print(json.dumps({"event": "ready"}), flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    statuses = await asyncio.gather(*(call(url, credentials) for _ in range(int(calls))))
    await credentials.aclose()
    print(json.dumps({"event": "done", "statuses": statuses}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
