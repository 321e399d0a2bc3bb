"""What there is to try, as lines of text: lists of tools, resources and prompts, and one of them in full.

`width` is that of a terminal; None where nothing is to be wrapped. Lines may hold what a server said: they
go through `words.printable` when they are printed.
"""

import shlex
import textwrap
from typing import Any

from mooring.cli.trying.schemas import Json, describe, resolve

__all__ = ["listed", "parameters", "prompt_parameters", "tool_page", "wrapped"]

WIDEST_NAME = 28
"""In the list on a terminal; what belongs to a longer one begins below it."""
NARROWEST = 20
"""For text; on a terminal that is narrower lines are too long."""
HINTS = {
    "readOnlyHint": ("reads only", "changes something"),
    "destructiveHint": ("may destroy", ""),
    "idempotentHint": ("twice is as once", ""),
    "openWorldHint": ("reaches out", ""),
}


def wrapped(text: str, width: int | None, indent: str = "") -> list[str]:
    """The lines of a text, each as wide as it may be; its own line breaks stay."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    if width is None:
        return [indent + line for line in lines]
    room = max(width - len(indent), NARROWEST)
    found: list[str] = []
    for line in lines:
        found += (
            [line]
            if len(line) <= room
            else textwrap.wrap(
                line, room, break_long_words=False, break_on_hyphens=False, replace_whitespace=False
            )
        )
    return [(indent + line).rstrip() if width else indent + line for line in found]


def listed(items: list[tuple[str, str]], width: int | None) -> list[str]:
    """Names, each with what is said of it."""
    if not items:
        return []
    column = min(max(len(name) for name, _ in items), WIDEST_NAME) + 2
    lines: list[str] = []
    for name, text in items:
        first = _first_paragraph(text)
        if width is None:
            lines.append(f"{name:{column}}{first}".rstrip())
            continue
        told = wrapped(first, width, " " * column) if first else []
        if told and len(name) + 2 <= column:
            told[0] = f"{name:{column}}{told[0].strip()}"
        else:
            told.insert(0, name)
        lines += told
    return lines


def _first_paragraph(text: str) -> str:
    return " ".join(text.strip().split("\n\n")[0].split())


def tool_page(tool: Json, server: str, width: int | None) -> list[str]:
    """All that is worth knowing before it is called."""
    schema = _object(tool.get("inputSchema"))
    lines = [*_title(tool), *_about(tool, width)]
    told = parameters(schema, width)
    lines += ["", "Parameters:", *told] if told else ["", "It takes no parameters."]
    output = _object(tool.get("outputSchema"))
    if output:
        lines += ["", "Returns:", *(parameters(output, width) or ["  " + describe(output, output)])]
    hints = _hints(_object(tool.get("annotations")))
    if hints:
        lines += ["", f"The server says: {hints}."]
    command = shlex.join(["mooring", "call", server, str(tool.get("name", ""))])
    return [*lines, "", " ".join([command, *_example(schema)])]


def parameters(schema: Json, width: int | None) -> list[str]:
    """Each property of a schema: its name, what it may be, what is said of it."""
    properties = _object(schema.get("properties"))
    required = schema.get("required")
    names = required if isinstance(required, list) else []
    return _parameters(
        [
            (
                key,
                f"{describe(one, schema)}{', required' if key in names else ''}",
                str(one.get("description") or one.get("title") or ""),
            )
            for key, one in ((key, resolve(value, schema)) for key, value in properties.items())
        ],
        width,
    )


def prompt_parameters(arguments: list[Json], width: int | None) -> list[str]:
    """The arguments of a prompt, which are texts."""
    return _parameters(
        [
            (
                str(one.get("name", "")),
                "text, required" if one.get("required") is True else "text",
                str(one.get("description") or one.get("title") or ""),
            )
            for one in arguments
        ],
        width,
    )


def _parameters(told: list[tuple[str, str, str]], width: int | None) -> list[str]:
    column = min(max((len(name) for name, _, _ in told), default=0), WIDEST_NAME) + 4
    lines: list[str] = []
    for name, kind, text in told:
        kinds = wrapped(kind, width, " " * column)
        if len(name) + 4 <= column:
            kinds[0] = f"  {name:{column - 2}}{kinds[0].strip()}"
        else:
            kinds.insert(0, f"  {name}")
        lines += kinds
        if text:
            lines += wrapped(text, width, " " * column)
    return lines


def _title(item: Json) -> list[str]:
    name = str(item.get("name", ""))
    title = item.get("title") or _object(item.get("annotations")).get("title")
    return [f"{name}: {title}" if title else name]


def _about(item: Json, width: int | None) -> list[str]:
    text = str(item.get("description") or "").strip()
    return wrapped(text, width) if text else []


def _hints(annotations: Json) -> str:
    told = []
    for name, (yes, no) in HINTS.items():
        value = annotations.get(name)
        if isinstance(value, bool) and (words := yes if value else no):
            told.append(words)
    return ", ".join(told)


def _example(schema: Json) -> list[str]:
    required = schema.get("required")
    return (
        [f"{shlex.quote(name)}=…" for name in required if isinstance(name, str)]
        if isinstance(required, list)
        else []
    )


def _object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}
