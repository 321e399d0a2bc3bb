"""Entries put into JSON, JSONC and JSON5 documents, and taken out: to the byte."""

import json
import math
from typing import NamedTuple

import pytest

from mooring.clients.editing.edits import MOST_DEPTH, Format, Place, Refused, Section, Value
from mooring.clients.editing.json_family import JSON, JSON5, JSONC

SERVERS = Section(("mcpServers",))
ENTRY: dict[str, Value] = {"url": "http://h/x"}
FULL: dict[str, Value] = {"command": "/bin/mooring", "args": ["stdio", "x"], "env": {}}


class Golden(NamedTuple):
    """A document, the same with the entry, and without it again if that differs."""

    before: str
    after: str
    removed: str | None = None
    section: Section = SERVERS
    entry: dict[str, Value] = ENTRY
    format: Format = JSONC


GOLDEN = {
    "missing": Golden(
        "",
        '{\n  "mcpServers": {\n    "x": {\n      "url": "http://h/x"\n    }\n  }\n}\n',
        '{\n  "mcpServers": {}\n}\n',
        format=JSON,
    ),
    "blank, of another system": Golden(
        "\ufeff \r\n",
        '\ufeff{\r\n  "mcpServers": {\r\n    "x": {\r\n      "url": "http://h/x"\r\n    }\r\n  }\r\n}\r\n',
        '\ufeff{\r\n  "mcpServers": {}\r\n}\r\n',
    ),
    "comments only": Golden(
        "// Settings, see the manual",
        '// Settings, see the manual\n{\n  "mcpServers": {\n    "x": {}\n  }\n}\n',
        '// Settings, see the manual\n{\n  "mcpServers": {}\n}\n',
        entry={},
    ),
    "empty document, no final newline": Golden(
        "{}",
        '{\n  "mcpServers": {\n    "x": {}\n  }\n}',
        '{\n  "mcpServers": {}\n}',
        entry={},
        format=JSON,
    ),
    "no section, tabs": Golden(
        '{\n\t"theme": "dark"\n}\n',
        '{\n\t"theme": "dark",\n\t"mcpServers": {\n\t\t"x": {\n\t\t\t"command": "/bin/mooring",\n'
        '\t\t\t"args": [\n\t\t\t\t"stdio",\n\t\t\t\t"x"\n\t\t\t],\n\t\t\t"env": {}\n\t\t}\n\t}\n}\n',
        '{\n\t"theme": "dark",\n\t"mcpServers": {}\n}\n',
        entry=FULL,
        format=JSON,
    ),
    "nested section of which half is there": Golden(
        '{\n    "tools": {\n        "web": true\n    },\n    "z": 1\n}\n',
        '{\n    "tools": {\n        "web": true,\n        "mcpServers": {\n            "x": {}\n        }\n'
        '    },\n    "z": 1\n}\n',
        '{\n    "tools": {\n        "web": true,\n        "mcpServers": {}\n    },\n    "z": 1\n}\n',
        section=Section(("tools", "mcpServers")),
        entry={},
        format=JSON,
    ),
    "nested section of which nothing is there": Golden(
        '{"z":[1,2]}',
        '{"z":[1,2],"a":{"b":{"x":{"url":"http://h/x"}}}}',
        '{"z":[1,2],"a":{"b":{}}}',
        section=Section(("a", "b")),
        format=JSON,
    ),
    "a key with a dot, and one with a slash": Golden(
        '{"amp.mcpServers": {"a/b~": {"t": {}}}}',
        '{"amp.mcpServers": {"a/b~": {"t": {}, "x": {"url": "http://h/x"}}}}',
        section=Section(("amp.mcpServers", "a/b~")),
    ),
    "empty section, three blanks": Golden(
        '{\n   "mcpServers": {}\n}',
        '{\n   "mcpServers": {\n      "x": {\n         "url": "http://h/x"\n      }\n   }\n}',
        format=JSON,
    ),
    "blanks alone in the section": Golden(
        '{\n  "mcpServers": {\n  }\n}',
        '{\n  "mcpServers": {\n    "x": {}\n  }\n}',
        '{\n  "mcpServers": {}\n}',
        entry={},
    ),
    "byte order mark, CR LF, comments everywhere": Golden(
        "\ufeff// top\r\n{\r\n  /* before */ // and more\r\n"
        '  "mcpServers": { // it\r\n    // about k\r\n    "k": { "url": "u" /* inside */ } // after k\r\n'
        '    /* "old": {} */\r\n  } /* end */ // of it\r\n}\r\n// bottom',
        "\ufeff// top\r\n{\r\n  /* before */ // and more\r\n"
        '  "mcpServers": { // it\r\n    // about k\r\n    "k": { "url": "u" /* inside */ }, // after k\r\n'
        '    /* "old": {} */\r\n    "x": {"url": "http://h/x"}\r\n  } /* end */ // of it\r\n}\r\n// bottom',
    ),
    "trailing commas": Golden(
        '{\n  "mcpServers": {\n    "k": {\n      "url": "u",\n    }, // k\n  },\n}\n',
        '{\n  "mcpServers": {\n    "k": {\n      "url": "u",\n    }, // k\n    "x": {\n'
        '      "url": "http://h/x"\n    },\n  },\n}\n',
    ),
    "one line": Golden(
        '{"mcpServers": {"k": {"url": "u"}}, "z": 1}\n',
        '{"mcpServers": {"k": {"url": "u"}, "x": {"url": "http://h/x"}}, "z": 1}\n',
        format=JSON,
    ),
    "one line, with blanks in brackets and a trailing comma": Golden(
        '{ "mcpServers": { "k": 1, } }', '{ "mcpServers": { "k": 1, "x": {}, } }', entry={}
    ),
    "compact": Golden(
        '{"mcpServers":{"k":{"url":"u"}}}',
        '{"mcpServers":{"k":{"url":"u"},"x":{"command":"/bin/mooring","args":["stdio","x"],"env":{}}}}',
        entry=FULL,
        format=JSON,
    ),
    "comments alone in the section": Golden(
        '{\n  "mcpServers": {\n    // nothing yet\n  }\n}',
        '{\n  "mcpServers": {\n    // nothing yet\n    "x": {}\n  }\n}',
        entry={},
    ),
    "a comment alone in the section, in one line": Golden(
        '{\n  "mcpServers": { /* none */ }\n}', '{\n  "mcpServers": { /* none */ "x": {} }\n}', entry={}
    ),
    "a comment that takes the rest of a line between brackets": Golden(
        '{ "mcpServers": { "k": 1 // one \n} }', '{ "mcpServers": { "k": 1, // one \n  "x": {}\n} }', entry={}
    ),
    "two ways to indent: that of the neighbours counts": Golden(
        '{\n  "a": {\n    "b": 1\n  },\n  "mcpServers": {\n      "k": {\n          "url": "u"\n      }\n'
        "  }\n}",
        '{\n  "a": {\n    "b": 1\n  },\n  "mcpServers": {\n      "k": {\n          "url": "u"\n      },\n'
        '      "x": {\n          "url": "http://h/x"\n      }\n  }\n}',
    ),
    "a list": Golden(
        '{\n  "servers": [\n    // first\n    {"name": "k"}\n  ]\n}',
        '{\n  "servers": [\n    // first\n    {"name": "k"},\n    {"name": "x", "url": "http://h/x"}\n  ]\n}',
        section=Section(("servers",), is_list=True),
    ),
    "a list that is missing": Golden(
        '{"mcp": {}}',
        '{"mcp": {"servers": [{"id": "x"}]}}',
        '{"mcp": {"servers": []}}',
        section=Section(("mcp", "servers"), is_list=True, name_key="id"),
        entry={},
    ),
    "the document is the section": Golden(
        '{\n "k": {}\n}\n', '{\n "k": {},\n "x": {}\n}\n', section=Section(()), entry={}
    ),
    "the document is a list": Golden(
        "[]", '[\n  {\n    "name": "x"\n  }\n]', section=Section((), True), entry={}
    ),
    "JSON5": Golden(
        "// five\n{\n  mcpServers: {\n"
        "    'it\\'s': { url: 'one \\\n line', n: +0x1F, f: .5, g: 5., i: -Infinity, },\n"
        "    $k: {}, /* k */\n  },\n}\n",
        "// five\n{\n  mcpServers: {\n"
        "    'it\\'s': { url: 'one \\\n line', n: +0x1F, f: .5, g: 5., i: -Infinity, },\n"
        '    $k: {}, /* k */\n    "x": {\n      "url": "http://h/x"\n    },\n  },\n}\n',
        format=JSON5,
    ),
}


