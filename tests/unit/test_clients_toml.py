"""TOML documents as people and clients write them, before and after an edit."""

import pytest

from mooring.clients.editing.edits import MOST_DEPTH, Place, Refused, Section, Value
from mooring.clients.editing.toml import TOML

CODEX = Section(("mcp_servers",))
VIBE = Section(("mcp_servers",), is_list=True)
ENTRY: dict[str, Value] = {"url": "http://127.0.0.1:7000/mcp", "http_headers": {"X A": 'b"c'}, "args": ["-y"]}
WRITTEN = """\
url = "http://127.0.0.1:7000/mcp"
http_headers = { "X A" = "b\\"c" }
args = ["-y"]
"""

CODEX_FILE = """\
# Codex
model = "gpt" # mine

[mcp_servers.a] # first
command = 'run'
# args = []

[mcp_servers.a.env]
A = \"\"\"
[mcp_servers.no]
# no comment
\"\"\" # inside
# of a

# about tui
[tui]
theme = "x"
"""
CODEX_AFTER = CODEX_FILE.replace("# of a\n", f"# of a\n\n[mcp_servers.time]\n{WRITTEN}")
VIBE_FILE = """\
[[mcp_servers]]
name = "a"
[mcp_servers.env]
A = "b"
# about the next
[[models]]
name = "time"
"""
VIBE_AFTER = VIBE_FILE.replace('A = "b"\n', f'A = "b"\n\n[[mcp_servers]]\nname = "time"\n{WRITTEN}')


