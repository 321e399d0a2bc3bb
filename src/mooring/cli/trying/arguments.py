"""`key=value` words become the arguments of a tool, as its schema wants them.

`key=TEXT` is converted: to a number, a boolean, or (written as JSON) an array or object, where the schema
says so; text stays as it is. `key:=JSON` is a value in JSON, whatever the schema says.
"""

import json
from difflib import get_close_matches
from typing import Any

from mooring.cli.trying.schemas import Json, choices, is_of, problem, resolve, types_of
from mooring.cli.values import Word

__all__ = ["BadArguments", "convert", "convert_texts"]


class BadArguments(Exception):
    """All that is wrong with them, a sentence each."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def convert(words: list[Word], schema: Json) -> Json:
    """The arguments of a tool with that input schema. Raises BadArguments."""
    properties = schema.get("properties")
    known: Json = properties if isinstance(properties, dict) else {}
    problems: list[str] = []
    found: Json = {}
    for key, text, is_json in words:
        if key in found:
            problems.append(f"{key} is given twice")
            continue
        found[key] = None
        if key not in known and not _takes_others(schema):
            problems.append(_unknown(key, list(known)))
            continue
        one = resolve(known.get(key, schema.get("additionalProperties")), schema)
        try:
            found[key] = _from_json(text) if is_json else _converted(text, one, schema)
        except ValueError as error:
            problems.append(f"{key} {error}")
            continue
        if not is_json and (wrong := problem(one, found[key], schema)) is not None:
            problems.append(f"{key} {wrong}")
    problems += _missing(schema.get("required"), found)
    if problems:
        raise BadArguments(problems)
    return found


def convert_texts(words: list[Word], arguments: list[Json]) -> dict[str, str]:
    """The arguments of a prompt, which are texts. Raises BadArguments."""
    names = [str(one.get("name", "")) for one in arguments]
    problems = [_unknown(key, names) for key, _, _ in words if key not in names]
    problems += [f"{key} is text in a prompt: write {key}=TEXT" for key, _, is_json in words if is_json]
    found = {key: text for key, text, _ in words}
    if len(found) < len(words):
        problems.append("an argument is given twice")
    problems += _missing([one.get("name") for one in arguments if one.get("required") is True], found)
    if problems:
        raise BadArguments(problems)
    return found


def _takes_others(schema: Json) -> bool:
    """By JSON Schema anything may be added; to be told of a slip is worth more, unless it says so."""
    return bool(schema.get("additionalProperties")) or "patternProperties" in schema


def _unknown(key: str, known: list[str]) -> str:
    near = get_close_matches(key, known, 1)
    return f"there is no {key}" + (f"; did you mean {near[0]}?" if near else "")


def _missing(required: Any, found: Json | dict[str, str]) -> list[str]:
    names = required if isinstance(required, list) else []
    return [f"{name} is missing" for name in names if isinstance(name, str) and name not in found]


def _from_json(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise ValueError("is not JSON") from None


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _converted(text: str, schema: Json, root: Json) -> Any:
    """The value that the text stands for."""
    for value, _ in choices(schema, root):
        if text == (value if isinstance(value, str) else json.dumps(value)):
            return value
    types = types_of(schema, root)
    if types == ["string"]:
        return text
    # `null` is a word wherever words are taken: key:=null says the other.
    others = [name for name in types if name != "string" and not (name == "null" and "string" in types)]
    try:
        value = _from_json(text)
    except ValueError:
        if not types or "string" in types:
            return text
        raise ValueError(_how_to_write(types)) from None
    if not types or any(is_of(value, name) for name in others):
        return value
    if "string" in types:
        return text
    raise ValueError(_how_to_write(types))


_WRITTEN = {
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "null": "null",
    "array": "an array, as JSON: '[…]'",
    "object": "an object, as JSON: '{…}'",
}


def _how_to_write(types: list[str]) -> str:
    return f"must be {', or '.join(_WRITTEN.get(name, name) for name in types)}"
