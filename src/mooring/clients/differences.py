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
_PRIVATE = ("env", "header", "auth", "token", "secret", "password", "apikey", "api_key", "api-key")
"""What is under a key with one of these in it is nobody's business."""
_SHORT = 8
"""A shorter text is masked only where it stands alone: `1` is not to be masked in every number."""


def difference(before: bytes | None, after: bytes | None, private: Collection[str] = ()) -> str:
    """In the style of `diff -U0`, without its heads. `private`: texts that are not to be shown."""
    lines = [sign + _masked(line, private) for sign, line in _changes(_lines(before), _lines(after))]
    shown = [_cut(line) for line in lines[:MOST_LINES]]
    if len(lines) > MOST_LINES:
        shown.append(f"… and {len(lines) - MOST_LINES:,} lines more")
    return "\n".join(shown)


def private_values(documents: Iterable[Value], ours: Collection[str] = ()) -> set[str]:
    """Texts in these that are not to be shown, as they are and as they are written in JSON."""
    texts = (text for document in documents for text in _private(document, is_private=False))
    found = {text for text in texts if text.strip() and text not in ours}
    return found | {json.dumps(text)[1:-1] for text in found} | {_as_json(text) for text in found}


def _as_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


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


def _changes(old: list[str], new: list[str]) -> Iterator[tuple[str, str]]:
    first = _common(old, new)
    last = _common(old[first:][::-1], new[first:][::-1])
    old, new = old[first : len(old) - last], new[first : len(new) - last]
    if len(old) + len(new) > MOST_COMPARED:
        yield from _signed(old, new)
        return
    for tag, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            yield from _signed(*_trimmed(old[a:b], new[c:d]))


def _signed(old: list[str], new: list[str]) -> Iterator[tuple[str, str]]:
    yield from (("-", line) for line in old)
    yield from (("+", line) for line in new)


def _common(old: Sequence[str], new: Sequence[str]) -> int:
    pairs = enumerate(zip(old, new, strict=False))
    return next((n for n, (one, other) in pairs if one != other), min(len(old), len(new)))


def _trimmed(old: list[str], new: list[str]) -> tuple[list[str], list[str]]:
    """Of long lines at either end of a change only what differs."""
    if not old or not new:
        return old, new
    if max(len(old[0]), len(new[0])) > _MOST_CHARACTERS:
        same = max(_common(old[0], new[0]) - _AROUND, 0)
        old, new = [_without(old[0], same), *old[1:]], [_without(new[0], same), *new[1:]]
    if max(len(old[-1]), len(new[-1])) > _MOST_CHARACTERS:
        one, other = old[-1], new[-1]
        same = max(_common(one[::-1], other[::-1]) - _AROUND, 0)
        same = min(same, len(one) - 1, len(other) - 1)
        old, new = [*old[:-1], _shortened(one, same)], [*new[:-1], _shortened(other, same)]
    return old, new


def _without(line: str, characters: int) -> str:
    return f"…{line[characters:]}" if characters > 0 else line


def _shortened(line: str, characters: int) -> str:
    return f"{line[: len(line) - characters]}…" if characters > 0 else line


def _masked(line: str, private: Collection[str]) -> str:
    for text in sorted(private, key=lambda text: (-len(text), text)):
        if len(text) >= _SHORT:
            line = line.replace(text, MASK)
        elif text in line:
            line = re.sub(rf"(?<![\w.-])(?<!\w:){re.escape(text)}(?![\w.-])", MASK, line)
    return line


def _cut(line: str) -> str:
    return line if len(line) <= _MOST_CHARACTERS else f"{line[:_MOST_CHARACTERS]}…"
