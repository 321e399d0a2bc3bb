"""How many descriptors we may have open, and how many our children may.

The soft limit is usually 1024: a program that uses `select` breaks on a descriptor beyond that.
Whoever does not may raise it up to the hard limit, and we do, for a server takes four descriptors
and a client one or two. Our children know nothing of that and get the limit that we were given.

A child has the limit that stands when it is forked, so it is lowered for that moment. What is open
stays open then, but nothing new is opened above the limit, and `Popen` needs a pipe: two descriptors
of low numbers are kept in reserve for it. The loop's thread is the only one here that opens any.
"""

import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

__all__ = ["DESCRIPTORS", "DescriptorLimit"]

MOST = 1 << 20
"""What Linux grants by default. Some containers have a thousand times that, and programs loop over it."""
MACOS_MOST = 10240
"""OPEN_MAX there: its hard limit may say `unlimited` and is refused all the same."""
_PIPE = 2


class DescriptorLimit:
    """The limit of this process: RLIMIT_NOFILE."""

    def __init__(self) -> None:
        self._given: int | None = None
        self._reserve: list[int] = []

    @property
    def soft(self) -> int:
        """So many we may have open."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return sys.maxsize if soft == resource.RLIM_INFINITY else soft

    @contextmanager
    def raised(self) -> Iterator[None]:
        """As many as the system allows, for the time of the block. Begin it before anything is opened."""
        given, hard = self.soft, resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        for wanted in (MOST if hard == resource.RLIM_INFINITY else min(hard, MOST), MACOS_MOST):
            if wanted > given and self._raise(wanted):
                self._given = given
                break
        try:
            yield
        finally:
            if self._given is not None:
                self._set(self._given)
                self._given = None
                self._empty_reserve()

    @contextmanager
    def as_given(self) -> Iterator[None]:
        """What is forked in the block gets the limit that we were given."""
        ours = self.soft
        if self._given is None or ours <= self._given:
            yield
            return
        self._empty_reserve()
        self._set(self._given)
        try:
            yield
        finally:
            self._set(ours)
            with suppress(OSError):  # the system has none left; then the next start fails and says so
                self._fill_reserve()

    def _raise(self, wanted: int) -> bool:
        try:
            self._fill_reserve()
            self._set(wanted)
        except (OSError, ValueError):
            self._empty_reserve()
            return False
        return True

    def _set(self, soft: int) -> None:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = soft if hard == resource.RLIM_INFINITY else min(soft, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))

    def _fill_reserve(self) -> None:
        while len(self._reserve) < _PIPE:
            self._reserve.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))

    def _empty_reserve(self) -> None:
        while self._reserve:
            os.close(self._reserve.pop())


DESCRIPTORS = DescriptorLimit()
"""There is one limit, as there is one process."""
