"""TOML: an entry as a table (`[mcp_servers.time]` of Codex), or as an item of a list (`[[mcp_servers]]`).

`tomllib` is the judge of what a document says, before and after. An entry may also be written with dotted
keys or between brackets: it is edited as it is written. `put` then `remove` gives the same bytes; only white
space between brackets that were empty (`{ }`) may differ. A table that nothing is in need not be written: a
section is gone with its last entry, unless it has a header or brackets of its own.
"""

import datetime
import re
from typing import Any, NamedTuple

from mooring.clients.editing.edits import (
    Reading,
    Refused,
    Section,
    Value,
    check,
    complete,
    decoded,
    same,
    shown,
)
from mooring.clients.editing.splices import (
    Extent,
    Splice,
    add_between_commas,
    before_line,
    end_of_line,
    end_of_words,
    line_start,
    remove_between_commas,
    spliced,
    words_between_commas,
)
from mooring.clients.editing.toml_places import Before
from mooring.clients.editing.toml_tree import Inline, Path, parse, scan, scan_value
from mooring.clients.editing.toml_writing import as_inline, as_key, member

__all__ = ["TOML", "Toml"]

_BREAK = r"(?:\r\n|\n)"
# Comments right below a table are of it, unless they are right above the next.
_COMMENTS_BELOW = re.compile(rf"(?:{_BREAK}[ \t]*+#[^\r\n]*+)+(?={_BREAK}[ \t]*+(?:{_BREAK}|\Z)|\Z)")
_BLANK_LINE = re.compile(rf"{_BREAK}[ \t]*+\Z")


class Toml:
    """The format; see `edits.Format`."""

    def read(self, data: bytes) -> Value:
        """What the document says; dates and times as text."""
        text = decoded(data)[1]
        value = parse(text)
        scan(text)
        return _plain(value)

    def put(self, data: bytes, section: Section, name: str, entry: dict[str, Value]) -> bytes:
        """Make the entry of that name equal to `entry`."""
        before = Before(data, section, name)
        wanted = complete(section, name, entry)
        if before.entry is not None and same(before.entry, wanted):
            return data
        if before.is_dotted and before.entry is not None and not before.entry.keys() & wanted.keys():
            # Nothing stays of it, so there is nothing to write the new keys beside.
            before = Before(self.remove(data, section, name), section, name, before.newline)
        if before.entry is None:
            splices, regions = _added(before, wanted)
        elif found := before.inline(before.path):
            splices, regions = [_rewritten(before.text, found, wanted)], [(found.start, found.end)]
        elif not before.owned(before.path):
            raise Refused(f"{shown(name)} is written with dotted keys between brackets")
        else:
            splices = _changes(before, before.path, before.entry, wanted)
            regions = before.regions(before.path)
        return _checked(before, splices, regions, entry)

    def remove(self, data: bytes, section: Section, name: str) -> bytes:
        """Without the entry of that name; as it is if there is none."""
        before = Before(data, section, name)
        if before.entry is None:
            return data
        if before.owned(before.path):
            regions = before.regions(before.path)
            return _checked(before, [_without(before.text, region) for region in regions], regions, None)
        around, index = before.part()
        regions = [words_between_commas(before.text, around.inside, list(around.extents), index)]
        splices = remove_between_commas(before.text, around.inside, list(around.extents), index)
        return _checked(before, splices, regions, None)


TOML = Toml()


def _checked(
    before: Before, splices: list[Splice], regions: list[Extent], entry: dict[str, Value] | None
) -> bytes:
    """The edited document. `regions`: where the entry was, or is put."""
    after = spliced(before.text, splices)
    try:
        encoded = (before.bom + after).encode()
        data = parse(after)
        _, comments = scan(after)
    except (Refused, UnicodeEncodeError):
        raise Refused(f"the entry {shown(before.name)} could not be edited safely") from None
    moved = [
        (_moved(start, splices, is_end=False), _moved(end, splices, is_end=True)) for start, end in regions
    ]
    check(
        Reading(_comparable(before.data, before.section), _outside(before.text, before.comments, regions)),
        Reading(_comparable(data, before.section), _outside(after, comments, moved)),
        before.section,
        before.name,
        entry,
    )
    return encoded


def _moved(at: int, splices: list[Splice], *, is_end: bool) -> int:
    """Where a region begins or ends after the splices: what is put in at its edges is in it."""
    by = 0
    for splice in sorted(splices):
        if splice.start > at or (splice.start == at and not is_end):
            break
        if splice.end > at:
            return splice.start + by
        by += len(splice.text) - (splice.end - splice.start)
    return at + by


def _outside(text: str, comments: list[Extent], regions: list[Extent]) -> tuple[str, ...]:
    return tuple(text[start:end] for start, end in comments if not any(a <= start < b for a, b in regions))


def _comparable(data: dict[str, Any], section: Section) -> dict[str, Any]:
    """With the section in it, and sorted: the order of tables means nothing, and an empty one may go."""
    if section.keys:
        first, *rest = section.keys
        empty: Any = [] if section.is_list and not rest else {}
        inner = data.get(first, empty)
        data = data | {first: _comparable(inner, section._replace(keys=tuple(rest))) if rest else inner}
    return dict(sorted(data.items()))


def _plain(value: Any) -> Value:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.isoformat() if isinstance(value, (datetime.date, datetime.time)) else value


