"""`docs/configuration.md`: prose, and between two marks the table of keys; and `docs/mooring.schema.json`.

python -m tests.configuration_page --write
"""

import argparse
from pathlib import Path
from typing import Any

import msgspec

from mooring.cli.files.schema import FIELDS, RUN_OPTIONS, explained, json_schema

__all__ = ["PAGE", "SCHEMA", "page"]

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "configuration.md"
SCHEMA = DOCS / "mooring.schema.json"
BEGIN = "<!-- made by python -m tests.configuration_page --write -->\n"
END = "<!-- until here -->\n"
KINDS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "object": "table of texts",
    "array": "list of texts",
}
DEFAULTS = {"cwd": "the file's folder"}


def page(text: str) -> str:
    """The page with the table as the code has it."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin and end, "the marks are gone"
    return f"{before}{BEGIN}\n{_table()}\n{END}{after}"


def _table() -> str:
    [server] = [
        each for name, each in msgspec.json.decode(json_schema())["$defs"].items() if name == "Server"
    ]
    lines = ["| key | value | default | meaning |", "|---|---|---|---|"]
    for key in FIELDS:
        value = _kinds(server["properties"][key])
        lines.append(f"| `{key}` | {value} | {_default(key)} | {explained(key)} |")
    return "\n".join(lines) + "\n"


def _kinds(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    kinds = [each["type"] for each in schema.get("anyOf", [schema])]
    if {"integer", "number"} <= set(kinds):
        kinds.remove("integer")
    return " or ".join(KINDS[kind] for kind in sorted(kinds, key=list(KINDS).index))


def _default(key: str) -> str:
    option = RUN_OPTIONS.get(key)
    if key in DEFAULTS or option is None:
        return DEFAULTS.get(key, "")
    if option.is_flag:
        return "`false`"
    if isinstance(option.show_default, str):
        return option.show_default.replace("--", "")
    return f"`{option.default}`" if option.show_default else ""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.configuration_page", description=__doc__)
    parser.add_argument("--write", action="store_true", help="bring the page and the schema up to date")
    options = parser.parse_args()
    if options.write:
        PAGE.write_text(page(PAGE.read_text()))
        SCHEMA.write_bytes(json_schema())
    else:
        print(page(PAGE.read_text()), end="")


if __name__ == "__main__":
    main()
