"""One element into an object or a list, or out of it, as a person would have written it there.

What is put in goes to the end, after all comments, in the manner of its neighbours: on a line of its own or
not, with their indentation, line ends and trailing comma. Taking it out again gives the same bytes, but for
white space in brackets that had nothing else in them: `{ }` becomes `{}`.
"""

import json
import re
from bisect import bisect_left, bisect_right
from typing import NamedTuple

from mooring.clients.editing.edits import MOST_DEPTH, Place, Refused, Value, place_of
from mooring.clients.editing.json_scan import Container, Dialect, Element, scan
from mooring.clients.editing.splices import Splice

__all__ = ["Document", "Layout", "rendered"]

_BREAK = re.compile("[\n\r\u2028\u2029]")
_INDENT = re.compile("[ \t]*+")
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")


class Layout(NamedTuple):
    """How something is written."""

    newline: str = "\n"
    unit: str = "  "
    """What a line inside brackets is indented by."""
    is_one_line: bool = False
    is_compact: bool = False
    """No space after a colon, nor after a comma in a line."""

    @property
    def space(self) -> str:
        """What follows a colon."""
        return "" if self.is_compact else " "


def rendered(value: Value, layout: Layout, indent: str) -> str:
    """A value as JSON; `indent` is that of the line on which it begins."""
    if not isinstance(value, dict | list) or not value:
        return _scalar(value)
    inner = indent + layout.unit
    if isinstance(value, dict):
        opening, closing = "{}"
        parts = [_member(key, item, layout, inner) for key, item in value.items()]
    else:
        opening, closing = "[]"
        parts = [rendered(item, layout, inner) for item in value]
    if layout.is_one_line:
        return f"{opening}{f',{layout.space}'.join(parts)}{closing}"
    line = layout.newline + inner
    return f"{opening}{line}{f',{line}'.join(parts)}{layout.newline}{indent}{closing}"


def _member(key: str | None, value: Value, layout: Layout, indent: str) -> str:
    text = rendered(value, layout, indent)
    return text if key is None else f"{_scalar(key)}:{layout.space}{text}"


def _scalar(value: Value) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        raise Refused("an entry has a number that JSON cannot have") from None
    # Half a character is legal as an escape, but is no UTF-8.
    return json.dumps(value) if _HALF_CHARACTER.search(text) else text


