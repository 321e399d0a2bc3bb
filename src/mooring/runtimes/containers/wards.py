"""The containers that the guardian of this Mooring knows of, so that none is left should we be killed.

It is told of a container by the name that we choose, before the container is made: there is no moment at
which one exists and nobody but us knows of it. Once it has an id, by that: others may call it what they like.
"""

from mooring.runtimes.guardian import Guardian

__all__ = ["Wards"]


class Wards:
    """In one engine. Without a guardian nobody is told."""

    def __init__(self, guardian: Guardian | None = None, where: str = "") -> None:
        self._guardian = guardian
        self._where = where

    def expect(self, name: str) -> None:
        """A container of that name is about to be made; or another has made it, and that is its id."""
        if self._guardian is not None:
            self._guardian.ensure()
            self._guardian.register_container(name, self._where)

    def name(self, container: str, name: str) -> None:
        """It has this id, which stays, whatever others call it."""
        self.expect(container)
        self.let_go(name)

    def let_go(self, container: str) -> None:
        """Of that id, or of that name, none is there; or it is another's. Idempotent."""
        if self._guardian is not None:
            self._guardian.forget_container(container)
