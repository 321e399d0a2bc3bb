"""Values as YAML: every reader, of YAML 1.1 or 1.2, reads them as they are meant."""

import json
import re

from mooring.clients.editing.edits import Value

__all__ = ["as_flow", "item_lines", "member_lines"]

# No reader takes one of these for anything but text; what else there is, is quoted.
_PLAIN = re.compile(r"[A-Za-z/](?:[A-Za-z0-9_./@+-]|:(?=[A-Za-z0-9_./@+-]))*")
_NOT_TEXT = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
# What JSON leaves as it is, and YAML does not allow or takes for a line break.
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def member_lines(key: str, value: Value, indent: str, step: str) -> list[str]:
    """A key with its value, as lines of a block."""
    name = indent + _scalar(key)
    if isinstance(value, dict) and value:
        inner = (member_lines(each, meant, indent + step, step) for each, meant in value.items())
        return [f"{name}:", *(line for lines in inner for line in lines)]
    if isinstance(value, list) and value:
        return [f"{name}:", *(line for item in value for line in item_lines(item, indent + step, step))]
    return [f"{name}: {as_flow(value) if isinstance(value, (dict, list)) else _scalar(value)}"]


def item_lines(value: Value, indent: str, step: str) -> list[str]:
    """An item of a list, as lines of a block."""
    if isinstance(value, dict) and value:
        lines = [
            line for key, meant in value.items() for line in member_lines(key, meant, f"{indent}  ", step)
        ]
        return [f"{indent}- {lines[0].lstrip()}", *lines[1:]]
    return [f"{indent}- {as_flow(value) if isinstance(value, (dict, list)) else _scalar(value)}"]


def as_flow(value: Value) -> str:
    """On one line, as between brackets: as JSON, since what has brackets may be read as such."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{as_flow(key)}: {as_flow(meant)}" for key, meant in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_flow, value)) + "]"
    return _quoted(value) if isinstance(value, str) else _scalar(value)


def _scalar(value: Value) -> str:
    if isinstance(value, str):
        is_plain = _PLAIN.fullmatch(value) and value.lower() not in _NOT_TEXT
        return value if is_plain else _quoted(value)
    if isinstance(value, float):
        return _float(value)
    return json.dumps(value)


def _quoted(text: str) -> str:
    quoted = json.dumps(text, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)


def _float(value: float) -> str:
    if value != value:  # noqa: PLR0124 - NaN
        return ".nan"
    if value in (float("inf"), float("-inf")):
        return ".inf" if value > 0 else "-.inf"
    digits, e, exponent = repr(value).partition("e")
    if e and "." not in digits:
        digits += ".0"  # YAML 1.1 wants a point
    return f"{digits}{e}{exponent}"
