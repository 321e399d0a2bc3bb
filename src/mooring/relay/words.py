"""The payloads that are words: JSON, of which unknown fields are ignored (docs/relay-protocol.md)."""

import msgspec

from mooring.relay.envelope import VERSION
from mooring.wire.http import Headers
from mooring.wire.modern import LISTEN

__all__ = [
    "MAX_RESET_CHARACTERS",
    "WINDOW_BYTES",
    "Goodbye",
    "Head",
    "Hello",
    "Opening",
    "Reset",
    "Restart",
    "Welcome",
    "clipped",
    "headers_as_text",
    "is_window",
    "text_as_headers",
]

WINDOW_BYTES = 256 * 1024
"""What may be under way to a peer on one connection before it has said that it took some of it: at 100 ms of
distance that is 2.5 MB a second, and a connection whose reader sleeps holds no more than that."""

LEAST_WINDOW_BYTES, MOST_WINDOW_BYTES = 1024, 64 * 1024 * 1024

MAX_RESET_CHARACTERS = 1000
"""Of each text of a reset, which many may be told: a sentence or two, and a path."""

Fields = list[tuple[str, str]]


class Hello(msgspec.Struct, omit_defaults=True):
    """The first envelope of an agent or a client."""

    versions: tuple[int, ...] = (VERSION,)
    instance: str = ""
    """Random, one for each run of the program: tells its own return from that of another."""
    servers: tuple[str, ...] = ()
    """Of an agent: what it offers. Of a client: `AGENT/SERVER` that it will ask for, to hear at once if there
    is no such one."""
    willing: bool = False
    """Of an agent: what its token does not allow is left out, rather than a reason to refuse it."""
    link: str = ""
    """The link that was lost, to go on with; empty: a new one."""
    received: int = 0
    """The last sequence that came through on it."""
    window: int = WINDOW_BYTES
    token: str = ""
    """For those who cannot send an Authorization header, as pages cannot."""
    software: str = ""
    enquires: bool = False
    """It goes again at once: somebody wants to know whether it would be let in. It has no link."""


class Welcome(msgspec.Struct, omit_defaults=True):
    """The relay's answer to it."""

    version: int
    link: str
    name: str
    """Of the token that was shown; for an agent, the name that it has now."""
    resumed: bool = False
    """The link that was lost goes on. Otherwise all that was open on it is over."""
    received: int = 0
    window: int = WINDOW_BYTES
    servers: tuple[str, ...] = ()
    """Which of the agent's servers are offered."""
    url: str = ""
    """Under which the agent's servers are reached: `https://relay.example.com/laptop`. Empty: below the
    address that it dialled."""
    grace_ms: int = 0
    """For so long a lost link can be gone on with."""


class Opening(msgspec.Struct, omit_defaults=True):
    """A connection begins: one request of a caller. Its body follows as DATA and END."""

    server: str
    """Towards an agent its server's name; of a client `AGENT/SERVER`."""
    method: str
    path: str
    """Below the server: `mcp`, `sse`, `messages`, `ws`."""
    query: str = ""
    headers: Fields = []
    caller: str = ""
    """Whose token it was. Only the relay says so; of a client it means nothing."""
    websocket: bool = False
    """It wants to become one. Then each message of it is DATA, split by MORE."""

    @property
    def is_call(self) -> bool:
        """Somebody waits for an answer to it, rather than for whatever may come."""
        if self.websocket or self.method == "GET":
            return False
        return not any(value == LISTEN and name.lower() == "mcp-method" for name, value in self.headers)

    @property
    def brings_answers(self) -> bool:
        """To what was asked by requests to `messages`: HTTP+SSE. Whether any is awaited, nobody sees."""
        return self.path == "sse" and not self.websocket


class Head(msgspec.Struct, omit_defaults=True):
    """The answer begins. Its body follows as DATA and END."""

    status: int
    headers: Fields = []


class Reset(msgspec.Struct, omit_defaults=True):
    """A connection is over before its end."""

    reason: str
    """A stable code."""
    message: str = ""
    close: int = 0
    """Of a WebSocket: the code of whoever closed it."""
    not_executed: bool = False
    """Known for certain; otherwise nobody can tell."""


class Restart(msgspec.Struct, omit_defaults=True):
    """The relay goes, and comes back."""

    reconnect_in_ms: int = 0


class Goodbye(msgspec.Struct, omit_defaults=True):
    """An agent goes for good: nobody need wait for it."""

    reason: str = ""


def clipped(reset: Reset) -> Reset:
    """As much of it as may be told to anybody, whoever made it."""
    return Reset(
        reset.reason[:MAX_RESET_CHARACTERS],
        reset.message[:MAX_RESET_CHARACTERS],
        close=reset.close if 0 <= reset.close <= 0xFFFF else 0,
        not_executed=reset.not_executed,
    )


def is_window(size_bytes: int) -> bool:
    """Can anybody mean that?"""
    return LEAST_WINDOW_BYTES <= size_bytes <= MOST_WINDOW_BYTES


def headers_as_text(headers: Headers) -> Fields:
    """Bytes of a header are Latin-1, each of which is one character of JSON's."""
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]


def text_as_headers(fields: Fields) -> Headers:
    """And back, names in lower case. Raises ValueError for what no header can hold."""
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in fields]
