"""Values as TOML."""

import json
import re
from collections.abc import Sequence

from mooring.clients.editing.edits import Refused, Value, shown

__all__ = ["as_inline", "as_key", "member"]

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]++")


def member(key: str, value: Value) -> str:
    """A key with its value, on one line."""
    return f"{as_key([key])} = {as_inline(value, key)}"


def as_key(names: Sequence[str | int]) -> str:
    """Names with dots between. The number of an item is not written: the last is meant."""
    return ".".join(
        name if _BARE_KEY.fullmatch(name) else _quoted(name) for name in names if isinstance(name, str)
    )


def as_inline(value: Value, key: str) -> str:
    """On one line. `key`: whose value it is, for whoever must be told that TOML cannot say it."""
    match value:
        case None:
            raise Refused(f"TOML has no null, which {shown(key)} should be")
        case bool():
            return "true" if value else "false"
        case str():
            return _quoted(value)
        case dict():
            inner = ", ".join(member(each, meant) for each, meant in value.items())
            return f"{{ {inner} }}" if inner else "{}"
        case list():
            return "[" + ", ".join(as_inline(item, key) for item in value) + "]"
        case _:
            return repr(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
