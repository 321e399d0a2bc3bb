"""Options that do not go together, in words."""

from collections.abc import Iterable

from mooring.errors import UserError

__all__ = ["as_option", "as_options", "conflict"]


def as_option(name: str) -> str:
    """As it is typed."""
    return f"--{name.removeprefix('as_').replace('_', '-')}"


def as_options(names: Iterable[str]) -> str:
    """The same of several."""
    return ", ".join(map(as_option, names))


def conflict(message: str, hint: str) -> UserError:
    """To be raised."""
    return UserError(message, code="conflicting_options", hint=hint)
