"""YAML documents as people and clients write them, before and after an edit."""

import subprocess
import sys

import pytest

from mooring.clients.editing.edits import MOST_DEPTH, Place, Refused, Section, Value
from mooring.clients.editing.yaml import YAML
from mooring.clients.editing.yaml_changes import MOST_DIFFERENCES

GOOSE = Section(("extensions",))
CONTINUE = Section(("mcpServers",), is_list=True)
ENTRY: dict[str, Value] = {
    "enabled": True,
    "uri": "http://127.0.0.1:7000/mcp",
    "headers": {"X-A": "b c"},
    "args": ["-y"],
}

GOOSE_FILE = """\
# Goose
GOOSE_MODEL: gpt # mine
extensions:
    # the first
    developer: # inside
        bundled: true
        name: developer

    memory: {enabled: false, args: []}   # off
    # the end
keyring: |
    # text
    more
"""
GOOSE_AFTER = """\
# Goose
GOOSE_MODEL: gpt # mine
extensions:
    # the first
    developer: # inside
        bundled: true
        name: developer

    memory: {enabled: false, args: []}   # off
    time:
        enabled: true
        uri: http://127.0.0.1:7000/mcp
        headers:
            X-A: "b c"
        args:
            - "-y"
    # the end
keyring: |
    # text
    more
"""
CONTINUE_FILE = """\
name: Local
mcpServers:
- name: a
  url: 'x' # of a

  # about a
# about b
- command: run
  name: b
"""
CONTINUE_AFTER = (
    CONTINUE_FILE
    + """\
- name: time
  enabled: true
  uri: http://127.0.0.1:7000/mcp
  headers:
    X-A: "b c"
  args:
    - "-y"
"""
)


@pytest.mark.parametrize("bom", ["", "\ufeff"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("section", "before", "after"),
    [
        (GOOSE, GOOSE_FILE, GOOSE_AFTER),
        (CONTINUE, CONTINUE_FILE, CONTINUE_AFTER),
        (CONTINUE, CONTINUE_FILE.removesuffix("\n"), CONTINUE_AFTER.removesuffix("\n")),
    ],
)
def test_an_entry_comes_and_goes_and_leaves_no_trace(
    section: Section, before: str, after: str, newline: str, bom: str
) -> None:
    first, second = ((bom + text.replace("\n", newline)).encode() for text in (before, after))
    assert YAML.put(first, section, "time", ENTRY) == second
    assert YAML.remove(second, section, "time") == first
    assert YAML.put(second, section, "time", ENTRY) == second
    assert YAML.remove(first, section, "time") == first


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("extensions: {}  # none\nb: 1\n", "extensions:  # none\n  t:\n    k: 1\nb: 1\n"),
        ("extensions: {a: {}}", 'extensions: {a: {}, "t": {"k": 1}}'),
        ("extensions: {a: {},}", 'extensions: {a: {}, "t": {"k": 1},}'),
        ("{extensions: { }}", '{extensions: {"t": {"k": 1}}}'),
        (
            '{\n\t"extensions": {\n\t\t"a": {} # c\n\t}\n}\n',
            '{\n\t"extensions": {\n\t\t"a": {}, # c\n\t\t"t": {"k": 1}\n\t}\n}\n',
        ),
        (
            "extensions:\n  a: 1\n    # of a\n  # of none\n",
            "extensions:\n  a: 1\n    # of a\n  t:\n    k: 1\n  # of none\n",
        ),
        ("extensions:\n  a: |+\n    x\n\nb: 1\n", "extensions:\n  a: |+\n    x\n\n  t:\n    k: 1\nb: 1\n"),
    ],
)
def test_an_entry_is_written_as_its_neighbours_are(before: str, after: str) -> None:
    assert YAML.put(before.encode(), GOOSE, "t", {"k": 1}).decode() == after
    assert YAML.remove(after.encode(), GOOSE, "t").decode() == before.replace("{ }", "{}")


