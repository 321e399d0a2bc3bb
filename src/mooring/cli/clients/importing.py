"""What `mooring client import` does: entries read, a plan shown and agreed to, servers run, entries replaced.

Nothing is lost whatever happens: an entry is replaced when Mooring serves in its place, and not before. A
server that does not work is forgotten again, with its secrets. Values are never shown.
"""

import json
import os
import shlex
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import click

from mooring.api.client import ApiClient, NotRunning
from mooring.cli.clients.access import chosen_sites, find_registry, sites_here, target_of, tell_of_damage
from mooring.cli.clients.import_words import Result, as_json_of, show_plan, tell_results
from mooring.cli.clients.intake import Circumstances, Newcomer, Origin, plan_import, secrets_of
from mooring.cli.clients.telling import client_name, shown_path
from mooring.cli.files.known import known_servers
from mooring.cli.reach import reach
from mooring.cli.servers.changing import INTERRUPTED, LONG_S, waited
from mooring.cli.servers.telling import Json
from mooring.cli.servers.waiting import Job, wait_ready
from mooring.cli.terminal.live import progress_of
from mooring.cli.terminal.words import show_error, tell
from mooring.clients.detecting import Site
from mooring.clients.entries import Target
from mooring.clients.outcomes import Change, Outcome
from mooring.clients.registry import Registry
from mooring.clients.understanding import Found, servers_in
from mooring.errors import MooringError, UserError
from mooring.host.places import Places, find_places
from mooring.secrets.vault import Vault
from mooring.workloads.definition import dump_options

__all__ = ["import_servers"]


class _Trouble(NamedTuple):
    """A file that could not be read."""

    site: Site
    error: MooringError