def refused_at(family: Format, text: str, section: Section) -> Place | None:
    """Where an entry can be neither put nor removed."""
    with pytest.raises(Refused) as put:
        family.put(text.encode(), section, "x", ENTRY)
    with pytest.raises(Refused) as removed:
        family.remove(text.encode(), section, "x")
    assert put.value.place == removed.value.place
    return put.value.place


@pytest.mark.parametrize("golden", GOLDEN.values(), ids=GOLDEN)
def test_put_and_removed_again(golden: Golden) -> None:
    before = golden.before.encode()
    after = golden.format.put(before, golden.section, "x", golden.entry)
    assert after.decode() == golden.after
    assert golden.format.put(after, golden.section, "x", golden.entry) == after
    removed = golden.format.remove(after, golden.section, "x")
    assert removed.decode() == (golden.before if golden.removed is None else golden.removed)
    assert golden.format.remove(removed, golden.section, "x") == removed


@pytest.mark.parametrize(
    "before, after",
    [
        ('{"x": 1, "b": 2}', '{"b": 2}'),
        ('{"a": 0, "x": 1, "b": 2}', '{"a": 0, "b": 2}'),
        ('{\n  "x": 1,\n  "b": 2\n}', '{\n  "b": 2\n}'),
        ('{\n  "a": 0,\n\n  "x": 1,\n  "b": 2\n}', '{\n  "a": 0,\n  "b": 2\n}'),
        ('{\n  // about x\n  "x": 1, // x\n  "b": 2\n}', '{\n  // about x\n  // x\n  "b": 2\n}'),
        ('{ "a": 0, // a\n  "x": 1, "b": 2 }', '{ "a": 0, // a\n  "b": 2 }'),
        ('{ // c \n "x": 1 }', "{ // c \n }"),
        ('{ // c\n "x": 1  \n}', "{ // c\n}"),
        ('{ "x": 1 /* c */, }', "{ /* c */ }"),
        ('{ "a": 0, /* c */ "x": 1 }', '{ "a": 0 /* c */ }'),
        ('{ "a": 0 // c\n , "x": 1 }', '{ "a": 0 // c\n  }'),
        ('{ "x" /* k */ : // v\n 1, "b": 2 }', '{ "b": 2 }'),
        ('{\n  "a": 0,\n  "x": 1,\n}', '{\n  "a": 0,\n}'),
        ('{\n  "x": 1,\n}', "{}"),
    ],
)
def test_removal_takes_the_comma_and_leaves_the_comments(before: str, after: str) -> None:
    assert JSONC.remove(before.encode(), Section(()), "x").decode() == after


