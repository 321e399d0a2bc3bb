"""Text that is safe and right for a terminal."""

import os
import re
import sys
from collections.abc import Mapping
from typing import TextIO

__all__ = [
    "DIM",
    "GREEN",
    "RED",
    "YELLOW",
    "colourful",
    "debugging",
    "laid_out",
    "painted",
    "printable",
    "show_error",
    "tell",
]

DIM, RED, GREEN, YELLOW, PLAIN = "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[0m"
_OF_KINDS = {"error": RED, "warning": YELLOW}

# C0 but tab, DEL, C1, the separators of lines and paragraphs, what has no width, and what changes
# the direction of writing: everything with which a text could pretend to be something else.
_UNSAFE = (
    *(code for code in range(0x20) if code != 0x09),
    *range(0x7F, 0xA0),
    *(0x00AD, 0x115F, 0x1160, 0x3164, 0xFFA0),  # hyphens that are none, letters without any ink
    *(0x061C, 0x200B, 0x200E, 0x200F),  # (what joins letters and emoji stays)
    *(0x2028, 0x2029),
    *range(0x202A, 0x202F),
    *range(0x2060, 0x206A),
    0xFEFF,
    *range(0xE0000, 0xE0080),  # tags: a text inside a text, for programs to read
)
_ESCAPES = {code: ascii(chr(code))[1:-1] for code in _UNSAFE}


def printable(text: str) -> str:
    """The text on one line, with control characters other than tab made visible; it can be encoded."""
    if text.isascii() and text.isprintable():
        return text
    return text.translate(_ESCAPES).encode(errors="backslashreplace").decode()


def painted(text: str, colour: str) -> str:
    """The text in a colour; as it is without one."""
    return f"{colour}{text}{PLAIN}" if colour else text


def debugging(environ: Mapping[str, str]) -> bool:
    """Is MOORING_DEBUG on?"""
    return environ.get("MOORING_DEBUG", "").lower() not in ("", "0", "false", "no", "off")


def colourful(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Colours only where a person looks, and has not asked for none (no-color.org)."""
    return not environ.get("NO_COLOR") and environ.get("TERM") != "dumb" and stream.isatty()


def show_error(message: str, hint: str) -> None:
    """On stderr: what is wrong, and what to do."""
    tell("error", message)
    if hint:
        tell("hint", hint)


def tell(kind: str, text: str) -> None:
    """On stderr, one line: an `error`, a `hint`, a `warning` or a `note`; within the width of a terminal."""
    from shutil import get_terminal_size  # noqa: PLC0415 - half a megabyte, with all that it can compress

    width = get_terminal_size().columns if sys.stderr.isatty() else None
    head, *more = laid_out(kind, printable(text), width)
    colour = _OF_KINDS.get(kind, "") if colourful(sys.stderr, os.environ) else ""
    lines = [painted(f"{kind}:", colour) + head.removeprefix(f"{kind}:"), *more]
    sys.stderr.writelines(f"{line}\n" for line in lines)


def laid_out(kind: str, text: str, width: int | None) -> list[str]:
    """In lines of that width; but a hint is only broken after a comma or semicolon.

    So a command in it stays in one piece, and can be copied: if it is too long, the terminal breaks it.
    """
    head = f"{kind}: "
    if width is None or len(head) + len(text) <= width:
        return [head + text]
    pieces = re.split("(?<=[,;]) ", text) if kind == "hint" else text.split(" ")
    lines = [head + pieces[0]]
    for piece in pieces[1:]:
        if len(lines[-1]) + 1 + len(piece) <= width:
            lines[-1] += f" {piece}"
        else:
            lines.append(" " * len(head) + piece)
    return lines
