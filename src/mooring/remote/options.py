"""A server that speaks HTTP, as its user named it: plain values. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from mooring.secrets.references import parse

__all__ = [
    "PATHS",
    "RemoteOptions",
    "ServedOptions",
    "ServedTransport",
    "Transport",
    "may_be_set",
    "may_be_value",
]

Transport = Literal["auto", "http", "sse"]
"""`auto`: Streamable HTTP, or the older HTTP+SSE where a server knows nothing else."""
ServedTransport = Literal["http", "sse"]
"""Of a program of ours nobody need find out."""
PATHS: dict[ServedTransport, str] = {"http": "/mcp", "sse": "/sse"}
"""Where servers have it, as a rule."""

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OURS = frozenset(
    {
        *(
            "accept",
            "accept-encoding",
            "connection",
            "content-length",
            "content-type",
            "expect",
            "host",
            "keep-alive",
        ),
        *("last-event-id", "proxy-authenticate", "proxy-authorization", "proxy-connection"),
        *("mcp-method", "mcp-name", "mcp-protocol-version", "mcp-session-id", "mooring-via", "te"),
        *("trailer", "transfer-encoding", "upgrade", "user-agent"),
    }
)
"""Headers that frame a request or say what is in it."""


def may_be_set(name: str) -> bool:
    """Is it the name of a header that is not ours to set?"""
    return _NAME.fullmatch(name) is not None and name.lower() not in _OURS


def may_be_value(text: str) -> bool:
    """Can a header have this value?"""
    return text.isascii() and text.isprintable()


@dataclass(frozen=True, kw_only=True)
class RemoteOptions:
    """Where it is, and what every request to it carries."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    header_references: Mapping[str, str] = field(default_factory=dict)
    """Headers whose values, or parts of them, are elsewhere, as `secrets.references` has them."""
    transport: Transport = "auto"
    ca_file: Path | None = None
    """Trusted in place of the authorities of this system."""
    client_cert: Path | None = None
    client_key: Path | None = None
    """By which the server knows us, where it wants that."""

    @property
    def shown_url(self) -> str:
        """Without a query, which may hold a secret."""
        return self.url.partition("?")[0]

    def __post_init__(self) -> None:
        for text in self.header_references.values():
            parse(text)


@dataclass(frozen=True, kw_only=True)
class ServedOptions:
    """Of a program that we start, and then speak to over HTTP: how, and where it listens.

    One of the ports: a process is told which, a container listens where its image says.
    """

    transport: ServedTransport = "http"
    path: str = PATHS["http"]
    port_env: str = ""
    """The variable that tells a process on which port to listen."""
    container_port: int | None = None
    """On which the program in a container listens."""
