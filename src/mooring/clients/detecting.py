"""Which clients are on a machine, and which of a client's files counts: by `stat` alone.

No file of a client is opened here, but for one: a pointer to where all others are (`pointer_file`), which is
read like any file that may be hostile. On macOS reading another program's files asks the user for permission;
looking whether they are there does not.
"""

import os
import shutil
from pathlib import Path, PurePath
from typing import NamedTuple

import msgspec

from mooring.clients.client import Client, Place, keys_of
from mooring.clients.editing.edits import Section
from mooring.clients.looking import look, real_path
from mooring.clients.machine import Machine
from mooring.errors import UserError

__all__ = [
    "Site",
    "candidates",
    "is_installed",
    "old_sites",
    "project_site",
    "user_site",
    "why_no_site",
]

_POINTER_BYTES = 4096


class Site(NamedTuple):
    """One file of one client."""

    client: Client
    path: Path
    project: Path | None = None


def is_installed(client: Client, machine: Machine) -> bool:
    """Is there anything that only this client leaves on a machine?"""
    detect = client.detect
    if any(_is_there(path) for path in machine.paths(detect.paths)):
        return True
    variables = (machine.environment.get(name) for name in detect.variables)
    if any(_is_there(Path(value)) for value in variables if value):
        return True
    search = machine.environment.get("PATH")
    return bool(search) and any(shutil.which(binary, path=search) for binary in detect.binaries)


def candidates(client: Client, machine: Machine) -> list[PurePath]:
    """Where the file of a user may be, the first choice first; pure but for a pointer to it."""
    overridden = _overridden(client, machine)
    pointed = _pointed(client, machine)
    usual = machine.paths(client.files[machine.platform], pointed=pointed)
    return list(dict.fromkeys([*overridden, *usual]))


def user_site(client: Client, machine: Machine) -> Site | None:
    """The file of a user that counts: one that is there, else the one to create.

    None: the client is not for this platform, or where its file is has to be told (`why_no_site`).
    """
    path = _counting(client, machine)
    return Site(client, path) if path and not _in_the_way(client, machine, path) else None


def why_no_site(client: Client, machine: Machine) -> str:
    """What to tell a user about a client without a `user_site`."""
    if path := _counting(client, machine):
        other = _in_the_way(client, machine, path)
        return f"{client.name} uses {other}, and would not any more if there were {path}"
    if client.env_override:
        return f"where the file of {client.name} is has to be told: set {' or '.join(client.env_override)}"
    return f"{client.name} has no file on {machine.platform}"


def old_sites(client: Client, machine: Machine) -> list[Site]:
    """Files beside the one that counts where an entry may have been left: old ones, other candidates."""
    counting = _counting(client, machine)
    others = (Site(client, Path(path)) for path in candidates(client, machine))
    legacy = (
        Site(_of_old(client, place), Path(path))
        for place in client.legacy
        for path in machine.paths([place.file])
    )
    return [site for site in (*others, *legacy) if site.path != counting and os.path.lexists(site.path)]


def project_site(client: Client, project: Path) -> Site | None:
    """The file of a client inside a project: one that is there, else the one to create."""
    if client.project is None:
        return None
    files = [_in_project(project, template) for template in client.project.files]
    created = [_in_project(project, template) for template in client.create]
    return Site(client, _first(client, files, created), project)


def _counting(client: Client, machine: Machine) -> Path | None:
    if overridden := _overridden(client, machine):
        return Path(overridden[0])
    files = [Path(path) for path in candidates(client, machine)]
    if not files:
        return None
    if client.legacy_unless and not any(map(_is_there, machine.paths([client.legacy_unless]))):
        files += [Path(path) for path in machine.paths([place.file for place in client.legacy])]
    return _first(client, files, [Path(path) for path in machine.paths(client.create)])


def _first(client: Client, files: list[Path], created: list[Path]) -> Path:
    there = [file for file in files if os.path.lexists(file)]
    if not there and client.pick == "folder":
        there = [file for file in files if _is_there(file.parent)]
    return (*there, *(file for file in files if file in created), *files)[0]


def _in_project(project: Path, template: str) -> Path:
    return project / template.removeprefix("{project}/")


def _overridden(client: Client, machine: Machine) -> list[PurePath]:
    return [
        path
        for name, template in client.env_override.items()
        if (value := machine.environment.get(name))
        for path in machine.paths([template], value=value)
    ]


def _pointed(client: Client, machine: Machine) -> str | None:
    for path in machine.paths([client.pointer_file] if client.pointer_file else []):
        try:
            seen = look(real_path(Path(path)))
            pointed = seen.data[:_POINTER_BYTES].decode().strip() if seen else ""
        except (UserError, UnicodeDecodeError):
            continue
        if pointed and pointed.isprintable():
            return pointed
    return None


def _in_the_way(client: Client, machine: Machine, path: Path) -> Path | None:
    others = machine.paths([client.not_beside] if client.not_beside else [])
    there = [Path(other) for other in others if os.path.lexists(other)]
    return there[0] if there and not os.path.lexists(path) else None


def _of_old(client: Client, place: Place) -> Client:
    """The client as its old files were."""
    section = Section(keys_of(place.section)) if place.section else client.section
    form = place.format or client.format
    return msgspec.structs.replace(client, section=section, format=form, seed="", other_section="")


def _is_there(path: PurePath) -> bool:
    # Not Path.exists, which before Python 3.14 raises where a folder may not be looked into.
    return os.path.exists(path)  # noqa: PTH110
