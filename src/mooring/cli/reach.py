"""The daemon, for a command: reached, or started first."""

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mooring.api.client import ApiClient, NotRunning
from mooring.cli.terminal.words import tell
from mooring.errors import MooringError, Unavailable
from mooring.host.places import Places, find_places, using

if TYPE_CHECKING:
    import subprocess

__all__ = ["LOOK_AGAIN_S", "explain_end", "if_it_answers", "launch", "reach"]

START_S = 20.0
"""For a daemon to answer after it was started; it answers before its servers do."""
LOOK_AGAIN_S = 0.02
SHOWN_LINES = 5


def reach(*, start: bool = False) -> ApiClient:
    """A client of the daemon that answers. Raises NotRunning if there is none and none was to be started."""
    places = find_places(os.environ)
    client = ApiClient(places.socket)
    try:
        port = client.ask("GET", "/daemon")["port"]
        if "MOORING_PORT" in os.environ and places.port not in (0, port):
            text = f"Mooring runs already, on port {port}; MOORING_PORT counts when it is started"
            tell("note", text)
    except NotRunning as error:
        if not start:
            error.message = "Mooring does not run"
            error.hint = "mooring daemon start brings back the servers you have, mooring run adds one"
            raise
        _start(places, client)
    return client


def _start(places: Places, client: ApiClient) -> None:
    """Start it, and wait until it answers. If somebody else does the same, one of the two is it."""
    aside = _set_aside(places)
    _start_service()
    begins_at, process = 0, None
    give_up_at = time.monotonic() + START_S
    while time.monotonic() < give_up_at:
        if if_it_answers(client):
            if process is not None:
                process.returncode = 0  # it goes on without us: nobody need wait for it
            _tell_of_damage(_set_aside(places) - aside)
            return
        if process is None or process.poll() == 0:
            # (It ends so while another one has the directory: one that is starting, or about to end.)
            process, begins_at = launch(places)
        elif process.returncode is not None:
            raise explain_end(places.log, begins_at)
        time.sleep(LOOK_AGAIN_S)
    raise Unavailable(
        "Mooring was started and does not answer", code="daemon_silent", hint=f"see {places.log}"
    )


def _set_aside(places: Places) -> set[Path]:
    """Every damaged state in whose place another was begun."""
    from mooring.store.database import DAMAGED  # noqa: PLC0415 - heavy, rarely needed

    return {path for path in places.state.glob(f"{DAMAGED}*") if not path.name.endswith(("-wal", "-shm"))}


def _tell_of_damage(found: set[Path]) -> None:
    for path in found:
        text = f"the state was damaged: it is kept as {path}, and a new one is begun without any server"
        tell("warning", f"{text}; add them again: mooring run, or mooring up")


def launch(places: Places, *options: str) -> "tuple[subprocess.Popen[bytes], int]":
    """A daemon that goes on without us, and where in its log what it says begins."""
    import subprocess  # noqa: PLC0415 - rarely needed

    places.make()
    command = [sys.executable, "-m", "mooring", "serve", "--detached", *options]
    with using(places.log), open(places.log, "ab", opener=_private) as log:
        begins_at = log.tell()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", start_new_session=True
        )
    return process, begins_at


def _start_service() -> None:
    """If the system starts it at login it is to do so now, too: else it would end when we log out."""
    from mooring.cli.service import serving_at_login  # noqa: PLC0415 - rarely needed

    try:
        serving_at_login.start_if_ours()
    except MooringError as error:
        tell("note", f"the service cannot be started: {error.message}")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def if_it_answers(client: ApiClient) -> Any:
    """What the daemon says of itself; None if none does."""
    try:
        return client.ask("GET", "/daemon", timeout_s=5.0)
    except (NotRunning, Unavailable):
        return None


def explain_end(log: Path, begins_at: int) -> Unavailable:
    """What a daemon said that ended at once: its error and its hint, or else its last lines."""
    with log.open("rb") as file:
        file.seek(begins_at)
        lines = file.read(1 << 16).decode("utf-8", "replace").splitlines()
    said = {kind: text for kind, colon, text in (line.partition(": ") for line in lines) if colon}
    message = said.get("error") or " / ".join(lines[-SHOWN_LINES:])
    if not message:
        message = "it could not even write down why"
        said = {"hint": "make room on the disk; mooring serve says why"}
    hint = said.get("hint") or f"{log} has the rest"
    return Unavailable(f"Mooring cannot be started: {message}", code="daemon_failed", hint=hint)
