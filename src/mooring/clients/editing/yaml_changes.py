"""Changes to one part of a YAML document: where its text goes, comes from, and what goes with it."""

import re
from typing import NamedTuple

from mooring.clients.editing.edits import Refused, Value, same
from mooring.clients.editing.splices import (
    Extent,
    Splice,
    add_between_commas,
    begins_line,
    end_of_words,
    line_break,
    line_start,
    own_lines,
    remove_between_commas,
    spliced,
    words_between_commas,
)
from mooring.clients.editing.yaml_tree import Document, Member, Node, parse
from mooring.clients.editing.yaml_writing import as_flow, item_lines, member_lines

__all__ = ["MOST_DIFFERENCES", "Part", "added", "removed", "rewritten", "values", "with_blank_lines", "words"]

_BLANK_LINES = re.compile(r"(?:[ \t]*+(?:\n|\r\n?+))*")
_COMMENT_LINE = r"(?:\n|\r\n?+)(?:[ \t]*+(?:\n|\r\n?+))* {{{},}}#[^\r\n]*+"

MOST_DIFFERENCES = 200
"""Between an entry and what it is to be: each is one change."""


class Style(NamedTuple):
    """How lines end, and how much further in an inner block is."""

    newline: str
    step: str


class Part(NamedTuple):
    """What is put into a map (with a key) or a list (without)."""

    key: str | None
    value: Value

    def lines(self, indent: str, step: str) -> list[str]:
        """As lines of a block."""
        if self.key is None:
            return item_lines(self.value, indent, step)
        return member_lines(self.key, self.value, indent, step)

    def flow(self) -> str:
        """As it stands between brackets."""
        return as_flow(self.value) if self.key is None else as_flow({self.key: self.value})[1:-1]


def values(container: Node) -> list[Node]:
    """Of a map, or a list."""
    return [*container.items, *(member.value for member in container.members)]


def _inside(container: Node) -> Extent:
    return container.opened, container.end - 1


def _column(text: str, at: int) -> int:
    return at - line_start(text, at)


def _first(text: str, container: Node, index: int) -> int:
    """Where a part of a block begins: with its key, or with the dash."""
    if container.kind == "map":
        return container.members[index].key.start
    at = container.items[index - 1].end if index else container.start
    while text[at] != "-":
        at = end_of_words(text, at) if text[at] in "#&!" else at + 1
    return at


def words(text: str, container: Node, index: int) -> Extent:
    """All that belongs to a part, with the comments after it."""
    if container.is_flow:
        return words_between_commas(text, _inside(container), container.extents(), index)
    first = _first(text, container, index)
    return first, _past_comments(text, container.extents()[index][1], _column(text, first))


def _past_comments(text: str, at: int, column: int) -> int:
    """The end of that line, and of those after it that have but a comment, further in than that column."""
    at = end_of_words(text, at)
    comment = re.compile(_COMMENT_LINE.format(column + 1))
    while found := comment.match(text, at):
        at = found.end()
    return at


def _style(text: str, *nodes: Node | None) -> Style:
    """As in the neighbourhood."""
    for node in nodes:
        for member in node.members if node and not node.is_flow else ():
            inner = member.value
            if inner.kind == "map" and inner.members and not inner.is_flow:
                deeper = _column(text, inner.members[0].key.start) - _column(text, member.key.start)
                if deeper > 0:
                    return Style(line_break(text), " " * deeper)
    return Style(line_break(text), "  ")


def _as_lines(part: Part, indent: str, style: Style) -> str:
    return "".join(style.newline + line for line in part.lines(indent, style.step))


def added(text: str, document: Document, container: Node, holder: Member | None, part: Part) -> list[Splice]:
    """One part more in a container, the last. `holder` has the container; None: it is the document."""
    style = _style(text, container, document.root)
    if not container.is_empty:
        return _added_to(text, container, part, style)
    if "\n" in text[container.start : container.end] or (holder and _is_in_flow(document.root, holder)):
        return _filled_in_flow(text, container, part)
    if holder:
        indent = " " * _column(text, holder.key.start) + style.step
        colon = text.index(":", holder.key.end)
        at = _past_comments(text, container.end, _column(text, holder.key.start))
        return [
            Splice(colon + 1, container.end, ""),
            Splice(at, at, _as_lines(part, indent, style)),
        ]
    lines = style.newline.join(part.lines("", style.step))
    if container.end > container.start:
        return [Splice(container.start, container.end, lines)]
    at = document.end
    if at and text[at - 1] not in "\r\n":
        return [Splice(at, at, style.newline + lines)]
    return [Splice(at, at, lines + style.newline)]


