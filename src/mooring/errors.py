"""What can go wrong, grouped by what the one who meets it can do about it.

    MooringError
    ├── UserError        change what was asked for: an option, a file, a command
    ├── Unavailable      try again later: no capacity, backing off, shutting down
    ├── ServerFailed     look at the MCP server: it exited, or cannot start
    ├── ListenFailed     free the address, or choose another
    └── ProtocolError    a peer broke the protocol
        └── RemoteProtocolError / LocalProtocolError: whose fault it was

Every error has a stable `code` for programs, a message for people that names the
thing concerned and never a secret, and a `hint` that says what to do. They are
translated to the outside in three tables only: exit status (`EXIT_STATUS` here),
JSON-RPC (`mooring.wire.jsonrpc`) and HTTP problems (`mooring.http.problems`).
"""

import shlex
import sys

__all__ = [
    "EXIT_STATUS",
    "EXTRAS",
    "ListenFailed",
    "LocalProtocolError",
    "MooringError",
    "ProtocolError",
    "RemoteProtocolError",
    "ServerFailed",
    "Unavailable",
    "UserError",
    "exit_status",
    "how_to_install",
]


class MooringError(Exception):
    """Root of every error that Mooring raises on purpose."""

    def __init__(self, message: str, *, code: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.hint = hint

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.code}: {self.message})"


class UserError(MooringError):
    """What was asked for cannot be done as asked; asking again does not help."""


class Unavailable(MooringError):
    """Not now. `retry_after_s` says when it is worth asking again, if that is known."""

    def __init__(
        self, message: str, *, code: str, hint: str = "", retry_after_s: float | None = None
    ) -> None:
        super().__init__(message, code=code, hint=hint)
        self.retry_after_s = retry_after_s


class ServerFailed(MooringError):
    """The MCP server did not do its part: it exited, or an instance could not be made."""


class ListenFailed(MooringError):
    """An address cannot be listened on."""


class ProtocolError(MooringError):
    """A message breaks the rules of its protocol."""


class RemoteProtocolError(ProtocolError):
    """The peer broke the rules."""


class LocalProtocolError(ProtocolError):
    """We were about to break them: a bug in the caller."""


EXIT_STATUS: dict[type[MooringError], int] = {
    UserError: 2,
    Unavailable: 1,
    ServerFailed: 1,
    ListenFailed: 1,
    ProtocolError: 1,
}


def exit_status(error: MooringError) -> int:
    """The exit status of the nearest class of `error` in the table."""
    return next((EXIT_STATUS[cls] for cls in type(error).__mro__ if cls in EXIT_STATUS), 1)


EXTRAS = {"acme": "cryptography>=45", "keyring": "keyring>=25,<26", "redis": "redis>=6.4,<9"}
"""What each extra of pyproject.toml brings."""


def how_to_install(extra: str) -> str:
    """The command that adds what is missing to the very Python that runs.

    It names the library and never ourselves: `mooring` on the package index is somebody else's project.
    """
    return f"{shlex.quote(sys.executable)} -m pip install {shlex.quote(EXTRAS[extra])}"
