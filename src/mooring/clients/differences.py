"""What a change does to entries of a client's file, as it is shown to people: lines as the client has them.

By place, never by text. Of an entry that changes the keys are shown, and of its values those that we wrote,
where we wrote them; any other may be a secret, however it is spelled, and is masked. Of all else in the file
nothing is shown. Bounded, whatever the file is like.
"""

import difflib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from mooring.clients.client import Client
from mooring.clients.editing.edits import Value, same, shown
from mooring.clients.records import ABSENT, There

__all__ = ["MASK", "MOST_LINES", "ChangedEntry", "difference"]

MOST_LINES = 80
"""That are shown; of the rest it is said how many there are."""
MOST_COMPARED = 2_000
"""Lines of an entry that are compared one by one; a change of more is shown as a whole."""
MASK = "•••"
_MORE = "…"
_MOST_VALUES = 1_000
"""Of one entry that are looked at: more than can be shown."""
_MOST_CHARACTERS = 160


class ChangedEntry(NamedTuple):
    """One entry before and after."""

    name: str
    before: There
    after: There
    wrote: Sequence[Value]
    """What we want it to be, or wanted, for each client that shares it."""


def difference(client: Client, entries: Iterable[ChangedEntry]) -> str:
    """In the style of `diff -U0`, without its heads; over what changed in an entry that stays is its name."""
    lines = [line for one in islice(entries, MOST_LINES) for line in _lines(client, one)]
    shown = [_cut(line) for line in lines[:MOST_LINES]]
    if len(lines) > MOST_LINES:
        shown.append(f"… and {len(lines) - MOST_LINES:,} lines more")
    return "\n".join(shown)


def _lines(client: Client, entry: ChangedEntry) -> Iterator[str]:
    old, new = _written(client, entry, entry.before), _written(client, entry, entry.after)
    if old[:1] == new[:1]:
        yield f" {old[0]}"
    if len(old) + len(new) > MOST_COMPARED:
        yield from (f"-{line}" for line in old)
        yield from (f"+{line}" for line in new)
        return
    for tag, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            yield from (f"-{line}" for line in old[a:b])
            yield from (f"+{line}" for line in new[c:d])


def _written(client: Client, entry: ChangedEntry, there: There) -> list[str]:
    """Its lines in a file that has nothing else, but for one entry after it, by which its end is found."""
    if there is ABSENT:
        return []
    masked = _Masking().masked(there, entry.wrote)
    editor, section = client.editor, client.section
    try:
        text = editor.put(b"", section, entry.name, masked if isinstance(masked, dict) else {MASK: MASK})
        lines = editor.put(text, section, _MORE, {}).decode().splitlines()
        around = editor.put(b"", section, _MORE, {}).decode().splitlines()
    except Exception:  # the change is made: that it cannot be shown in this way is no trouble of anybody's
        return [f"{shown(entry.name)}: {MASK}"]
    first = _common(lines, around)
    last = _common(lines[first:][::-1], around[first:][::-1])
    return [line for line in lines[first : len(lines) - last] if line.strip()]


class _Masking:
    """Of one entry."""

    def __init__(self) -> None:
        self._left = _MOST_VALUES

    def masked(self, value: Value, wrote: Sequence[Value]) -> Value:
        """`wrote`: what of ours belongs in its place."""
        self._left -= 1
        if isinstance(value, dict):
            kept = islice(value.items(), max(self._left, 0))
            return {
                key: self.masked(inner, [one[key] for one in wrote if isinstance(one, dict) and key in one])
                for key, inner in kept
            }
        if isinstance(value, list):
            lists = [one for one in wrote if isinstance(one, list)]
            return [
                self.masked(inner, [one[at] for one in lists if at < len(one)])
                for at, inner in enumerate(value[: max(self._left, 0)])
            ]
        return value if any(same(value, one) for one in wrote) else MASK


def _cut(line: str) -> str:
    return line if len(line) <= _MOST_CHARACTERS else f"{line[:_MOST_CHARACTERS]}…"


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (mine, theirs) in pairs if mine != theirs), min(len(one), len(other)))
