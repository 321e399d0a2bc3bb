"""JSON Schema, as far as people need it who fill something in: what a value may be, in words, and is it.

Only what stands at the top of a value is judged. What is within arrays and objects is the server's to say.
"""

import json
import math
import re
from collections.abc import Iterator
from typing import Any

__all__ = ["Json", "choices", "describe", "is_of", "problem", "resolve", "types_of"]

Json = dict[str, Any]
MAX_REFERENCES = 32
"""Of `$ref` to `$ref`, and of schemas within `anyOf`: one may lead to itself."""

_KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}
_FORMATS = {
    "email": (re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+"), "an e-mail address"),
    "uri": (re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+"), "a URI, such as https://example.com/"),
    "date": (re.compile(r"\d{4}-\d{2}-\d{2}"), "a date, such as 2026-07-28"),
    "date-time": (
        re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?([Zz]|[+-]\d{2}:?\d{2})?"),
        "a moment, such as 2026-07-28T12:00:00Z",
    ),
}


def resolve(schema: Any, root: Json, depth: int = 0) -> Json:
    """The schema that a `#/…` reference leads to; an empty one if it leads nowhere."""
    if not isinstance(schema, dict):
        return {}
    reference = schema.get("$ref")
    if not isinstance(reference, str):
        return schema
    if not reference.startswith("#/") or depth >= MAX_REFERENCES:
        return {}
    found: Any = root
    for step in reference[2:].split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, dict) else None
    beside = {name: value for name, value in schema.items() if name != "$ref"}
    return {**resolve(found, root, depth + 1), **beside}


def _alternatives(schema: Json, root: Json, depth: int = 0) -> Iterator[Json]:
    """The schemas of which a value must fit one; often that is the one."""
    for name in ("anyOf", "oneOf"):
        if isinstance(schema.get(name), list) and depth < MAX_REFERENCES:
            for one in schema[name]:
                yield from _alternatives(resolve(one, root), root, depth + 1)
            return
    yield schema


def types_of(schema: Json, root: Json) -> list[str]:
    """The names of the types that a value may have; none if the schema does not say."""
    found: list[str] = []
    for one in _alternatives(schema, root):
        named = one.get("type")
        names = [named] if isinstance(named, str) else named if isinstance(named, list) else []
        if not names:
            values = choices(one, root)
            names = sorted({_type_name(value) for value, _ in values})
            if not values:
                return []
        found += [name for name in names if isinstance(name, str) and name not in found]
    return found


def choices(schema: Json, root: Json) -> list[tuple[Any, str]]:
    """The only values that there are, each with its title (or nothing); none if any will do."""
    if isinstance(schema.get("enum"), list):
        titles = schema.get("enumNames")
        names = titles if isinstance(titles, list) else []
        return [(value, str(names[n]) if n < len(names) else "") for n, value in enumerate(schema["enum"])]
    if "const" in schema:
        return [(schema["const"], str(schema.get("title", "")))]
    found: list[tuple[Any, str]] = []
    alternatives = list(_alternatives(schema, root))
    for one in alternatives if alternatives != [schema] else []:
        if not (values := choices(one, root)):
            return []
        found += values
    return found


def _type_name(value: Any) -> str:
    names = [name for name in ("boolean", "integer", "number", *_KINDS) if is_of(value, name)]
    return names[0]


def is_of(value: Any, name: str) -> bool:
    """Is it of that type? 5.0 is an integer; true is no number."""
    if name in ("integer", "number"):
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return is_number and (name == "number" or isinstance(value, int) or value.is_integer())
    return isinstance(value, _KINDS.get(name, (object,)))


def describe(schema: Json, root: Json) -> str:
    """`integer, 0 to 10, default 5`."""
    values = choices(schema, root)
    if values:
        parts = [" | ".join(_shown(value) for value, _ in values)]
    else:
        parts = [
            " or ".join(_with_items(name, schema, root) for name in types_of(schema, root)) or "any value"
        ]
    parts += _bounds(schema)
    if isinstance(schema.get("format"), str):
        parts.append(schema["format"])
    if "default" in schema:
        parts.append(f"default {_shown(schema['default'])}")
    return ", ".join(parts)


def _with_items(name: str, schema: Json, root: Json) -> str:
    if name != "array":
        return name
    items = resolve(schema.get("items"), root)
    inner = [_shown(value) for value, _ in choices(items, root)] or types_of(items, root)
    return f"array of {' | '.join(inner)}" if inner else name


def _shown(value: Any) -> str:
    if isinstance(value, str) and value and value.isprintable() and " " not in value:
        return value
    return json.dumps(value, ensure_ascii=False)


def _bounds(schema: Json) -> Iterator[str]:
    for low_name, high_name, unit in (
        ("minimum", "maximum", ""),
        ("minLength", "maxLength", " characters"),
        ("minItems", "maxItems", " items"),
    ):
        low, high = schema.get(low_name), schema.get(high_name)
        if _is_number(low) and _is_number(high):
            yield f"{low} to {high}{unit}"
        elif _is_number(low):
            yield f"{low} or more{unit}"
        elif _is_number(high):
            yield f"up to {high}{unit}"


def _is_number(value: Any) -> bool:
    return is_of(value, "number") and math.isfinite(value)


def problem(schema: Json, value: Any, root: Json) -> str | None:
    """What is wrong with a value, as the rest of a sentence about it; None if nothing is."""
    values = [known for known, _ in choices(schema, root)]
    if values and not any(type(known) is type(value) and known == value for known in values):
        return f"must be one of {', '.join(map(_shown, values))}"
    types = types_of(schema, root)
    if types and not any(is_of(value, name) for name in types):
        return f"must be {_article(' or '.join(types))}"
    return _out_of_bounds(schema, value) or _wrong_format(schema, value)


def _article(words: str) -> str:
    return f"{'an' if words[0] in 'aeio' else 'a'} {words}"


def _out_of_bounds(schema: Json, value: Any) -> str | None:
    if is_of(value, "number"):
        size, names, unit = value, ("minimum", "maximum"), ""
    elif isinstance(value, str):
        size, names, unit = len(value), ("minLength", "maxLength"), " characters"
    elif isinstance(value, list):
        size, names, unit = len(value), ("minItems", "maxItems"), " items"
    else:
        return None
    low, high = (schema.get(name) for name in names)
    has = "must be" if not unit else "must have"
    if _is_number(low) and size < low:
        return f"{has} {low} or more{unit}"
    if _is_number(high) and size > high:
        return f"{has} {high}{unit} at most"
    return None


def _wrong_format(schema: Json, value: Any) -> str | None:
    pattern, words = _FORMATS.get(str(schema.get("format")), (None, ""))
    if pattern is None or not isinstance(value, str) or pattern.fullmatch(value):
        return None
    return f"must be {words}"
