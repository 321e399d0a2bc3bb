"""The guardian's part for containers: ends and removes those of a Mooring process that was killed.

Imported by the guardian once there are containers to end, and not before: what speaks HTTP is large, and
usually nobody needs it. Only the standard library. The paths have no version in them: Docker and Podman both
serve them as they are.

An engine is told to remove a container again and again: without force it refuses that while the container
runs, and does it once that has exited, so nobody has to ask for a state. Engines do not wait for each other,
nor containers of one engine, as far as a handful of threads goes.
"""

import http.client
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

__all__ = ["end_containers"]

THREADS = 8
"""For each engine. With more of them fifty containers take as long: it is the processors that are busy."""
LOOK_S = 0.1
"""Between two rounds of asking an engine; longer, if a round takes longer: then it has enough to do."""
READ_BYTES = 4096
"""Of an answer; more than the words of any refusal."""
BUSY_S = 15.0
"""For an engine that has a lot to do, and says so."""
_ID = re.compile("[0-9a-f]{64}")

_NOT_FOUND, _CONFLICT = 404, 409

_T = TypeVar("_T")


def end_containers(where_of: dict[str, str], leave_by: float, term_by: float, kill_patience_s: float) -> None:
    """The three steps of the guardian, for containers by name; when the first two end, by the clock."""
    names_at: dict[str, set[str]] = {}
    for name, where in where_of.items():
        names_at.setdefault(where, set()).add(name)
    engines = [Engine(where, names) for where, names in names_at.items()]
    workers = _begin(len(engines), engines, lambda engine: engine.end(leave_by, term_by, kill_patience_s))
    for worker in workers:
        worker.join()


class Engine:
    """One engine, and those of our containers that are left in it."""

    def __init__(self, where: str, names: set[str]) -> None:
        self._where = where
        self._left = names
        self._answers = True

    def end(self, leave_by: float, term_by: float, kill_patience_s: float) -> None:
        """See `end_containers`."""
        # 1. One without an id may be about to come: Mooring was killed while the engine made it. Then no
        # answer is final: Podman says that it has removed one, and goes on making it.
        self._remove_until(leave_by, "v=1", may_come=True)
        # 2
        self._each(lambda name: self._terminate(name, term_by), term_by)
        self._remove_until(term_by, "v=1")
        # 3. Many take an engine longer than that. As long as it answers at all, it gets more time: Podman
        # leaves a container running if nobody waits for its removal any more.
        give_up_at = time.monotonic() + BUSY_S
        self._answers = True
        while self._left and self._answers and time.monotonic() < give_up_at:
            self._answers = False
            self._remove_until(time.monotonic() + kill_patience_s, "force=1&v=1")

    def _remove_until(self, until: float, how: str, *, may_come: bool = False) -> None:
        """Try it with all that are left, for as long as there are any, and time."""

        def attempt(name: str) -> None:
            status, words = self._ask("DELETE", f"/containers/{name}?{how}", until)
            self._answers = self._answers or status != 0
            if _is_gone(status, words) and not (may_come and not _ID.fullmatch(name)):
                self._left.discard(name)

        while self._left and (began := time.monotonic()) < until:
            self._each(attempt, until)
            if self._left:
                now = time.monotonic()
                time.sleep(max(0.0, min(max(LOOK_S, now - began), until - now)))

    def _terminate(self, name: str, until: float) -> None:
        """What is paused heeds no signal. Whether it is, nobody asks: the engine refuses what is needless."""
        self._ask("POST", f"/containers/{name}/unpause", until)
        self._ask("POST", f"/containers/{name}/kill?signal=SIGTERM", until)

    def _each(self, do: Callable[[str], None], until: float) -> None:
        """Do it with all that are left. No longer than that: to find a host may take the system a minute."""
        for worker in _begin(THREADS, self._left, do):
            worker.join(max(0.0, until - time.monotonic()))

    def _ask(self, method: str, path: str, until: float) -> tuple[int, bytes]:
        """Status and words of the answer; status 0: none came in time, or none that can be read."""
        patience_s = until - time.monotonic()
        if patience_s <= 0:
            return 0, b""
        connection = http.client.HTTPConnection("localhost")
        try:
            connection.sock = _connect(self._where, patience_s)
            connection.request(method, path)
            with connection.getresponse() as answer:
                return answer.status, answer.read(READ_BYTES)
        except (OSError, ValueError, http.client.HTTPException):
            return 0, b""
        finally:
            connection.close()


def _is_gone(status: int, words: bytes) -> bool:
    """Is it removed by this answer, or by somebody else, or about to be?"""
    being_removed = status == _CONFLICT and b"already in progress" in words
    return 200 <= status < 300 or status == _NOT_FOUND or being_removed


def _connect(where: str, patience_s: float) -> socket.socket:
    """A path, or HOST:PORT. Raises OSError, and ValueError if it is neither."""
    if not where.startswith("/"):
        host, _, port = where.rpartition(":")
        return socket.create_connection((host.strip("[]"), int(port)), patience_s)
    connected = socket.socket(socket.AF_UNIX)
    try:
        connected.settimeout(patience_s)
        connected.connect(where.encode("utf-8", "surrogateescape"))
    except OSError:
        connected.close()
        raise
    return connected


def _begin(threads: int, items: Iterable[_T], do: Callable[[_T], None]) -> list[threading.Thread]:
    """Do it with each of them, in so many threads at most. They never keep the guardian from leaving."""
    waiting = list(items)

    def work() -> None:
        while waiting:
            try:
                item = waiting.pop()
            except IndexError:  # another thread was quicker
                return
            do(item)

    workers = [threading.Thread(target=work, daemon=True) for _ in range(min(threads, len(waiting)))]
    for worker in workers:
        worker.start()
    return workers