@pytest.mark.parametrize(
    ("before", "after", "removed"),
    [
        ("", "extensions:\n  t: {}\n", "extensions: {}\n"),
        ("\n", "\nextensions:\n  t: {}\n", "\nextensions: {}\n"),
        ("# only\n", "# only\nextensions:\n  t: {}\n", "# only\nextensions: {}\n"),
        ("---\n...\n", "---\nextensions:\n  t: {}\n...\n", "---\nextensions: {}\n...\n"),
        ("{}", "extensions:\n  t: {}", "extensions: {}"),
        ("a: 1", "a: 1\nextensions:\n  t: {}", "a: 1\nextensions: {}"),
        ("extensions:\nb: 1\n", "extensions:\n  t: {}\nb: 1\n", "extensions: {}\nb: 1\n"),
        ("extensions: null\n", "extensions:\n  t: {}\n", "extensions: {}\n"),
    ],
)
def test_a_section_that_was_missing_or_null_stays_as_an_empty_one(
    before: str, after: str, removed: str
) -> None:
    assert YAML.put(before.encode(), GOOSE, "t", {}).decode() == after
    assert YAML.remove(after.encode(), GOOSE, "t").decode() == removed


def test_sections_inside_others_are_made() -> None:
    section = Section(("tools", "servers"))
    after = YAML.put(b"tools:\n   a:\n      b: 1\n", section, "t", {"k": "v"})
    assert after == b"tools:\n   a:\n      b: 1\n   servers:\n      t:\n         k: v\n"
    assert YAML.put(b"tools: {}\n", section._replace(is_list=True), "t", {}) == (
        b"tools:\n  servers:\n    - name: t\n"
    )


def test_only_members_that_differ_are_written() -> None:
    before = """\
mcpServers:
  - url: "old" # where
    # who
    name: 'time'
    env: # inside
      KEPT: 'same' # kept
      GONE: 1
    flow: {a: 'x',  b: 2}
    gone: |
      text
  - name: other
"""
    entry: dict[str, Value] = {
        "url": "new",
        "env": {"KEPT": "same", "ADDED": "yes"},
        "flow": {"a": "x", "b": [3]},
        "added": 1.5,
    }
    after = """\
mcpServers:
  - url: new # where
    # who
    name: 'time'
    env: # inside
      KEPT: 'same' # kept
      ADDED: "yes"
    flow: {a: 'x',  b: [3]}
    added: 1.5
  - name: other
"""
    assert YAML.put(before.encode(), CONTINUE, "time", entry).decode() == after


@pytest.mark.parametrize(
    "word",
    [
        "yes",
        "No",
        "~",
        "null",
        "1",
        "1e3",
        "0x1F",
        "12:30:45",
        "- a",
        "a: b",
        "a #b",
        "",
        " ",
        "\x85\u2028\ufeff",
        "😀",
        "<<",
        "=",
        "2020-01-01",
        "*a",
        "a\nb\t",
        "C:",
    ],
)
def test_a_word_is_read_as_text(word: str) -> None:
    after = YAML.put(b"", GOOSE, "t", {"k": word, "list": [word], word: {word: word}, "flow": [[word]]})
    assert YAML.read(after) == {
        "extensions": {"t": {"k": word, "list": [word], word: {word: word}, "flow": [[word]]}}
    }


def test_values_are_read_by_the_core_schema() -> None:
    document = b"[1, 0x1f, 0o17, 1.5, .5, -1e3, -.inf, yes, True, ~, 'x', 1_0, 08, &a {<<: 1}, *a, !t 5]"
    assert YAML.read(document) == [
        *(1, 31, 15, 1.5, 0.5, -1000.0, float("-inf"), "yes", True, None, "x", "1_0", 8),
        *({"<<": 1}, {"<<": 1}, "5"),
    ]
    assert YAML.read(b"") == YAML.read(b"# c\n") == YAML.read(b"\xef\xbb\xbf---\n") == {}


