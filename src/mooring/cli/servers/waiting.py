"""Waiting until what was asked for is true, with something to look at meanwhile.

What is done to each server runs in a thread of its own, because the daemon answers when it is true; this
one only looks on. Whoever interrupts it stops waiting, and nothing else: the daemon goes on.
"""

import re
import sys
import threading
from collections.abc import Callable
from shutil import get_terminal_size
from typing import Any

from mooring.api.client import ApiClient
from mooring.cli.servers.telling import Json, state_in_words, why_not_ready
from mooring.cli.terminal.words import printable
from mooring.errors import MooringError, ServerFailed, UserError

__all__ = ["Job", "NotReady", "Progress", "carry_out", "wait_ready"]

LOOK_S = 0.1
"""Between two looks at a server that is waited for."""
MOST_AT_ONCE = 16
"""Servers that something is done to at the same moment; the others wait for their turn."""
AT_REST = frozenset({"ready", "stopped"})
"""Not worth a line while something is waited for: nothing goes on yet, or all is done and will be told."""
HINDERED = frozenset({"engine_unreachable", "pull_failed", "unreachable"})
"""Reasons that nobody should wait for: it goes on by itself when what it needs is there."""
_BYTES = re.compile(r", [0-9]+ of [0-9]+ MB$")
CLEAR_LINE = "\r\x1b[2K"


class NotReady(ServerFailed):
    """It will not be ready without somebody's help, or not soon."""

    def __init__(self, server: Json) -> None:
        text, hint = why_not_ready(server)
        super().__init__(text, code="not_ready", hint=hint)
        self.server = server
        self.last_words: list[str] = server["stderr"]


class Job:
    """Something that is done to one server."""

    def __init__(self, name: str, work: Callable[[], Any]) -> None:
        self.name = name
        self.answer: Any = None
        self.error: Exception | None = None
        self.begun = False
        """The daemon may know of it: what happens then does not depend on who waits."""
        self.done = threading.Event()
        self._work = work

    def run(self, places: threading.Semaphore) -> None:
        """In a thread."""
        with places:
            self.begun = True
            try:
                self.answer = self._work()
            except Exception as error:  # told by whoever waits
                self.error = error
            finally:
                self.done.set()


class Progress:
    """What is going on, on stderr: one line that changes on a terminal, a line for each change elsewhere."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._terminal = sys.stderr.isatty()
        self._shown: dict[str, str] = {}

    def show(self, states: dict[str, str]) -> None:
        """How each server is now."""
        if not self._terminal:
            # Elsewhere than on a line that changes, each layer of an image is news, but not each megabyte.
            states = {name: _BYTES.sub("", text) for name, text in states.items()}
        news = {name: text for name, text in states.items() if self._shown.get(name) != text}
        if self._quiet or not news:
            return
        self._shown.update(news)
        if self._terminal:
            line = " · ".join(f"{name}: {printable(text)}" for name, text in states.items())
            sys.stderr.write(f"{CLEAR_LINE}{line[: get_terminal_size().columns - 1]}")
        else:
            sys.stderr.writelines(f"{name}: {printable(text)}\n" for name, text in news.items())
        sys.stderr.flush()

    def clear(self) -> None:
        """Nothing goes on any more, as far as this one is concerned."""
        if self._shown and self._terminal and not self._quiet:
            sys.stderr.write(CLEAR_LINE)
            sys.stderr.flush()
        self._shown.clear()


def carry_out(client: ApiClient, jobs: list[Job], progress: Progress) -> None:
    """Until all are done. Raises KeyboardInterrupt if somebody does not want to wait for that."""
    places = threading.Semaphore(MOST_AT_ONCE)
    for job in jobs:
        threading.Thread(target=job.run, args=(places,), name=job.name, daemon=True).start()
    try:
        while waiting := [job for job in jobs if not job.done.is_set()]:
            if waiting[0].done.wait(LOOK_S):
                continue
            progress.show(_states(client, {job.name for job in waiting}))
    finally:
        progress.clear()


def _states(client: ApiClient, names: set[str]) -> dict[str, str]:
    try:
        servers = client.ask("GET", "/servers")
    except MooringError:
        return {}  # whoever does the work will say what is wrong
    return {
        server["name"]: state_in_words(server)
        for server in servers
        if server["name"] in names and server["state"] not in AT_REST
    }


def wait_ready(client: ApiClient, server: Json) -> Json:
    """Until that generation of it is ready. Raises ServerFailed, or UserError if somebody was in the way."""
    name, generation = server["name"], server["generation"]
    look = threading.Event()
    while server["state"] != "ready":
        if server["state"] in ("failed", "backoff") or server["reason"] in HINDERED:
            raise NotReady(server)
        look.wait(LOOK_S)
        server = _look(client, name)
        if server["generation"] != generation or server["desired"] == "stopped":
            what = "stopped" if server["desired"] == "stopped" else "started anew"
            raise _overtaken(name, what)
    return server


def _look(client: ApiClient, name: str) -> Json:
    try:
        server: Json = client.ask("GET", f"/servers/{name}")
    except UserError as error:
        if error.code != "unknown_server":
            raise
        raise _overtaken(name, "removed") from None
    return server


def _overtaken(name: str, what: str) -> UserError:
    return UserError(
        f"{name} was {what} by another command meanwhile",
        code="conflict",
        hint=f"mooring events {name} tells what happened",
    )