class Document:
    """A text that was read, and the splices that change it. `fallback`: the layout if nothing shows one."""

    def __init__(
        self, text: str, dialect: Dialect, *, deepest: int = MOST_DEPTH, fallback: Layout | None = None
    ) -> None:
        self.text = text
        self.root, self._comments = scan(text, dialect, deepest)
        self._comment_starts = [comment.start for comment in self._comments]
        self._comment_ends = [comment.end for comment in self._comments]
        self._fallback = fallback or Layout()
        self._blanks = dialect.blanks

    def place(self, offset: int) -> Place:
        """Where that is, for people."""
        return place_of(self.text, offset)

    def comments_outside(self, element: Element | None) -> tuple[str, ...]:
        """The comments that are not in the element."""
        return tuple(
            self.text[start:end]
            for start, end in self._comments
            if element is None or end <= element.start or start >= element.end
        )

    def insertion(
        self, path: list[Container], key: str | None, value: Value, *, like_siblings: bool
    ) -> list[Splice]:
        """A further element at the end of the last of `path`, all containers from the outermost on.

        `like_siblings`: in one line if the one before it is.
        """
        container = path[-1]
        layout = self.layout(path)
        if not container.elements and not self._has_comments(container.start, container.end):
            return [self._first(path, key, value, layout)]
        end, is_after_line_comment = self._end_before(container.end - 1)
        own_line = is_after_line_comment or self.is_spread(container)
        one_line = not own_line or (like_siblings and self._ends_in_one_line(container))
        indent = self._indent_inside(path)
        text = _member(key, value, layout._replace(is_one_line=one_line), indent)
        lead = f"{layout.newline}{indent}" if own_line else layout.space
        if not container.elements:
            return [Splice(end, end, lead + text)]
        last = container.elements[-1]
        if last.comma is not None:
            return [Splice(end, end, f"{lead}{text},")]
        return [Splice(last.end, last.end, ","), Splice(end, end, lead + text)]

    def _first(self, path: list[Container], key: str | None, value: Value, layout: Layout) -> Splice:
        """The first element between brackets that have nothing but white space in them."""
        container = path[-1]
        one_line = not self.is_spread(path[-2]) if len(path) > 1 else self._fallback.is_one_line
        layout = layout._replace(is_one_line=one_line)
        indent = self.line_indent(container.start)
        text = _member(key, value, layout, indent + layout.unit)
        if not one_line:
            text = f"{layout.newline}{indent}{layout.unit}{text}{layout.newline}{indent}"
        return Splice(container.start + 1, container.end - 1, text)

    def replacement(self, path: list[Container], element: Element, value: Value) -> list[Splice]:
        """Another value for an element of the last of `path`."""
        inside = element.inside
        if inside and inside.value:
            one_line = not _BREAK.search(self.text, inside.start, inside.end)
        else:
            one_line = not self.is_spread(path[-1])
        layout = self.layout(path)._replace(is_one_line=one_line)
        text = rendered(value, layout, self.line_indent(element.start))
        return [Splice(element.value_start, element.end, text)]

    def removal(self, container: Container, index: int) -> list[Splice]:
        """Without an element, its comma, and the white space on one side. Comments beside it stay."""
        element = container.elements[index]
        is_last = index == len(container.elements) - 1
        comments_beside = self._has_comments(container.start, element.start) or self._has_comments(
            element.end, container.end
        )
        if len(container.elements) == 1 and not comments_beside:
            return [Splice(container.start + 1, container.end - 1, "")]
        cuts = []
        end = element.end
        comma = (
            element.comma if element.comma is not None or index == 0 else container.elements[index - 1].comma
        )
        if comma is not None and comma == self._blanks_end(end):
            end = comma + 1
        elif comma is not None:
            cuts.append(Splice(comma, comma + 1, ""))
        before, is_after_line_comment = self._end_before(element.start)
        after = self._blanks_end(end)
        line_end = _BREAK.search(self.text, end, after)
        is_before_comment = self.text[after] == "/"
        # Where the line goes on, what follows takes the element's place; else the element's line goes.
        if not line_end and (not is_last or is_before_comment or is_after_line_comment):
            return [*cuts, Splice(element.start, after, "")]
        if line_end and is_after_line_comment:
            # Blanks up to there would become a part of the comment.
            end = line_end.start()
        return [*cuts, Splice(before, end, "")]

    def layout(self, path: list[Container]) -> Layout:
        """How things are written inside the last of `path`, or else around it."""
        unit, is_compact = None, None
        for container in reversed(path):
            if unit is None:
                unit = self._unit(container)
            if is_compact is None and container.is_object and container.elements:
                is_compact = self.text[container.elements[-1].value_start - 1] == ":"
        return self._fallback._replace(
            newline=self._newline(path[-1].end),
            unit=self._fallback.unit if unit is None else unit,
            is_compact=self._fallback.is_compact if is_compact is None else is_compact,
        )

    def line_indent(self, offset: int) -> str:
        """The white space that begins the line."""
        start = max(self.text.rfind("\n", 0, offset), self.text.rfind("\r", 0, offset)) + 1
        return _INDENT.match(self.text, start, offset)[0]  # type: ignore[index]  # it matches nothing too

    def _newline(self, offset: int) -> str:
        """The line end before a place, or else the first after it."""
        at = max(self.text.rfind("\n", 0, offset), self.text.rfind("\r", 0, offset))
        if at < 0:
            found = re.search("\r\n|\n|\r", self.text)
            return found[0] if found else self._fallback.newline
        return "\r\n" if self.text[at - 1 : at + 1] == "\r\n" else self.text[at]

    def _unit(self, container: Container) -> str | None:
        own, outer = self._element_indent(container), self.line_indent(container.start)
        return own[len(outer) :] if own is not None and own.startswith(outer) and own != outer else None

    def _indent_inside(self, path: list[Container]) -> str:
        own = self._element_indent(path[-1])
        return self.line_indent(path[-1].start) + self.layout(path).unit if own is None else own

    def _element_indent(self, container: Container) -> str | None:
        """The indentation of the last element that has a line of its own."""
        elements = container.elements
        for index in range(len(elements) - 1, -1, -1):
            if self._begins_line(container, index):
                return self.line_indent(elements[index].start)
        return None

    def _begins_line(self, container: Container, index: int) -> bool:
        start = container.elements[index - 1].end if index else container.start
        return _BREAK.search(self.text, start, container.elements[index].start) is not None

    def is_spread(self, container: Container) -> bool:
        """Would another element have a line of its own?"""
        if container.elements:
            return self._begins_line(container, len(container.elements) - 1)
        return _BREAK.search(self.text, container.start, container.end) is not None

    def _ends_in_one_line(self, container: Container) -> bool:
        inside = container.elements[-1].inside if container.elements else None
        return bool(inside and inside.value and not _BREAK.search(self.text, inside.start, inside.end))

    def _has_comments(self, start: int, end: int) -> bool:
        index = bisect_left(self._comment_starts, start)
        return index < len(self._comments) and self._comment_starts[index] < end

    def _end_before(self, offset: int) -> tuple[int, bool]:
        """Where the white space before `offset` begins; and is that after a comment that takes a line?"""
        index = bisect_right(self._comment_ends, offset) - 1
        comment_end = self._comment_ends[index] if index >= 0 else 0
        # White space may also be the end of a comment: that is not gone over.
        while offset > comment_end and self.text[offset - 1] in self._blanks:
            offset -= 1
        is_comment = index >= 0 and offset == comment_end
        return offset, is_comment and self.text.startswith("//", self._comment_starts[index])

    def _blanks_end(self, offset: int) -> int:
        while self.text[offset] in self._blanks:
            offset += 1
        return offset
