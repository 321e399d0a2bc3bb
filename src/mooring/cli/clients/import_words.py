"""An import in words: the plan, what became of it, and both as JSON. No value of a variable is in it,
of the entry's or of ours: a command is shown as it stands in the file, without what looks like a secret."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import click

from mooring.cli.clients.intake import Intake, Left, Newcomer, Origin
from mooring.cli.clients.telling import (
    Doing,
    client_name,
    echo_wrapped,
    outcome_json,
    show_outcomes,
    shown_path,
)
from mooring.cli.files.secret_looks import shown_command
from mooring.cli.servers.changing import told_error
from mooring.cli.servers.telling import Json, count
from mooring.cli.servers.waiting import NotReady
from mooring.cli.terminal.words import printable, show_error, tell
from mooring.clients.detecting import Site
from mooring.clients.outcomes import Change, Outcome
from mooring.errors import MooringError

__all__ = ["Result", "as_json_of", "show_plan", "tell_results"]

UNDO = "mooring client undo brings the files back as they were; the servers stay until mooring rm"

AS_IT_WAS = "its entry is as it was"


class Result(NamedTuple):
    """What became of a newcomer."""

    newcomer: Newcomer
    server: Json | None
    """None: it does not work."""
    error: Exception | None
    outcomes: list[Outcome]
    followers: Sequence[Outcome] = ()
    """Of clients that did not run it, and are to have all servers."""

    @property
    def has_failed(self) -> bool:
        """It does not work, or a client does not lead to it."""
        return self.error is not None or bool(self.refusals)

    @property
    def refusals(self) -> list[Outcome]:
        """Of the files that could not be changed."""
        return [one for one in self.outcomes if one.change is Change.REFUSED]


def show_plan(plan: Intake, sites: Sequence[Site]) -> None:
    """What would be done, and what not."""
    left = [one for one in plan.left if not one.is_ours]
    if not plan.newcomers:
        click.echo(_nothing(sites, ours=len(plan.left) - len(left)))
    else:
        click.echo("Mooring is to run:")
        for newcomer in plan.newcomers:
            echo_wrapped(f"{newcomer.name}: {shown_command(newcomer.words)}", "  ")
            for line in _details(newcomer):
                echo_wrapped(line, "    ")
    if left:
        click.echo("Left as they are:")
        for one in left:
            echo_wrapped(f"{_shown_entry(one.origin)}: {one.why}", "  ")


def _nothing(sites: Sequence[Site], *, ours: int) -> str:
    if not sites:
        return "No AI client is found on this machine"
    already = {0: "", 1: "; one entry leads to Mooring already"}.get(
        ours, f"; {ours} entries lead to Mooring"
    )
    return f"There is nothing to import in {count(len(sites), 'file')}{already}"


def _details(newcomer: Newcomer) -> Iterator[str]:
    for origin in newcomer.origins:
        changes = f"; its name there changes from {origin.found.name} to {newcomer.name}"
        yield f"in place of {_shown_entry(origin)}{changes if origin.found.name != newcomer.name else ''}"
    if newcomer.folder != str(Path.home()):
        yield f"in the folder {shown_path(newcomer.folder)}"
    if kept := [variable for variable in newcomer.variables if variable not in newcomer.moved]:
        yield f"with the {'variable' if len(kept) == 1 else 'variables'} {', '.join(kept)}"
    for variable, secret in newcomer.moved.items():
        how = "becomes" if secret in newcomer.secrets else "is"
        yield f"the value of {variable} {how} the secret {secret}"
    for warning in newcomer.warnings:
        yield f"warning: {warning}"
    if not newcomer.is_new:
        yield "which it does already"


def _shown_entry(origin: Origin) -> str:
    return f"{origin.site.client.name}'s {json.dumps(origin.found.name, ensure_ascii=False)}"


def tell_results(results: Sequence[Result]) -> None:
    """What was done, and what not; the latter on stderr."""
    for result in results:
        newcomer = result.newcomer
        if result.server is None:
            _tell_failure(newcomer, result.error)
            continue
        click.echo(f"{newcomer.name} is run by Mooring: {result.server['url']}")
        done = [one for one in result.outcomes if one.change is not Change.REFUSED]
        done += [one for one in result.followers if one.change not in (Change.REFUSED, Change.UNCHANGED)]
        for one in done:
            then = f": {one.next}" if one.next else ""
            echo_wrapped(f"{client_name(one.client)} leads there{then}", "  ")
        show_outcomes(result.refusals, Doing(differences=False))
    if any(result.server is not None for result in results):
        tell("note", UNDO)


def _tell_failure(newcomer: Newcomer, error: Exception | None) -> None:
    if not isinstance(error, MooringError):
        raise error or AssertionError(newcomer.name)
    if isinstance(error, NotReady) and error.last_words:
        click.echo("Its last lines on stderr:", err=True)
        for line in error.last_words:
            click.echo(f"  {printable(line)}", err=True)
    if newcomer.is_new:  # and forgotten again: what it would do next is of no interest
        said = error.message.removeprefix(f"{newcomer.name} is not ready: ").partition("; restarting in ")[0]
        show_error(
            f"{newcomer.name} does not work: {said}", f"{AS_IT_WAS}; put it right there, and import again"
        )
    else:
        show_error(error.message, f"{AS_IT_WAS}; mooring status {newcomer.name} tells more")


def as_json_of(plan: Intake, results: Sequence[Result]) -> list[Json]:
    """An object for each entry; `done` is null if nothing was tried."""
    by_name = {result.newcomer.name: result for result in results}
    told: list[Json] = []
    for newcomer in plan.newcomers:
        result = by_name.get(newcomer.name)
        told += [_imported(newcomer, origin, result) for origin in newcomer.origins]
    return told + [_left(one) for one in plan.left]


def _entry(origin: Origin) -> Json:
    return {"client": origin.site.client.id, "path": str(origin.site.path), "entry": origin.found.name}


def _imported(newcomer: Newcomer, origin: Origin, result: Result | None) -> Json:
    done = error = None
    if result is not None:
        of_it = [one for one in result.outcomes if one.client == origin.site.client.id]
        refusals = [outcome_json(one)["error"] for one in of_it if one.change is Change.REFUSED]
        error = told_error(result.error) or (refusals[0] if refusals else None)
        done = error is None
    return {
        **_entry(origin),
        "server": newcomer.name,
        "command": shown_command(newcomer.words),
        "folder": newcomer.folder,
        "variables": newcomer.variables,
        "secrets": sorted(newcomer.moved.values()),
        "warnings": newcomer.warnings,
        "why": "",
        "done": done,
        "error": error,
    }


def _left(left: Left) -> Json:
    return {
        **_entry(left.origin),
        "server": None,
        "command": "",
        "folder": None,
        "variables": [],
        "secrets": [],
        "warnings": [],
        "why": left.why,
        "done": None,
        "error": None,
    }
