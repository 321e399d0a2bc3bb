"""The form of an elicitation as questions."""

from typing import Any

import pytest

from mooring.cli.trying.questions import Question, questions_of


def question(schema: dict[str, Any], *, required: bool = True) -> Question:
    needed = ["it"] if required else []
    [one] = questions_of({"type": "object", "properties": {"it": schema}, "required": needed})
    return one


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "string"}, " hi ", "hi"),
        ({"type": "integer"}, "7", 7),
        ({"type": "number"}, "1.5", 1.5),
        ({"type": "boolean"}, "Yes", True),
        ({"type": "boolean"}, "n", False),
        ({"type": "boolean", "default": True}, "", True),
        ({"type": "string", "default": "x"}, "", "x"),
        ({"type": "string", "enum": ["a", "b"]}, "2", "b"),
        ({"type": "string", "enum": ["a", "b"], "enumNames": ["Ay", "Bee"]}, "Bee", "b"),
        ({"type": "string", "oneOf": [{"const": "#f00", "title": "Red"}]}, "1", "#f00"),
        ({"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}}, "1, 3", ["a", "c"]),
        ({"type": "array", "items": {"anyOf": [{"const": "x", "title": "Ex"}]}}, "Ex", ["x"]),
    ],
)
def test_answers(schema: dict[str, Any], text: str, value: Any) -> None:
    found = question(schema).read(text)
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize(
    ("schema", "text", "told"),
    [
        ({"type": "string"}, "", "needs an answer"),
        ({"type": "integer"}, "1.5", "must be an integer"),
        ({"type": "integer", "maximum": 3}, "4", "must be 3 at most"),
        ({"type": "number"}, "inf", "must be a number"),
        ({"type": "number"}, "x", "must be a number"),
        ({"type": "boolean"}, "perhaps", "must be yes or no"),
        ({"type": "string", "format": "email"}, "x", "must be an e-mail address"),
        ({"enum": ["a", "b"]}, "3", "must be a number from 1 to 2"),
        ({"enum": ["a", "b"]}, "9" * 5000, "must be a number from 1 to 2"),
        ({"type": "array", "minItems": 2, "items": {"enum": ["a", "b"]}}, "1", "must have 2 or more items"),
    ],
)
def test_answers_that_will_not_do(schema: dict[str, Any], text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        question(schema).read(text)


def test_what_is_optional_may_be_left_out() -> None:
    assert question({"type": "string"}, required=False).read("") is None


@pytest.mark.parametrize(
    ("schema", "prompt"),
    [
        ({"type": "string"}, "it (string): "),
        ({"type": "string", "title": "Name", "default": "Ada"}, "Name (string) [Ada]: "),
        ({"type": "integer", "minimum": 1, "maximum": 5}, "it (integer, 1 to 5): "),
        ({"type": "boolean", "default": False}, "it (yes or no) [no]: "),
        ({"enum": ["a"]}, "it (a number): "),
        ({"enum": ["a"], "enumNames": ["Ay"], "default": "a"}, "it (a number) [Ay]: "),
        ({"type": "array", "items": {"enum": ["a"]}}, "it (numbers, with commas between them): "),
    ],
)
def test_what_stands_before_the_answer(schema: dict[str, Any], prompt: str) -> None:
    assert question(schema).prompt == prompt
    assert "optional" in question(schema, required=False).prompt


def test_forms_that_are_none_ask_nothing() -> None:
    assert questions_of(None) == questions_of([]) == questions_of({"properties": 5}) == []
