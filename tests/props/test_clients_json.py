"""Generated JSON, JSONC and JSON5 documents: an edit changes the entry and nothing else, to the byte.

The oracle reads in its own way: it takes a text apart into tokens and makes JSON of them, for `json` to read.
"""

import copy
import json
import re
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.clients.editing.edits import Refused, Section, Value, complete
from mooring.clients.editing.json_family import JSON, JSON5, JSONC, JsonFamily

NAME = "x"
SECTIONS = [
    Section(("m",)),
    Section(("a.b", "m")),
    Section(("a.b", "/", "m")),
    Section(()),
    Section(("m",), is_list=True),
    Section(("a.b", "m"), is_list=True, name_key="id"),
    Section((), is_list=True),
]
KEYS = ["a", "b.c", "url", "é", "//", "/*", '"', ""]
PLAIN = ["null", "true", "0", "-1.5e3", '"\\u00e9\\"//"', '"/* */"', '"{"', '","', '" \\\\"', '"\\ud800"']
PLAIN_SCALARS = {text: json.loads(text) for text in PLAIN}
JSON5_SCALARS = {
    "'it\\'s \"'": "it's \"",
    "'a\\\n//b'": "a//b",
    '"\\x41"': "A",
    "+0x1F": 31,
    "-.5": -0.5,
    "5.": 5.0,
    "+Infinity": float("inf"),
}
BLANKS = ["", "", " ", "\n", "\n  ", "\n\t", "  \n\n"]
COMMENTS = [
    ("", "/*{}*/", ""),
    (" ", "/* {} // }} */", " "),
    ("", "/* {}\n*/", "\n "),
    ("", "// {}, ", "\n"),
    (" ", "// /* {}  ", "\n  "),
    ("\n  ", '// "x": {{}} {}', "\n  "),
]
"""What is before it, itself with a place for its number, and what is after it."""


class Scalar(NamedTuple):
    """A plain value, and how it is written."""

    text: str
    value: Any


class Entry(dict[str, Any]):
    """The entry, in a tree."""


class Document(NamedTuple):
    """Bytes, what they say, the comments in them; and the same of the entry, if there is one."""

    data: bytes
    value: Any
    comments: list[str]
    section: Section
    before_entry: bytes
    after_entry: bytes
    entry_comments: list[str]


class Writer:
    """Writes a tree in one of the many ways that there are."""

    def __init__(self, draw: st.DrawFn, family: JsonFamily) -> None:
        self.draw = draw
        self.family = family
        self.text = draw(st.sampled_from(["", "\ufeff"]))
        self.newline = draw(st.sampled_from(["\n", "\r\n"]))
        self.is_tidy = draw(st.booleans())
        self.comments: list[str] = []
        self.entry_span = (0, 0)
        self.entry_comments: list[str] = []

    def put(self, text: str) -> None:
        self.text += text.replace("\n", self.newline)

    def gap(self, usual: str = "") -> None:
        """White space, and comments where there may be some, each with its number."""
        if self.is_tidy and self.draw(st.integers(0, 5)):
            return self.put(usual)
        self.put(self.draw(st.sampled_from(BLANKS)))
        while self.family is not JSON and not self.draw(st.integers(0, 2)):
            before, comment, after = self.draw(st.sampled_from(COMMENTS))
            self.comments.append(comment.format(len(self.comments)).replace("\n", self.newline))
            self.put(before)
            self.text += self.comments[-1]
            self.put(after)
        return None

    def tree(self, tree: Any) -> None:
        if isinstance(tree, Scalar):
            self.put(tree.text)
        elif isinstance(tree, dict):
            self.container("{}", list(tree.items()))
        else:
            self.container("[]", [(None, item) for item in tree])

    def container(self, brackets: str, elements: list[tuple[str | None, Any]]) -> None:
        line = self.draw(st.sampled_from(["", " ", "\n  ", "\n\t\t"]))
        self.put(brackets[0])
        self.gap(line)
        for index, (key, item) in enumerate(elements):
            start, comments = len(self.text), len(self.comments)
            self.element(key, item)
            if isinstance(item, Entry):
                self.entry_span = start, len(self.text)
                self.entry_comments = self.comments[comments:]
            if index < len(elements) - 1 or (self.family is not JSON and self.draw(st.booleans())):
                self.gap()
                self.put(",")
            self.gap(line)
        self.put(brackets[1])

    def element(self, key: str | None, item: Any) -> None:
        if key is not None:
            is_bare = self.family is JSON5 and key.isidentifier() and self.draw(st.booleans())
            self.put(key if is_bare else json.dumps(key, ensure_ascii=self.draw(st.booleans())))
            self.gap()
            self.put(":")
            self.gap(" ")
        self.tree(item)


