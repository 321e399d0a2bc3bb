"""A server as the user asked for it: plain values, checked by whoever read them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from mooring.proxy.policy import SessionPolicy
from mooring.runtimes.stopping import StopPatience
from mooring.secrets.references import Reference, parse
from mooring.supervise.restart import RestartPolicy

__all__ = ["ServerOptions", "dump_options", "load_options"]

LEAST_LEAVING = 16
"""Processes that may be in the middle of being stopped, however few sessions there can be."""


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """The server to run, and the policies of its parts."""

    name: str
    argv: tuple[str, ...]
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

    def __post_init__(self) -> None:
        for text in self.env_references.values():
            parse(text)

    @property
    def references(self) -> tuple[Reference, ...]:
        """What its values refer to, each once."""
        found = (parse(text).references for text in self.env_references.values())
        return tuple(dict.fromkeys(reference for references in found for reference in references))

    @property
    def max_instances(self) -> int:
        """Processes at once: for sessions, spares and a probe, and as many again that are being stopped."""
        in_use = self.sessions.max_sessions + self.spare + 1
        return in_use + max(in_use, LEAST_LEAVING)


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
