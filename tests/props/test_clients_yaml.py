"""Of any YAML document: an edit changes its entry and nothing else, as another reader of YAML sees it."""

import re
from typing import Any, NamedTuple

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mooring.clients.editing.edits import Section, Value
from mooring.clients.editing.yaml import YAML

NAMES = ["alpha", "beta", "gamma", "mine"]
WORDS = [
    "x",
    "'it''s # no comment'",
    '"a: {b} # no\\n"',
    "12",
    "true",
    "~",
    "",
    "a b",
    "http://h:1/p#q",
    "-1.5e+3",
]
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.sampled_from(
    ["yes", "1e3", "0x1F", "- a", "#"]
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    TEXTS | st.integers() | st.booleans() | st.none() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
ENTRIES = st.dictionaries(st.sampled_from(["url", "type", "env", "k"]) | TEXTS, VALUES, max_size=4).map(
    lambda entry: {key: value for key, value in entry.items() if key != "name"}
)


class Sample(NamedTuple):
    """A document, and where its entries are. A comment says in whose entry it stands: `#7beta`."""

    text: str
    section: Section
    names: tuple[str, ...]
    is_there: bool
    """The section, and not null: then the bytes come back."""


class Writer:
    """Writes what a person might; every line may have a comment, or one above it."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.lines: list[str] = []
        self.entry = "-"
        self.comments = 0

    def chance(self, of: int = 3) -> bool:
        return self.draw(st.integers(0, of)) == of  # a document without is the simplest

    def comment(self) -> str:
        self.comments += 1
        return f"# {self.comments}{self.entry};"

    def line(self, text: str, indent: int) -> None:
        while self.chance(5):
            self.lines.append(" " * indent + self.comment() if self.chance(1) else "")
        self.lines.append(" " * indent + text + (f"  {self.comment()}" if self.chance() else ""))

    def flow(self, depth: int = 0) -> str:
        kind = self.draw(st.integers(0, 4 if depth < 2 else 1))
        if kind <= 1:
            return self.draw(st.sampled_from(WORDS[:5]))
        inner = [self.flow(depth + 1) for _ in range(self.draw(st.integers(0, 2)))]
        end = "," if inner and self.chance() else ""
        if kind == 2:
            return "[" + ", ".join(inner) + end + "]"
        return "{" + ", ".join(f"f{at}: {word}" for at, word in enumerate(inner)) + end + "}"

    def member(self, key: str, at: int, step: int, depth: int = 0) -> None:
        kind = self.draw(st.integers(0, 7 if depth < 2 else 3))
        if kind <= 1:
            self.line(f"{key}: {self.draw(st.sampled_from(WORDS))}", at)
        elif kind == 2:
            self.line(f"{key}: {self.flow()}", at)
        elif kind == 3:
            self.line(f"{key}: {self.draw(st.sampled_from(['|', '>', '|-', '|+', '>-']))}", at)
            self.lines += [" " * (at + step) + word for word in ("first # text", "", "last")]
            self.lines += [""] * self.draw(st.integers(0, 2))
        elif kind == 4:
            self.line(f"{key}:", at)
            nested = at + step * self.draw(st.integers(0, 1))
            for _ in range(self.draw(st.integers(1, 3))):
                self.line(f"- {self.draw(st.sampled_from(WORDS))}", nested)
        elif kind == 5:
            self.lines.append(" " * at + f"{key}: plain")
            self.lines.append(" " * (at + step) + "goes on" + (f" {self.comment()}" if self.chance() else ""))
        else:
            self.line(f"{key}:", at)
            for number in range(self.draw(st.integers(1, 3))):
                self.member(f"m{number}", at + step, step, depth + 1)

    def entries_of_map(self, names: list[str], indent: int, step: int) -> None:
        for name in names:
            self.entry = name
            before, self.entry = self.entry, "-"
            while self.chance(5):
                self.lines.append(" " * indent + self.comment())
            self.entry = before
            if self.chance():
                self.lines.append(" " * indent + f"{name}: {self.flow()}")
            else:
                self.lines.append(" " * indent + f"{name}:" + (f" {self.comment()}" if self.chance() else ""))
                for number in range(self.draw(st.integers(1, 3))):
                    self.member(
                        self.draw(st.sampled_from(["url", "type"])) if not number else f"m{number}",
                        indent + step,
                        step,
                    )
            self.entry = "-"

    def entries_of_list(self, names: list[str], indent: int, step: int) -> None:
        for name in names:
            if self.chance():
                self.lines.append(" " * indent + f"- {{name: {name}, a: {self.flow()}}}")
                continue
            self.entry = name
            if self.chance():
                self.lines.append(" " * indent + "- url: 'u'")
                self.lines.append(" " * indent + f"  name: {name}")
            else:
                self.lines.append(
                    " " * indent + f"- name: {name}" + (f" {self.comment()}" if self.chance() else "")
                )
            for number in range(self.draw(st.integers(0, 2))):
                self.member(f"m{number}", indent + 2, step)
            self.entry = "-"

    def entries_in_flow(self, names: list[str], is_list: bool) -> None:
        parts = [
            f"{{name: {name}, a: {self.flow()}}}" if is_list else f"{name}: {self.flow()}" for name in names
        ]
        opening, closing = "[]" if is_list else "{}"
        if self.chance(1):
            end = "," if parts and self.chance() else ""
            self.lines[-1] += f" {opening}{', '.join(parts)}{end}{closing}"
            return
        self.lines[-1] += f" {opening}"
        for at, (name, part) in enumerate(zip(names, parts, strict=True)):
            comma = "," if at < len(parts) - 1 or self.chance() else ""
            self.entry = name
            self.lines.append(f"    {part}{comma}" + (f" {self.comment()}" if self.chance() else ""))
        self.entry = "-"
        self.lines.append(f"  {closing}")


@st.composite
def documents(draw: st.DrawFn) -> Sample:
    writer = Writer(draw)
    step = draw(st.sampled_from([2, 2, 4, 3]))
    if writer.chance():
        writer.lines.append("---")
    for number in range(draw(st.integers(0, 2))):
        writer.member(f"top{number}", 0, step)
    section = Section(("servers",), is_list=draw(st.booleans()))
    names: list[str] = []
    form = draw(st.integers(0, 6))
    is_there = form > 1
    if form == 1:
        writer.line("servers:", 0)
    elif form == 2:
        writer.line("servers: []" if section.is_list else "servers: {}", 0)
    elif form == 3:
        names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=3))
        writer.lines.append("servers:")
        writer.entries_in_flow(names, section.is_list)
    elif form > 3:
        names = draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1, max_size=3))
        writer.line("servers:", 0)
        if section.is_list:
            writer.entries_of_list(names, draw(st.sampled_from([0, step])), step)
        else:
            writer.entries_of_map(names, step, step)
    for number in range(draw(st.integers(0, 2))):
        writer.member(f"end{number}", 0, step)
    text = "\n".join(writer.lines) + "\n" * draw(st.integers(1 if writer.lines else 0, 2))
    if writer.chance(5) and writer.lines and writer.lines[-1].endswith((";", "}")):
        text = text.rstrip("\n")
    return Sample(text, section, tuple(names), is_there)


def read(data: bytes) -> Any:
    """By the other reader, which is written in Python and takes words for what they are in YAML 1.1."""
    return yaml.load(data.decode("utf-8-sig"), yaml.SafeLoader)


def comments(text: str, without: str = "") -> list[str]:
    """All that the document was given, in their order."""
    found = re.findall(r"# (\d+)([a-z-]+);", text)
    return [number for number, entry in found if entry != without]


def own(sample: Sample, name: str, data: Any) -> tuple[Any, Any]:
    """The rest of a document, with an empty section if there is none; and the entry."""
    rest = dict(data or {})
    if sample.section.is_list:
        items = rest.get("servers") or []
        rest["servers"] = [item for item in items if item["name"] != name]
        return rest, [item for item in items if item["name"] == name]
    entries = dict(rest.get("servers") or {})
    found = [entries.pop(name)] if name in entries else []
    return rest | {"servers": entries}, found


def check(sample: Sample, name: str, entry: dict[str, Value], newline: str, bom: str) -> None:
    before = (bom + sample.text.replace("\n", newline)).encode()
    rest, _ = own(sample, name, read(before))
    after = YAML.put(before, sample.section, name, entry)
    wanted = entry | {"name": name} if sample.section.is_list else entry
    assert own(sample, name, read(after)) == (rest, [wanted])
    assert comments(after.decode(), name) == comments(before.decode(), name)
    assert after.decode().startswith(bom)
    if b"\n" in before:
        assert after.count(b"\r") == (newline == "\r\n") * after.count(b"\n")
    assert YAML.put(after, sample.section, name, entry) == after
    removed = YAML.remove(after, sample.section, name)
    assert own(sample, name, read(removed)) == (rest, [])
    assert comments(removed.decode(), name) == comments(before.decode(), name)
    if sample.is_there and name not in sample.names:
        assert removed == before
    assert YAML.remove(removed, sample.section, name) == removed


FORMS = (
    documents(),
    st.sampled_from(NAMES),
    ENTRIES,
    st.sampled_from(["\n", "\n", "\r\n"]),
    st.sampled_from(["", "", "\ufeff"]),
)


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(*FORMS)
def test_an_edit_changes_its_entry_and_nothing_else(
    sample: Sample, name: str, entry: dict[str, Value], newline: str, bom: str
) -> None:
    check(sample, name, entry, newline, bom)


@pytest.mark.slow
@settings(
    max_examples=20_000,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(*FORMS)
def test_an_edit_changes_its_entry_and_nothing_else_in_twenty_thousand_documents(
    sample: Sample, name: str, entry: dict[str, Value], newline: str, bom: str
) -> None:
    check(sample, name, entry, newline, bom)
