"""What a server was asked to be, in the words of a file again: for plans, and for `mooring export`. Pure."""

from collections.abc import Callable
from typing import Any

from mooring.remote.options import PATHS, RemoteOptions, ServedOptions
from mooring.runtimes.containers.spec import ContainerOptions
from mooring.workloads.definition import ServerOptions

__all__ = [
    "OF_ADDRESSES",
    "OF_CONTAINERS",
    "OF_SERVED",
    "SETTINGS",
    "address_settings",
    "container_settings",
    "default_of",
    "served_settings",
    "settings_of",
    "span",
]

SPANS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
SIZES = (("GiB", 1024**3), ("MiB", 1024**2))


def span(seconds: float | None) -> str:
    """As `parse_limit` reads it, in the largest unit that says it in a whole number."""
    if seconds is None:
        return "none"
    for unit, length in SPANS:
        if seconds and seconds % length == 0:
            return f"{seconds / length:.0f}{unit}"
    return f"{seconds:.9f}".rstrip("0").rstrip(".") + "s"


def _size(amount_bytes: int) -> str | int:
    for unit, length in SIZES:
        if amount_bytes and amount_bytes % length == 0:
            return f"{amount_bytes // length}{unit}"
    return amount_bytes


def _number(amount: float | None) -> float | int | None:
    return int(amount) if amount is not None and float(amount).is_integer() else amount


SETTINGS: dict[str, Callable[[ServerOptions], Any]] = {
    "max_sessions": lambda options: options.sessions.max_sessions,
    "idle_timeout": lambda options: span(options.sessions.idle_timeout_s),
    "shared": lambda options: options.sessions.shared or False,
    "spare": lambda options: options.spare,
    "call_timeout": lambda options: span(options.sessions.call_timeout_s),
    "ping_interval": lambda options: span(options.sessions.ping_interval_s),
    "ping_timeout": lambda options: span(options.sessions.ping_timeout_s),
    "max_message_bytes": lambda options: _size(options.sessions.max_message_bytes),
    "retry": lambda options: options.sessions.retry,
    "eof_grace": lambda options: span(options.patience.eof_grace_s),
    "stop_grace": lambda options: span(options.patience.stop_grace_s),
    "client_refresh": lambda options: options.client_refresh,
}
"""By key: all that a file can say of any server, beside the command and its surroundings."""
OF_CONTAINERS: dict[str, Callable[[ContainerOptions], Any]] = {
    "volume": lambda container: [str(volume) for volume in container.volumes],
    "network": lambda container: container.network,
    "memory": lambda container: _size(container.memory_bytes),
    "cpus": lambda container: _number(container.cpus),
    "user": lambda container: container.user,
    "read_only": lambda container: container.read_only,
    "pull": lambda container: container.pull,
    "engine": lambda container: container.engine,
}
"""The same of what an image is run with."""
OF_ADDRESSES: dict[str, Callable[[RemoteOptions], Any]] = {
    "transport": lambda remote: remote.transport,
    "ca_file": lambda remote: remote.ca_file and str(remote.ca_file),
    "client_cert": lambda remote: remote.client_cert and str(remote.client_cert),
    "client_key": lambda remote: remote.client_key and str(remote.client_key),
}
"""And of what goes with an address, beside the headers."""
OF_SERVED: dict[str, Callable[[ServedOptions], Any]] = {
    "transport": lambda served: served.transport,
    "port_env": lambda served: served.port_env or None,
    "container_port": lambda served: served.container_port,
    "path": lambda served: served.path,
}
"""And of how a program is spoken to over HTTP."""
_DEFAULTS = ServerOptions(name="default", argv=("default",))


def default_of(key: str, options: ServerOptions) -> Any:
    """What it is if nothing is said of it."""
    if key == "spare" and (
        options.sessions.shared or options.remote is not None or options.served is not None
    ):
        return 0  # what stands anyway needs nothing beside it
    return SETTINGS[key](_DEFAULTS)


def settings_of(options: ServerOptions) -> dict[str, Any]:
    """Those that are not as they would be anyway."""
    values = {key: read(options) for key, read in SETTINGS.items()}
    return {key: value for key, value in values.items() if value != default_of(key, options)}


def address_settings(remote: RemoteOptions) -> dict[str, Any]:
    """The same of what goes with its address."""
    default = RemoteOptions(url=remote.url)
    return {key: read(remote) for key, read in OF_ADDRESSES.items() if read(remote) != read(default)}


def served_settings(served: ServedOptions) -> dict[str, Any]:
    """All of how it is spoken to, but for a path that is the usual one."""
    values = {key: read(served) for key, read in OF_SERVED.items()}
    if values["path"] == PATHS[served.transport]:
        del values["path"]
    return {key: value for key, value in values.items() if value is not None}


def container_settings(container: ContainerOptions) -> dict[str, Any]:
    """The same of what its image is run with."""
    default = ContainerOptions(image=container.image)
    return {key: read(container) for key, read in OF_CONTAINERS.items() if read(container) != read(default)}
