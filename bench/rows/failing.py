"""What happens to calls when the server dies, and when the proxy is told to stop."""

import os
import signal
import time
from contextlib import ExitStack

from bench.client import Client, Connection, Failed, first_answer
from bench.measuring import Figures, Unable
from bench.results import MOORING, PEERS
from bench.rows.fresh import from_scratch
from bench.targets import native_child, spawned

__all__ = ["GROUPS"]

PATIENCE_S = 5.0
"""With a proxy after its server's death."""
IN_FLIGHT = 20
SLOW_MS = 3000


def _death(target: str) -> Figures:
    """SIGKILL for the server in the middle of a call: how soon that call is told, and how soon one works."""
    with spawned(target, native_child()) as running, Connection(running.port, PATIENCE_S) as connection:
        client = first_answer(running.port)
        server = int(client.call("pid"))
        client.begin(connection, "sleep", ms=60_000)
        client.call("echo", text="the server has the call by now")
        client.timeout_s = PATIENCE_S
        os.kill(server, signal.SIGKILL)
        killed = time.perf_counter()
        error_ms, error_note = _until_told(connection, killed)
        next_ms, next_note = _until_answered(running.port, client, killed)
    values = {"death_error": error_ms, "death_next": next_ms}
    return Figures(values, {"death_error": error_note, "death_next": next_note})


def _until_told(connection: Connection, killed: float) -> tuple[float | None, str]:
    try:
        status, _, messages = connection.receive()
    except Failed as failed:
        return None, str(failed)
    if not messages and status == 200:
        return None, "an empty answer with status 200"
    return (time.perf_counter() - killed) * 1000, ""


def _until_answered(port: int, client: Client, killed: float) -> tuple[float | None, str]:
    while time.perf_counter() - killed < PATIENCE_S:
        try:
            client.call("echo", text="again")
        except Failed:
            time.sleep(0.001)
        else:
            return (time.perf_counter() - killed) * 1000, ""
    try:
        first_answer(port, timeout_s=2.0)
    except Failed:
        return None, "never"
    return None, "new session needed"


def _sigterm(target: str) -> Figures:
    """SIGTERM with slow calls under way; how many of them get no result."""
    with spawned(target, native_child()) as running, ExitStack() as stack:
        client = first_answer(running.port)
        connections = [stack.enter_context(Connection(running.port)) for _ in range(IN_FLIGHT)]
        began = time.perf_counter()
        ids = [client.begin(connection, "sleep", ms=SLOW_MS) for connection in connections]
        client.call("echo", text="the server has the calls by now")
        if (time.perf_counter() - began) * 1000 > SLOW_MS:
            raise Unable(f"takes longer than {SLOW_MS} ms to have {IN_FLIGHT} calls under way")
        running.process.send_signal(signal.SIGTERM)
        lost = sum(not _is_answered(*pair) for pair in zip(connections, ids, strict=True))
        return Figures({"sigterm_lost": lost}, {"sigterm_lost": f"of {IN_FLIGHT}"})


def _is_answered(connection: Connection, id: int) -> bool:
    try:
        connection.result(id)
    except Failed:
        return False
    return True


# The minimal bridge does neither.
_PRODUCTS = (MOORING, *PEERS)

GROUPS = (
    from_scratch(("death_error", "death_next"), _death, windows=3, quick_windows=3, targets=_PRODUCTS),
    from_scratch(("sigterm_lost",), _sigterm, windows=1, quick_windows=1, targets=_PRODUCTS),
)
