"""A process that hosts a runtime with children, to be killed.

    python runtime_host.py COMMANDS [ROLL [between]]

COMMANDS is JSON, ROLL the directory of its roll. It tells of each child by a line, and passes on what they
say. With `between` it kills its guardian and itself right after the start of the first child.
"""

import asyncio
import json
import os
import secrets
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

import uvloop

from mooring.runtimes import ProcessRuntime, ProcessSpec
from mooring.runtimes.exits import Exit
from mooring.runtimes.household import Household
from mooring.runtimes.proctable import Session
from mooring.runtimes.roll import Roll, boot_id
from mooring.wire.lines import LongLine

OWNER = secrets.token_hex(4)


class Teller:
    """Passes on what a child says."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def on_line(self, line: bytes) -> None:
        print(line.decode(), flush=True)

    def on_long_line(self, line: LongLine) -> None: ...

    def on_writable(self) -> None: ...

    def on_gone(self, exit: Exit) -> None:
        print("gone", self.pid, flush=True)


class ShortLived(Household):
    """Does not live to take anybody in."""

    def take_in(self, session: Session) -> NoReturn:
        print("child", session.leader, flush=True)
        assert self.guardian.pid is not None
        os.kill(self.guardian.pid, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("unreachable")


async def main(commands: list[list[str]], roll: Path | None = None, *, between: bool = False) -> None:
    kind = ShortLived if between else Household
    household = kind(time.monotonic, owner=OWNER, roll=Roll(roll, boot_id()) if roll is not None else None)
    runtime = ProcessRuntime(on_stderr=lambda pid, text: None, household=household)
    for argv in commands:
        instance = await runtime.start(ProcessSpec(name="x", argv=tuple(argv)))
        print("child", instance.pid, flush=True)
        instance.attach(Teller(instance.pid))
    print("guardian", runtime.guardian_pid, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(json.loads(sys.argv[1]), *map(Path, sys.argv[2:3]), between="between" in sys.argv[3:]))