def test_only_what_differs_is_written() -> None:
    before = b"""{
  "mcpServers": {
    "x": { // ours
      "url": "old", // where
      "disabled" : false,
      "headers": {"A": "1", /* b */ "B": "2"},
      "gone": [1]
    },
    "k": {}
  }
}
"""
    entry: dict[str, Value] = {
        "disabled": False,
        "url": "new",
        "headers": {"B": "2", "C": "3"},
        "args": ["a"],
    }
    assert (
        JSONC.put(before, SERVERS, "x", entry).decode()
        == """{
  "mcpServers": {
    "x": { // ours
      "url": "new", // where
      "disabled" : false,
      "headers": {/* b */ "B": "2", "C": "3"},
      "args": ["a"]
    },
    "k": {}
  }
}
"""
    )


@pytest.mark.parametrize(
    "before, entry, after",
    [
        ('{"x": {"url": "u"}}', {"command": "c"}, '{"x": {"command": "c"}}'),
        ('{"x": {}}', {"url": "u"}, '{"x": {"url": "u"}}'),
        ('{\n  "x": {}\n}', {"url": "u"}, '{\n  "x": {\n    "url": "u"\n  }\n}'),
        ('{\n\t"x": null, // c\n}', {"a": [1]}, '{\n\t"x": {\n\t\t"a": [\n\t\t\t1\n\t\t]\n\t}, // c\n}'),
        (
            '{\r\n "x": {\r\n  "a": 1\r\n }}',
            {"a": {"b": 2}},
            '{\r\n "x": {\r\n  "a": {\r\n   "b": 2\r\n  }\r\n }}',
        ),
        ('{"x": {"n": 1, "t": true}}', {"n": 1.0, "t": 1}, '{"x": {"n": 1.0, "t": 1}}'),
        ('{"x": ["a"]}', {}, '{"x": {}}'),
    ],
)
def test_an_entry_becomes_another(before: str, entry: dict[str, Value], after: str) -> None:
    assert JSONC.put(before.encode(), Section(()), "x", entry).decode() == after


