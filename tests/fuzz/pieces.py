"""An input that brings its own cutting."""

__all__ = ["divided"]


def divided(data: bytes) -> tuple[list[bytes], bytes]:
    """A stream in pieces, and whole. The first byte says how many sizes of pieces come before it."""
    count = data[0] % 32 if data else 0
    sizes, stream = data[1 : count + 1], data[count + 1 :]
    pieces: list[bytes] = []
    at = 0
    for size in sizes:
        pieces.append(stream[at : at + size])
        at += size
    return [*pieces, stream[at:]], stream
