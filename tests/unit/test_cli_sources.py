"""`--from`: what is written, and the command that it means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.cli.running.sources import parse_source


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("npx:server-memory", "npx -y server-memory"),
        ("npx:@modelcontextprotocol/server-memory", "npx -y @modelcontextprotocol/server-memory"),
        ("npx:@scope/name@1.2.3", "npx -y @scope/name@1.2.3"),
        ("npx:name@latest", "npx -y name@latest"),
        ("npx:name@^1.2", "npx -y name@^1.2"),
        ("uvx:mcp-server-time", "uvx mcp-server-time"),
        ("uvx:mcp-server-time@2025.1.17", "uvx mcp-server-time@2025.1.17"),
        ("uvx:some_thing[extra,other]@1.0rc1", "uvx some_thing[extra,other]@1.0rc1"),
        ("python:mooring.demo", "python3 -m mooring.demo"),
        ("python:server", "python3 -m server"),
    ],
)
def test_sources(text: str, command: str) -> None:
    assert parse_source(text) == tuple(command.split())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "write npx:PACKAGE"),
        ("mcp-server-time", "write npx:PACKAGE[@VERSION], uvx:PACKAGE[@VERSION] or python:MODULE"),
        ("docker:image", "or give the command itself after --"),
        ("npx:", "write npx:@modelcontextprotocol/server-memory"),
        ("npx:--version", "not the name of a package"),
        ("npx:@scope", "not the name of a package"),
        ("npx:a b", "not the name of a package"),
        ("npx:a; rm -rf /", "not the name of a package"),
        ("npx:name@", "write npx:name@1.2.3, or leave it out"),
        ("npx:name@1 2", "not a version"),
        ("npx:@scope/name@--x", "not a version"),
        ("uvx:-p", "write uvx:mcp-server-time"),
        ("uvx:git+https://example.com/x", "not the name of a package"),
        ("python:", "write python:package.module"),
        ("python:my-server", "not the name of a module"),
        ("python:server.py ", "not the name of a module"),
        ("python:-c", "not the name of a module"),
    ],
)
def test_what_is_none_says_what_to_write(text: str, words: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_source(text)
    assert words in str(caught.value)


@given(st.sampled_from(["npx:", "uvx:", "python:", ""]), st.text(max_size=30))
def test_nothing_becomes_an_option_or_two_words(kind: str, rest: str) -> None:
    try:
        command = parse_source(kind + rest)
    except ValueError:
        return
    assert command[-1] == rest and not rest.startswith("-")
    assert len(rest.split()) == 1 and rest.isascii() and rest.isprintable()
