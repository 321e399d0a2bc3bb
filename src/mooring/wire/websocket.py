"""The port to a connection that has become a WebSocket. `Exchange.upgrade` gives it.

Rules:
- Messages are text, whole and valid UTF-8, each at most as long as the body of a request; or binary, if
  the app says so at once (`expect_binary`). Whatever else a peer sends ends the connection, by the code
  that RFC 6455 has for it; the app sees none of it.
- `on_message` is called for each message, in order. Set it at once: nothing is read before whoever
  called `upgrade` has returned.
- `send` and `close` are allowed at any time; once the connection closes they do nothing.
- `on_closed(code, reason)` is called exactly once, when nothing can be sent or heard any more: with the
  code of whoever closed it, or `LOST` if nobody said a word.
- `writable` is false while the peer reads too slowly; meanwhile it is not read either (but see
  `expect_binary`), so whoever does not take answers asks no questions. `on_writable` is called when it
  turns true again.
- Callbacks are called from the event loop, never from inside `send` or `close`.
"""

from collections.abc import Callable
from typing import Protocol

__all__ = [
    "GOING_AWAY",
    "INTERNAL_ERROR",
    "INVALID_TEXT",
    "LOST",
    "POLICY_VIOLATION",
    "SERVICE_RESTART",
    "TRY_AGAIN_LATER",
    "UNSUPPORTED_DATA",
    "WebSocket",
]

# Codes of RFC 6455 §7.4.1 and of IANA's registry, so far as they are ours to say.
GOING_AWAY = 1001
UNSUPPORTED_DATA = 1003
LOST = 1006
INVALID_TEXT = 1007
POLICY_VIOLATION = 1008
INTERNAL_ERROR = 1011
SERVICE_RESTART = 1012
TRY_AGAIN_LATER = 1013


class WebSocket(Protocol):
    """One connection, both ways."""

    on_message: Callable[[bytes], None] | None
    on_closed: Callable[[int, str], None] | None
    on_writable: Callable[[], None] | None

    @property
    def writable(self) -> bool:
        """The peer keeps up: less than the high-water mark is waiting to be sent."""
        ...

    @property
    def unsent_bytes(self) -> int:
        """What the peer has not read, so far as we still hold it."""
        ...

    def expect_binary(
        self, max_message_bytes: int, *, reads_on: bool = False, is_of_many: bool = False
    ) -> None:
        """Messages are binary, either way, and those that come no longer than this.

        `reads_on`: the peer is read also while it does not read. For one of the two ends, if what the other
        says is bounded: if neither reads, neither goes on. `is_of_many`: what comes is small words of many,
        of whom none is to suffer because others send too much.
        """
        ...

    def send(self, message: bytes) -> None:
        """Send one message; if it is text, it is valid UTF-8."""
        ...

    def hold(self) -> None:
        """What comes waits, until `go_on`."""
        ...

    def go_on(self) -> None:
        """After `hold`."""
        ...

    def abort(self) -> None:
        """Cut it, without a word."""
        ...

    def close(self, code: int, reason: str) -> None:
        """Say goodbye, after all that was sent; the peer answers, or is cut off soon."""
        ...