@pytest.mark.parametrize("bom", ["", "\ufeff"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("section", "before", "after"),
    [
        (CODEX, CODEX_FILE, CODEX_AFTER),
        (VIBE, VIBE_FILE, VIBE_AFTER),
        (CODEX, "a = 1", f"a = 1\n\n[mcp_servers.time]\n{WRITTEN}".removesuffix("\n")),
        (CODEX, "a = 1\n\n\n", f"a = 1\n\n[mcp_servers.time]\n{WRITTEN}\n\n"),
        (CODEX, "# only\n", f"# only\n\n[mcp_servers.time]\n{WRITTEN}"),
    ],
)
def test_an_entry_comes_and_goes_and_leaves_no_trace(
    section: Section, before: str, after: str, newline: str, bom: str
) -> None:
    if "\n" not in before and newline == "\r\n":
        newline = "\n"
    first, second = ((bom + text.replace("\n", newline)).encode() for text in (before, after))
    assert TOML.put(first, section, "time", ENTRY) == second
    assert TOML.remove(second, section, "time") == first
    assert TOML.put(second, section, "time", ENTRY) == second
    assert TOML.remove(first, section, "time") == first


@pytest.mark.parametrize(
    ("section", "before", "after"),
    [
        (CODEX, "", "[mcp_servers.t]\nk = 1\n"),
        (CODEX, "\n", "[mcp_servers.t]\nk = 1\n\n"),
        (CODEX, "[mcp_servers]\n", "[mcp_servers]\n\n[mcp_servers.t]\nk = 1\n"),
        (CODEX, "mcp_servers = {}\n", "mcp_servers = { t = { k = 1 } }\n"),
        (CODEX, "mcp_servers = {a = {}} # c\n", "mcp_servers = {a = {}, t = { k = 1 }} # c\n"),
        # tomlkit moves `model` into the new table here.
        (
            CODEX,
            'mcp_servers.a.url = "u"\nmodel = "x"\n',
            'mcp_servers.a.url = "u"\nmodel = "x"\n\n[mcp_servers.t]\nk = 1\n',
        ),
        (Section(("a", "b c")), "[a]\nx = 1\n", '[a]\nx = 1\n\n[a."b c".t]\nk = 1\n'),
        (Section(("a", "b")), "a = { x = 1 }\n", "a = { x = 1, b = { t = { k = 1 } } }\n"),
        (VIBE, "mcp_servers = []\n", 'mcp_servers = [{ name = "t", k = 1 }]\n'),
        (
            VIBE,
            "mcp_servers = [\n\t{name = 'a'} # a\n]\n",
            "mcp_servers = [\n\t{name = 'a'}, # a\n\t{ name = \"t\", k = 1 }\n]\n",
        ),
    ],
)
def test_an_entry_is_written_as_the_section_is(section: Section, before: str, after: str) -> None:
    assert TOML.put(before.encode(), section, "t", {"k": 1}).decode() == after
    removed = TOML.remove(after.encode(), section, "t").decode()
    assert removed == (before if "a = { x" not in before else "a = { x = 1, b = {} }\n")


@pytest.mark.parametrize(
    ("before", "removed", "changed"),
    [
        (
            "[mcp_servers]\nt.url = 'x' # u\nt.gone = 1\na.b = 1\n",
            "[mcp_servers]\na.b = 1\n",
            "[mcp_servers]\nt.url = 'x' # u\nt.env = { A = 1 }\na.b = 1\n",
        ),
        (
            "[mcp_servers]\na.b = 1\nt = {url = 'x',  gone = 1}\n",
            "[mcp_servers]\na.b = 1\n",
            "[mcp_servers]\na.b = 1\nt = {url = 'x', env = { A = 1 }}\n",
        ),
        (
            "mcp_servers = { t = { env = {A=2}, url = 'x' }, a = 1 }",
            "mcp_servers = { a = 1 }",
            "mcp_servers = { t = { env = {A=1}, url = 'x' }, a = 1 }",
        ),
        (
            "[mcp_servers.t]\n# about\nurl = 'x' # u\ngone = [\n  1, # one\n]\n\n"
            "[b]\n\n[mcp_servers.t.env]\n# a\nA=2\nB=3\n",
            "\n[b]\n",
            "[mcp_servers.t]\n# about\nurl = 'x' # u\n\n[b]\n\n[mcp_servers.t.env]\n# a\nA=1\n",
        ),
        (
            "a = 1\n[mcp_servers.t.env]\nA = 1\n",
            "a = 1\n",
            'a = 1\n[mcp_servers.t]\nurl = "x"\n\n[mcp_servers.t.env]\nA = 1\n',
        ),
        ("mcp_servers.t.k = 1\n", "", '[mcp_servers.t]\nurl = "x"\nenv = { A = 1 }\n'),
    ],
)
def test_an_entry_is_edited_as_it_is_written(before: str, removed: str, changed: str) -> None:
    assert TOML.remove(before.encode(), CODEX, "t").decode() == removed
    assert TOML.put(before.encode(), CODEX, "t", {"url": "x", "env": {"A": 1}}).decode() == changed


@pytest.mark.parametrize(
    ("document", "section", "place"),
    [
        ("a = 1\nb = \n", CODEX, Place(2, 5)),
        ("a = 1\r\na = 2\r\n", CODEX, Place(2, 6)),
        ("a = [1", CODEX, Place(1, 7)),
        ("a = 1\nmcp_servers = 5\n", CODEX, Place(2, 15)),
        ("[[mcp_servers]]\nname = 'a'\n", CODEX, Place(1, 1)),
        ("\n[mcp_servers.a]\n", VIBE, Place(2, 1)),
        ("[mcp_servers]\nt = 1\n", CODEX, Place(2, 5)),
        ("[[mcp_servers]]\nname = 't'\n[[mcp_servers]]\nname = 't'\n", VIBE, Place(3, 1)),
        ("mcp_servers = [{name = 't'}, {name = 't'}]\n", VIBE, Place(1, 30)),
        ("a = " + "[" * 120 + "]" * 120, CODEX, Place(1, 5 + MOST_DEPTH)),
        ("a." * 120 + "b = 1", CODEX, Place(1, 1)),
    ],
)
def test_what_cannot_be_edited_safely_is_refused_with_its_place(
    document: str, section: Section, place: Place
) -> None:
    with pytest.raises(Refused) as refused:
        TOML.put(document.encode(), section, "t", {"k": 1})
    assert refused.value.place == place
    with pytest.raises(Refused) as refused:
        TOML.remove(document.encode(), section, "t")
    assert refused.value.place == place


def test_dotted_keys_between_brackets_are_refused() -> None:
    for document in (b"mcp_servers = { t.url = 'x' }\n", b"[mcp_servers]\nt = { env.A = 1 }\n"):
        with pytest.raises(Refused):
            TOML.put(document, CODEX, "t", {"url": "y", "env": {"A": 2}})
    with pytest.raises(Refused):
        TOML.remove(b"mcp_servers = { t.url = 'x' }\n", CODEX, "t")


def test_what_toml_cannot_say_is_refused() -> None:
    for value in (None, [None], "\ud800"):
        with pytest.raises(Refused):
            TOML.put(b"", CODEX, "t", {"k": value})  # type: ignore[dict-item]


def test_far_too_many_brackets_are_refused() -> None:
    with pytest.raises(Refused):
        TOML.read(b"a = " + b"[" * 100_000)


def test_dates_are_read_as_text() -> None:
    assert TOML.read(b"\xef\xbb\xbfa = [1979-05-27, 07:32:00]") == {"a": ["1979-05-27", "07:32:00"]}
    assert TOML.read(b"") == {}


def test_a_large_document_is_edited() -> None:
    before = "".join(f"[mcp_servers.s{n}]\ncommand = 'run' # {n}\n" for n in range(2_000)).encode()
    after = TOML.put(before, CODEX, "t", {"k": 1})
    assert after == before + b"\n[mcp_servers.t]\nk = 1\n"
    assert TOML.remove(after, CODEX, "t") == before


def test_a_number_of_more_digits_than_python_reads_is_refused() -> None:
    with pytest.raises(Refused):
        TOML.read(b"n = " + b"9" * 5000)
