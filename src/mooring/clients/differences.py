"""The difference between two versions of a client's file, as it is shown to people.

Only lines that changed, none around them: neighbours may hold tokens. Of a line that others share with us (a
file may be one long line) only the part that changed. Values of variables and headers that are not our own
are masked wherever they would show. Bounded, whatever the file is like.
"""

import difflib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from mooring.clients.editing.edits import Value

__all__ = ["MASK", "MOST_LINES", "difference", "private_values"]

MOST_LINES = 80
"""That are shown; of the rest it is said how many there are."""
MOST_COMPARED = 2_000
"""Lines that are compared one by one; a change of more is shown as a whole, which is bounded too."""
MASK = "•••"
_MOST_CHARACTERS = 160
_AROUND = 1
_OPENING = "{["
"""A line with one of these in what stays the same holds more than one thing."""
_PRIVATE = ("env", "header", "auth", "token", "secret", "password", "apikey", "api_key", "api-key")
"""What is under a key with one of these in it is nobody's business."""
_SHORT = 8
"""A shorter text is masked only where it stands alone: `1` is not to be masked in every number."""


def difference(before: bytes | None, after: bytes | None, private: Collection[str] = ()) -> str:
    """In the style of `diff -U0`, without its heads. `private`: texts that are not to be shown."""
    changes = _changes(_lines(before), _lines(after))
    lines = [line for old, new in changes for line in _signed(_masked(old, private), _masked(new, private))]
    shown = [_cut(line) for line in lines[:MOST_LINES]]
    if len(lines) > MOST_LINES:
        shown.append(f"… and {len(lines) - MOST_LINES:,} lines more")
    return "\n".join(shown)


def private_values(documents: Iterable[Value], ours: Collection[str] = ()) -> set[str]:
    """Texts in these that are not to be shown, in the ways in which they may be written."""
    texts = {text for document in documents for text in _private(document, is_private=False)}
    return {way for text in texts if text not in ours for way in _ways(text) if way.strip()}


def _ways(text: str) -> Iterator[str]:
    yield text
    yield json.dumps(text)[1:-1]
    yield json.dumps(text, ensure_ascii=False)[1:-1]
    yield text.replace("'", "''")
    yield from (line.strip() for line in text.splitlines())


def _private(value: Value, *, is_private: bool) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            is_so = is_private or any(word in key.lower() for word in _PRIVATE)
            yield from _private(inner, is_private=is_so)
    elif isinstance(value, list):
        for inner in value:
            yield from _private(inner, is_private=is_private)
    elif is_private and value is not None and not isinstance(value, bool):
        yield str(value)


def _lines(data: bytes | None) -> list[str]:
    return (data or b"").decode(errors="replace").removeprefix("\ufeff").splitlines()


def _changes(old: list[str], new: list[str]) -> Iterator[tuple[list[str], list[str]]]:
    """Lines that gave way to others, in their order."""
    first = _common(old, new)
    last = _common(old[first:][::-1], new[first:][::-1])
    old, new = old[first : len(old) - last], new[first : len(new) - last]
    if len(old) + len(new) > MOST_COMPARED:
        yield old, new
        return
    for tag, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            yield old[a:b], new[c:d]


def _signed(old: list[str], new: list[str]) -> list[str]:
    old, new = _trimmed(old, new)
    return [*(f"-{line}" for line in old), *(f"+{line}" for line in new)]


def _common(old: Sequence[str], new: Sequence[str]) -> int:
    pairs = enumerate(zip(old, new, strict=False))
    return next((n for n, (one, other) in pairs if one != other), min(len(old), len(new)))


def _trimmed(old: list[str], new: list[str]) -> tuple[list[str], list[str]]:
    """Of lines at either end of a change that others share only what differs."""
    if not old or not new:
        return old, new
    same = _shared(old[0], new[0])
    old, new = [_without(old[0], same), *old[1:]], [_without(new[0], same), *new[1:]]
    one, other = old[-1], new[-1]
    same = min(_shared(one[::-1], other[::-1]), len(one) - 1, len(other) - 1)
    return [*old[:-1], _shortened(one, same)], [*new[:-1], _shortened(other, same)]


def _shared(one: str, other: str) -> int:
    """How much of two lines, from their beginning, is not to be shown."""
    common = _common(one, other)
    is_of_others = any(bracket in one[:common] for bracket in _OPENING)
    if not is_of_others and max(len(one), len(other)) <= _MOST_CHARACTERS:
        return 0
    return max(common - _AROUND, 0)


def _without(line: str, characters: int) -> str:
    return f"…{line[characters:]}" if characters > 0 else line


def _shortened(line: str, characters: int) -> str:
    return f"{line[: len(line) - characters]}…" if characters > 0 else line


def _masked(lines: list[str], private: Collection[str]) -> list[str]:
    """Before anything is cut off, so that no half of a text is left. Lines further on are never shown."""
    texts = sorted(private, key=lambda text: (-len(text), text))
    return [_without_texts(line, texts) for line in lines[:MOST_LINES]] + lines[MOST_LINES:]


def _without_texts(line: str, texts: list[str]) -> str:
    for text in texts:
        if len(text) >= _SHORT:
            line = line.replace(text, MASK)
        elif text in line:
            line = re.sub(rf"(?<![\w.-])(?<!\w:){re.escape(text)}(?![\w.-])", MASK, line)
    return line


def _cut(line: str) -> str:
    return line if len(line) <= _MOST_CHARACTERS else f"{line[:_MOST_CHARACTERS]}…"
