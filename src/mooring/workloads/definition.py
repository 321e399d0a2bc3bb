"""A server as the user asked for it: plain values, checked by whoever read them.

Spans are in seconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["ServerOptions"]

MIB = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """The server to run, and how patient to be with it."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
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