class _Lines(NamedTuple):
    """A table of its own, as it is written."""

    path: Path
    is_item: bool
    members: dict[str, Value]

    def __str__(self) -> str:
        header = f"[[{as_key(self.path)}]]" if self.is_item else f"[{as_key(self.path)}]"
        return "\n".join([header, *(member(key, value) for key, value in self.members.items())])


def _added(before: Before, wanted: dict[str, Value]) -> tuple[list[Splice], list[Extent]]:
    text, section = before.text, before.section
    for depth in range(len(section.keys), 0, -1):
        if around := before.inline(section.keys[:depth]):
            return _added_between_brackets(before, around, section.keys[depth:], wanted)
    path = section.keys if section.is_list else before.path
    lines = str(_Lines(path, section.is_list, wanted)).replace("\n", before.newline)
    if not text.strip():
        return [Splice(0, 0, lines + before.newline)], [(0, 0)]
    at = _end_of_section(before)
    return [Splice(at, at, 2 * before.newline + lines)], [(at, at)]


def _added_between_brackets(
    before: Before, around: Inline, missing: tuple[str, ...], wanted: dict[str, Value]
) -> tuple[list[Splice], list[Extent]]:
    value: Value = [wanted] if before.section.is_list else {before.name: wanted}
    for key in reversed(missing):
        value = {key: value}
    if isinstance(value, dict):
        ((key, inner),) = value.items()
        new, pad = member(key, inner), " "
    else:
        new, pad = as_inline(wanted, before.name), ""
    splices = add_between_commas(before.text, around.inside, list(around.extents), new, pad)
    return splices, [(splices[-1].start, splices[-1].start)]


def _end_of_section(before: Before) -> int:
    """Past the last table of the section: never between a header and what is under it."""
    owned = before.owned(before.section.keys) if before.section.keys else []
    if not owned:
        return len(before.text.rstrip())
    last = max(
        (statement for statement in before.statements if statement.table == owned[-1].table),
        key=lambda statement: statement.end,
    )
    at = end_of_words(before.text, last.end)
    below = _COMMENTS_BELOW.match(before.text, at)
    return below.end() if below else at


def _without(text: str, region: Extent) -> Splice:
    """Lines taken out, with one blank line above."""
    start, end = region
    if start == 0:
        return Splice(0, end_of_line(text, end), "")
    start = before_line(text, start)
    above = line_start(text, start)
    if above and not text[above:start].strip() and text[region[0]] == "[":
        start = before_line(text, above)
    return Splice(start, end, "")


def _changes(before: Before, path: Path, old: dict[str, Any], new: dict[str, Value]) -> list[Splice]:
    """An entry that is written with headers or dotted keys, made equal member by member."""
    splices: list[Splice] = []
    added = {key: value for key, value in new.items() if key not in old}
    for key, was in old.items():
        inner = (*path, key)
        found = before.inline(inner)
        value = new.get(key)
        if key in new and same(was, value):
            continue
        if key in new and found:
            splices.append(_rewritten(before.text, found, value))
        elif isinstance(was, dict) and isinstance(value, dict) and was.keys() & value.keys():
            splices += _changes(before, inner, was, value)
        else:
            splices += [_without(before.text, region) for region in before.regions(inner)]
            if key in new:
                added[key] = value
    return [*splices, *_added_members(before, path, added)] if added else splices


def _added_members(before: Before, path: Path, added: dict[str, Value]) -> list[Splice]:
    text, newline = before.text, before.newline
    under = [statement for statement in before.statements if statement.table == path]
    dotted = [statement for statement in before.owned(path) if statement.value]
    if not under and not (dotted and len(dotted[-1].table) < len(path)):
        at = line_start(text, before.owned(path)[0].start)
        lines = str(_Lines(path, False, added)).replace("\n", newline)
        return [Splice(at, at, f"{lines}{newline}{newline}")]
    last = (under or dotted)[-1]
    prefix = () if under else path[len(last.table) :]
    start = line_start(text, last.start)
    lead = newline + text[start : last.start]
    at = end_of_words(text, last.end)
    lines = "".join(
        f"{lead}{as_key((*prefix, key))} = {as_inline(value, key)}" for key, value in added.items()
    )
    return [Splice(at, at, lines)]


def _rewritten(text: str, value: Inline, wanted: Value) -> Splice:
    """A value made equal; of a table between brackets, only the parts that differ."""
    words = text[value.start : value.end]
    alone = parse(f"it = {words}")["it"]
    if not isinstance(alone, dict) or not isinstance(wanted, dict) or not alone.keys() & wanted.keys():
        return Splice(value.start, value.end, as_inline(wanted, ""))
    for key in alone.keys() - wanted.keys():
        words = spliced(words, _removed_part(words, key))
    for key in wanted:
        words = spliced(words, _part_made_equal(words, alone, key, wanted[key]))
    return Splice(value.start, value.end, words)


def _removed_part(words: str, key: str) -> list[Splice]:
    table = scan_value(words)
    return remove_between_commas(words, table.inside, list(table.extents), _index(table, key))


def _part_made_equal(words: str, was: dict[str, Any], key: str, wanted: Value) -> list[Splice]:
    table = scan_value(words)
    if key not in was:
        return add_between_commas(words, table.inside, list(table.extents), member(key, wanted), " ")
    if same(was[key], wanted):
        return []
    return [_rewritten(words, table.parts[_index(table, key)], wanted)]


def _index(table: Inline, key: str) -> int:
    if (key,) not in table.keys:
        raise Refused(f"{shown(key)} is written with dotted keys between brackets")
    return table.keys.index((key,))
