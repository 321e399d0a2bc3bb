"""What the commands about clients begin with: the registry, where the servers are, which files are meant."""

import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from mooring.api.client import ApiClient
from mooring.cli.servers.telling import Json
from mooring.cli.terminal.words import tell
from mooring.clients.bookkeeping import key_of
from mooring.clients.detecting import Site, project_site
from mooring.clients.entries import Target
from mooring.clients.machine import Machine
from mooring.clients.registry import Registry
from mooring.clients.table import load_table
from mooring.errors import UserError
from mooring.host.client_targets import target_at
from mooring.host.places import Places, find_places

__all__ = [
    "check_client",
    "chosen_sites",
    "find_registry",
    "known_targets",
    "registry_at",
    "site_of",
    "sites_here",
    "target_of",
    "tell_of_damage",
]

LIST = "mooring client ls --all"


def find_registry() -> Registry:
    """Of this user, on this machine."""
    places = find_places(os.environ)
    places.make()
    return registry_at(places)


def registry_at(places: Places) -> Registry:
    """The same, and no directory is made but for what it needs itself."""
    logging.getLogger("mooring.clients").addHandler(logging.NullHandler())  # what it says, commands say too
    return Registry(places.clients, Machine.this(os.environ))


def tell_of_damage(registry: Registry) -> None:
    """If what was known of clients' files could not be read."""
    if (aside := registry.damaged) is not None:
        text = f"what Mooring knew of its entries was damaged: it is kept as {aside}, and begun anew"
        tell("warning", f"{text}; mooring client sync recognises the entries again")


def target_of(server: Json) -> Target:
    """Where a server is, from what the daemon says of it."""
    return target_at(find_places(os.environ), server["name"], server["url"], os.environ)


def known_targets(api: ApiClient) -> dict[str, Target]:
    """All servers of the daemon, by name."""
    return {server["name"]: target_of(server) for server in api.ask("GET", "/servers")}


def chosen_sites(
    registry: Registry,
    ids: Sequence[str],
    *,
    every: bool,
    project: Path | None,
    meant_by_all: Callable[[Registry, Path | None], list[Site]],
    meant_by_id: Callable[[Registry, str, Path | None], list[Site]] | None = None,
    command: str,
) -> list[Site]:
    """The files that are meant. Raises UserError for a client that there is not, before anything is done."""
    if ids and every:
        raise click.UsageError("name clients or give --all, not both")
    root = None if project is None else Path(key_of(project))
    if every:
        return meant_by_all(registry, root)
    if not ids:
        here = ", ".join(site.client.id for site in registry.installed())
        raise UserError(
            "which clients?",
            code="no_client",
            hint=f"mooring client {command} CLIENT..., or --all; on this machine: {here or 'none is found'}",
        )
    if meant_by_id is None:
        return [site_of(registry, id, root) for id in dict.fromkeys(ids)]
    return [site for id in dict.fromkeys(ids) for site in meant_by_id(registry, id, root)]


def site_of(registry: Registry, id: str, project: Path | None = None) -> Site:
    """The file of that client. Raises UserError; for one that there is not, it says where all are listed."""
    try:
        return registry.site(id, project)
    except UserError as error:
        if error.code == "unknown_client" and LIST not in error.hint:
            error.hint = f"{error.hint} {LIST} lists all"
        raise


def check_client(registry: Registry, id: str) -> None:
    """Is there such a client? It need not be on this machine, nor have a file here. Raises UserError."""
    if id not in load_table():
        site_of(registry, id)


def sites_here(registry: Registry, project: Path | None) -> list[Site]:
    """Of all clients that are installed; in a project, of those that have a file there."""
    sites = registry.installed()
    if project is None:
        return sites
    found = (project_site(site.client, project) for site in sites)
    return [site for site in found if site is not None]
