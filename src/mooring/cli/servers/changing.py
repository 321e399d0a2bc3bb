"""What the commands do that change something: they ask the daemon, and wait until it is true."""

import contextlib
import json
import os
import select
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import click

from mooring.api.client import ApiClient, NotRunning
from mooring.cli.clients.quick import has_told_clients
from mooring.cli.reach import reach
from mooring.cli.servers.telling import Json, count
from mooring.cli.servers.waiting import Job, NotReady, Progress, carry_out, wait_ready
from mooring.cli.terminal.words import printable, show_error
from mooring.errors import MooringError, UserError, exit_status

if TYPE_CHECKING:
    from mooring.cli.clients.after_rm import Farewell

__all__ = [
    "CHANGES",
    "INTERRUPTED",
    "LONG_S",
    "Change",
    "change_each",
    "end_daemon",
    "run_server",
    "tell_error",
    "told_error",
    "waited",
]

LONG_S = 3600.0
"""To stop a server may take as long as its calls do; the daemon has the bound."""
LOOK_S = 0.1
INTERRUPTED = 130


class Change(NamedTuple):
    """Something that can be done to a server."""

    method: str
    suffix: str
    done: str
    begun: str
    until_ready: bool = False
    only_wanted: bool = False
    """Of all servers: only of those that were not stopped."""
    is_removal: bool = False


CHANGES = {
    "start": Change("POST", "/start", "is started", "is being started", until_ready=True),
    "stop": Change("POST", "/stop", "has stopped", "is being stopped"),
    "restart": Change(
        "POST", "/restart", "was restarted", "is being restarted", until_ready=True, only_wanted=True
    ),
    "rm": Change("DELETE", "", "is removed", "is being removed", is_removal=True),
}


def run_server(
    name: str, body: Json, *, wait: bool, as_json: bool, after: Callable[[Json], int] | None = None
) -> int:
    """`mooring run`: give the server to the daemon, and wait until it is known whether it works.

    `after`: what is done then, with the server as the daemon tells it; returns the exit status. Also if it
    does not work yet: it may soon.
    """
    client = reach(start=True)
    job = Job(name, partial(_run, client, name, body, wait))
    if not waited(client, [job], "is being started", Progress(quiet=as_json)):
        return INTERRUPTED
    if job.error is not None:
        if after is not None and isinstance(job.error, NotReady):
            after(job.error.server)
        _show_last_words(job.error)
        raise job.error
    click.echo(json.dumps(job.answer, indent=2) if as_json else job.answer["url"])
    return 0 if after is None else after(job.answer)


def _run(client: ApiClient, name: str, body: Json, wait: bool) -> Json:
    path = f"/servers/{name}?wait={json.dumps(wait)}"
    server: Json = client.ask("PUT", path, body, timeout_s=LONG_S)["server"]
    return wait_ready(client, server) if wait else server


def change_each(change: Change, names: tuple[str, ...], *, every: bool, wait: bool, as_json: bool) -> int:
    """Do the same to all of them; one that cannot is told, and does not hold up the others."""
    client = reach(start=change.until_ready)
    chosen = _chosen(client, change, names, every)
    jobs = [Job(name, partial(_change, client, change, name, wait)) for name in chosen]
    farewell = _farewell(chosen) if change.is_removal and wait and not as_json else None
    if not waited(client, jobs, change.begun, Progress(quiet=as_json)):
        return INTERRUPTED
    if as_json:
        click.echo(json.dumps([_outcome(job) for job in jobs], indent=2))
    else:
        for job in jobs:
            _tell(job, change.done if wait else change.begun)
        if farewell is not None:
            farewell.tell([job.name for job in jobs if job.error is None])
        if not jobs:
            click.echo("There are no servers.")
    worst = max((_status(job) for job in jobs), default=0)
    return min(worst, 1) if every else worst  # who names none cannot have named a wrong one


def _farewell(names: Sequence[str]) -> "Farewell | None":
    """Who tells which AI clients lose them; None: none knows of any."""
    if not has_told_clients():
        return None
    from mooring.cli.clients.after_rm import Farewell  # noqa: PLC0415 - heavy, not always needed

    return Farewell(names)


