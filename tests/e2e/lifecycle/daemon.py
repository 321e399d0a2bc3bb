"""A daemon in a process of its own, asked over its socket; what it leaves is looked for in /proc."""

import contextlib
import os
import signal
import sqlite3
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mooring.api.client import ApiClient, NotRunning
from mooring.errors import Unavailable
from mooring.host.places import Places
from tests.e2e.mooring import COMMAND, MARKER
from tests.e2e.program import carrying
from tests.support import PATIENCE_S, alive

__all__ = ["RealDaemon", "eventually"]


def eventually(holds: Callable[[], object], what: str) -> None:
    """Wait for something that must become true; it is a failure if it does not."""
    deadline = time.monotonic() + 2 * PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"it did not come true: {what}"
        time.sleep(0.01)


class RealDaemon:
    """All lives of the daemon of one state directory."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="mooring-life-")
        self._places = Places(Path(self._folder.name), 0)
        self._api = ApiClient(self._places.socket)
        self.mark = {"MOORING_LIFE": uuid.uuid4().hex}
        """In the environment of everything that is started here."""
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self.begin()

    def begin(self) -> None:
        """The next life."""
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": self._folder.name,
            "MOORING_STATE_DIR": self._folder.name,
            "MOORING_PORT": str(self.port),
            **self.mark,
        }
        with (self._places.state / "said").open("ab") as said:
            self._process = subprocess.Popen(
                [COMMAND, "serve"], env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said
            )
        eventually(self._answers, "the daemon answers")
        self.port = self.ask("GET", "/daemon")["port"]

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._places.state / "said").read_text()[-2000:]
        # A server that was just being forked when its daemon was killed has the old socket for a moment.
        with contextlib.suppress(NotRunning, Unavailable):
            return bool(self.ask("GET", "/daemon")["pid"] == self._process.pid)
        return False

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """One request to the API. Raises what the daemon tells."""
        return self._api.ask(method, path, body, timeout_s=2 * PATIENCE_S)

    def kill(self) -> None:
        """Without warning."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """As it is meant to end; its exit status."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(2 * PATIENCE_S)

    def _all(self) -> set[int]:
        [(name, value)] = self.mark.items()
        return carrying(f"{name}={value}")

    def servers(self, name: str) -> set[int]:
        """Processes of that server that run, whoever started them and whenever."""
        found = set()
        for pid in self._all():
            with contextlib.suppress(OSError):
                environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                markers = [item.decode() for item in environment if item.startswith(f"{MARKER}=".encode())]
                if any(marker.split(":")[1] == name for marker in markers) and alive(pid):
                    found.add(pid)
        return found

    def written_sessions(self) -> set[str]:
        """Those that survive whatever happens now."""
        path = f"file:{self._places.state / 'state.db'}?mode=ro"
        with contextlib.closing(sqlite3.connect(path, uri=True)) as connection:
            return {row[0] for row in connection.execute("SELECT id FROM session")}

    def aclose(self) -> None:
        """The last end: nothing is left, and the folder goes."""
        try:
            assert self.stop() == 0, (self._places.state / "said").read_text()[-2000:]
            eventually(lambda: not self._all(), "no process is left")
        finally:
            if self._process is not None and self._process.poll() is None:
                self._process.kill()
                self._process.wait()
            for pid in self._all():
                os.kill(pid, signal.SIGKILL)
            self._folder.cleanup()
