"""A YAML document as nodes that know where they stand.

libyaml says where everything begins; where a block ends it says too late (at the next word, past comments),
so here a node ends where the last of what it holds does. Values are read by the core schema of YAML 1.2. `<<`
is a key like any other: most clients' readers do not merge, and an edit does not depend on it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from mooring.clients.editing.edits import MOST_DEPTH, Refused, Value, place_of, shown
from mooring.clients.editing.splices import Extent, end_of_words

__all__ = ["Document", "Member", "Node", "parse"]

MOST_EXPANDED = 1_000_000
"""Nodes, with each alias counted as what it stands for."""

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?[0-9]{1,4000}|0o[0-7]{1,4000}|0x[0-9a-fA-F]{1,4000}")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]++|[0-9]++(?:\.[0-9]*+)?)(?:[eE][-+]?[0-9]++)?")
_SPECIAL_FLOAT = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
# An anchor, alias, tag or directive may have a # in it.
_COMMENT = re.compile(r"[&*!%][^\s,\[\]{}]*+|(#[^\r\n]*+)")


class Node:
    """Something in the document: `start` to `end`, in characters, without white space around it."""

    __slots__ = (
        "anchor",
        "end",
        "expanded",
        "is_flow",
        "items",
        "kind",
        "members",
        "opened",
        "start",
        "value",
    )

    def __init__(self, kind: Literal["map", "list", "scalar"], start: int, end: int) -> None:
        self.kind = kind
        self.start = start
        self.end = end
        self.opened = end
        """Where what is in it may begin: past the bracket, if it has one."""
        self.is_flow = False
        self.anchor: str | None = None
        # Most nodes are scalars: a list for each would be most of the time that a large document takes.
        self.members: Sequence[Member] = ()
        self.items: Sequence[Node] = ()
        self.value: Value = None
        self.expanded = 1

    def member(self, key: str) -> "Member | None":
        """That of a map, by its key."""
        return next((member for member in self.members if member.name == key), None)

    @property
    def is_empty(self) -> bool:
        """A map or list without anything in it, or null."""
        return self.value is None or (self.kind != "scalar" and not self.members and not self.items)

    def extents(self) -> list[Extent]:
        """From where to where each part of it goes."""
        if self.kind == "map":
            return [(member.key.start, member.value.end) for member in self.members]
        return [(item.start, item.end) for item in self.items]


class Member(NamedTuple):
    """A key and what it stands for."""

    name: str
    key: Node
    value: Node


class Document(NamedTuple):
    """What a text holds: `root` is None if there is nothing but comments. Its words end at `end`."""

    root: Node | None
    end: int
    comments: list[Extent]


def parse(text: str) -> Document:
    """Refused, with the place, if it is no YAML, more than one document, too deep, or has a key twice."""
    import yaml  # noqa: PLC0415 - takes 20 ms, and most clients' files are JSON

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return _Composer(text).compose(yaml.parse(text, Loader=loader))
    except yaml.reader.ReaderError as error:
        raise Refused("YAML does not allow this character", place_of(text, error.position)) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = place_of(text, mark.index) if mark else None
        raise Refused(f"this is not YAML: {error.problem or error.context}", place) from None


class _Composer:
    """Makes nodes of libyaml's events."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._open: list[tuple[Node, list[Node]]] = []
        """The maps and lists that have not ended, outermost first, each with what was read of it."""
        self._anchors: dict[str, Node] = {}
        self._leaves: list[tuple[int, int, bool]] = []
        """Where no comment is; and whether it is a block of text, which may have one after its mark."""
        self._root: Node | None = None
        self._documents = 0

    def compose(self, events: Iterable[Any]) -> Document:
        end = len(self._text)
        for event in events:
            match type(event).__name__:
                case "ScalarEvent":
                    self._place(self._scalar(event))
                case "MappingStartEvent":
                    self._begin("map", event)
                case "SequenceStartEvent":
                    self._begin("list", event)
                case "MappingEndEvent" | "SequenceEndEvent":
                    self._finish(event)
                case "AliasEvent":
                    self._place(self._alias(event))
                case "DocumentStartEvent":
                    self._documents += 1
                    if self._documents > 1:
                        raise self._refused("there is more than one document", event.start_mark.index)
                case "DocumentEndEvent" if event.explicit:
                    end = event.start_mark.index
        return Document(self._root, end, list(self._comments()))

    def _refused(self, message: str, at: int) -> Refused:
        return Refused(message, place_of(self._text, at))

    def _scalar(self, event: Any) -> Node:
        start, end = event.start_mark.index, event.end_mark.index
        is_block = event.style in ("|", ">")
        self._leaves.append((start, end, is_block))
        if is_block:
            end = self._end_of_block(start, end)
        node = Node("scalar", start, end)
        node.anchor = event.anchor
        node.value = event.value if event.style or event.tag else _meaning(event.value)
        if event.anchor:
            self._anchors[event.anchor] = node
        return node

    def _end_of_block(self, start: int, end: int) -> int:
        """Before its last line break; with blank lines only if they are kept."""
        words = self._text[start:end]
        if "+" not in words[:3]:
            return start + len(words.rstrip())
        return end - (2 if words.endswith("\r\n") else 1 if words.endswith(("\n", "\r")) else 0)

    def _alias(self, event: Any) -> Node:
        start, end = event.start_mark.index, event.end_mark.index
        self._leaves.append((start, end, False))
        meant = self._anchors.get(event.anchor)
        if meant is None:
            raise self._refused(f"there is no &{event.anchor} before this", start)
        # A scalar, for an edit: what it means stands elsewhere.
        node = Node("scalar", start, end)
        node.value, node.expanded = meant.value, meant.expanded
        return node

    def _begin(self, kind: Literal["map", "list"], event: Any) -> None:
        if len(self._open) == MOST_DEPTH:
            raise self._refused(f"this is more than {MOST_DEPTH} levels deep", event.start_mark.index)
        node = Node(kind, event.start_mark.index, event.end_mark.index)
        node.is_flow = event.flow_style
        node.anchor = event.anchor
        self._open.append((node, []))

    def _finish(self, event: Any) -> None:
        node, inner = self._open.pop()
        if node.kind == "map":
            self._fill_map(node, inner)
        else:
            node.items = inner
            node.value = [item.value for item in inner]
        if node.is_flow:
            node.end = event.end_mark.index
        elif inner:
            node.end = max(inner[-1].end, inner[-2].end if len(inner) > 1 else 0)
        node.expanded += sum(each.expanded for each in inner)
        if node.expanded > MOST_EXPANDED:
            raise self._refused("this is too large, with its aliases written out", node.start)
        if node.anchor:
            self._anchors[node.anchor] = node  # only now: nothing can hold itself
        self._place(node)

    def _fill_map(self, node: Node, inner: list[Node]) -> None:
        value: dict[str, Value] = {}
        members = []
        for key, meant in zip(inner[::2], inner[1::2], strict=True):
            if key.kind != "scalar" or isinstance(key.value, (dict, list)):
                raise self._refused("a key that is a map or a list is not understood here", key.start)
            name = key.value if isinstance(key.value, str) else self._text[key.start : key.end]
            if name in value:
                raise self._refused(f"the key {shown(name)} is there twice", key.start)
            value[name] = meant.value
            members.append(Member(name, key, meant))
        node.value, node.members = value, members

    def _place(self, node: Node) -> None:
        if self._open:
            self._open[-1][1].append(node)
        else:
            self._root = node

    def _comments(self) -> Iterator[Extent]:
        at = 0
        for start, end, is_block in [*self._leaves, (len(self._text), len(self._text), False)]:
            yield from self._comments_between(at, start)
            at = end
            if is_block:
                yield from self._comments_between(start, end_of_words(self._text, start))

    def _comments_between(self, start: int, end: int) -> Iterator[Extent]:
        if "#" in self._text[start:end]:
            for found in _COMMENT.finditer(self._text, start, end):
                if found[1]:
                    yield found.span()


def _meaning(word: str) -> Value:
    """Of a scalar without quotes."""
    if word in _NULL:
        return None
    if word in _BOOL:
        return _BOOL[word]
    if not word.isascii() or word[0] not in "-+.0123456789":
        return word
    if _INT.fullmatch(word):
        return int(word, 8 if word.startswith("0o") else 16 if word.startswith("0x") else 10)
    if _FLOAT.fullmatch(word):
        return float(word)
    if _SPECIAL_FLOAT.fullmatch(word):
        return float(word.replace(".", ""))
    return word
