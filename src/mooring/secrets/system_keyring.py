"""The keyring of the operating system, by way of the package `keyring`, which is imported only here.

Every call may wait for as long as the system asks its user to unlock it: whoever must not wait calls from a
thread.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mooring.errors import UserError, how_to_install

__all__ = ["SERVICE", "forget", "look_up", "put"]

SERVICE = "mooring"
"""The service under which entries stand there; the user is their name."""


def look_up(name: str) -> str | None:
    """The value of an entry, if there is one. Raises UserError."""
    with _reaching() as keyring:
        value: str | None = keyring.get_password(SERVICE, name)
    return value


def put(name: str, value: str) -> None:
    """Have an entry. Raises UserError."""
    with _reaching() as keyring:
        keyring.set_password(SERVICE, name, value)


def forget(name: str) -> None:
    """Have no such entry. Raises UserError."""
    with _reaching() as keyring:
        if keyring.get_password(SERVICE, name) is not None:
            keyring.delete_password(SERVICE, name)


@contextmanager
def _reaching() -> Iterator[Any]:
    try:
        import keyring  # noqa: PLC0415 - optional, and slow to import
        import keyring.errors  # noqa: PLC0415
    except ImportError:
        raise UserError(
            "the keyring cannot be used: the Python package keyring is not installed beside Mooring",
            code="keyring_not_installed",
            hint=f"{how_to_install('keyring')}, or keep the secret in a file: mooring secret set NAME",
        ) from None
    try:
        yield keyring
    except keyring.errors.NoKeyringError:
        raise UserError(
            "this system has no keyring that Mooring can use",
            code="keyring_unavailable",
            hint="keep the secret in a file: mooring secret set NAME",
        ) from None
    except Exception as error:  # backends raise what their systems give them
        # Nothing of what it says: it is about a secret.
        raise UserError(
            f"the keyring refuses: {type(error).__name__}",
            code="keyring_unavailable",
            hint="unlock it; the command keyring get mooring NAME tells more",
        ) from None
