"""What the API says and takes. These names are an interface: they change with the changelog only."""

from typing import Any

import msgspec

from mooring.api.level import API_LEVEL

__all__ = ["Changed", "Daemon", "Instance", "Problem", "Run", "Server"]


class Daemon(msgspec.Struct, kw_only=True):
    """The daemon itself."""

    pid: int
    version: str
    port: int
    started_at: float
    nonce: str
    """Names this very daemon: what the lock file says, if it is the one that holds the lock."""
    api: int = API_LEVEL


class Instance(msgspec.Struct, kw_only=True):
    """A running process of a server."""

    pid: int
    use: str
    session: str | None
    age_s: float


class Server(msgspec.Struct, kw_only=True):
    """A server: what is wanted of it, and how it is."""

    name: str
    desired: str
    state: str
    reason: str
    reason_text: str
    generation: int
    pid: int
    """Of the daemon, which owns it."""
    url: str
    started_at: float | None
    restarts: int
    attempt: int
    attempts: int
    retry_in_s: float | None
    last_exit: str
    sessions: int
    calls: int
    """In flight."""
    calls_total: int
    memory_bytes: int
    instances: list[Instance]
    command: list[str]


class Run(msgspec.Struct, kw_only=True):
    """A server to have."""

    options: dict[str, Any]
    """As `workloads.definition` writes them."""
    replace: bool = False


class Changed(msgspec.Struct, kw_only=True):
    """What a command has done."""

    changed: bool
    cut: int = 0
    """Calls that were not finished."""
    server: Server | None = None


class Problem(msgspec.Struct, kw_only=True):
    """Why something was not done, and what to do about it."""

    code: str
    message: str
    hint: str = ""