def said(tree: Any) -> Any:
    """What a tree says."""
    if isinstance(tree, Scalar):
        return tree.value
    if isinstance(tree, dict):
        return {key: said(item) for key, item in tree.items()}
    return [said(item) for item in tree]


def members_of(family: JsonFamily) -> st.SearchStrategy[dict[str, Any]]:
    scalars = {**PLAIN_SCALARS, **(JSON5_SCALARS if family is JSON5 else {})}
    trees = st.recursive(
        st.sampled_from([Scalar(text, value) for text, value in scalars.items()]),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
        max_leaves=4,
    )
    return st.dictionaries(st.sampled_from(KEYS), trees, max_size=3)


def shuffled(draw: st.DrawFn, members: dict[str, Any]) -> dict[str, Any]:
    return dict(draw(st.permutations(list(members.items()))))


@st.composite
def documents(draw: st.DrawFn, family: JsonFamily, *, has_entry: bool) -> Document:
    section = draw(st.sampled_from(SECTIONS))
    members = members_of(family)
    entry = draw(members)
    tree: Any = draw(members)
    if section.is_list:
        tree = list(tree.values())
        if has_entry:
            named = Entry(shuffled(draw, {**entry, section.name_key: Scalar(json.dumps(NAME), NAME)}))
            tree.insert(draw(st.integers(0, len(tree))), named)
    elif has_entry:
        tree = shuffled(draw, {**tree, NAME: Entry(entry)})
    # Without an entry the section may be missing too, from any depth on.
    depth = len(section.keys) if has_entry else draw(st.integers(0, len(section.keys)))
    if depth < len(section.keys):
        tree = draw(members)
    for key in reversed(section.keys[:depth]):
        tree = shuffled(draw, {**draw(members), key: tree})
    writer = Writer(draw, family)
    writer.gap()
    writer.tree(tree)
    writer.gap("\n")
    start, end = writer.entry_span
    return Document(
        writer.text.encode(),
        said(tree),
        writer.comments,
        section,
        writer.text[:start].encode(),
        writer.text[end:].encode(),
        writer.entry_comments,
    )


VALUES: st.SearchStrategy[Value] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
    max_leaves=4,
)
ENTRIES = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4)

TOKEN = re.compile(
    r"""(?P<comment>//[^\n\r]*|/\*(?s:.*?)\*/)|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\(?s:.))*'"""
    r"""|[{}\[\]:,]|[^\s{}\[\]:,"'/]+|\s+|(?P<wrong>.)"""
)


def oracle(data: bytes) -> tuple[Any, list[str]]:
    """What a document says, and its comments."""
    tokens: list[str] = []
    comments = []
    for match in TOKEN.finditer(data.decode().removeprefix("\ufeff")):
        assert not match["wrong"], match
        token = match[0].replace("\r\n", "\n")
        if match["comment"]:
            comments.append(match[0])
        elif not token.isspace():
            if token in "}]" and tokens[-1] == ",":
                tokens.pop()
            if token == ":" and tokens[-1][0] != '"':
                tokens[-1] = json.dumps(tokens[-1])
            tokens.append(json.dumps(JSON5_SCALARS[token]) if token in JSON5_SCALARS else token)
    return json.loads("".join(tokens), object_pairs_hook=unique), comments


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def exactly(value: Any, *, in_order: bool = True) -> str:
    """For comparing: 1 is neither 1.0 nor true."""
    return json.dumps(value, sort_keys=not in_order)


def section_of(value: Any, section: Section) -> Any:
    """The section in a document, made if it is missing."""
    for depth, key in enumerate(section.keys, 1):
        value = value.setdefault(key, [] if section.is_list and depth == len(section.keys) else {})
    return value


def has_section(document: Document) -> bool:
    value = document.value
    for key in document.section.keys:
        if key not in value:
            return False
        value = value[key]
    return True


def with_entry(document: Document, entry: dict[str, Value] | None) -> Any:
    """What the document should say with that entry in place of the one that it may have; None: with none."""
    value = copy.deepcopy(document.value)
    entries = section_of(value, document.section)
    if not document.section.is_list:
        if entry is None:
            entries.pop(NAME, None)
        else:
            entries[NAME] = entry
        return value
    name_key = document.section.name_key
    names = [item.get(name_key) if isinstance(item, dict) else None for item in entries]
    at = names.index(NAME) if NAME in names else len(names)
    entries[at : at + 1] = [] if entry is None else [complete(document.section, NAME, entry)]
    return value


def without_blanks(data: bytes) -> bytes:
    return b"".join(data.split())


