"""`mooring up` and `down`: what there is, asked of the daemon; the plan, shown and carried out."""

import json
import os
import sys
from functools import partial
from pathlib import Path
from shutil import get_terminal_size
from typing import Any, NamedTuple
from urllib.parse import quote

import click

from mooring.api.client import ApiClient, NotRunning
from mooring.cli.clients.quick import has_told_clients
from mooring.cli.files.definitions import Asked, read_file
from mooring.cli.files.difference import Action, Known, Plan, Step, plan_down, plan_up
from mooring.cli.files.finding import DEFAULT_FILES, find_file, tell_remarks
from mooring.cli.files.known import known_servers
from mooring.cli.files.picture import pictured, summary
from mooring.cli.files.reading import BadFile, Remark
from mooring.cli.reach import reach
from mooring.cli.servers.changing import INTERRUPTED, LONG_S, tell_error, told_error, waited
from mooring.cli.servers.telling import Json
from mooring.cli.servers.waiting import Job, NotReady, wait_ready
from mooring.cli.terminal.live import progress_of
from mooring.cli.terminal.words import colourful, printable, tell
from mooring.errors import UserError
from mooring.workloads.definition import ServerOptions, differences, dump_options

__all__ = ["down", "up"]

DONE = {
    Action.ADD: "is started",
    Action.START: "is started",
    Action.CHANGE: "was replaced",
    Action.ADOPT: "is of this file now",
    Action.REMOVE: "is removed",
}
BEGUN = {
    Action.ADD: "is being started",
    Action.START: "is being started",
    Action.CHANGE: "is being replaced",
    Action.ADOPT: "is of this file now",
    Action.REMOVE: "is being removed",
}


class _Order(NamedTuple):
    """In whose name something is done, and how."""

    shown: str
    origin: str
    wait: bool
    as_json: bool
    adopt: bool = False


def up(file: str | None, *, dry_run: bool, adopt: bool, wait: bool, as_json: bool) -> int:
    """Have the servers that a file names, and none besides that it named before."""
    try:
        asked = read_file(find_file(file), os.environ)
        tell_remarks("note", asked.shown, asked.notes)
        tell_remarks("warning", asked.shown, asked.warnings)
        client = _reach_for(dry_run)
        known = {} if client is None else known_servers(client)
        wanted = {name: one.options for name, one in asked.servers.items()}
        troubles = {name: one.trouble for name, one in asked.servers.items() if one.trouble is not None}
        plan = plan_up(wanted, known, asked.origin, adopt=adopt, troubles=troubles)
        if plan.taken:
            raise BadFile(asked.shown, [_taken(asked, other) for other in plan.taken])
    except BadFile as error:
        tell_remarks("error", error.shown, error.problems)
        return 2
    return _carry_out(
        None if dry_run else client, plan, _Order(asked.shown, asked.origin, wait, as_json, adopt)
    )


def down(file: str | None, *, dry_run: bool, wait: bool, as_json: bool) -> int:
    """Forget what was made from a file; the file itself is not read, and need not be there."""
    client = reach()
    known = known_servers(client)
    path = Path(file) if file else _made_something(known)
    origin = str(path.parent.resolve() / path.name)
    plan = plan_down(known, origin)
    if not plan.steps and not path.exists():
        raise UserError(
            f"there is no file {path}, and no server was made from one there",
            code="no_file",
            hint="mooring ls --json tells which file each server was made from (origin)",
        )
    return _carry_out(None if dry_run else client, plan, _Order(str(path), origin, wait, as_json))


def _made_something(known: dict[str, Known]) -> Path:
    origins = {one.origin for one in known.values()}
    here = Path().resolve()
    return next((Path(name) for name in DEFAULT_FILES if str(here / name) in origins), Path(DEFAULT_FILES[0]))


def _reach_for(dry_run: bool) -> ApiClient | None:
    """None: Mooring does not run, and is not to be started for this."""
    try:
        return reach(start=not dry_run)
    except NotRunning:
        tell("note", "Mooring does not run: servers that it may have from earlier are not in this plan")
        return None


def _taken(asked: Asked, other: Known) -> Remark:
    whose = f"made from {other.origin}" if other.origin else "not made from a file"
    ours = asked.servers[other.name]
    what = f"; different: {', '.join(differences(other.options, ours.options))}" if other.options else ""
    return Remark(
        ours.place,
        f"there is a server named {other.name} already, {whose}, with another definition{what}",
        f"choose another name, or replace that one: mooring up -f {asked.shown} --adopt; "
        f"mooring export {other.name} shows it",
    )