def _is_in_flow(root: Node | None, holder: Member) -> bool:
    """Does a bracket hold it, however far out? Then so does the nearest: blocks do not stand in brackets."""
    node = root
    while node is not None and not node.is_flow:
        around = [member for member in node.members if member.key.start <= holder.key.start]
        if not around or around[-1] is holder:
            return False
        node = around[-1].value
    return node is not None


def _filled_in_flow(text: str, container: Node, part: Part) -> list[Splice]:
    if container.is_flow:
        return add_between_commas(text, _inside(container), [], part.flow())
    closed = f"[{part.flow()}]" if part.key is None else f"{{{part.flow()}}}"
    return [
        Splice(container.start, container.end, closed if container.end > container.start else f" {closed}")
    ]


def _added_to(text: str, container: Node, part: Part, style: Style) -> list[Splice]:
    if container.is_flow:
        return add_between_commas(text, _inside(container), container.extents(), part.flow())
    first, at = words(text, container, len(container.extents()) - 1)
    indent = " " * _column(text, first)
    return [Splice(at, at, _as_lines(part, indent, style))]


def removed(text: str, container: Node, index: int, holder: Member | None) -> list[Splice]:
    """Without that part; what is empty then is written as such, since null would be something else."""
    parts = container.extents()
    if container.is_flow:
        return remove_between_commas(text, _inside(container), parts, index)
    first = _first(text, container, index)
    if not begins_line(text, first) and index + 1 < len(parts):
        return [Splice(first, _first(text, container, index + 1), "")]
    lines = Splice(*own_lines(text, words(text, container, index)), "")
    if len(parts) > 1:
        return [lines]
    empty = "[]" if container.kind == "list" else "{}"
    if holder is None:
        return [Splice(first, parts[index][1], empty)]
    colon = text.index(":", holder.key.end)
    return [Splice(colon + 1, colon + 1, f" {empty}"), lines]


def with_blank_lines(text: str, splices: list[Splice]) -> list[Splice]:
    """The same, where the last goes on to the next line that is not blank."""
    *others, last = splices
    found = _BLANK_LINES.match(text, last.end)
    return [*others, last._replace(end=found.end() if found else last.end)]


def rewritten(text: str, container: Node, index: int, wanted: Value) -> Splice:
    """An entry made equal, in a document of its own: however large the rest is, it is not read again."""
    style = _style(text, values(container)[index], container)
    path: str | int = container.members[index].name if container.kind == "map" else 0
    if container.is_flow:
        start, end = container.extents()[index]
        opening, closing = "{}" if container.kind == "map" else "[]"
    else:
        start, end = words(text, container, index)
        start = line_start(text, start)
        opening = closing = ""
    alone = _made_equal(opening + text[start:end] + closing, path, wanted, style)
    return Splice(start, end, alone[len(opening) : len(alone) - len(closing)])


def _made_equal(text: str, path: str | int, wanted: Value, style: Style) -> str:
    """One difference at a time: after each, everything stands elsewhere."""
    for _ in range(MOST_DIFFERENCES):
        root = parse(text).root or Node("scalar", 0, 0)
        index = path if isinstance(path, int) else [member.name for member in root.members].index(path)
        splices = _first_difference(text, root, index, wanted, style)
        if not splices:
            return text
        text = spliced(text, splices)
    raise Refused("the entry differs in too many ways")


def _first_difference(text: str, container: Node, index: int, wanted: Value, style: Style) -> list[Splice]:
    node = values(container)[index]
    if same(node.value, wanted):
        return []
    if (
        node.kind != "map"
        or not isinstance(wanted, dict)
        or not wanted.keys() & {m.name for m in node.members}
    ):
        return [_replaced(text, container, index, wanted, style)]
    for at, member in enumerate(node.members):
        if member.name not in wanted:
            return removed(text, node, at, None)
        if splices := _first_difference(text, node, at, wanted[member.name], style):
            return splices
    key = next(key for key in wanted if node.member(key) is None)
    return _added_to(text, node, Part(key, wanted[key]), style)


def _replaced(text: str, container: Node, index: int, value: Value, style: Style) -> Splice:
    node = values(container)[index]
    if container.is_flow or (node.is_flow and isinstance(value, (dict, list))):
        return Splice(node.start, node.end, as_flow(value) if node.end > node.start else f" {as_flow(value)}")
    key = container.members[index].key
    lines = member_lines(container.members[index].name, value, " " * _column(text, key.start), style.step)
    return Splice(key.start, node.end, style.newline.join(lines).lstrip())
