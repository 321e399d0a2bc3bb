"""What the tests of `mooring.runtimes` share; holds no tests itself."""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mooring.runtimes import Exit, ProcessInstance, ProcessRuntime, ProcessSpec, StopPatience
from mooring.wire.lines import LongLine
from tests.support import until

NAUGHTY = Path(__file__).with_name("naughty_child.py")
FAST = StopPatience(eof_grace_s=0.05, stop_grace_s=0.1)
PATIENT = StopPatience(eof_grace_s=30, stop_grace_s=30)


def naughty(*words: str, env: dict[str, str] | None = None, cwd: Path | None = None) -> ProcessSpec:
    return ProcessSpec(
        name="naughty", argv=(sys.executable, "-I", "-S", str(NAUGHTY), *words), env=env or {}, cwd=cwd
    )


class Listener:
    """Hears an instance and remembers."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.long: list[LongLine] = []
        self.writable = 0
        self.gone: list[Exit] = []
        self.after_gone = 0

    def on_line(self, line: bytes) -> None:
        self.after_gone += len(self.gone)
        self.lines.append(line)

    def on_long_line(self, line: LongLine) -> None:
        self.after_gone += len(self.gone)
        self.long.append(line)

    def on_writable(self) -> None:
        self.writable += 1

    def on_gone(self, exit: Exit) -> None:
        self.gone.append(exit)

    async def has(self, line: bytes) -> None:
        await until(lambda: line in self.lines)

    def grandchildren(self) -> list[int]:
        return [int(line.split()[1]) for line in self.lines if line.startswith(b"grandchild")]


class Bench:
    """A runtime, and what it told."""

    def __init__(self, patience: StopPatience = FAST, **options: Any) -> None:
        self.stderr: list[tuple[int, str]] = []
        self.gone: list[tuple[ProcessInstance, Exit]] = []
        options.setdefault("on_stderr", lambda pid, text: self.stderr.append((pid, text)))
        self.runtime = ProcessRuntime(
            on_gone=lambda instance, exit: self.gone.append((instance, exit)), patience=patience, **options
        )

    async def start(self, *words: str, **options: Any) -> tuple[ProcessInstance, Listener]:
        """A naughty child with somebody who listens."""
        instance = await self.runtime.start(naughty(*words, **options))
        listener = Listener()
        instance.attach(listener)
        return instance, listener

    def texts(self) -> list[str]:
        return [text for _, text in self.stderr]


@asynccontextmanager
async def bench(patience: StopPatience = FAST, **options: Any) -> AsyncIterator[Bench]:
    made = Bench(patience, **options)
    try:
        yield made
    finally:
        made.runtime.hurry()
        await made.runtime.aclose()
        assert made.runtime.instances == ()


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