def _chosen(client: ApiClient, change: Change, names: tuple[str, ...], every: bool) -> list[str]:
    if bool(names) == every:
        raise click.UsageError(
            "name servers, or give --all" if not names else "give names or --all, not both"
        )
    if every:
        return [
            server["name"]
            for server in client.ask("GET", "/servers")
            if not change.only_wanted or server["desired"] == "running"
        ]
    return list(dict.fromkeys(names))


def _change(client: ApiClient, change: Change, name: str, wait: bool) -> Any:
    path = f"/servers/{name}{change.suffix}?wait={json.dumps(wait)}"
    answer = client.ask(change.method, path, timeout_s=LONG_S)
    if wait and change.until_ready:
        wait_ready(client, answer["server"])
    return answer


def waited(client: ApiClient, jobs: list[Job], begun: str, progress: Progress) -> bool:
    """Until all are done; or until somebody has had enough, who is then told what goes on."""
    try:
        carry_out(client, jobs, progress)
    except KeyboardInterrupt:
        for job in jobs:
            if not job.begun:
                click.echo(f"{job.name} is left as it is", err=True)
            elif not job.done.is_set():
                told = f"{job.name} {begun}, and goes on without you: mooring status {job.name}"
                click.echo(told, err=True)
        return False
    return True


def _status(job: Job) -> int:
    if job.error is None:
        return 0
    return exit_status(job.error) if isinstance(job.error, MooringError) else 1


def told_error(error: Exception | None) -> Json | None:
    """For programs."""
    if error is None:
        return None
    if isinstance(error, MooringError):
        return {"code": error.code, "message": error.message, "hint": error.hint}
    return {"code": "bug", "message": repr(error), "hint": ""}


def _outcome(job: Job) -> Json:
    return {
        "name": job.name,
        "done": job.error is None,
        "cut": job.answer["cut"] if job.answer else 0,
        "error": told_error(job.error),
    }


def _tell(job: Job, done: str) -> None:
    if job.error is not None:
        tell_error(job.name, job.error)
        return
    cut = job.answer["cut"]
    click.echo(f"{job.name} {done}" + (f" ({count(cut, 'call')} cut off)" if cut else ""))


def tell_error(name: str, error: Exception) -> None:
    """Why it was not done to that server. What is not on purpose is raised."""
    if not isinstance(error, MooringError):
        raise error
    _show_last_words(error)
    message = error.message if name in error.message else f"{name}: {error.message}"
    show_error(message, error.hint)


def _show_last_words(error: Exception) -> None:
    if isinstance(error, NotReady) and error.last_words:
        click.echo("Its last lines on stderr:", err=True)
        for line in error.last_words:
            click.echo(f"  {printable(line)}", err=True)


def end_daemon(*, wait: bool) -> int:
    """`mooring daemon stop`."""
    try:
        client = reach()
    except NotRunning as error:
        click.echo(error.message)  # which is what was wanted
        return 0
    try:
        _end(client, wait=wait)
    except KeyboardInterrupt:
        click.echo("Mooring is being stopped, and goes on without you: mooring daemon status", err=True)
        return INTERRUPTED
    click.echo("Mooring has stopped" if wait else "Mooring is being stopped")
    return 0


def _end(client: ApiClient, *, wait: bool) -> None:
    with contextlib.suppress(ProcessLookupError, NotRunning):  # it may end by itself just now
        about = client.ask("GET", "/daemon")
        with _Process(about["pid"]) as ending:
            # The pid may be another's by now, unless the same one still answers.
            if client.ask("GET", "/daemon")["nonce"] != about["nonce"]:
                raise UserError("another daemon has just taken its place", code="conflict", hint="try again")
            client.ask("POST", "/daemon/stop")
            while wait and not ending.has_ended():
                pass


class _Process:
    """A process of somebody else's, which is there now."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        # Not by its number alone, which may be another's when it has ended.
        self._descriptor = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *args: object) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    def has_ended(self) -> bool:
        """Look for a moment."""
        if self._descriptor is not None:
            return bool(select.select([self._descriptor], [], [], LOOK_S)[0])
        time.sleep(LOOK_S)
        try:
            os.kill(self._pid, 0)
        except ProcessLookupError:
            return True
        return False
