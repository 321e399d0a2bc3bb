"""JSON that holds half a character.

An escape such as `\\ud83d` without its other half is legal JSON (RFC 8259, section 8.2): programs
that cut a text in the middle of an emoji write it. msgspec refuses it, so such a message is read
from a copy of equal length, in which another letter stands in for the D of every lone surrogate.
The letter is one that makes the way back exact: what is forwarded is always the original.
"""

import re
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import msgspec
from msgspec import Raw

__all__ = ["MALFORMED", "ReadableCopy", "readable_copy", "tolerant"]

MALFORMED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for bytes that are not the JSON it was asked to read."""

# An escape counts if the backslash before its `u` is not itself escaped.
_ESCAPE = rb"(?<!\\)((?:\\\\)*\\u)"
_SURROGATE = re.compile(
    _ESCAPE + rb"(?:[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|([dD])([89a-fA-F][0-9a-fA-F]{2}))"
)
# E and F are mostly private use, which is rarely written as an escape; the others are a reserve.
_LETTERS = {
    letter: re.compile(_ESCAPE + b"([%c%c])([89a-fA-F][0-9a-fA-F]{2})" % (letter, letter ^ 0x20))
    for letter in b"efabc"
}

MOST_ESCAPES = 20_000
"""Reading them takes a microsecond each, and everybody waits meanwhile; a text cut in half has a few."""

T = TypeVar("T")


class ReadableCopy(NamedTuple):
    """The copy, and the letter that stands in."""

    data: bytes
    letter: int

    def restore(self, piece: bytes) -> bytes:
        """The original of a part of the copy."""
        return _LETTERS[self.letter].sub(
            lambda found: found[1] + (b"d" if found[2].islower() else b"D") + found[3], piece
        )

    def stands_in(self, text: str) -> bool:
        """Does a text that was read from the copy hold what was not in the original?"""
        first = int(chr(self.letter), 16) << 12 | 0x800
        return any(first <= ord(char) < first + 0x800 for char in text)


def readable_copy(data: bytes) -> ReadableCopy | None:
    """A copy that msgspec reads; None if there is nothing to replace, or too much, or no letter is free."""
    if data.count(b"\\ud") + data.count(b"\\uD") > MOST_ESCAPES:
        return None
    if not any(found[2] for found in _SURROGATE.finditer(data)):
        return None
    letter = next((letter for letter, used in _LETTERS.items() if not used.search(data)), None)
    if letter is None:
        return None
    stand_ins = {b"d": b"%c" % letter, b"D": b"%c" % (letter ^ 0x20)}

    def replaced(found: re.Match[bytes]) -> bytes:
        return found[1] + stand_ins[found[2]] + found[3] if found[2] else found[0]

    return ReadableCopy(_SURROGATE.sub(replaced, data), letter)


def tolerant(decode: Callable[[bytes | Raw], T]) -> Callable[[bytes | Raw], T]:
    """A decoder that is not put off by lone surrogates, and raises nothing but `msgspec.DecodeError`."""

    def read(data: bytes | Raw) -> T:
        try:
            return decode(data)
        except msgspec.ValidationError:
            raise
        except MALFORMED as error:
            copy = readable_copy(bytes(data))
            if copy is None:
                raise msgspec.DecodeError(str(error)) from None
        try:
            return decode(copy.data)
        except msgspec.DecodeError:
            raise
        except MALFORMED as error:
            raise msgspec.DecodeError(str(error)) from None

    return read
