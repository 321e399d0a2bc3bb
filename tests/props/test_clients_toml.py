"""Of any TOML document: an edit changes its entry and nothing else, as `tomllib` sees it."""

import re
import tomllib
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mooring.clients.editing.edits import Section, Value
from mooring.clients.editing.toml import TOML

NAMES = ["alpha", "beta", "a.b", "mine"]
WORDS = [
    "1",
    "'it # no comment'",
    '"a = {b} # no\\n\\""',
    "true",
    "-1.5e+3",
    "nan",
    "1979-05-27T07:32:00Z",
    '"""two\n[lines] # no ""comment"""""',
    "'''\n[x]\n# no '''",
    "[ 1, 'b', [] ]",
    "{ x = 1, 'y z' = [{}] }",
    "{}",
]
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.sampled_from(
    ["a.b", "#", "'", '"""']
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    TEXTS | st.integers(-(2**63), 2**63 - 1) | st.booleans() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
ENTRIES = st.dictionaries(st.sampled_from(["url", "m1", "env", "sub"]) | TEXTS, VALUES, max_size=4).map(
    lambda entry: {key: value for key, value in entry.items() if key != "name"}
)


class Sample(NamedTuple):
    """A document, and which entries it has. A comment says in whose entry it stands: `# 7beta;`."""

    text: str
    section: Section
    names: tuple[str, ...]


class Writer:
    """Writes what a person might; every line may have a comment, or one above it."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.lines: list[str] = []
        self.entry = "-"
        self.comments = 0

    def chance(self, of: int = 3) -> bool:
        return self.draw(st.integers(0, of)) == of  # a document without is the simplest

    def word(self) -> str:
        return self.draw(st.sampled_from(WORDS))

    def comment(self) -> str:
        self.comments += 1
        return f"# {self.comments}{self.entry};"

    def between(self) -> None:
        while self.chance(5):
            self.lines.append(f" {self.comment()}" if self.chance(1) else "")

    def line(self, text: str) -> None:
        self.lines.append("  " * self.chance(6) + text + (f" {self.comment()}" if self.chance() else ""))

    def members(self, prefix: str, least: int = 0) -> None:
        for number in range(self.draw(st.integers(least, 3))):
            if number:
                self.between()
            key = self.draw(st.sampled_from([f"m{number}", f"'m {number}'", f"d{number} . x"]))
            self.line(f"{prefix}{key} = {self.word()}")

    def other(self, name: str) -> None:
        self.between()
        self.line(self.draw(st.sampled_from([f"[{name}]", f"[ {name} . 'in' ]", f"[[{name}]]"])))
        self.members("")

    def table(self, header: str, sub_header: str, name: str, first: str) -> None:
        self.between()
        self.entry = name
        self.line(header)
        if first:
            self.line(first)
        self.members("")
        if self.chance():
            self.between()
            self.line(sub_header)
            self.members("")
        self.entry = "-"

    def inline(self, name: str | None) -> str:
        named = [f"name = '{name}'"] if name else []
        parts = named + [f"m{number} = {self.word()}" for number in range(self.draw(st.integers(0, 2)))]
        parts = [part for part in parts if "\n" not in part]
        return "{" + ", ".join(parts) + "}"


def key(name: str) -> str:
    return f'"{name}"' if "." in name else name


@st.composite
def documents(draw: st.DrawFn) -> Sample:
    writer = Writer(draw)
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=3))
    section = Section(("servers",), is_list=draw(st.booleans()))
    form = draw(st.integers(0, 4))
    writer.between()
    if form == 0:
        write_brackets(writer, names, section.is_list)
    elif form == 1 and not section.is_list:
        write_dotted(writer, names, "servers.")
    elif form < 3:
        names = []
    for number in range(draw(st.integers(0, 2))):
        writer.line(f"top{number} = {writer.word()}")
        writer.between()
    if draw(st.booleans()):
        writer.other("before")
    if form >= 3 and section.is_list:
        for name in names:
            writer.table("[[servers]]", "[servers.sub]", name, f"name = '{name}'")
    elif form == 3:
        writer.line("[servers]")
        write_dotted(writer, names, "")
    elif form == 4:
        for name in names:
            writer.table(f"[servers.{key(name)}]", f"[servers.{key(name)}.sub]", name, "")
            if writer.chance(5):
                writer.other(f"between{key(name).strip(chr(34)).replace('.', '')}")
    if draw(st.booleans()):
        writer.other("after")
    writer.between()
    return Sample("\n".join(writer.lines) + "\n" * draw(st.integers(0, 2)), section, tuple(names))


def write_brackets(writer: Writer, names: list[str], is_list: bool) -> None:
    if not is_list:
        parts = [f"{key(name)} = {writer.inline(None)}" for name in names]
        writer.line("servers = {" + ", ".join(parts) + "}")
        return
    if writer.chance(1):
        writer.line("servers = [" + ", ".join(writer.inline(name) for name in names) + "]")
        return
    writer.lines.append("servers = [")
    for at, name in enumerate(names):
        comma = "," if at < len(names) - 1 or writer.chance() else ""
        writer.entry = name
        writer.line(f"  {writer.inline(name)}{comma}")
        writer.entry = "-"
    writer.lines.append("]")


def write_dotted(writer: Writer, names: list[str], prefix: str) -> None:
    for name in names:
        writer.entry = name
        if writer.chance():
            writer.line(f"{prefix}{key(name)} = {writer.inline(None)}")
        else:
            writer.members(f"{prefix}{key(name)}.", least=1)
        writer.entry = "-"


def comments(data: bytes, without: str) -> list[str]:
    found = re.findall(r"# (\d+)([a-z.-]+);", data.decode())
    return [number for number, entry in found if entry != without]


def read(data: bytes) -> Any:
    """NaN is not equal to itself, so numbers stay as they are written, where that matters."""
    return tomllib.loads(
        data.decode("utf-8-sig"), parse_float=lambda word: word if word == "nan" else float(word)
    )


def own(sample: Sample, name: str, data: Any) -> tuple[Any, Any]:
    """The rest of a document, with an empty section if there is none; and the entry."""
    rest = dict(data)
    if sample.section.is_list:
        items = rest.get("servers", [])
        rest["servers"] = [item for item in items if item["name"] != name]
        return rest, [item for item in items if item["name"] == name]
    entries = dict(rest.get("servers", {}))
    found = [entries.pop(name)] if name in entries else []
    return rest | {"servers": entries}, found


def check(sample: Sample, name: str, entry: dict[str, Value], newline: str, bom: str) -> None:
    before = (bom + sample.text.replace("\n", newline)).encode()
    rest, _ = own(sample, name, read(before))
    after = TOML.put(before, sample.section, name, entry)
    wanted = entry | {"name": name} if sample.section.is_list else entry
    assert own(sample, name, read(after)) == (rest, [wanted])
    assert comments(after, name) == comments(before, name)
    assert after.decode().startswith(bom)
    if b"\n" in before:
        assert after.count(b"\r") == (newline == "\r\n") * after.count(b"\n")
    assert TOML.put(after, sample.section, name, entry) == after
    removed = TOML.remove(after, sample.section, name)
    assert own(sample, name, read(removed)) == (rest, [])
    assert comments(removed, name) == comments(before, name)
    if name not in sample.names:
        assert removed == before
    assert TOML.remove(removed, sample.section, name) == removed


FORMS = (
    documents(),
    st.sampled_from(NAMES),
    ENTRIES,
    st.sampled_from(["\n", "\n", "\r\n"]),
    st.sampled_from(["", "", "\ufeff"]),
)
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@settings(PATIENT, max_examples=300)
@given(*FORMS)
def test_an_edit_changes_its_entry_and_nothing_else(
    sample: Sample, name: str, entry: dict[str, Value], newline: str, bom: str
) -> None:
    check(sample, name, entry, newline, bom)


@pytest.mark.slow
@settings(PATIENT, max_examples=20_000)
@given(*FORMS)
def test_an_edit_changes_its_entry_and_nothing_else_in_twenty_thousand_documents(
    sample: Sample, name: str, entry: dict[str, Value], newline: str, bom: str
) -> None:
    check(sample, name, entry, newline, bom)
