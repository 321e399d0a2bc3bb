"""What the runs of one process share: a listener, a log, a folder; and a look at what they leave behind."""

import asyncio
import gc
import logging
import py_compile
import socket
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from mooring.http.guard import Guard, guarded
from mooring.http.limits import Limits
from mooring.http.listener import Listener
from mooring.http.router import Router
from mooring.proxy.sse_transport import SSETransport
from mooring.proxy.streamable import StreamableHTTP
from mooring.proxy.ws_transport import WebSocketTransport
from mooring.wire.http import Exchange
from mooring.workloads.workload import Workload
from tests.faults.hell.facts import Facts
from tests.support import children, open_descriptors

__all__ = ["TOKENS", "House", "leaks_since", "open_house", "possessions"]

CHILD = Path(__file__).with_name("child.py")
TOKENS = {"one": "the-token-of-one", "another": "the-token-of-another"}
SEND_BUFFER_BYTES = 16 * 1024
"""Of the listener's connections: a client that reads slowly is felt at once."""
OPENED_BY_OTHERS = ("/proc/", "/dev/urandom", "/dev/null")
"""The interpreter opens the first two when it likes; libuv keeps one of the last in reserve for each loop."""


class House:
    """What the runs of one process share: a listener, a log, and a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.child = folder / "child.pyc"
        self.port = 0
        self.facts: dict[str, Facts] = {}
        self.problems: Counter[str] = Counter()
        self._routers: dict[str, Router] = {}
        self._count = 0
        py_compile.compile(str(CHILD), str(self.child))  # reading the text would take longer than running it

    def __call__(self, exchange: Exchange) -> None:
        """Each run has a path of its own."""
        self._routers[exchange.request.path.split("/")[1]](exchange)

    def new_name(self, seed: int) -> str:
        """A seed may run several times side by side."""
        self._count += 1
        return f"hell{seed}.{self._count}"

    def open(self, workload: Workload, facts: Facts) -> None:
        streamable, sse = StreamableHTTP(workload.proxy), SSETransport(workload.proxy)
        websocket = WebSocketTransport(workload.proxy)
        base = f"/{workload.name}"
        self.facts[workload.name] = facts
        self._routers[workload.name] = (
            Router()
            .add("POST", f"{base}/mcp", streamable.post)
            .add("GET", f"{base}/mcp", streamable.get)
            .add("DELETE", f"{base}/mcp", streamable.delete)
            .add("GET", f"{base}/sse", sse.get)
            .add("POST", f"{base}/messages", sse.post)
            .add("GET", f"{base}/ws", websocket.get)
        )

    def close(self, workload: Workload) -> None:
        del self._routers[workload.name], self.facts[workload.name]

    def on_record(self, record: logging.LogRecord) -> None:
        """What was logged, of a run if that can be told; a traceback is always a problem."""
        facts = self.facts.get(getattr(record, "server", ""))
        if facts is not None and record.levelno >= logging.INFO:
            facts.tell("mooring", record.getMessage()[:300])
            if getattr(record, "event", "") == "session_closed":
                facts.closed[record.session] = record.reason  # type: ignore[attr-defined]
        if record.exc_info or record.name == "asyncio" or "Traceback" in record.getMessage():
            self.problems[logging.Formatter("%(name)s: %(message)s").format(record)] += 1

    def on_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """What nobody caught."""
        self.problems[f"{context.get('message')}: {context.get('exception')!r} {context}"] += 1

    def on_unraisable(self, unraisable: "sys.UnraisableHookArgs") -> None:
        """What went wrong where nobody could be told: in a finaliser, say, of what was never closed."""
        self.problems[f"{unraisable.err_msg or 'ignored'}: {unraisable.exc_value!r}"] += 1


class _Log(logging.Handler):
    def __init__(self, house: House) -> None:
        super().__init__(logging.INFO)
        self.emit = house.on_record  # type: ignore[method-assign]


@asynccontextmanager
async def open_house() -> AsyncIterator[House]:
    """A house, and whatever it changes in the process set back afterwards."""
    with tempfile.TemporaryDirectory(prefix="hell-") as folder, warnings.catch_warnings():
        house = House(Path(folder))
        guard = Guard(tokens=TOKENS)
        limits = Limits(max_body_bytes=4 * 1024 * 1024)
        listener = Listener(guarded(house, guard), admit=guard.admit, limits=limits)
        loop, handler = asyncio.get_running_loop(), _Log(house)
        loggers = [logging.getLogger(name) for name in ("mooring", "asyncio")]
        before = [(logger.level, logger.propagate) for logger in loggers]
        loop.set_exception_handler(house.on_exception)
        hook, sys.unraisablehook = sys.unraisablehook, house.on_unraisable
        warnings.simplefilter("error", ResourceWarning)
        for logger in loggers:
            logger.setLevel(logging.INFO)
            logger.propagate = False
            logger.addHandler(handler)
        # What children complain of is no subject here, and may be a gigabyte.
        logging.getLogger("mooring.server").disabled = True
        try:
            [(_, house.port)] = await listener.listen_tcp("127.0.0.1", 0)
            for sock in listener._listening:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
            yield house
        finally:
            await listener.aclose()
            gc.collect()
            sys.unraisablehook = hook
            for logger, (level, propagates) in zip(loggers, before, strict=True):
                logger.removeHandler(handler)
                logger.setLevel(level)
                logger.propagate = propagates
            logging.getLogger("mooring.server").disabled = False


class Possessions(NamedTuple):
    """What a process has."""

    tasks: set[asyncio.Task[Any]]
    children: set[int]
    descriptors: dict[int, str]


def possessions() -> Possessions:
    """As it is now."""
    return Possessions(asyncio.all_tasks(), children(), open_descriptors())


async def leaks_since(before: Possessions) -> list[str]:
    """What is there that was not; a moment is given to what is about to go."""
    for _ in range(100):
        gc.collect()
        now = possessions()
        leaks = [
            *(f"a task is left: {task}" for task in now.tasks - before.tasks),
            *(f"a child is left: {pid}" for pid in now.children - before.children),
            *(
                f"a descriptor is left: {number} {what}"
                for number, what in now.descriptors.items()
                if before.descriptors.get(number) != what and not what.startswith(OPENED_BY_OTHERS)
            ),
        ]
        if not leaks:
            break
        await asyncio.sleep(0.02)
    return leaks