def _carry_out(client: ApiClient | None, plan: Plan, order: _Order) -> int:
    """Show the plan, and without a client only that."""
    if not order.as_json:
        _show(plan, order.shown)
    jobs: dict[str, Job] = {}
    troubles = [step for step in plan.steps if step.trouble is not None]
    if client is not None:
        jobs = {step.name: _job(client, step, order) for step in plan.steps if _concerns(step, order.wait)}
        progress = progress_of(list(jobs.values()), quiet=order.as_json)
        if not waited(client, list(jobs.values()), "is being brought up to date", progress):
            return INTERRUPTED
        _tell_clients(plan, jobs)
    if order.as_json:
        click.echo(json.dumps([_outcome(step, jobs.get(step.name)) for step in plan.steps], indent=2))
    else:
        for step in plan.steps:
            _tell(step, jobs.get(step.name), order.wait)
    return 1 if troubles or any(job.error is not None for job in jobs.values()) else 0


def _tell_clients(plan: Plan, jobs: dict[str, Job]) -> None:
    """AI clients that are to know of all servers, of those that are new."""
    if has_told_clients():
        from mooring.cli.clients.after_run import tell_followers  # noqa: PLC0415 - heavy, not always needed

        new = [step.name for step in plan.steps if step.action in (Action.ADD, Action.CHANGE, Action.START)]
        there = [found for name in new if name in jobs and (found := _there(jobs[name])) is not None]
        if there:
            tell_followers(there)


def _there(job: Job) -> Json | None:
    """The server, if the daemon has it: one that does not work yet may soon."""
    if isinstance(job.error, NotReady):
        return job.error.server
    return job.answer if job.error is None else None


def _show(plan: Plan, shown: str) -> None:
    width = get_terminal_size().columns if sys.stdout.isatty() else None
    click.echo(f"{printable(shown)}: {summary(plan)}")
    for line in pictured(plan, width=width, colours=colourful(sys.stdout, os.environ)):
        click.echo(line)


def _concerns(step: Step, wait: bool) -> bool:
    """Is there anything to do, or to wait for?"""
    return step.action is not Action.KEEP or (wait and step.is_ours)


def _job(client: ApiClient, step: Step, order: _Order) -> Job:
    if step.options is not None:
        return Job(step.name, partial(_have, client, step, step.options, order))
    if step.action is Action.REMOVE:
        return Job(step.name, partial(_remove, client, step.name, order))
    return Job(step.name, partial(_look, client, step.name))


def _remove(client: ApiClient, name: str, order: _Order) -> Any:
    path = f"/servers/{name}?wait={json.dumps(order.wait)}&origin={quote(order.origin)}"
    return client.ask("DELETE", path, timeout_s=LONG_S)


def _look(client: ApiClient, name: str) -> Any:
    return wait_ready(client, client.ask("GET", f"/servers/{name}"))


def _have(client: ApiClient, step: Step, options: ServerOptions, order: _Order) -> Any:
    if step.trouble is not None:
        raise step.trouble
    body = {
        "options": json.loads(dump_options(options)),
        "replace": step.action is not Action.ADD,
        "origin": order.origin,
        "adopt": order.adopt,
    }
    query = f"?wait={json.dumps(order.wait)}"
    answer = client.ask("PUT", f"/servers/{step.name}{query}", body, timeout_s=LONG_S)
    if step.action is Action.START and not answer["changed"]:
        # To the letter the same as the one that has failed: it is tried again.
        answer = client.ask("POST", f"/servers/{step.name}/start{query}", timeout_s=LONG_S)
    return wait_ready(client, answer["server"]) if order.wait else answer["server"]


def _tell(step: Step, job: Job | None, wait: bool) -> None:
    error = step.trouble if job is None else job.error
    if error is not None:
        tell_error(step.name, error)
    elif job is not None and step.action is not Action.KEEP:
        url = "" if step.action is Action.REMOVE else f": {job.answer['url']}"
        click.echo(f"{step.name} {(DONE if wait else BEGUN)[step.action]}{url}")


def _outcome(step: Step, job: Job | None) -> Json:
    """`done` is null if nothing was to be done yet."""
    error = job.error if job is not None else step.trouble
    done = None if job is None and step.action is not Action.KEEP else error is None
    return {
        "name": step.name,
        "action": str(step.action),
        "changes": list(step.changes),
        "done": done,
        "error": told_error(error),
    }