def test_an_entry_of_a_list_is_found_by_its_name() -> None:
    section = Section(("s",), is_list=True)
    before = b'{"s": [{"name": "k", "a": 1}, 5, {"a": 1, "name": "x"}, ["x"]]}'
    after = JSON.put(before, section, "x", {"a": 2})
    assert after == b'{"s": [{"name": "k", "a": 1}, 5, {"a": 2, "name": "x"}, ["x"]]}'
    assert JSON.remove(after, section, "x") == b'{"s": [{"name": "k", "a": 1}, 5, ["x"]]}'


@pytest.mark.parametrize(
    "text, line, column",
    [
        ("{", 1, 2),
        ("[1", 1, 3),
        ('{\n  "a" 1}', 2, 7),
        ('{"a": }', 1, 7),
        ('{"a": 1 "b": 2}', 1, 9),
        ('{"a": 1} x', 1, 10),
        ('{"a": 1}{}', 1, 9),
        ('{,"a": 1}', 1, 2),
        ("[1,,2]", 1, 4),
        ("{a: 1}", 1, 2),
        ("{'a': 1}", 1, 2),
        ('{"a": 01}', 1, 8),
        ('{"a": +1}', 1, 7),
        ('{"a": NaN}', 1, 7),
        ('{"a": tru}', 1, 7),
        ('{"a": "b\n"}', 1, 7),
        ('{"a": "b', 1, 7),
        ('{"a": "b\\q"}', 1, 9),
        ('{"a": "\\u12g4"}', 1, 8),
        ('{"a": "\t"}', 1, 8),
        ('{\r\n"a": /* c', 2, 6),
        ('{"a": / 1}', 1, 7),
        ('{"a": 1,\r "b": {"k": 0, "k": 1}}', 2, 16),
        ('{"a": 1, "\\u0061": 2}', 1, 10),
        ("{}\u00a0", 1, 3),
    ],
)
def test_what_cannot_be_read_is_refused_where_it_is(text: str, line: int, column: int) -> None:
    assert refused_at(JSONC, text, SERVERS) == Place(line, column)
    with pytest.raises(Refused, match=f"^line {line}, column {column}: "):
        JSONC.read(text.encode())


def test_json_has_neither_comments_nor_trailing_commas() -> None:
    for text, column in (('{"a": 1,}', 8), ("[1, ]", 3), ("{} // c", 4), ("/* c */ {}", 1), ("// c", 1)):
        with pytest.raises(Refused) as refused:
            JSON.read(text.encode())
        assert refused.value.place == Place(1, column)


@pytest.mark.parametrize(
    "text, section, line, column",
    [
        ('{"mcpServers": []}', SERVERS, 1, 16),
        ('{"mcpServers": null}', SERVERS, 1, 16),
        ('{\n"a": {"b": 1}}', Section(("a", "b")), 2, 12),
        ('{"a": "text"}', Section(("a", "b")), 1, 7),
        ('{"a": {}}', Section(("a",), is_list=True), 1, 7),
        (" []", SERVERS, 1, 2),
        ("5", Section(()), 1, 1),
        ('{"s": [{"name": "x"},\n {"name": "x"}]}', Section(("s",), is_list=True), 2, 2),
    ],
)
def test_a_section_that_is_not_as_expected_is_refused(
    text: str, section: Section, line: int, column: int
) -> None:
    assert refused_at(JSON, text, section) == Place(line, column)


def test_nothing_to_remove() -> None:
    for text in ("", " \n", "\ufeff", "{}", '{"mcpServers": { }}', '{"a": {"x": 1}}'):
        assert JSON.remove(text.encode(), SERVERS, "x") == text.encode()
        assert JSON.remove(text.encode(), Section(("mcpServers", "deeper")), "x") == text.encode()


def test_what_json5_has() -> None:
    text = """\ufeff{ // c\u2028
      unquoted: 'single "quotes"', $_ü: "double 'quotes'", \\u0061b: 'a\\x41\\u0042\\0\\v\\'\\q\\
b\\\u2028c\\ud83d\\ude00\\ud83d',
      hex: 0XdecAF, neg: -0x10, plus: +1, point: .5, trailing: 5., exp: 1.E3, inf: +Infinity,
      nan: NaN, 'q': [1,],
      \u00a0\u3000null: null, true: true,\v\f
    }"""
    value = JSON5.read(text.encode())
    assert isinstance(value, dict)
    assert str(value.pop("nan")) == "nan"
    assert value == {
        "unquoted": 'single "quotes"',
        "$_ü": "double 'quotes'",
        "ab": "aAB\0\v'qbc\U0001f600\ud83d",
        "hex": 0xDECAF,
        "neg": -16,
        "plus": 1,
        "point": 0.5,
        "trailing": 5.0,
        "exp": 1000.0,
        "inf": float("inf"),
        "q": [1],
        "null": None,
        "true": True,
    }


