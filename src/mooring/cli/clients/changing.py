"""What `mooring client add`, `rm`, `undo` and `sync` do."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple, cast

import click

from mooring.cli.clients.access import (
    check_client,
    chosen_sites,
    find_registry,
    known_targets,
    site_of,
    sites_here,
    tell_of_damage,
)
from mooring.cli.clients.telling import Doing, client_name, finish, shown_path
from mooring.cli.reach import reach
from mooring.cli.terminal.words import tell
from mooring.clients.detecting import Site
from mooring.clients.entries import Target
from mooring.clients.outcomes import Change, Outcome
from mooring.clients.registry import Registry
from mooring.clients.table import load_table
from mooring.errors import MooringError, UserError

__all__ = ["How", "add", "remove", "restore_everything", "sync", "undo"]


class How(NamedTuple):
    """How a change is made."""

    dry_run: bool
    force: bool
    as_json: bool


def add(ids: Sequence[str], *, every: bool, servers: Sequence[str], project: Path | None, how: How) -> int:
    """Have entries in clients' files; returns the exit status, as all of these do."""
    registry = find_registry()
    sites = chosen_sites(registry, ids, every=every, project=project, meant_by_all=sites_here, command="add")
    targets = known_targets(reach(start=not how.dry_run))
    wanted = _wanted(targets, servers)
    outcomes: list[Outcome] = []
    new = _not_following(registry, sites)
    for site in sites:
        outcomes += registry.add(site, wanted, force=how.force, dry_run=how.dry_run, follows_all=not servers)
    tell_of_damage(registry)
    status = finish(outcomes, Doing(how.dry_run), as_json=how.as_json, nothing=_nothing(sites, targets))
    if not how.dry_run:
        new = [site for site in new if site not in _not_following(registry, new)]
    if new and not servers and not how.as_json:
        _tell_of_following(new, "would be added" if how.dry_run else "are added")
    return status


def _not_following(registry: Registry, sites: Sequence[Site]) -> list[Site]:
    """Those to which new servers do not go yet."""
    following = {(site.client.id, site.path) for site in registry.followers("")}
    return [site for site in sites if (site.client.id, site.path) not in following]


def _wanted(targets: dict[str, Target], names: Sequence[str]) -> list[Target]:
    if not names:
        return list(targets.values())
    for name in names:
        if name not in targets:
            raise UserError(
                f"there is no server named {name}",
                code="unknown_server",
                hint="mooring ls lists all, mooring run adds one",
            )
    return [targets[name] for name in dict.fromkeys(names)]


def _nothing(sites: Sequence[Site], targets: dict[str, Target]) -> str:
    if not sites:
        return "No AI client is found on this machine: mooring client ls --all lists those that Mooring knows"
    return (
        "There are no servers yet. Add one: mooring run NAME -- COMMAND" if not targets else "Nothing to do"
    )


def _tell_of_following(sites: Sequence[Site], what: str) -> None:
    names = list(dict.fromkeys(site.client.name for site in sites))
    whom = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    where = f" in {shown_path(sites[0].project)}" if sites[0].project is not None else ""
    tell("note", f"servers that you run from now on {what} to {whom}{where}, too")


def remove(ids: Sequence[str], *, every: bool, servers: Sequence[str], project: Path | None, how: How) -> int:
    """Have entries in clients' files no more."""
    registry = find_registry()
    sites = chosen_sites(
        registry,
        ids,
        every=every,
        project=project,
        meant_by_all=_all_written_sites,
        meant_by_id=_written_sites,
        command="rm",
    )
    outcomes: list[Outcome] = []
    followed = len(registry.followers(""))
    for site in sites:
        names = list(dict.fromkeys(servers)) or None
        outcomes += registry.remove(site, names, force=how.force, dry_run=how.dry_run)
    tell_of_damage(registry)
    is_less = len(registry.followers("")) < followed
    nothing = "There is no entry of Mooring there" + (
        "; servers that you run from now on are not added any more" if is_less else ""
    )
    return finish(outcomes, Doing(how.dry_run, is_removal=True), as_json=how.as_json, nothing=nothing)


