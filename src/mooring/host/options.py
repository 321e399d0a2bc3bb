"""What a foreground run is asked to do: plain values, checked by whoever reads argv.

Spans are in seconds. `None` means "no limit" where a field says so.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["ForegroundOptions", "ListenOptions", "ServerOptions"]

MIB = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """The server to run, and how patient to be with it."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    """Complete: nothing of our own environment is added but the marker."""
    cwd: Path | None = None
    max_sessions: int = 1000
    max_message_bytes: int = 64 * MIB
    spare: int = 1
    idle_timeout_s: float | None = 1800.0
    """None: a child is never ended for being idle."""
    call_timeout_s: float | None = None
    """None: a call may take as long as it takes."""
    eof_grace_s: float = 2.0
    stop_grace_s: float = 5.0
    retry: bool = False
    """Run reads, and tools marked read-only or idempotent, again when the server died under them."""
    restart: bool = True


@dataclass(frozen=True, kw_only=True)
class ListenOptions:
    """Where to listen, and to whom."""

    host: str = "127.0.0.1"
    port: int = 4670
    """0: any free port; the one chosen is printed."""
    unix: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    allow_hosts: tuple[str, ...] = ()
    allow_origins: tuple[str, ...] = ()
    allow_remote: bool = False
    no_auth: bool = False
    token_file: Path | None = None


@dataclass(frozen=True, kw_only=True)
class ForegroundOptions:
    """Everything `mooring run --foreground` was asked to do."""

    server: ServerOptions
    listen: ListenOptions = field(default_factory=ListenOptions)
    drain_delay_s: float = 0.0
    drain_timeout_s: float | None = 25.0
    """None: the operator's grace period is the only bound."""
