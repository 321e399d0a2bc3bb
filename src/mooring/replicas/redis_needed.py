"""The client for Redis is an extra: whoever loads what needs it says what is missing."""

from collections.abc import Iterator
from contextlib import contextmanager

from mooring.errors import UserError, how_to_install

__all__ = ["redis_needed"]


@contextmanager
def redis_needed() -> Iterator[None]:
    """Around imports. Raises UserError if there is no client for Redis."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "redis":
            raise
        raise UserError(
            "a client for Redis is not installed here",
            code="redis_missing",
            hint=f"install it with: {how_to_install('redis')}",
        ) from None