@pytest.mark.parametrize(
    ("document", "section", "place"),
    [
        ("a: [1\nb: 2", GOOSE, Place(2, 2)),
        ("a: 1\na: 2\n", GOOSE, Place(2, 1)),
        ("é: {a: 1, 'a': 2}\n", GOOSE, Place(1, 11)),
        ("a: 1\n---\nb: 2\n", GOOSE, Place(2, 1)),
        ("a: 1\r\nextensions: 5\r\n", GOOSE, Place(2, 13)),
        ("a: 1\rextensions: []\r", GOOSE, Place(2, 13)),
        ("- a\n", GOOSE, Place(1, 1)),
        ("mcpServers: {a: 1}\n", CONTINUE, Place(1, 13)),
        ("mcpServers:\n- name: t\n- x\n- name: t\n", CONTINUE, Place(4, 3)),
        ("a: &x {b: {}}\nextensions: *x\n", GOOSE, Place(2, 13)),
        ("a: *nobody\n", GOOSE, Place(1, 4)),
        ("a: &x [*x]\n", GOOSE, Place(1, 8)),
        ("? [a]\n: b\n", GOOSE, Place(1, 3)),
        ("a: \x01\n", GOOSE, Place(1, 4)),
        ("a:\n\t- b\n", GOOSE, Place(2, 1)),
        ("a: " + "[" * 101 + "]" * 101, GOOSE, Place(1, 3 + MOST_DEPTH)),
    ],
)
def test_what_cannot_be_edited_safely_is_refused_with_its_place(
    document: str, section: Section, place: Place
) -> None:
    with pytest.raises(Refused) as refused:
        YAML.put(document.encode(), section, "t", {"k": 1})
    assert refused.value.place == place
    with pytest.raises(Refused) as refused:
        YAML.remove(document.encode(), section, "t")
    assert refused.value.place == place


def test_what_is_not_utf_8_is_refused() -> None:
    with pytest.raises(Refused) as refused:
        YAML.read(b"a: 1\nb: \xff\n")
    assert refused.value.place == Place(2, 4)


@pytest.mark.parametrize(
    "document",
    [
        "extensions:\n  t: &a {}\nb: *a\n",  # others refer to it
        "a: &a 1\nextensions:\n  t: &a 2\nb: *a\n",  # the same, and it would mean something else
    ],
)
def test_an_entry_that_others_refer_to_is_not_removed(document: str) -> None:
    with pytest.raises(Refused):
        YAML.remove(document.encode(), GOOSE, "t")


def test_a_text_that_would_get_a_line_break_more_is_left_alone() -> None:
    with pytest.raises(Refused):
        YAML.put(b"a: |\n  x", GOOSE, "t", {})
    assert YAML.remove(b"extensions:\n  a: |\n    x\n  t: 1", GOOSE, "t") == b"extensions:\n  a: |\n    x\n"
    kept = b"extensions:\n  a: |+\n    x\n"
    assert YAML.remove(kept + b"  t: 1\n\nb: 1\n", GOOSE, "t") == kept + b"b: 1\n"


def test_aliases_do_not_multiply() -> None:
    lines = ["a0: &a0 [1]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    with pytest.raises(Refused, match="too large"):
        YAML.read("\n".join(lines).encode())


def test_depth_is_bounded() -> None:
    deepest = "[" * MOST_DEPTH + "]" * MOST_DEPTH
    assert YAML.put(deepest.encode(), Section((), is_list=True), "t", {}).endswith(b', {"name": "t"}]')
    with pytest.raises(Refused, match="100 levels"):
        YAML.read(f"[{deepest}]".encode())


def test_differences_are_bounded() -> None:
    entry: dict[str, Value] = {f"k{n}": n for n in range(MOST_DIFFERENCES + 1)}
    after = YAML.put(b"", GOOSE, "t", {"k0": 0})
    with pytest.raises(Refused, match="too many"):
        YAML.put(after, GOOSE, "t", entry)
    assert YAML.put(b"", GOOSE, "t", entry)


def test_what_cannot_be_written_is_refused() -> None:
    with pytest.raises(Refused):
        YAML.put(b"", GOOSE, "t", {"k": "\ud800"})
    with pytest.raises(Refused):
        YAML.put(b"", GOOSE, "k" * 2000, {"k": 1})


def test_the_reader_of_yaml_is_imported_only_when_a_document_is_read() -> None:
    code = "import sys, mooring.clients.editing.yaml; sys.exit('yaml' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_many_blank_lines_take_no_longer_than_they_are() -> None:
    before = b"extensions:\r\n  a: 1" + b"\r\n" * 10_000 + b"b: 1\r\n"
    after = YAML.put(before, GOOSE, "t", {})
    assert after.startswith(b"extensions:\r\n  a: 1\r\n  t: {}\r\n\r\n")
    assert YAML.remove(after, GOOSE, "t") == before


def test_a_large_document_is_edited() -> None:
    entries = "".join(f"  s{n}:\n    cmd: 'run' # {n}\n    args: [a, b]\n" for n in range(2_000))
    before = f"extensions:\n{entries}".encode()
    after = YAML.put(before, GOOSE, "t", {"k": 1})
    assert after == before + b"  t:\n    k: 1\n"
    assert YAML.remove(after, GOOSE, "t") == before
