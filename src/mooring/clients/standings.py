"""How entries stand in clients' files: for people who ask, and for the daemon, which looks ever again."""

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from mooring.clients.bookkeeping import Books, key_of
from mooring.clients.client import Client
from mooring.clients.detecting import Site, is_installed, project_site, user_site, why_no_site
from mooring.clients.drafts import as_it_was, state_of
from mooring.clients.editing.edits import Value
from mooring.clients.entries import what_next
from mooring.clients.machine import Machine
from mooring.clients.outcomes import Drift, EntryStanding, Standing
from mooring.clients.records import ABSENT, Contents, FileRecord, Owned
from mooring.clients.table import load_table
from mooring.errors import UserError

__all__ = ["Lookout", "sites_of", "standings"]

_FRESH_NS = 2_000_000_000
"""A file that was written so lately may be written again without its time being another."""

Seen = tuple[int, int, int] | None


def sites_of(record: FileRecord) -> Iterator[tuple[Site, list[Owned]]]:
    """Under which clients a file is written down, and with which entries."""
    found: dict[tuple[object, ...], list[Owned]] = {}
    for owned in record.entries:
        found.setdefault((owned.client, owned.section, owned.format, owned.project), []).append(owned)
    for owners in found.values():
        first = owners[0]
        client = as_it_was(first.client, first.section, first.format)
        if client is not None:
            yield Site(client, Path(record.path), Path(first.project) if first.project else None), owners


def standings(
    books: Books, machine: Machine, *, project: Path | None = None, everything: bool = False
) -> list[Standing]:
    """See `Registry.standings`."""
    contents = books.peek()
    ours = {owned.server for record in contents.files.values() for owned in record.entries}
    here = {client.id for client in load_table().values() if is_installed(client, machine)}
    found = [
        _standing(books, contents, site, owners, ours, installed=site.client.id in here)
        for site, owners in _sites(contents, machine, here, project, everything)
    ]
    if project is None:
        found += _without_file(machine, here, everything)
    order = {client: number for number, client in enumerate(load_table())}
    return sorted(found, key=lambda one: (order[one.client], str(one.project or ""), str(one.path or "")))


def _sites(
    contents: Contents, machine: Machine, here: set[str], project: Path | None, everything: bool
) -> Iterator[tuple[Site, list[Owned]]]:
    written: dict[tuple[str, str], tuple[Site, list[Owned]]] = {}
    for record in contents.files.values():
        for site, owners in sites_of(record):
            written.setdefault((site.client.id, record.path), (site, []))[1].extend(owners)
    for client in load_table().values():
        counting = project_site(client, project) if project else user_site(client, machine)
        if counting is not None:
            known = written.pop((client.id, key_of(counting.path)), None)
            if known or client.id in here or everything:
                yield counting, known[1] if known else []
    for site, owners in written.values():
        if project is None or site.project == project:
            yield site, owners


def _without_file(machine: Machine, here: set[str], everything: bool) -> Iterator[Standing]:
    for client in load_table().values():
        if (client.id in here or everything) and user_site(client, machine) is None:
            yield Standing(
                client.id,
                client.name,
                None,
                installed=client.id in here,
                reload=client.reload.mode,
                trouble=why_no_site(client, machine),
            )


def _standing(
    books: Books,
    contents: Contents,
    site: Site,
    owners: Sequence[Owned],
    ours: set[str],
    *,
    installed: bool,
) -> Standing:
    client = site.client
    there, trouble = _read(books, client, site.path)
    entries = [
        EntryStanding(owned.server, state_of(owned, there.get(owned.name, ABSENT)), owned.why)
        if there is not None
        else EntryStanding(owned.server, owned.state, owned.why)
        for owned in owners
    ]
    names = {owned.name for owned in owners}
    others = [name for name in there or {} if name not in names]
    entries += [EntryStanding(name, "foreign") for name in others if name in ours]
    return Standing(
        client.id,
        client.name,
        site.path,
        site.project,
        installed=installed,
        exists=os.path.lexists(site.path),
        reload=client.reload.mode,
        next=what_next(client, is_project=site.project is not None),
        entries=tuple(sorted(entries, key=lambda one: one.server)),
        others=len(others),
        trouble=trouble,
        follows_all=any(
            one.client == client.id and one.project == (str(site.project) if site.project else None)
            for one in contents.follows
        ),
    )


def _read(books: Books, client: Client, path: Path) -> tuple[dict[str, Value] | None, str]:
    """What stands in the section, or why that cannot be told."""
    try:
        return books.entries(client, path), ""
    except UserError as error:
        return None, error.message


class _Look(NamedTuple):
    """What was found in a file when it looked like that."""

    seen: Seen
    entries: tuple[Owned, ...]
    drifts: list[Drift]


class Lookout:
    """Looks at known files again and again: by stat, and reads one only if it may be another than before."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self._looks: dict[str, _Look] = {}

    def drifted(self) -> list[Drift]:
        """All that does not stand as it should."""
        records = {
            path: one for path, one in self._books.peek().files.items() if one.entries and not one.intent
        }
        self._looks = {path: look for path, look in self._looks.items() if path in records}
        return [drift for record in records.values() for drift in self._look(record)]

    def _look(self, record: FileRecord) -> list[Drift]:
        seen = _seen(record.path)
        known = self._looks.pop(record.path, None)
        if known is not None and known.seen == seen and known.entries == record.entries:
            self._looks[record.path] = known
            return known.drifts
        drifts = [drift for site, owners in sites_of(record) for drift in self._drifts(site, owners)]
        if seen is None or seen[0] < time.time_ns() - _FRESH_NS:
            self._looks[record.path] = _Look(seen, record.entries, drifts)
        return drifts

    def _drifts(self, site: Site, owners: list[Owned]) -> Iterator[Drift]:
        there, _ = _read(self._books, site.client, site.path)
        if there is None:
            return  # whoever writes it has not finished, or it is in trouble: that is not drift
        for owned in owners:
            state = state_of(owned, there.get(owned.name, ABSENT))
            if state in ("missing", "changed"):
                yield Drift(owned.server, state, client=site.client.id, path=site.path, project=site.project)


def _seen(path: str) -> Seen:
    try:
        status = os.stat(path)  # noqa: PTH116 - one call for all three
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
