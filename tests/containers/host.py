"""A Mooring to be killed: `python -m tests.containers.host SOCKET OWNER LIFE` starts containers and stays."""

import asyncio
import sys
from pathlib import Path

from mooring.runtimes.containers.labels import Owner
from mooring.runtimes.containers.lives import this_process
from tests.containers.crew import Heard, running, shell

SCRIPTS = ("echo ready; exec cat", "trap '' TERM; echo ready; while :; do sleep 0.05; done")
"""One that heeds the end of its input, and one that heeds nothing."""


async def main(socket: str, owner: str, life: str) -> None:
    async with running(Path(socket), owner=Owner(owner, life, this_process())) as runtime:
        for script in SCRIPTS:
            instance = await runtime.start(shell(script))
            heard = Heard()
            instance.attach(heard)
            await heard.line(0)
            print(instance.id, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
