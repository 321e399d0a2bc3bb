"""What a server gives (the result of a tool, a resource, a prompt) as pieces, each to be shown in its way.

Whatever is not as the specification has it is shown as the JSON that it is: nothing is lost, nothing fails.
"""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from mooring.cli.trying.schemas import Json

__all__ = ["Data", "Heading", "Link", "Piece", "Text", "Value", "of_call", "of_prompt", "of_resource"]


class Text(NamedTuple):
    """As the server wrote it."""

    text: str


class Value(NamedTuple):
    """For programs; shown as JSON."""

    value: Any


class Data(NamedTuple):
    """What no terminal can show: it is saved."""

    base64: str
    mime_type: str
    what: str
    """`image`, `audio` or `resource`."""
    uri: str = ""


class Link(NamedTuple):
    """To a resource that can be read."""

    uri: str
    name: str
    about: str


class Heading(NamedTuple):
    """Ours, about what follows."""

    text: str


Piece = Text | Value | Data | Link | Heading


def of_call(result: Json) -> list[Piece]:
    """What a tool gave. Structured content that the text only says again stands once."""
    structured = result.get("structuredContent")
    pieces = list(_content(result.get("content")))
    if structured is None:
        return pieces
    others = [piece for piece in pieces if not (isinstance(piece, Text) and _says(piece.text, structured))]
    return [*others, Value(structured)]


def of_resource(result: Json) -> list[Piece]:
    """What was read; the uri is told where there are several."""
    contents = result.get("contents")
    items = contents if isinstance(contents, list) else [contents]
    pieces: list[Piece] = []
    for item in items:
        piece = _resource(item)
        if len(items) > 1 and isinstance(item, dict) and not isinstance(piece, Data):
            pieces.append(Heading(f"{item.get('uri', 'a resource without a uri')}:"))
        pieces.append(piece)
    return pieces


def of_prompt(result: Json) -> list[Piece]:
    """Its messages, each with who says it."""
    messages = result.get("messages")
    pieces: list[Piece] = []
    for message in messages if isinstance(messages, list) else [messages]:
        if isinstance(message, dict) and isinstance(message.get("role"), str):
            pieces += [Heading(f"{message['role']}:"), *_content([message.get("content")])]
        else:
            pieces.append(Value(message))
    return pieces


def _content(content: Any) -> Iterator[Piece]:
    for item in content if isinstance(content, list) else [] if content is None else [content]:
        embedded = item.get("resource") if isinstance(item, dict) else None
        if isinstance(embedded, dict) and isinstance(embedded.get("text"), str):
            yield Heading(f"resource {_text(embedded, 'uri')}:")
        yield _piece(item)


def _piece(item: Any) -> Piece:
    if not isinstance(item, dict):
        return Value(item)
    kind = item.get("type")
    if kind == "text" and isinstance(item.get("text"), str):
        return Text(item["text"])
    if kind in ("image", "audio") and isinstance(item.get("data"), str):
        return Data(item["data"], _text(item, "mimeType"), kind)
    if kind == "resource_link" and isinstance(item.get("uri"), str):
        name = _text(item, "title") or _text(item, "name")
        return Link(item["uri"], name, _text(item, "description"))
    if kind == "resource" and isinstance(item.get("resource"), dict):
        return _resource(item["resource"])
    return Value(item)


def _resource(item: Any) -> Piece:
    if isinstance(item, dict) and isinstance(item.get("text"), str):
        return Text(item["text"])
    if isinstance(item, dict) and isinstance(item.get("blob"), str):
        return Data(item["blob"], _text(item, "mimeType"), "resource", _text(item, "uri"))
    return Value(item)


def _text(item: Json, name: str) -> str:
    return item[name] if isinstance(item.get(name), str) else ""


def _says(text: str, structured: Any) -> bool:
    """Is the text nothing but that value as JSON?"""
    try:
        return bool(json.loads(text) == structured)
    except (ValueError, RecursionError):
        return False
