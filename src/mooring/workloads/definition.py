"""A server as the user asked for it: plain values, checked by whoever read them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec.structs import asdict

from mooring.proxy.policy import SessionPolicy
from mooring.remote.options import RemoteOptions, ServedOptions
from mooring.runtimes.containers.spec import ContainerOptions
from mooring.runtimes.stopping import StopPatience
from mooring.secrets.references import Reference, literally, parse
from mooring.supervise.restart import RestartPolicy

__all__ = [
    "HEADER",
    "Borrowed",
    "ClientRefresh",
    "ServerOptions",
    "asked_env",
    "asked_headers",
    "differences",
    "dump_options",
    "load_options",
    "same_request",
]

ClientRefresh = Literal["auto", "always", "never"]
POLICIES = ("sessions", "restarts", "patience")
HEADER = "header "
"""No variable is called so."""
LEAST_LEAVING = 16
"""Processes that may be in the middle of being stopped, however few sessions there can be."""


@dataclass(frozen=True, kw_only=True)
class Borrowed:
    """Which variables of a server's environment are those of whoever asked for it."""

    all: bool = False
    """Everything was to be passed on."""
    named: tuple[str, ...] = ()
    """These were asked for by name."""
    unnamed: tuple[str, ...] = ()
    """These came along: another terminal may have others, and the same is asked for there."""


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """The server to run, and the policies of its parts."""

    name: str
    argv: tuple[str, ...]
    """The command; with a container, arguments of the program that its image has."""
    container: ContainerOptions | None = None
    """Not None: it is a container."""
    remote: RemoteOptions | None = None
    """Not None: it runs elsewhere, and is spoken to over HTTP. (Neither: it is a process.)"""
    served: ServedOptions | None = None
    """Not None: a process or a container that serves all sessions, and is spoken to over HTTP."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Complete but for `env_references`: nothing of our own environment is added but the marker."""
    env_references: Mapping[str, str] = field(default_factory=dict)
    """Variables whose values are elsewhere, as `secrets.references` has them; looked up at each start.

    What is no such value is refused with ValueError, here and (as a malformed description) by `load_options`.
    """
    cwd: Path | None = None
    spare: int = 1
    """Instances kept ready for the next session while there are sessions."""
    sessions: SessionPolicy = field(default_factory=SessionPolicy)
    restarts: RestartPolicy = field(default_factory=RestartPolicy)
    patience: StopPatience = field(default_factory=StopPatience)
    client_refresh: ClientRefresh = "auto"
    """When its entries in the files of AI clients are taken out and put back: see `clients.following`."""
    borrowed: Borrowed = field(default_factory=Borrowed, compare=False)
    """Where `env` came from: for whoever writes it down as a file, or compares it with one."""

    def __post_init__(self) -> None:
        for text in self.env_references.values():
            parse(text)

    @property
    def what(self) -> tuple[str, ...]:
        """What is run: it names the program, whatever surrounds it."""
        if self.remote is not None:
            return (f"url:{self.remote.url}",)
        return self.argv if self.container is None else (f"image:{self.container.image}", *self.argv)

    @property
    def is_process(self) -> bool:
        """Of this machine."""
        return self.container is None and self.remote is None

    @property
    def elsewhere(self) -> dict[str, str]:
        """Its values that are references: by variable, and by header with `HEADER` before its name."""
        headers = self.remote.header_references if self.remote is not None else {}
        return {**self.env_references, **{f"{HEADER}{name}": text for name, text in headers.items()}}

    @property
    def references(self) -> tuple[Reference, ...]:
        """What its values refer to, each once."""
        found = (parse(text).references for text in self.elsewhere.values())
        return tuple(dict.fromkeys(reference for references in found for reference in references))

    @property
    def max_instances(self) -> int:
        """Processes at once: for sessions, spares and a probe, and as many again that are being stopped."""
        in_use = self.sessions.max_sessions + self.spare + 1
        return in_use + max(in_use, LEAST_LEAVING)


def asked_env(options: ServerOptions) -> dict[str, str]:
    """Its variables as they were asked for, but for those that merely came along."""
    unnamed = frozenset(options.borrowed.unnamed)
    texts = {name: literally(value) for name, value in options.env.items() if name not in unnamed}
    return texts | dict(options.env_references)


def asked_headers(options: ServerOptions) -> dict[str, str]:
    """The headers that requests to it carry, as they were asked for."""
    if (remote := options.remote) is None:
        return {}
    texts = {name: literally(value) for name, value in remote.headers.items()}
    return texts | dict(remote.header_references)


def same_request(one: ServerOptions, other: ServerOptions) -> bool:
    """Was the same asked for, if perhaps from another terminal?"""
    if one.borrowed.all != other.borrowed.all:
        return False
    return replace(one, env=asked_env(one)) == replace(other, env=asked_env(other))


def differences(one: ServerOptions, other: ServerOptions) -> list[str]:
    """In which respects not the same was asked for, in words that tell no value of a variable."""
    found = ["the command"] if one.what != other.what else []
    if (one.served is None) != (other.served is None):
        found.append("whether it is spoken to over HTTP")
    if one.cwd != other.cwd:
        found.append(f"the working directory ({one.cwd or 'none'}, now {other.cwd or 'none'})")
    mine, theirs = asked_env(one), asked_env(other)
    if variables := sorted(name for name in mine | theirs if mine.get(name) != theirs.get(name)):
        found.append(f"the variables {', '.join(variables)}")
    if one.borrowed.all != other.borrowed.all:
        found.append("whether all variables are passed on")
    found += _differing_policies(one, other)
    return found


def _differing_policies(one: ServerOptions, other: ServerOptions) -> list[str]:
    def settings(options: ServerOptions) -> dict[str, object]:
        policies = (asdict(getattr(options, name)) for name in POLICIES)
        own = {"spare": options.spare, "client_refresh": options.client_refresh}
        container = {} if options.container is None else vars(options.container)
        remote = {} if options.remote is None else vars(options.remote) | {"headers": asked_headers(options)}
        served = {} if options.served is None else vars(options.served)
        return (
            own
            | container
            | remote
            | served
            | {key: value for policy in policies for key, value in policy.items()}
        )

    mine, theirs = settings(one), settings(other)
    # What only one of them can have is told by the command: the one is an image, the other is not.
    both = [key for key in mine if key in theirs and key not in ("image", "url", "header_references")]
    return [_told(key) for key in both if mine[key] != theirs[key]]


def _told(key: str) -> str:
    return key.removesuffix("_s").removesuffix("_bytes").replace("_", " ")


def dump_options(options: ServerOptions) -> bytes:
    """As it is written down: equal options give equal bytes."""
    return msgspec.json.encode(options, enc_hook=_encode_path, order="sorted")


def load_options(data: bytes) -> ServerOptions:
    """What `dump_options` has written, of this or an earlier Mooring. Raises msgspec.DecodeError."""
    return msgspec.json.decode(data, type=ServerOptions, dec_hook=_decode_path)


def _encode_path(value: Any) -> str:
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(type(value))


def _decode_path(kind: type, value: Any) -> Path:
    if kind is Path:
        return Path(value)
    raise NotImplementedError(kind)