def check_new_entry(family: JsonFamily, document: Document, entry: dict[str, Value]) -> None:
    section = document.section
    assert exactly(family.read(document.data)) == exactly(document.value)
    assert oracle(document.data)[1] == document.comments
    after = family.put(document.data, section, NAME, entry)
    value, comments = oracle(after)
    assert exactly(value) == exactly(with_entry(document, entry))
    assert comments == document.comments
    removed = family.remove(after, section, NAME)
    if not has_section(document):
        value, comments = oracle(removed)
        assert exactly(value) == exactly(with_entry(document, None))
        assert comments == document.comments
    elif section_of(document.value, section):
        assert removed == document.data
    else:
        assert without_blanks(removed) == without_blanks(document.data)
    # Whatever white space went, it went once and for all.
    assert family.remove(family.put(removed, section, NAME, entry), section, NAME) == removed


def check_present_entry(family: JsonFamily, document: Document, entry: dict[str, Value]) -> None:
    section = document.section
    entries = section_of(document.value, section)
    own = next(item for item in entries if said_name(item, section)) if section.is_list else entries[NAME]
    assert family.put(document.data, section, NAME, own) == document.data
    outside = [comment for comment in document.comments if comment not in document.entry_comments]

    after = family.put(document.data, section, NAME, entry)
    value, comments = oracle(after)
    assert exactly(value, in_order=False) == exactly(with_entry(document, entry), in_order=False)
    assert after.startswith(document.before_entry) and after.endswith(document.after_entry)
    assert [comment for comment in comments if comment not in document.entry_comments] == outside
    assert family.put(after, section, NAME, entry) == after

    value, comments = oracle(family.remove(document.data, section, NAME))
    assert exactly(value) == exactly(with_entry(document, None))
    assert comments == outside


def said_name(item: Any, section: Section) -> bool:
    return isinstance(item, dict) and item.get(section.name_key) == NAME


FAMILIES = st.sampled_from([JSON, JSONC, JSONC, JSON5])
CASES = FAMILIES.flatmap(
    lambda family: st.tuples(st.just(family), documents(family, has_entry=False), ENTRIES)
)
PRESENT = FAMILIES.flatmap(
    lambda family: st.tuples(st.just(family), documents(family, has_entry=True), ENTRIES)
)
Case = tuple[JsonFamily, Document, dict[str, Value]]


@settings(max_examples=200, deadline=None)
@given(CASES)
def test_an_entry_comes_and_goes_and_nothing_else_changes(case: Case) -> None:
    check_new_entry(*case)


@settings(max_examples=200, deadline=None)
@given(PRESENT)
def test_an_entry_that_is_there_is_changed_or_removed_and_nothing_else(case: Case) -> None:
    check_present_entry(*case)


@pytest.mark.slow
@settings(max_examples=20_000, deadline=None)
@given(CASES)
def test_an_entry_comes_and_goes_in_very_many(case: Case) -> None:
    check_new_entry(*case)


@pytest.mark.slow
@settings(max_examples=20_000, deadline=None)
@given(PRESENT)
def test_an_entry_is_changed_or_removed_in_very_many(case: Case) -> None:
    check_present_entry(*case)


PIECES = [
    *'{}[]:,/*"\\ \n\t\0',
    '"a"',
    '"x"',
    "//",
    "/*",
    "*/",
    "1",
    "-",
    "0",
    ".",
    "e5",
    "true",
    "nul",
    "\\u00",
    "é",
    "'",
]
NOISE = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)


def no_constant(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


@settings(max_examples=1000, deadline=None)
@given(NOISE)
def test_json_is_read_or_refused_as_json_does(text: str) -> None:
    try:
        wanted = (
            json.loads(text, parse_constant=no_constant, object_pairs_hook=unique) if text.strip() else {}
        )
    except (ValueError, AssertionError):
        with pytest.raises(Refused) as refused:
            JSON.read(text.encode())
        assert refused.value.place
    else:
        assert exactly(JSON.read(text.encode())) == exactly(wanted)


@settings(max_examples=1000, deadline=None)
@given(st.sampled_from([JSONC, JSON5]), NOISE | st.binary(max_size=20))
def test_noise_is_refused_or_edited_but_never_anything_else(family: JsonFamily, noise: str | bytes) -> None:
    data = noise if isinstance(noise, bytes) else b"{" + noise.encode() + b"}"
    try:
        before = family.read(data)
        after = family.put(data, Section(()), NAME, {"url": "u"})
    except Refused:
        return
    assert isinstance(before, dict)
    assert exactly(family.read(after), in_order=False) == exactly(
        {**before, NAME: {"url": "u"}}, in_order=False
    )
    removed = family.read(family.remove(after, Section(()), NAME))
    before.pop(NAME, None)
    assert exactly(removed) == exactly(before)
