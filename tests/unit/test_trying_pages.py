"""What is shown of a server, as lines; and what it gives, as pieces."""

import json
from pathlib import Path
from typing import Any

import pytest

from mooring.cli.trying import contents, pages
from mooring.cli.trying.contents import Data, Heading, Link, Text, Value
from mooring.cli.trying.paper import indented
from mooring.cli.trying.saving import NotBytes, decoded, file_name, save
from mooring.cli.trying.sideline import bar
from mooring.errors import ServerFailed, UserError

TOOL: dict[str, Any] = {
    "name": "convert",
    "title": "Convert a time",
    "description": "Tells what time it is elsewhere.\n\nZones are those of the IANA.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "time": {
                "type": "string",
                "description": "As the clock says it where you are, with hours first.",
            },
            "zone": {"type": "string", "default": "UTC"},
        },
        "required": ["time"],
    },
    "outputSchema": {"type": "object", "properties": {"time": {"type": "string"}}},
    "annotations": {"readOnlyHint": True, "destructiveHint": False, "openWorldHint": True},
}
PAGE = """\
convert: Convert a time
Tells what time it is elsewhere.

Zones are those of the IANA.

Parameters:
  time  string, required
        As the clock says it where you
        are, with hours first.
  zone  string, default UTC

Returns:
  time  string

The server says: reads only, reaches out.

mooring call clock convert time=…"""


def test_a_tool_in_full() -> None:
    assert "\n".join(pages.tool_page(TOOL, "clock", 40)) == PAGE
    assert pages.tool_page({"name": "x"}, "s", 80) == [
        "x",
        "",
        "It takes no parameters.",
        "",
        "mooring call s x",
    ]


def test_what_is_no_tool_is_shown_as_far_as_it_goes() -> None:
    odd = {"name": 5, "inputSchema": {"properties": {"a": "?"}, "required": "a"}, "annotations": []}
    assert "  a  any value" in pages.tool_page(odd, "s", None)


def test_a_list_fits_the_terminal() -> None:
    items = [("a", "word " * 20 + "\n\nmore"), ("b", ""), ("n" * 40, "long")]
    lines = pages.listed(items, 60)
    assert max(map(len, lines)) <= 60
    assert lines[0].startswith("a" + " " * 29 + "word") and "more" not in "".join(lines)
    assert lines[-3:] == ["b", "n" * 40, " " * 30 + "long"]
    assert pages.listed(items, None)[0] == "a" + " " * 29 + ("word " * 20).strip(), "not wrapped elsewhere"
    assert pages.listed([], 80) == []


def test_text_keeps_its_own_lines() -> None:
    assert pages.wrapped("a\r\n\n  b", 40) == ["a", "", "  b"]
    assert pages.wrapped("one two three four five six", 20) == ["one two three four", "five six"]
    assert pages.wrapped("x" * 30, 20) == ["x" * 30], "what has no spaces can still be copied"


def test_what_a_tool_gives() -> None:
    structured = {"n": 1}
    result = {
        "content": [
            {"type": "text", "text": json.dumps(structured)},
            {"type": "text", "text": "words"},
            {"type": "image", "data": "AA==", "mimeType": "image/png"},
            {"type": "resource_link", "uri": "x://y", "name": "y", "description": "about"},
            {"type": "resource", "resource": {"uri": "x://t", "text": "inside"}},
            {"type": "resource", "resource": {"uri": "x://b", "blob": "AA=="}},
            {"type": "of the future"},
            5,
        ],
        "structuredContent": structured,
    }
    assert contents.of_call(result) == [
        Text("words"),
        Data("AA==", "image/png", "image"),
        Link("x://y", "y", "about"),
        Heading("resource x://t:"),
        Text("inside"),
        Data("AA==", "", "resource", "x://b"),
        Value({"type": "of the future"}),
        Value(5),
        Value(structured),
    ]
    assert contents.of_call({}) == [] and contents.of_call({"content": "odd"}) == [Value("odd")]


def test_what_a_resource_and_a_prompt_give() -> None:
    assert contents.of_resource({"contents": [{"uri": "a:b", "text": "t"}]}) == [Text("t")]
    two = [{"uri": "a:1", "text": "t"}, {"uri": "a:2", "blob": "AA=="}]
    assert contents.of_resource({"contents": two}) == [
        Heading("a:1:"),
        Text("t"),
        Data("AA==", "", "resource", "a:2"),
    ]
    said = {"role": "user", "content": {"type": "text", "text": "t"}}
    assert contents.of_prompt({"messages": [said, 5]}) == [Heading("user:"), Text("t"), Value(5)]


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (Data("", "image/png", "image"), "demo-picture-image.png"),
        (Data("", "image/jpeg; q=1", "image"), "demo-picture-image.jpg"),
        (Data("", "", "audio"), "demo-picture-audio.bin"),
        (Data("", "audio/wav", "audio"), "demo-picture-audio.wav"),
        (Data("", "image/png", "resource", "file:///a/b.gif"), "demo-picture-b.gif"),
        (Data("", "image/png", "resource", "x://host/name"), "demo-picture-name.png"),
        (Data("", "", "resource", "file:///../../etc/.bashrc"), "demo-picture-bashrc.bin"),
        (Data("", "", "resource", "file:///%2e%2e%2fpass%00wd"), "demo-picture-pass-wd.bin"),
        (Data("", "", "resource", "file:///\x1b[31m"), "demo-picture-31m.bin"),
        (Data("", "", "resource", "x://[/"), "demo-picture-resource.bin"),
        (Data("", "", "resource", "file:///mooring.toml"), "demo-picture-mooring.toml"),
        (Data("", "", "resource", "file:///" + "x" * 500), f"demo-picture-{'x' * 67}.bin"),
    ],
)
def test_the_name_of_a_file_is_harmless(data: Data, name: str) -> None:
    assert file_name(data, "demo-picture") == name


def test_nothing_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "a.png").symlink_to(tmp_path / "elsewhere")
    paths = [save(content, tmp_path, "a.png") for content in (b"1", b"2")]
    assert [path.name for path in paths] == ["a-2.png", "a-3.png"]
    assert [path.read_bytes() for path in paths] == [b"1", b"2"] and not (tmp_path / "elsewhere").exists()
    with pytest.raises(UserError, match="cannot save"):
        save(b"", tmp_path / "nowhere", "a.png")


def test_what_is_nested_too_deeply_is_told_so() -> None:
    value: Any = 1
    for _ in range(5000):
        value = [value]
    with pytest.raises(ServerFailed, match="nested too deeply"):
        indented(value)


def test_only_base64_is_taken_for_bytes() -> None:
    assert decoded(Data("aGk=", "", "image")) == b"hi"
    for text in ("a", "$$$$", "é"):
        with pytest.raises(NotBytes):
            decoded(Data(text, "", "image"))


@pytest.mark.parametrize(
    ("note", "line"),
    [
        ({"progress": 5, "total": 10}, "[############------------]  50% 5/10"),
        (
            {"progress": 20, "total": 10, "message": "a\x1b[2Jb"},
            "[########################] 100% 20/10 a\\x1b[2Jb",
        ),
        ({"progress": 0.5}, "… 0.5"),
        ({"progress": 3, "total": 0, "message": "m"}, "… 3 m"),
        ({"progress": "x", "total": None}, ""),
        ({"progress": 10**400, "total": 1e400}, ""),
    ],
)
def test_the_bar(note: dict[str, Any], line: str) -> None:
    assert bar(note, 80) == line
    assert len(bar(note, 20)) <= 19
