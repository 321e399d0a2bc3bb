"""A number of bytes that many hold together.

A bound for each alone is either too small for a large message or, times a thousand, larger than any
memory. So there is one for all, and a share that nobody can be denied because others hold much.
"""

__all__ = ["Budget"]


class Budget:
    """`taken_bytes` is counted by those who hold them. No more than twice the limit is ever held."""

    __slots__ = ("limit_bytes", "share_bytes", "taken_bytes")

    def __init__(self, limit_bytes: int, sharers: int = 1) -> None:
        self.limit_bytes = limit_bytes
        self.share_bytes = limit_bytes // sharers
        self.taken_bytes = 0

    @property
    def is_exceeded(self) -> bool:
        """More is held than all together should: nobody gets more than a share."""
        return self.taken_bytes > self.limit_bytes

    def has_room(self, wanted_bytes: int, held_bytes: int) -> bool:
        """May one who holds so much have more?"""
        return (
            self.taken_bytes + wanted_bytes <= self.limit_bytes
            or held_bytes + wanted_bytes <= self.share_bytes
        )
