"""`key=value` words as the arguments of a tool, and what schemas say in words."""

import json
from typing import Any

import pytest

from mooring.cli.trying.arguments import BadArguments, convert, convert_texts
from mooring.cli.trying.schemas import MAX_REFERENCES, describe, problem, resolve, types_of
from mooring.cli.values import parse_word

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "number": {"type": "number"},
        "whole": {"type": "integer", "minimum": 0, "maximum": 10},
        "flag": {"type": "boolean"},
        "list": {"type": "array", "items": {"type": "string"}},
        "object": {"type": "object"},
        "either": {"type": ["string", "integer"]},
        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "maybe_number": {"anyOf": [{"type": "number"}, {"type": "null"}]},
        "anything": {},
        "colour": {"enum": ["red", "green", 3, None]},
        "shape": {"$ref": "#/$defs/Shape"},
    },
    "$defs": {"Shape": {"type": "string", "enum": ["round", "flat"], "description": "of it"}},
}


def converted(*words: str) -> dict[str, Any]:
    return convert([parse_word(word) for word in words], SCHEMA)


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("text=hi", "hi"),
        ("text=5", "5"),
        ("text=", ""),
        ("text=a=b", "a=b"),
        ("text=true", "true"),
        ("number=1", 1),
        ("number=-1.5e3", -1500.0),
        ("whole=7", 7),
        ("whole=7.0", 7.0),
        ("flag=true", True),
        ("flag=false", False),
        ('list=["a"]', ["a"]),
        ('object={"a": [1]}', {"a": [1]}),
        ("either=9", 9),
        ("either=KILL", "KILL"),
        ("either=1.5", "1.5"),
        ("maybe=null", "null"),
        ("maybe:=null", None),
        ("maybe_number=null", None),
        ("maybe_number=2", 2),
        ("anything=[1]", [1]),
        ("anything=words", "words"),
        ("colour=red", "red"),
        ("colour=3", 3),
        ("colour=null", None),
        ("shape=flat", "flat"),
        ('text:="as JSON"', "as JSON"),
        ("text:=5", 5),
    ],
)
def test_values_become_what_the_schema_wants(word: str, value: Any) -> None:
    key = parse_word(word)[0]
    found = converted(word)
    assert found == {key: value} and type(found[key]) is type(value)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["number=x"], "number must be a number"),
        (["number=NaN"], "number must be a number"),
        (["number=true"], "number must be a number"),
        (["whole=1.5"], "whole must be a whole number"),
        (["whole=11"], "whole must be 10 at most"),
        (["flag=yes"], "flag must be true or false"),
        (["list=a"], "list must be an array, as JSON: '[…]'"),
        (["object=[1]"], "object must be an object, as JSON: '{…}'"),
        (["colour=blue"], "colour must be one of red, green, 3, null"),
        (["shape=square"], "shape must be one of round, flat"),
        (["text:=x"], "text is not JSON"),
        (["tex=x"], "there is no tex; did you mean text?"),
        (["qqq=x"], "there is no qqq"),
        (["text=a", "text=b"], "text is given twice"),
        (["qqq=x", "flag=1"], "there is no qqq; flag must be true or false"),
    ],
)
def test_what_is_wrong_is_told_all_at_once(words: list[str], told: str) -> None:
    with pytest.raises(BadArguments) as caught:
        converted(*words)
    assert str(caught.value) == told


def test_what_is_missing() -> None:
    with pytest.raises(BadArguments, match=r"^text is missing; flag is missing$"):
        convert([], {**SCHEMA, "required": ["text", "flag"]})


def test_others_are_taken_where_the_schema_says_so() -> None:
    words = [parse_word("more=5")]
    assert convert(words, {"additionalProperties": True}) == {"more": 5}
    assert convert(words, {"additionalProperties": {"type": "string"}}) == {"more": "5"}
    for schema in ({}, {"type": "object"}, {"additionalProperties": False}, {"properties": "nonsense"}):
        with pytest.raises(BadArguments):
            convert(words, schema)


@pytest.mark.parametrize("text", ["", "a", "=a", ":=1"])
def test_words_that_are_no_arguments(text: str) -> None:
    with pytest.raises(ValueError, match="write key=value"):
        parse_word(text)


def test_arguments_of_a_prompt_are_texts() -> None:
    known: list[dict[str, Any]] = [{"name": "name", "required": True}, {"name": "tone"}]
    assert convert_texts([parse_word("name=5")], known) == {"name": "5"}
    for words, told in (
        (["tone=x"], "name is missing"),
        (["name=x", "tome=y"], "there is no tome; did you mean tone?"),
        (["name:=1"], "name is text in a prompt"),
        (["name=x", "name=y"], "given twice"),
    ):
        with pytest.raises(BadArguments, match=told.replace("?", r"\?")):
            convert_texts([parse_word(word) for word in words], known)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "string"}, "string"),
        ({}, "any value"),
        ({"type": "integer", "minimum": 0, "maximum": 9, "default": 5}, "integer, 0 to 9, default 5"),
        ({"type": "string", "maxLength": 9, "format": "email"}, "string, up to 9 characters, email"),
        ({"type": "array", "items": {"type": "number"}, "minItems": 1}, "array of number, 1 or more items"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}, "string or null, default null"),
        ({"enum": ["a b", "c"]}, '"a b" | c'),
        ({"oneOf": [{"const": 1, "title": "one"}, {"const": 2, "title": "two"}]}, "1 | 2"),
    ],
)
def test_a_schema_in_words(schema: dict[str, Any], words: str) -> None:
    assert describe(schema, schema) == words


def test_references_that_lead_nowhere_or_in_a_circle_allow_everything() -> None:
    circle = {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
    assert resolve({"$ref": "#/$defs/a"}, circle) == {}
    assert resolve({"$ref": "https://example.com/"}, {}) == resolve({"$ref": "#/nowhere"}, {}) == {}
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(2 * MAX_REFERENCES):
        deep = {"anyOf": [deep]}
    assert types_of(deep, deep) == []
    endless = {"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}}
    assert types_of({"$ref": "#/$defs/a"}, endless) == []


@pytest.mark.parametrize(
    ("schema", "value", "told"),
    [
        ({"type": "string", "minLength": 2}, "a", "must have 2 or more characters"),
        ({"type": "array", "maxItems": 1}, [1, 2], "must have 1 items at most"),
        ({"type": "number", "minimum": 1}, 0.5, "must be 1 or more"),
        ({"type": "string", "format": "email"}, "me", "must be an e-mail address"),
        ({"type": "string", "format": "email"}, "me@example.com", None),
        ({"type": "string", "format": "date"}, "tomorrow", "must be a date, such as 2026-07-28"),
        ({"type": "string", "format": "date-time"}, "2026-07-28T12:00:00Z", None),
        ({"type": "string", "format": "of their own"}, "x", None),
        ({"type": "integer"}, True, "must be an integer"),
        ({"enum": [1]}, True, "must be one of 1"),
        ({"type": "nonsense"}, 1, None),
    ],
)
def test_a_value_is_judged(schema: dict[str, Any], value: Any, told: str | None) -> None:
    assert problem(schema, value, schema) == told
    assert json.dumps(value)
