"""`mooring daemon restart`: a new daemon in the place of the one that runs."""

import os
import time

import click

from mooring.api.client import ApiClient, NotRunning
from mooring.cli.reach import LOOK_AGAIN_S, explain_end, if_it_answers, launch, reach
from mooring.errors import Unavailable
from mooring.host.places import find_places

__all__ = ["restart_daemon"]

TAKE_OVER_S = 150.0
"""For the new daemon to have taken over; longer than each of the two waits for the other."""


def restart_daemon() -> int:
    """Until the new one answers. If it ends before, the old one goes on, and the error says why."""
    places = find_places(os.environ)
    client = ApiClient(places.socket)
    try:
        before = client.ask("GET", "/daemon")
    except NotRunning:
        after = reach(start=True).ask("GET", "/daemon")
        click.echo(f"Mooring did not run; it is started (pid {after['pid']}, version {after['version']})")
        return 0
    process, begins_at = launch(places, "--take-over")
    give_up_at = time.monotonic() + TAKE_OVER_S
    while (after := if_it_answers(client)) is None or after["pid"] != process.pid:
        if process.poll() is not None:
            raise _not_replaced(explain_end(places.log, begins_at), before["pid"])
        if time.monotonic() > give_up_at:
            process.terminate()
            raise Unavailable(
                "the new daemon does not answer", code="daemon_silent", hint=f"see {places.log}"
            )
        time.sleep(LOOK_AGAIN_S)
    process.returncode = 0  # it goes on without us: nobody need wait for it
    click.echo(f"Mooring was restarted (pid {after['pid']}, version {after['version']})")
    return 0


def _not_replaced(error: Unavailable, pid: int) -> Unavailable:
    said = error.message.removeprefix("Mooring cannot be started: ")
    text = f"Mooring was not restarted, and goes on as it was (pid {pid}): {said}"
    return Unavailable(text, code="not_restarted", hint=error.hint)
