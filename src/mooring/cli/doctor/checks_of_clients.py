"""Entries of Mooring in the files of AI clients that are not as they should be."""

from collections.abc import Iterator, Mapping

from mooring.cli.clients.telling import shown_path
from mooring.cli.doctor.findings import Finding, Level
from mooring.cli.servers.telling import count
from mooring.clients.machine import Machine
from mooring.clients.outcomes import EntryStanding, Standing
from mooring.clients.registry import Registry
from mooring.host.places import Places

__all__ = ["check_clients"]


def check_clients(places: Places, environment: Mapping[str, str]) -> Iterator[Finding]:
    """By looking at each file that has an entry; what cannot be looked at is told as such."""
    if not places.client_ledger.exists():
        yield Finding("clients", Level.OK, "no AI client was told of a server")
        return
    standings = Registry(places.clients, Machine.this(environment)).standings()
    told = [one for one in standings if one.entries]
    wrong = [finding for one in told for finding in _wrong(one)]
    yield from wrong
    if not wrong:
        yield Finding("clients", Level.OK, f"{count(len(told), 'file')} with entries, all as they should be")


def _wrong(standing: Standing) -> Iterator[Finding]:
    where = f"{standing.name}: {shown_path(standing.path)}" if standing.path else standing.name
    if standing.trouble:
        text = f"{where} cannot be read: {standing.trouble}"
        yield Finding("clients", Level.PROBLEM, text, "put the file right: the client cannot read it either")
        return
    for entry in standing.entries:
        if entry.state == "missing":
            text = f"{where} has lost the entry {entry.server}"
            yield Finding("clients", Level.PROBLEM, text, "mooring client sync puts it back")
        elif entry.state == "changed":
            yield Finding("clients", Level.NOTE, *_of_changed(where, standing, entry))
        elif entry.state == "out":
            text = f"{where} is without {entry.server} for now: {entry.why}"
            yield Finding("clients", Level.NOTE, text, f"mooring status {entry.server} tells more")


def _of_changed(where: str, standing: Standing, entry: EntryStanding) -> tuple[str, str]:
    project = f" --project {standing.project}" if standing.project else ""
    add = f"mooring client add {standing.client} --server {entry.server}{project} --force"
    return f"{where}: somebody has changed the entry {entry.server}", f"{add} writes it as it was"
