"""Is a value what a schema says? As much of JSON Schema as our documents use, and no more:
a word that is not known here is an error, so that nothing is passed over."""

import re
from typing import Any

__all__ = ["problems"]

TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}
SAID = frozenset({"$schema", "$defs", "title", "description", "default", "examples"})
"""Words that demand nothing."""


def problems(value: Any, schema: dict[str, Any], document: Any, where: str = "$") -> list[str]:
    """What is wrong with it. An object has no members but those that are described."""
    wrong_type = _wrong_type(value, schema.get("type"))
    if wrong_type:
        return [f"{where}: {value!r} is no {wrong_type}"]
    found: list[str] = []
    for word, wanted in schema.items():
        match word:
            case "$ref":
                target: Any = document
                for part in wanted.removeprefix("#/").split("/"):
                    target = target[part]
                found += problems(value, target, document, where)
            case "anyOf":
                if all(problems(value, one, document, where) for one in wanted):
                    found.append(f"{where}: {value!r} is none of {wanted}")
            case "type":
                pass  # it is, as was seen first
            case "required":
                found += [f"{where}: no {name}" for name in wanted if name not in value]
            case "properties":
                found += [f"{where}: {name} is not described" for name in value if name not in wanted]
                for name in value.keys() & wanted.keys():
                    found += problems(value[name], wanted[name], document, f"{where}.{name}")
            case "items":
                for at, item in enumerate(value):
                    found += problems(item, wanted, document, f"{where}[{at}]")
            case "enum":
                found += [f"{where}: {value!r} is none of {wanted}"] if value not in wanted else []
            case "minimum":
                found += [f"{where}: {value} is too small"] if value < wanted else []
            case "maximum":
                found += [f"{where}: {value} is too large"] if value > wanted else []
            case "additionalProperties":
                # (Those that are described are looked at above, and no others are allowed there.)
                for name in value if wanted is not False else ():
                    found += problems(value[name], wanted, document, f"{where}.{name}")
            case "propertyNames":
                found += [
                    f"{where}: {name} is no name" for name in value if not re.search(wanted["pattern"], name)
                ]
            case _:
                assert word in SAID, (word, schema)
    return found


def _wrong_type(value: Any, wanted: str | None) -> str:
    if wanted is None or (
        isinstance(value, TYPES[wanted]) and isinstance(value, bool) <= (wanted == "boolean")
    ):
        return ""
    return wanted
