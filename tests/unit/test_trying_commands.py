"""Command lines of `mooring tools`, `resources`, `prompts` and `call`: what is understood, what is not."""

from typing import Any

import click
import pytest

from mooring.cli.main import cli


def parsed(*words: str) -> dict[str, Any]:
    parent = click.Context(cli, **cli.context_settings)
    return cli.commands[words[0]].make_context(words[0], list(words[1:]), parent=parent).params


@pytest.mark.parametrize(
    ("words", "arguments", "as_json"),
    [
        ((), None, False),
        (("--json",), None, True),
        (("--json", '{"a": 1}'), {"a": 1}, False),
        (("--json", " {}", "--json"), {}, True),
        (('--json={"a": 1}',), {"a": 1}, False),
    ],
)
def test_json_gives_arguments_or_says_how_to_print(words: Any, arguments: Any, as_json: bool) -> None:
    found = parsed("call", "demo", "add", *words)
    assert (found["arguments"], found["as_json"]) == (arguments, as_json)


def test_after_json_alone_come_words() -> None:
    found = parsed("call", "demo", "add", "--json", "a=1", "b:=[2]")
    assert found["words"] == (("a", "1", False), ("b", "[2]", True)) and found["as_json"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("call", "demo", "add", "a"), "write key=value"),
        (("call", "demo", "add", "--json={"), "what follows --json is not JSON"),
        (("call", "demo", "add", "--json=[1]"), "must be an object"),
        (("call", "Demo", "add"), "cannot be a name"),
        (("call", "demo"), "Missing argument"),
        (("resources", "demo", "--save", "/nowhere"), "does not exist"),
        (("tools", "demo", "--root", "/nowhere"), "does not exist"),
        (("tools", "demo", "--timeout", "soon"), "is not a span of time"),
    ],
)
def test_what_is_not_understood_is_told(words: tuple[str, ...], told: str) -> None:
    with pytest.raises(click.UsageError) as caught:
        parsed(*words)
    assert told in caught.value.format_message()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("call", "demo", "add", "a=1", "--json", "{}"), "not both"),
        (("call", "demo", "add", "--json", "--raw"), "give one of them"),
    ],
)
def test_what_does_not_go_together(words: tuple[str, ...], told: str) -> None:
    with pytest.raises(click.UsageError, match=told):
        cli.main(words, standalone_mode=False)
