"""stdout: pieces as a person reads them, wrapped on a terminal; elsewhere text as it came."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from shutil import get_terminal_size
from typing import Any

from mooring.cli.terminal.words import DIM, colourful, painted, printable
from mooring.cli.trying.contents import Data, Heading, Link, Piece, Text, Value
from mooring.cli.trying.pages import wrapped
from mooring.cli.trying.saving import NotBytes, decoded, file_name, save
from mooring.errors import ServerFailed

__all__ = ["Paper", "indented"]


class Paper:
    """Bytes go to `folder`, under names after `prefix`; `make_room` is called before each line."""

    def __init__(self, prefix: str, folder: Path, make_room: Callable[[], None]) -> None:
        self._prefix = prefix
        self._folder = folder
        self._make_room = make_room
        self._terminal = sys.stdout.isatty()
        self._dim = DIM if colourful(sys.stdout, os.environ) else ""
        self.width = get_terminal_size().columns if self._terminal else None

    def lines(self, lines: list[str]) -> None:
        """Ours, with words of a server in them."""
        for line in lines:
            self._write(printable(line) + "\n")

    def json(self, value: Any) -> None:
        """For programs: ASCII, so that nothing in it means anything to a terminal."""
        self._write(indented(value, ascii_only=True) + "\n")

    def wire(self, way: str, line: bytes) -> None:
        """A message, as it is."""
        text = line.decode("utf-8", "backslashreplace")
        mark = "-->" if way == "sent" else "<--"
        self._write(f"{mark} {printable(text) if self._terminal else text}\n")
        sys.stdout.flush()

    def pieces(self, pieces: list[Piece]) -> None:
        """What a server gave."""
        for piece in pieces:
            if isinstance(piece, Text):
                self._text(piece.text)
            elif isinstance(piece, Value):
                self._text(indented(piece.value))
            elif isinstance(piece, Data):
                self.lines([self._saved(piece)])
            elif isinstance(piece, Link):
                self._link(piece)
            elif isinstance(piece, Heading):
                self._write(painted(printable(piece.text), self._dim) + "\n")

    def _text(self, text: str) -> None:
        if self._terminal:
            self.lines(wrapped(text.removesuffix("\n"), self.width))
        else:
            self._write(text if text.endswith("\n") else text + "\n")

    def _link(self, link: Link) -> None:
        told = f"resource {link.uri}" + (f" ({link.name})" if link.name else "")
        self.lines([told, *(wrapped(link.about, self.width, "  ") if link.about else [])])

    def _saved(self, data: Data) -> str:
        what = f"{data.what} {data.mime_type}".strip()
        try:
            content = decoded(data)
        except NotBytes:
            return f"{what}: cannot be saved, because its data is not base64"
        path = save(content, self._folder, file_name(data, self._prefix))
        return f"{what}, {len(content)} bytes, saved as {path}"

    def _write(self, text: str) -> None:
        self._make_room()
        # Lone surrogates can be said in JSON, and in no encoding.
        sys.stdout.write(text.encode("utf-8", "backslashreplace").decode())


def indented(value: Any, indent: int | None = 2, *, ascii_only: bool = False) -> str:
    """A value as JSON; on one line without `indent`. Raises ServerFailed."""
    try:
        return json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    except RecursionError:
        text = "the answer is nested too deeply to be shown"
        raise ServerFailed(text, code="too_deep", hint="--raw shows it as it came") from None
