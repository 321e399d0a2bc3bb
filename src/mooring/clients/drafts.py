"""One document and what is written of it, while a change is thought out. Nothing is done here.

A draft sees one section of one file, as one client has it. Other clients may have entries of ours in the same
section (a project's `.mcp.json`, say): those that the ledger has for the same file can be changed with it,
those under another name of the file (a link) can only be minded.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from msgspec import structs

from mooring.clients.client import Client, FormatName
from mooring.clients.differences import ChangedEntry
from mooring.clients.editing.edits import Section, Value, complete, same
from mooring.clients.entries import is_as_wanted
from mooring.clients.outcomes import EntryState
from mooring.clients.records import (
    ABSENT,
    FileRecord,
    Original,
    Owned,
    Step,
    There,
    Touched,
    fingerprint,
    keepable,
)
from mooring.clients.table import load_table

__all__ = ["Draft", "as_it_was", "entries_in", "is_ours", "state_of"]


class Draft:
    """See the module. `data`: the file; None: there is none. Raises Refused if it cannot be read."""

    def __init__(
        self, client: Client, data: bytes | None, record: FileRecord, elsewhere: Sequence[Owned] = ()
    ) -> None:
        self.client = client
        self.before = data
        self.result = data
        self.entries = list(record.entries)
        self.originals = list(record.originals)
        self.is_file_ours = record.is_made
        self.is_refused = False
        """Nothing of what was wanted can be done."""
        self.is_undone = False
        """What was to be undone is, as far as it can be: it is not to be undone again."""
        self._editor, self._section = client.editor, client.section
        self._owned_before = record.entries
        self._elsewhere = elsewhere
        self._there = entries_in(self._editor.read(data or b""), self._section)
        self._there_before = dict(self._there)

    def there(self, name: str) -> There:
        """What stands under that name now."""
        return self._there.get(name, ABSENT)

    def put(self, name: str, entry: dict[str, Value]) -> bool:
        """Have that entry stand there; False: it did. Raises Refused, and is as before."""
        wanted = complete(self._section, name, entry)
        if same(self.there(name), wanted):
            return False
        self.result = self._editor.put(self.result or b"", self._section, name, entry)
        self._there[name] = wanted
        return True

    def remove(self, name: str) -> None:
        """Have nothing stand there. Raises Refused, and is as before."""
        if self.result is not None and self.there(name) is not ABSENT:
            self.result = self._editor.remove(self.result, self._section, name)
            del self._there[name]

    def become(self, data: bytes | None) -> None:
        """The whole file as it is given. Raises Refused."""
        self._there = entries_in(self._editor.read(data or b""), self._section)
        self.result = data

    def mine(self, name: str) -> Owned | None:
        """What is written of the entry under that name, for this client."""
        return next((one for one in self.owners(name) if one.client == self.client.id), None)

    def owners(self, name: str) -> list[Owned]:
        """For all clients, under this name of the file."""
        return [one for one in self.entries if one.name == name and one.section == self._section]

    def sharers(self, name: str) -> list[Owned]:
        """Other clients for which the entry was put there too; or the same, by another name of the file."""
        others = [one for one in self.owners(name) if one.client != self.client.id]
        return others + self.elsewhere(name)

    def elsewhere(self, name: str) -> list[Owned]:
        """Those of them who have another name for the file."""
        return [one for one in self._elsewhere if one.name == name and one.section == self._section]

    def own(self, owned: Owned) -> None:
        """That is what is written of it."""
        at = next((n for n, one in enumerate(self.entries) if _is_of(one, owned)), None)
        if at is None:
            self.entries.append(owned)
        else:
            self.entries[at] = owned

    def disown(self, owned: Owned) -> None:
        """Nothing is written of it any more."""
        self.entries = [one for one in self.entries if not _is_of(one, owned)]

    def give_back(self, name: str, owners: Sequence[Owned]) -> None:
        """It belongs to those, and to no one else."""
        for owned in self.owners(name):
            self.disown(owned)
        for owned in owners:
            self.own(owned)

    def owned(self, server: str, name: str, wrote: dict[str, Value], project: str | None) -> Owned:
        """What is to be written of an entry of this client."""
        return Owned(self.client.id, server, name, self._section, self.client.format, wrote, project)

    def keep_original(self, name: str) -> None:
        """Remember what stands there, if it is not ours (any more): something of ours takes its place."""
        there = self.there(name)
        owners = (*self.owners(name), *self.elsewhere(name))
        if any(is_ours(one, there) for one in owners) or not isinstance(there, dict) or not keepable(there):
            return
        self.drop_original(name)
        kept = Original(self.client.id, self._section, self.client.format, name, there)
        self.originals.append(kept)

    def drop_original(self, name: str) -> None:
        """It is back, or somebody put another there."""
        self.originals = [one for one in self.originals if (one.section, one.name) != (self._section, name)]

    def originals_here(self) -> list[Original]:
        """Those of this section."""
        return [one for one in self.originals if one.section == self._section]

    @contextmanager
    def trying(self) -> Iterator[None]:
        """What is raised in the block leaves the draft as it was before it."""
        before = self.result, list(self.entries), list(self.originals), dict(self._there)
        try:
            yield
        except BaseException:
            self.result, self.entries, self.originals, self._there = before
            raise

    @property
    def is_change(self) -> bool:
        """Has the file to be written?"""
        return self.result != self.before

    def changed(self) -> list[ChangedEntry]:
        """Entries that are not what they were."""
        versions = ((name, *self._versions(name)) for name in self._names())
        return [
            ChangedEntry(name, before, after, self._wrote(name))
            for name, before, after in versions
            if not same(before, after)
        ]

    def _wrote(self, name: str) -> list[Value]:
        owned = (one for one in (*self._owned_before, *self.entries) if one.section == self._section)
        return [one.wrote for one in (*owned, *self._elsewhere) if one.name == name]

    def steps(self) -> tuple[Step, ...]:
        """What is done to entries, so that it can be seen later whether it was."""
        steps = (Step(name, *map(fingerprint, self._versions(name))) for name in self._names())
        return tuple(step for step in steps if step.before != step.after)

    def touched(self) -> tuple[Touched, ...]:
        """What is needed to undo it."""
        return tuple(one for name in self._names() if (one := self._touched(name)) is not None)

    def _touched(self, name: str) -> Touched | None:
        before, after = self._versions(name)
        owners = tuple(one for one in self._owned_before if one.name == name and one.section == self._section)
        if same(before, after) and owners == tuple(self.owners(name)):
            return None
        if before is ABSENT:
            return Touched(name, fingerprint(after), owners=owners)
        is_kept = keepable(before)
        return Touched(name, fingerprint(after), True, is_kept, before if is_kept else None, owners)

    def _names(self) -> list[str]:
        owned = (one.name for one in (*self._owned_before, *self.entries) if one.section == self._section)
        return list(dict.fromkeys((*self._there_before, *self._there, *owned)))

    def _versions(self, name: str) -> tuple[There, There]:
        return self._there_before.get(name, ABSENT), self.there(name)


def entries_in(document: Value, section: Section) -> dict[str, Value]:
    """What stands in a section, by name; nothing if there is no such section, or something else there."""
    for key in section.keys:
        document = document.get(key) if isinstance(document, dict) else None
    if section.is_list:
        items = document if isinstance(document, list) else []
        named = ((item.get(section.name_key), item) for item in reversed(items) if isinstance(item, dict))
        return {name: item for name, item in named if isinstance(name, str)}
    return dict(document) if isinstance(document, dict) else {}


def as_it_was(client_id: str, section: Section, format: FormatName) -> Client | None:
    """The client for which an entry was written, with the form its file had; None: it is not known now."""
    client = load_table().get(client_id)
    if client is None or (client.section, client.format) == (section, format):
        return client
    return structs.replace(client, section=section, format=format, seed="")


def is_ours(owned: Owned, there: There) -> bool:
    """Does it stand as we wrote it, but for what others added?"""
    client = as_it_was(owned.client, owned.section, owned.format)
    if client is None or there is ABSENT:
        return False
    return is_as_wanted(client, there, owned.wrote)


def state_of(owned: Owned, there: There) -> EntryState:
    """How an entry stands that is written down."""
    if there is ABSENT:
        return "out" if owned.state == "out" else "missing"
    return "in" if is_ours(owned, there) else "changed"


def _is_of(one: Owned, other: Owned) -> bool:
    return (one.client, one.section, one.name) == (other.client, other.section, other.name)