def import_servers(
    ids: Sequence[str],
    *,
    every: bool,
    entries: Sequence[str],
    project: Path | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """`mooring client import`; returns its exit status."""
    registry = find_registry()
    command = _command(ids, every=every, entries=entries, project=project)
    every = every or not ids
    sites = chosen_sites(
        registry, ids, every=every, project=project, meant_by_all=sites_here, command="import"
    )
    places = find_places(os.environ)
    there, troubles = _read(sites, registry)
    origins = _asked_for(there, entries)
    api = _reach_for(dry_run)
    plan = plan_import(origins, _circumstances(places, api), there)
    if not as_json:
        show_plan(plan, sites)
    for trouble in troubles:
        show_error(f"{trouble.site.client.id}: {trouble.error.message}", trouble.error.hint)
    results: list[Result] = []
    if plan.newcomers and not dry_run and api is not None:
        if not _agreed(yes, command, can_ask=sys.stdin.isatty() and not as_json):
            return 0
        done = _carry_out(plan.newcomers, api, registry, Vault(places.secrets), command, quiet=as_json)
        if done is None:
            return INTERRUPTED
        results = _told_followers(registry, done)
        tell_of_damage(registry)
        if not as_json:
            tell_results(results)
    if as_json:
        click.echo(json.dumps(as_json_of(plan, results), indent=2))
    return 1 if troubles or any(result.has_failed for result in results) else 0


def _command(ids: Sequence[str], *, every: bool, entries: Sequence[str], project: Path | None) -> str:
    """What was asked for, to be asked for again: never more than that."""
    words = ["mooring", "client", "import", *ids, *(["--all"] if every else [])]
    for entry in entries:
        words += ["--server", entry]
    return shlex.join([*words, *(["--project", str(project)] if project else [])])


def _read(sites: Sequence[Site], registry: Registry) -> tuple[list[Origin], list[_Trouble]]:
    """What these files say; one that cannot be read does not stop the others."""
    origins: list[Origin] = []
    troubles: list[_Trouble] = []
    # Clients may share a file: its entries are read once, as the first of them has it.
    once = {(site.path, site.client.section): site for site in reversed(sites)}
    for site in reversed(once.values()):
        try:
            origins += [Origin(site, found) for found in servers_in(site.client, registry.document(site))]
        except MooringError as error:
            error.message = f"{shown_path(site.path)}: {error.message}"
            troubles.append(_Trouble(site, error))
    return origins, troubles


def _asked_for(origins: list[Origin], entries: Sequence[str]) -> list[Origin]:
    if not entries:
        return origins
    there = {origin.found.name for origin in origins}
    for name in entries:
        if name not in there:
            raise UserError(
                f"there is no entry named {name} in these clients' files",
                code="unknown_entry",
                hint=f"there are: {', '.join(sorted(there)) or 'none'}",
            )
    return [origin for origin in origins if origin.found.name in entries]


def _reach_for(dry_run: bool) -> ApiClient | None:
    """None: Mooring does not run, and is not to be started for this."""
    try:
        return reach(start=not dry_run)
    except NotRunning:
        tell("note", "Mooring does not run: servers that it may have from earlier are not in this plan")
        return None


def _circumstances(places: Places, api: ApiClient | None) -> Circumstances:
    vault = Vault(places.secrets)
    return Circumstances(
        known={} if api is None else {name: one.options for name, one in known_servers(api).items()},
        urls=frozenset() if api is None else frozenset(one["url"] for one in api.ask("GET", "/servers")),
        look_up_secret=vault.look_up,
        environ=os.environ,
        home=Path.home(),
    )


def _agreed(yes: bool, command: str, *, can_ask: bool) -> bool:
    if yes:
        return True
    if not can_ask:
        raise UserError(
            "this changes the files of AI clients, and there is nobody to ask",
            code="not_agreed",
            hint=f"{command} --yes",
        )
    return click.confirm("Go on?", default=False)


def _carry_out(
    newcomers: Sequence[Newcomer],
    api: ApiClient,
    registry: Registry,
    vault: Vault,
    command: str,
    *,
    quiet: bool,
) -> list[Result] | None:
    """None: somebody did not want to wait for it. `command`: how to ask for it again."""
    _keep(vault, newcomers, command)
    jobs = [Job(newcomer.name, partial(_run, api, newcomer)) for newcomer in newcomers]
    if not waited(api, jobs, "is being started", progress_of(jobs, quiet=quiet)):
        click.echo(f"the entries of clients are as they were; {command} goes on from here", err=True)
        return None
    working = {
        newcomer.name: job.answer for newcomer, job in zip(newcomers, jobs, strict=True) if job.error is None
    }
    outcomes = _replaced(registry, newcomers, working)
    results = []
    for newcomer, job in zip(newcomers, jobs, strict=True):
        if job.error is not None and newcomer.is_new:
            _forget(api, vault, newcomer)
        results.append(
            Result(newcomer, working.get(newcomer.name), job.error, outcomes.get(newcomer.name, []))
        )
    return results


def _keep(vault: Vault, newcomers: Iterable[Newcomer], command: str) -> None:
    """Their secrets; never over one that came to be kept since they were planned."""
    secrets = {name: value for newcomer in newcomers for name, value in newcomer.secrets.items()}
    for name, value in secrets.items():
        if vault.look_up(name) not in (None, value):
            raise UserError(
                f"there is another secret {name} now",
                code="secret_taken",
                hint=command,
            )
    for name, value in secrets.items():
        vault.put(name, value)


def _run(api: ApiClient, newcomer: Newcomer) -> Json:
    body = {"options": json.loads(dump_options(newcomer.options)), "replace": False}
    path = f"/servers/{newcomer.name}?wait=true"
    return wait_ready(api, api.ask("PUT", path, body, timeout_s=LONG_S)["server"])


def _forget(api: ApiClient, vault: Vault, newcomer: Newcomer) -> None:
    """What was made for it alone; a secret that others are given stays."""
    try:
        api.ask("DELETE", f"/servers/{newcomer.name}?wait=true", timeout_s=LONG_S)
        left = [one.options for one in known_servers(api).values()]
        for name in newcomer.secrets:
            if not any(options is None or name in secrets_of(options) for options in left):
                vault.remove(name)
    except MooringError as error:
        tell("warning", f"{newcomer.name} could not be forgotten again: {error.message}")


def _replaced(
    registry: Registry, newcomers: Iterable[Newcomer], working: dict[str, Json]
) -> dict[str, list[Outcome]]:
    """By server: one change for each file, so that one `undo` takes back all of it."""
    by_site: dict[Site, list[tuple[Found, Newcomer]]] = {}
    for newcomer in newcomers:
        for origin in newcomer.origins if newcomer.name in working else ():
            by_site.setdefault(origin.site, []).append((origin.found, newcomer))
    outcomes: dict[str, list[Outcome]] = {}
    for site, pairs in by_site.items():
        targets = [(found.name, target_of(working[newcomer.name])) for found, newcomer in pairs]
        # What was agreed to is what was shown: an entry that was changed since then is left.
        done = registry.replace(site, targets, planned={found.name: found.entry for found, _ in pairs})
        for (_, newcomer), outcome in zip(pairs, done, strict=True):
            outcomes.setdefault(newcomer.name, []).append(outcome)
    return outcomes


def _told_followers(registry: Registry, results: Sequence[Result]) -> list[Result]:
    """Clients that are to have all servers have these too; it is told if one cannot, and is no failure.

    By the same registry: one `undo` takes back all of it.
    """
    wanted: dict[Site, list[Target]] = {}
    for newcomer, server, *_ in results:
        has_it = {(origin.site.client.id, origin.site.path) for origin in newcomer.origins}
        for site in () if server is None else registry.followers(newcomer.name):
            if server is not None and (site.client.id, site.path) not in has_it:
                wanted.setdefault(site, []).append(target_of(server))
    try:
        outcomes = [one for site, targets in wanted.items() for one in registry.add(site, targets)]
    except MooringError as error:
        tell("warning", f"other AI clients could not be told: {error.message}")
        return list(results)
    for one in outcomes:
        if one.change is Change.REFUSED:
            tell("warning", f"{client_name(one.client)} was not told of {one.server}: {one.error}")
    return [
        result._replace(followers=[one for one in outcomes if one.server == result.newcomer.name])
        for result in results
    ]
