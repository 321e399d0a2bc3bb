"""What a foreground run is asked to do: plain values, checked by whoever reads argv.

Spans are in seconds. `None` means "no limit" where a field says so.
"""

from dataclasses import dataclass, field
from pathlib import Path

from mooring.replicas.address import StoreAddress
from mooring.replicas.policy import ReplicaPolicy
from mooring.workloads.definition import ServerOptions

__all__ = ["ForegroundOptions", "ListenOptions", "ReplicaOptions", "ServerOptions"]


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
class ReplicaOptions:
    """One of several replicas, which share their sessions."""

    store: StoreAddress
    advertise: str
    """Where other replicas reach this one."""
    password: str | None = field(default=None, repr=False)
    prefix: str = "mooring"
    ca_file: Path | None = None
    key: str | None = field(default=None, repr=False)
    """With which replicas know each other; None: one that is kept in Redis."""
    policy: ReplicaPolicy = field(default_factory=ReplicaPolicy)


@dataclass(frozen=True, kw_only=True)
class ForegroundOptions:
    """Everything `mooring run --foreground` was asked to do."""

    server: ServerOptions
    listen: ListenOptions = field(default_factory=ListenOptions)
    drain_delay_s: float = 0.0
    drain_timeout_s: float | None = 25.0
    """None: the operator's grace period is the only bound."""
    secrets: Path | None = None
    """Where `secret:` leads; needed by a server that has references."""
    replicas: ReplicaOptions | None = None
    """There are others like this one."""
