"""Bytes that come in pieces and are joined once, at their end.

A peer chooses the pieces. An object for each would cost twenty times as much as the two bytes it may
hold, so small ones are put together as they come; large ones, the usual case, are not copied.
"""

__all__ = ["Pieces", "keep_piece"]

SMALL_BYTES = 1024

Pieces = list[bytes | bytearray]


def keep_piece(pieces: Pieces, piece: bytes) -> None:
    """Add a piece; `b"".join(pieces)` is the whole."""
    if len(piece) >= SMALL_BYTES or not pieces:
        pieces.append(piece)
    elif isinstance(last := pieces[-1], bytearray):
        last += piece
    else:
        pieces.append(bytearray(piece))