@pytest.mark.parametrize(
    "text",
    [
        "{1a: 1}",
        "{a-b: 1}",
        "{\\q: 1}",
        "{\\u0020: 1}",
        "{a: 0x}",
        "{a: .}",
        "{a: '\\1'}",
        "{a: '\\x4'}",
        "{a: 'b\n'}",
    ],
)
def test_what_not_even_json5_has(text: str) -> None:
    with pytest.raises(Refused):
        JSON5.read(text.encode())


def test_numbers_of_any_size_are_kept() -> None:
    text = b'{"n": 12345678901234567890123, "f": 1e999, "l": %b, "mcpServers": {}}' % (b"9" * 5000)
    after = JSON.put(text, SERVERS, "x", ENTRY)
    assert JSON.remove(after, SERVERS, "x") == text
    assert json.loads(JSON.put(b"", SERVERS, "x", {"n": 2**80, "f": 0.1}))["mcpServers"]["x"] == {
        "n": 2**80,
        "f": 0.1,
    }


def test_what_cannot_be_written_is_refused() -> None:
    with pytest.raises(Refused, match="number"):
        JSON.put(b"", SERVERS, "x", {"n": float("inf")})
    with pytest.raises(Refused):
        JSON.put(b'{"mcpServers": {"x": {}}}', SERVERS, "x", {"n": (1,)})  # type: ignore[dict-item]


def test_text_of_any_kind_is_written_so_that_it_is_read_again() -> None:
    for text in ("é\U0001f600", '"\\/\b\n', "\ud83d", "\u2028\x7f"):
        for family in (JSON, JSONC, JSON5):
            after = family.put(b"{}", Section(()), text, {text: text})
            assert family.read(after) == json.loads(after) == {text: {text: text}}


def test_depth_is_bounded() -> None:
    for opening, closing in ("[]", ('{"a":', "}")):
        inner = "1" if opening != "[" else ""
        deep = opening * MOST_DEPTH + inner + closing * MOST_DEPTH
        JSON.read(deep.encode())
        for many in (MOST_DEPTH + 1, 1_000_000):
            with pytest.raises(Refused, match="inside each other"):
                JSON.read((opening * many + inner + closing * many).encode())
    with pytest.raises(Refused, match="inside each other"):
        JSON.put(b"{}", Section(("a",) * MOST_DEPTH), "x", {})


@pytest.mark.parametrize(
    "text",
    [
        "[" + "1," * 100_000 + "1]",
        '{"a": "' + "\\n" * 300_000 + '"}',
        "// c\n" * 100_000 + "{}",
        "{" + "/**/" * 100_000 + "}",
        " \n" * 300_000 + "{" + " \n" * 300_000 + "}",
        '{"a": ' + "1" * 500_000 + "}",
    ],
    ids=["items", "escapes", "lines of comments", "comments", "blanks", "digits"],
)
def test_long_documents_of_one_kind(text: str) -> None:
    """Each would take minutes if anything here were not linear."""
    section = Section((), is_list=text.startswith("["))
    after = JSONC.put(text.encode(), section, "x", {})
    assert len(JSONC.remove(after, section, "x")) <= len(text)


def test_a_large_document() -> None:
    settings = {f"key.{number}": {"a": number, "b": [1, "text", None]} for number in range(52_000)}
    before = json.dumps({"settings": settings, "mcpServers": {"k": {}}}, indent=2).encode()
    assert len(before) > 5 << 20
    after = JSON.put(before, SERVERS, "x", FULL)
    assert json.loads(after) == {"settings": settings, "mcpServers": {"k": {}, "x": FULL}}
    assert JSON.remove(after, SERVERS, "x") == before


def test_a_number_of_more_digits_than_anybody_reads_is_infinite() -> None:
    assert JSON5.read(b"[0x" + b"f" * 5000 + b", -0x" + b"f" * 5000 + b", 0x" + b"0" * 5000 + b"1]") == [
        math.inf,
        -math.inf,
        1,
    ]
