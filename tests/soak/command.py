"""The real command under soak: started, asked, disturbed, restarted; and what it complained of."""

import asyncio
import json
import os
import signal
import sys
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from tests.e2e.mooring import COMMAND
from tests.e2e.program import ROOT, carrying
from tests.http_client import Peer
from tests.soak.gate import Gate
from tests.soak.ledger import KILL, SIGKILL, SIGTERM, TOO_MANY_KILLS, Ledger
from tests.support import alive, children, free_port

__all__ = ["DEMO", "QUICK", "TINY", "Target"]

HERE = Path(__file__).parent
DEMO = (sys.executable, "-m", "mooring.demo")
QUICK = (sys.executable, "-I", "-S", str(HERE / "quick_server.py"))
TINY = ("/bin/sh", str(HERE / "tiny_server.sh"))

PATIENCE_S = 60.0
GUARDIAN_PATIENCE_S = 10.0
"""It promises to be done in five seconds."""
MOST_KILLED = 10
BETWEEN_KILLS_S = 6.0
BACKOFF_S = 16.0
"""What Mooring waits before the first restart that it does not make at once, and before the second: on
a busy machine those who are killed at once may die seconds apart, which is more than one incident."""
PEACE_S = 75.0
"""After a minute without an exit Mooring forgets those before; a back-off comes on top."""
OF_KILLS = frozenset({"server_exited", "message_dropped"})
"""Events that are warned of, and that our kills lead to."""
MOST_TROUBLES = 200


