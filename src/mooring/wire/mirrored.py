"""Which parts of a message stand in the headers of its POST too, so that others can route by them.

The revision without handshakes (2026-07-28) wants the version, the method, the name of what is asked
for, and those arguments of a tool that its schema marks with `x-mcp-header`. A server compares all of
them with the body and refuses a message for which they differ.

What a list of tools says about its schemas is remembered, within bounds. A tool whose marks break the
rules of the specification counts as one without any: its calls are the server's to judge.
"""

import re
from typing import Any

import msgspec
from msgspec import Raw

from mooring.wire.header_values import decode_value, encode_value
from mooring.wire.http import Head, Headers
from mooring.wire.jsonrpc import Envelope
from mooring.wire.memory import MAX_TOOL_NAME, MAX_TOOLS, MAX_TOOLS_BYTES
from mooring.wire.modern import NAMED_BY
from mooring.wire.surrogates import tolerant

__all__ = ["MarkedTools", "has_mirrored_arguments", "mirrored_headers"]

MAX_MARKS = 64
"""Arguments of one tool that become headers; listeners take some hundred fields in all."""
MAX_MARK_DEPTH = 32
"""Of objects within objects in a schema."""

MARK = "x-mcp-header"
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_MARKABLE = ("string", "integer", "boolean")
_SAFE = 2**53 - 1
_NUMBER = re.compile(r"-?[0-9]{1,17}(\.[0-9]{1,17})?")

Mark = tuple[str, tuple[str, ...]]
"""The name of a header, and the path of its argument."""


class _Named(msgspec.Struct):
    name: str | None = None
    uri: str | None = None


class _ToolName(msgspec.Struct):
    name: str | None = None


class _Arguments(msgspec.Struct):
    arguments: dict[str, Any] | None = None


class _Tool(msgspec.Struct, rename="camel"):
    name: str
    input_schema: dict[str, Any] = {}


class _Tools(msgspec.Struct):
    tools: list[_Tool] = []


_read_named = tolerant(msgspec.json.Decoder(_Named).decode)
_read_tool_name = tolerant(msgspec.json.Decoder(_ToolName).decode)
_read_arguments = tolerant(msgspec.json.Decoder(_Arguments).decode)
_read_tools = tolerant(msgspec.json.Decoder(_Tools).decode)


def mirrored_headers(message: Envelope, version: str, tools: "MarkedTools") -> Headers:
    """The headers of a message of that era."""
    method = message.method or ""
    headers: Headers = [
        (b"Mcp-Protocol-Version", encode_value(version)),
        (b"Mcp-Method", encode_value(method)),
    ]
    name = _name(message)
    if name is not None:
        headers.append((b"Mcp-Name", encode_value(name)))
    if method == "tools/call" and name is not None:
        headers += tools.headers(name, message.params)
    return headers


def has_mirrored_arguments(head: Head) -> bool:
    """Does a head say arguments of a tool?"""
    return any(name.startswith(b"mcp-param-") for name in head.fields)


class MarkedTools:
    """Which arguments of which tools become headers, as the lists of the server said."""

    def __init__(self) -> None:
        self._marks: dict[str, list[Mark]] = {}
        self.are_complete = False
        """All lists were read, and none has changed since."""

    def learn(self, result: bytes | Raw) -> list[str]:
        """A list of tools, or a page of it: replaces what was known of these. Returns what is wrong."""
        if len(result) > MAX_TOOLS_BYTES or (not self._marks and MARK.encode() not in bytes(result)):
            return []
        try:
            tools = _read_tools(result).tools
        except msgspec.DecodeError:
            return []
        faults: list[str] = []
        for tool in tools:
            self._marks.pop(tool.name, None)
            try:
                marks = _marks_of(tool)
            except ValueError as error:
                faults.append(f"tool {tool.name[:MAX_TOOL_NAME]!r}: its {MARK} cannot be used: {error}")
                continue
            if marks and len(tool.name) <= MAX_TOOL_NAME:
                self._marks[tool.name] = marks
        while len(self._marks) > MAX_TOOLS:
            del self._marks[next(iter(self._marks))]
        return faults

    def mismatch(self, params: bytes | Raw, head: Head) -> str | None:
        """Where the headers of a call say something else than its arguments; None if nowhere."""
        if not self._marks:
            return None
        try:
            marks = self._marks.get(_read_tool_name(params).name or "", ())
            arguments = _read_arguments(params).arguments if marks else None
        except msgspec.DecodeError as error:  # a server may be able to read what we cannot
            return f"the params cannot be compared with the headers: {error}"
        repeated = {name for name, _ in head.repeated}
        for name, path in marks:
            header = f"mcp-param-{name}".lower().encode()
            if header in repeated:
                return f"the header Mcp-Param-{name} comes more than once"
            if not _agree(head.fields.get(header), _at(arguments, path)):
                return f"the header Mcp-Param-{name} is not the argument {'.'.join(path)}"
        return None

    def headers(self, tool: str, params: bytes | Raw) -> Headers:
        """`Mcp-Param-…` for a call."""
        marks = self._marks.get(tool)
        if not marks:
            return []
        try:
            arguments = _read_arguments(params).arguments
        except msgspec.DecodeError:
            return []
        found = ((name, _text(_at(arguments, path))) for name, path in marks)
        return [
            (f"Mcp-Param-{name}".encode(), encode_value(text)) for name, text in found if text is not None
        ]


def _marks_of(tool: _Tool) -> list[Mark]:
    """Raises ValueError for marks that break the rules."""
    marks = _find_marks(tool.input_schema, (), 0)
    names = [name.lower() for name, _ in marks]
    if len(set(names)) < len(names):
        raise ValueError("two of them have the same name")
    if len(marks) > MAX_MARKS:
        raise ValueError(f"there are more than {MAX_MARKS}")
    return marks


def _find_marks(schema: dict[str, Any], path: tuple[str, ...], depth: int) -> list[Mark]:
    """The marks of a schema and of the properties within it."""
    if depth > MAX_MARK_DEPTH:
        return []
    marks: list[Mark] = []
    if MARK in schema:
        marks.append((_checked(schema, path), path))
    properties = schema.get("properties")
    for name, inner in properties.items() if isinstance(properties, dict) else ():
        if isinstance(inner, dict):
            marks += _find_marks(inner, (*path, name), depth + 1)
    return marks


def _checked(schema: dict[str, Any], path: tuple[str, ...]) -> str:
    name = schema[MARK]
    if not isinstance(name, str) or not _TOKEN.fullmatch(name):
        raise ValueError(f"{name!r} cannot be part of a header's name")
    if not path or schema.get("type") not in _MARKABLE:
        raise ValueError(f"{name!r} is not on a string, an integer or a boolean")
    return name


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _text(value: Any) -> str | None:
    """A value as text; None for what has no header."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if abs(value) <= _SAFE else None
    if isinstance(value, float) and value.is_integer() and abs(value) <= _SAFE:
        return str(int(value))  # 42.0 is an integer to JSON Schema, and servers compare numbers
    return value if isinstance(value, str) else None


def _agree(told: bytes | None, value: Any) -> bool:
    """Does the header say what the argument is?"""
    said = _text(value)
    if told is None or said is None:
        return told is None and said is None
    text = decode_value(told.decode("latin-1"))
    if text == said:
        return True
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and text is not None and bool(_NUMBER.fullmatch(text)) and float(text) == value


def _name(message: Envelope) -> str | None:
    if message.method not in NAMED_BY:
        return None
    try:
        named = _read_named(message.params)
    except msgspec.DecodeError:
        return None
    return named.uri if NAMED_BY[message.method] == "uri" else named.name
