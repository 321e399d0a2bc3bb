"""Which file is meant, and what there is to say of it."""

from collections.abc import Iterable
from pathlib import Path

from mooring.cli.files.reading import Remark
from mooring.cli.terminal.words import tell
from mooring.errors import UserError

__all__ = ["DEFAULT_FILES", "find_file", "tell_remarks"]

DEFAULT_FILES = ("mooring.toml", "mooring.json", ".mcp.json")
"""In the current directory, the first that is there."""


def find_file(named: str | None) -> Path:
    """The one that was named, or the first of the usual ones here. Raises UserError."""
    if named:
        return Path(named)
    for name in DEFAULT_FILES:
        if Path(name).exists():
            return Path(name)
    raise UserError(
        f"there is no {DEFAULT_FILES[0]} here",
        code="no_file",
        hint="name the file: -f FILE; mooring export --all > mooring.toml makes one of the servers you have",
    )


def tell_remarks(kind: str, shown: str, remarks: Iterable[Remark]) -> None:
    """On stderr: a line for each, with its place in the file."""
    for remark in remarks:
        tell(kind, f"{shown}:{remark.place.line}:{remark.place.column}: {remark.text}")
        if remark.hint:
            tell("hint", remark.hint)