class Target:
    """One Mooring in front of one kind of server, through all its restarts."""

    def __init__(self, name: str, server: Sequence[str], *, max_sessions: int, idle_timeout_s: float) -> None:
        self.name = name
        self.max_sessions = max_sessions
        self.port = free_port()
        self.troubles: list[str] = []
        """Whatever must not be: calls that nobody can explain, complaints in its log, unclean endings."""
        self.ledger = Ledger(self.troubles.append)
        self.talk = Gate()
        """Calls that need a second word of the client: Mooring, once told to end, takes no new connection
        for it, and would have to cut them off at its deadline."""
        self.events: Counter[str] = Counter()
        """Its log: event → lines."""
        self._server = server
        self._options = ("--max-sessions", str(max_sessions), "--idle-timeout", f"{idle_timeout_s:g}s")
        self._peace_until = 0.0
        self._token = ""
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None

    # Life

    async def start(self) -> None:
        """Run the command; returns when the server behind it works."""
        self._token = f"MOORING_SOAK={uuid.uuid4().hex}"
        name, _, value = self._token.partition("=")
        argv = [
            str(COMMAND),
            "run",
            "--foreground",
            self.name,
            "--port",
            str(self.port),
            "--log-format",
            "json",
        ]
        argv += ["--env", self._token, *self._options, "--", *self._server]
        self._process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, name: value},
            cwd=ROOT,
            limit=1 << 24,
        )
        assert self._process.stderr is not None
        self._reading = asyncio.create_task(self._read(self._process.stderr))
        async with asyncio.timeout(PATIENCE_S):
            while (await self.page("/readyz"))[0] != 200:
                await asyncio.sleep(0.05)

    @property
    def pid(self) -> int | None:
        """Of the command, while it runs."""
        running = self._process is not None and self._process.returncode is None
        return self._process.pid if running and self._process is not None else None

    def guardian(self) -> int | None:
        """Its pid: the child of Mooring that is no server."""
        for pid in children(self.pid) if self.pid is not None else ():
            try:
                if b"guardian_main" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    return pid
            except OSError:
                continue
        return None

    def servers(self) -> set[int]:
        """Everything that runs on its behalf and is neither itself nor its guardian."""
        return carrying(self._token) - {self.pid}

    async def terminate(self) -> None:
        """SIGTERM: it ends by itself, cleanly, and nothing is left."""
        await self._end(signal.SIGTERM, 0)

    async def kill(self) -> None:
        """SIGKILL: its guardian has to clean up."""
        await self._end(signal.SIGKILL, -signal.SIGKILL)

    async def _end(self, signum: signal.Signals, status: int) -> None:
        assert self._process is not None and self._reading is not None
        guardian = self.guardian()
        self._process.send_signal(signum)
        async with asyncio.timeout(PATIENCE_S):
            ended = await self._process.wait()
            await self._reading
        if ended != status:
            self.troubles.append(f"exit status {ended} instead of {status} after {signum.name}")
        try:
            async with asyncio.timeout(GUARDIAN_PATIENCE_S):
                while self._left(guardian):
                    await asyncio.sleep(0.1)
        except TimeoutError:
            self.troubles.append(f"processes left after {signum.name}: {self._left(guardian)}")

    def _left(self, guardian: int | None) -> set[int]:
        return self.servers() | ({guardian} if guardian is not None and alive(guardian) else set())

    def clear_up(self) -> None:
        """After an accident of the soak itself: leave nothing of it behind."""
        for pid in carrying(self._token) if self._token else ():
            _kill(pid)

    # Disturbances

    async def restart(self, signum: signal.Signals) -> None:
        """End it and start it again, at the same address."""
        async with self.talk.closed():
            with self.ledger.disturbing(SIGTERM if signum is signal.SIGTERM else SIGKILL):
                await (self.terminate() if signum is signal.SIGTERM else self.kill())
                await self.start()

    async def harass(self, random: Random, leaving: asyncio.Event) -> None:
        """Kill servers, in a rhythm that is not taken for a crash loop.

        Three times in a minute, then sometimes once too often, for which there is a back-off; then peace.
        """
        await _happens(leaving, self._peace_until - time.monotonic())
        while not leaving.is_set():
            for kind in (KILL, KILL, KILL, *random.choice(((), (), (TOO_MANY_KILLS,)))):
                if not await _happens(leaving, BETWEEN_KILLS_S * (0.5 + random.random())):
                    await self._kill_some(random, kind)
            self._peace_until = time.monotonic() + PEACE_S
            await _happens(leaving, PEACE_S)

    async def _kill_some(self, random: Random, kind: str) -> None:
        """SIGKILL to a few servers at once: to Mooring that is one incident."""
        status, seen = await self.page("/readyz")
        if status != 200:
            return
        serving = [one["pid"] for one in seen["instances"] if one["use"] in ("serving", "spare")]
        ours = self.servers()
        with self.ledger.disturbing(kind):
            for pid in random.sample(serving, min(len(serving), random.randint(1, MOST_KILLED))):
                if pid in ours:
                    _kill(pid)
            if kind == TOO_MANY_KILLS:
                await asyncio.sleep(BACKOFF_S)

    # What it says

    async def page(self, path: str) -> tuple[int, Any]:
        """Status and content of a page; JSON is parsed. Status 0: nobody answers."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                peer = Peer(*await asyncio.open_connection("127.0.0.1", self.port))
                try:
                    answer = await peer.get(path)
                finally:
                    await peer.aclose()
        except (OSError, EOFError):
            return 0, None
        is_json = answer.headers.get("content-type") == "application/json"
        return answer.status, json.loads(answer.body) if is_json else answer.body.decode()

    async def _read(self, stderr: asyncio.StreamReader) -> None:
        while line := await stderr.readline():
            text = line.decode(errors="replace").rstrip("\n")
            if not self._is_expected(text) and len(self.troubles) < MOST_TROUBLES:
                self.troubles.append(text)

    def _is_expected(self, line: str) -> bool:
        try:
            record = json.loads(line)
        except ValueError:
            return False
        self.events[str(record["event"])] += 1
        killed = record["event"] in OF_KILLS or "cannot take over" in record["message"]
        return (record["level"] in ("debug", "info") or killed) and "exception" not in record


async def _happens(event: asyncio.Event, within_s: float) -> bool:
    try:
        async with asyncio.timeout(within_s):
            return await event.wait()
    except TimeoutError:
        return False


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):  # it may just have ended by itself
        os.kill(pid, signal.SIGKILL)