def _all_written_sites(registry: Registry, project: Path | None) -> list[Site]:
    """Also those of clients that are no longer installed; of all projects, if none is named."""
    known = _known_sites(registry)
    which = {(site.client.id, site.project) for site in known if project in (None, site.project)}
    order = {id: number for number, id in enumerate(load_table())}
    in_order = sorted(which, key=lambda one: (order[one[0]], str(one[1] or "")))
    return [site for id, of_project in in_order for site in _among(known, registry, id, of_project)]


def _written_sites(registry: Registry, id: str, project: Path | None) -> list[Site]:
    return _among(_known_sites(registry), registry, id, project)


def _known_sites(registry: Registry) -> list[Site]:
    """That have entries, or to which every new server goes."""
    found = (site for server in ("", *registry.servers()) for site in registry.followers(server))
    return list({(site.client.id, site.path): site for site in found}.values())


def _among(known: Sequence[Site], registry: Registry, id: str, project: Path | None) -> list[Site]:
    """Where entries of a client are written down to be, wherever its file would be now.

    One that has none, and could not have any here, is told of. Raises UserError: there is no such client.
    """
    its_own = [site for site in known if (site.client.id, site.project) == (id, project)]
    if its_own and project is not None:
        return its_own
    try:
        return [site_of(registry, id, project)]  # with which its other files are seen to
    except UserError as error:
        if error.code == "unknown_client":
            raise
        if not its_own:
            tell("warning", f"{id}: {error.message}")
        return its_own[:1]


def restore_everything(registry: Registry) -> list[str]:
    """For who wants no trace to be left; returns the files in which something is, and why."""
    refused = [one for one in registry.leave() if one.change is Change.REFUSED]
    why: dict[str, list[str]] = {}
    for one in refused:
        why.setdefault(shown_path(one.path), []).append(one.error)
    return [f"{path} ({', '.join(dict.fromkeys(errors))})" for path, errors in why.items()]


def undo(id: str | None, *, as_json: bool) -> int:
    """Have files as they were before the last change."""
    registry = find_registry()
    if id is not None:
        check_client(registry, id)
    outcomes = registry.undo(id)
    tell_of_damage(registry)
    whose = "" if id is None else f" to the file of {client_name(id)}"
    status = finish(outcomes, as_json=as_json, nothing=f"No change{whose} is known that could be undone")
    if not as_json:
        _tell_of_servers_that_stay(outcomes)
    return status


def _tell_of_servers_that_stay(outcomes: Sequence[Outcome]) -> None:
    """An undone import leaves what it has made."""
    imported = {one.server for one in outcomes if one.gives_way and one.change is not Change.REFUSED}
    if not imported:
        return
    try:
        there = [name for name in known_targets(reach()) if name in imported]
    except MooringError:  # then they do not run
        return
    if there:
        names = " ".join(there)
        what = f"the server {names} stays" if len(there) == 1 else f"the servers {', '.join(there)} stay"
        tell("note", f"{what} in Mooring; to forget: mooring rm {names}")


def sync(repair: str | None, *, as_json: bool) -> int:
    """Have entries as they should be."""
    registry = find_registry()
    known = registry.servers()  # first: a server that comes after the daemon was asked is not to be removed
    targets = known_targets(reach(start=True))
    if repair is not None:
        registry.repair = cast(Literal["off", "auto"], repair)
    outcomes = [one for one in registry.sync(targets, known) if as_json or one.change is not Change.UNCHANGED]
    tell_of_damage(registry)
    status = finish(outcomes, as_json=as_json, nothing="All entries are as they should be")
    if repair is not None and not as_json:
        by_itself = (
            "from now on Mooring does this by itself" if repair == "auto" else "Mooring leaves it to you"
        )
        click.echo(f"{by_itself}: --repair {repair}")
    return status
