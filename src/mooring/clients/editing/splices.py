"""Changes to a text by place, for all formats; what stands between brackets with commas: TOML and YAML."""

import re
from collections.abc import Iterable
from typing import NamedTuple

__all__ = [
    "Extent",
    "Splice",
    "add_between_commas",
    "before_line",
    "begins_line",
    "end_of_line",
    "end_of_words",
    "line_break",
    "line_start",
    "own_lines",
    "remove_between_commas",
    "spliced",
    "words_between_commas",
]

Extent = tuple[int, int]
"""From where to where something goes, in characters."""

# Possessive on single characters only: groups can match wrongly before Python 3.11.5.
_COMMA = re.compile(r"(?:[ \t\r\n]++|#[^\r\n]*+)*,")
_BLANK = re.compile(r"[ \t]*+")
_NOTHING_MORE = re.compile(r"[ \t]*+(?:#[^\r\n]*+)?(?=[\r\n]|\Z)")
_WORDS = re.compile(r"[^\r\n]*+")
_BREAK = re.compile(r"\r\n|\n|\r")


class Splice(NamedTuple):
    """`text` in place of what stands from `start` to `end`."""

    start: int
    end: int
    text: str


def spliced(text: str, splices: Iterable[Splice]) -> str:
    """The text with all of them done; none overlaps another. Of two at one place the first comes first."""
    pieces, at = [], 0
    for splice in sorted(splices, key=lambda splice: (splice.start, splice.end)):
        pieces += [text[at : splice.start], splice.text]
        at = splice.end
    return "".join([*pieces, text[at:]])


def line_break(text: str) -> str:
    """How lines end in it: as the first does."""
    found = _BREAK.search(text)
    return found[0] if found else "\n"


def line_start(text: str, at: int) -> int:
    """Where the line begins that `at` is on."""
    return max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1


def end_of_words(text: str, at: int) -> int:
    """Where the line ends that `at` is on, before its line break."""
    return _end(_WORDS, text, at)


def end_of_line(text: str, at: int) -> int:
    """Where the next line begins."""
    at = end_of_words(text, at)
    found = _BREAK.match(text, at)
    return found.end() if found else at


def begins_line(text: str, at: int) -> bool:
    """Is there nothing but white space before it on its line?"""
    return not text[line_start(text, at) : at].strip()


def own_lines(text: str, extent: Extent) -> Extent:
    """The whole lines from its first to its last; at the end of a text without a last line break, the one
    before goes with them, so that there is again none."""
    start, end = line_start(text, extent[0]), end_of_line(text, extent[1])
    if end == end_of_words(text, extent[1]) and start > 0:
        start = before_line(text, start)
    return start, end


def add_between_commas(
    text: str, inside: Extent, parts: list[Extent], new: str, pad: str = ""
) -> list[Splice]:
    """One part more, the last: on a line of its own if the last has one. `pad`: inside the brackets."""
    opened, closed = inside
    if not parts:
        if text[opened:closed].strip() or "\n" in text[opened:closed]:
            return [Splice(opened, opened, f"{pad}{new}")]
        return [Splice(opened, closed, f"{pad}{new}{pad}")]
    start, end = parts[-1]
    comma = _comma(text, end, closed)
    is_own_line = _has_own_line(text, inside, start)
    lead = line_break(text) + text[line_start(text, start) : start] if is_own_line else " "
    after = end if comma is None else comma + 1
    at = _end(_NOTHING_MORE, text, after) if is_own_line else after
    if comma is None:
        return (
            [Splice(end, end, ","), Splice(at, at, lead + new)]
            if at > end
            else [Splice(end, end, f",{lead}{new}")]
        )
    return [Splice(at, at, f"{lead}{new},")]


def remove_between_commas(text: str, inside: Extent, parts: list[Extent], index: int) -> list[Splice]:
    """One part less, with its comma and, if it has a line of its own, with that."""
    opened, closed = inside
    start, end = parts[index]
    comma = _comma(text, end, closed)
    after = end if comma is None else comma + 1
    splices = []
    if comma is None and index:
        before = _comma(text, parts[index - 1][1], start) or start
        splices = [Splice(before, before + 1, "")]
    if _has_own_line(text, inside, start):
        return [*splices, Splice(before_line(text, start), _end(_NOTHING_MORE, text, after), "")]
    if len(parts) == 1 and "\n" not in text[opened:closed]:
        return [Splice(opened, closed, "")]
    if index:
        while text[start - 1] in " \t":
            start -= 1
    else:
        after = _end(_BLANK, text, after)
    return [*splices, Splice(start, after, "")]


def words_between_commas(text: str, inside: Extent, parts: list[Extent], index: int) -> Extent:
    """A part with its comma, and with the comment that follows it, if it has a line of its own."""
    start, end = parts[index]
    comma = _comma(text, end, inside[1])
    after = end if comma is None else comma + 1
    return start, _end(_NOTHING_MORE, text, after) if _has_own_line(text, inside, start) else after


def _has_own_line(text: str, inside: Extent, start: int) -> bool:
    return begins_line(text, start) and line_start(text, start) > inside[0]


def before_line(text: str, at: int) -> int:
    """Before the line break that the line of `at` comes after."""
    at = line_start(text, at)
    return at - (2 if text.startswith("\r\n", at - 2) else 1)


def _comma(text: str, at: int, end: int) -> int | None:
    found = _COMMA.match(text, at, end)
    return found.end() - 1 if found else None


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Where what is matched at that place ends; that place, if nothing is."""
    found = pattern.match(text, at)
    return found.end() if found else at
