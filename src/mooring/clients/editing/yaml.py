"""YAML: an entry of a map (`extensions:` of Goose) or of a list (`mcpServers:` of Continue).

Text is put in and taken out by the places of nodes; what is not concerned keeps its bytes. `put` then
`remove` gives the same bytes, but that a section which was missing, or null, stays as an empty one
(`extensions: {}`).
"""

from typing import NamedTuple

from mooring.clients.editing.edits import (
    Reading,
    Refused,
    Section,
    Value,
    check,
    complete,
    decoded,
    place_of,
    same,
    shown,
)
from mooring.clients.editing.splices import line_break, spliced
from mooring.clients.editing.yaml_changes import (
    Part,
    added,
    removed,
    rewritten,
    values,
    with_blank_lines,
    words,
)
from mooring.clients.editing.yaml_tree import Document, Member, Node, parse

__all__ = ["YAML", "Yaml"]


class Yaml:
    """The format; see `edits.Format`."""

    def read(self, data: bytes) -> Value:
        """What the document says; that of a blank one is an empty map."""
        root = parse(decoded(data)[1]).root
        return {} if root is None or root.value is None else root.value

    def put(self, data: bytes, section: Section, name: str, entry: dict[str, Value]) -> bytes:
        """Make the entry of that name equal to `entry`."""
        bom, text = decoded(data)
        before = _Text(text, section, name)
        wanted = complete(section, name, entry)
        container, index = before.spot.container, before.spot.at
        if index is None:
            part = _part(before.spot, section, name, wanted)
            splices = added(text, before.document, container, before.spot.holder, part)
        elif same(values(container)[index].value, wanted):
            return data
        else:
            splices = [rewritten(text, container, index, wanted)]
        return _checked(before, spliced(text, splices), entry, bom)

    def remove(self, data: bytes, section: Section, name: str) -> bytes:
        """Without the entry of that name; as it is if there is none."""
        bom, text = decoded(data)
        before = _Text(text, section, name)
        spot = before.spot
        if spot.at is None:
            return data
        splices = removed(text, spot.container, spot.at, spot.holder)
        after = spliced(text, splices)
        # A block of text before it may end with the line break that the entry's line began with, or be one
        # that keeps blank lines: those below the entry would become its own.
        for attempt in (after, after + line_break(text), spliced(text, with_blank_lines(text, splices))):
            try:
                return _checked(before, attempt, None, bom)
            except Refused as error:
                refused = error
        raise refused


YAML = Yaml()


class _Text:
    """A document, and where in it the entry is or will be."""

    def __init__(self, text: str, section: Section, name: str) -> None:
        self.text, self.section, self.name = text, section, name
        self.document = parse(text)
        self.spot = _spot(text, self.document, section, name)

    def reading(self) -> Reading:
        start, end = 0, 0
        if self.spot.at is not None:
            start, end = words(self.text, self.spot.container, self.spot.at)
        outside = [self.text[a:b] for a, b in self.document.comments if not start <= a < end]
        root = self.document.root
        return Reading(root.value if root else None, tuple(outside))


class _Spot(NamedTuple):
    """The section, or as much of the way to it as there is."""

    container: Node
    """Where the entry is or will be, or the first key that is missing."""
    holder: Member | None
    """Which holds the container; None if that is the whole document."""
    missing: tuple[str, ...]
    at: int | None = None
    """Which of the container's parts the entry is, if there is one."""


_NOTHING = Node("scalar", 0, 0)


def _spot(text: str, document: Document, section: Section, name: str) -> _Spot:
    spot = _Spot(document.root or _NOTHING, None, section.keys)
    while spot.missing and not spot.container.is_empty:
        _must_be(text, spot.container, "map")
        member = spot.container.member(spot.missing[0])
        if member is None:
            return spot
        spot = _Spot(member.value, member, spot.missing[1:])
    if spot.missing:
        if spot.container.value is not None:
            _must_be(text, spot.container, "map")
        return spot
    if spot.container.value is None:
        return spot
    _must_be(text, spot.container, "list" if section.is_list else "map")
    return spot._replace(at=_index(text, spot.container, section, name))


def _must_be(text: str, node: Node, kind: str) -> None:
    if node.kind != kind:
        raise Refused(f"this should be a {kind}, written out here", place_of(text, node.start))


def _index(text: str, container: Node, section: Section, name: str) -> int | None:
    if not section.is_list:
        names = [member.name for member in container.members]
        return names.index(name) if name in names else None
    found = [
        index
        for index, item in enumerate(container.items)
        if isinstance(item.value, dict) and item.value.get(section.name_key) == name
    ]
    for index in found[1:]:
        raise Refused(f"{shown(name)} is there twice", place_of(text, container.items[index].start))
    for index in found:
        _must_be(text, container.items[index], "map")
    return found[0] if found else None


def _part(spot: _Spot, section: Section, name: str, wanted: dict[str, Value]) -> Part:
    part = Part(None if section.is_list else name, wanted)
    for key in reversed(spot.missing):
        part = Part(key, [part.value] if part.key is None else {part.key: part.value})
    return part


def _checked(before: _Text, after: str, entry: dict[str, Value] | None, bom: str) -> bytes:
    section, name = before.section, before.name
    try:
        encoded = (bom + after).encode()
        reading = _Text(after, section, name).reading()
    except (Refused, UnicodeEncodeError):
        raise Refused(f"the entry {shown(name)} could not be edited safely") from None
    check(before.reading(), reading, section, name, entry)
    return encoded
