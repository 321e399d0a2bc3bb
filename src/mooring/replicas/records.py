"""What replicas tell each other of a session, and under which keys. Pure.

    PREFIX:WORKLOAD:s:{ID}            hash: o owner, f fence, g fence of the last owner that let go, r record,
                                      u last used (ms since 1970), x ended
    PREFIX:WORKLOAD:e:{ID}:STREAM     stream of events; the n-th has the id n-1
    PREFIX:WORKLOAD:l:REPLICA         the lease of a replica, by the name of its incarnation
    PREFIX:WORKLOAD:replicas          hash: incarnation → where it is
    PREFIX:WORKLOAD:epoch             changes when Redis has lost everything
    PREFIX:WORKLOAD:key               with which replicas know each other, unless they were given one

All keys of a session are in one slot of a cluster. No step needs more than one key: whether an owner lives is
asked before, and who was found dead once never lives again.
"""

import msgspec
from msgspec import Struct

from mooring.wire.asked import OpenQuestions
from mooring.wire.jsonrpc import Id

__all__ = [
    "Keys",
    "Replica",
    "SessionRecord",
    "pattern_of_sessions",
    "read_record",
    "read_replica",
    "session_of_key",
    "write_record",
    "write_replica",
]


class SessionRecord(Struct, array_like=True):
    """All that another replica needs to go on with a session."""

    principal: str
    transport: str
    client: str
    memory: bytes
    """`wire.memory.Memory`: initialize, revision, log level, subscriptions."""
    created_at: float
    upstream: str = ""
    """The session with a server elsewhere; empty: there is none that could be gone on with."""
    asked: OpenQuestions = msgspec.field(default_factory=OpenQuestions)
    """What the client may still answer, so that no answer reaches a server that did not ask."""
    task_tokens: list[Id] = []
    backlog: list[bytes] = []
    """What waited for a stream when nobody had one open."""
    backend: str = ""
    """Where the server is that has the session `upstream`; without a query, which may be a secret."""


class Replica(Struct, omit_defaults=True):
    """Where an incarnation of a replica is."""

    address: str
    host: str = ""
    started_at: float = 0.0
    version: str = ""


_read_record = msgspec.msgpack.Decoder(SessionRecord).decode
_read_replica = msgspec.json.Decoder(Replica).decode
write_record = msgspec.msgpack.Encoder().encode
write_replica = msgspec.json.Encoder().encode


def read_record(data: bytes) -> SessionRecord | None:
    """None: it makes no sense here; a newer Mooring has written it, say."""
    try:
        return _read_record(data)
    except msgspec.DecodeError:
        return None


def read_replica(data: bytes) -> Replica | None:
    """The same of a replica."""
    try:
        return _read_replica(data)
    except msgspec.DecodeError:
        return None


def pattern_of_sessions(prefix: str, workload: str | None = None, beginning: str = "") -> bytes:
    """Of the keys of all sessions, of one workload or of all, whose ids begin so.

    That of all also fits the keys of longer prefixes: see `session_of_key`.
    """
    return f"{prefix}:{workload or '*'}:s:{{{beginning}*}}".encode()


def session_of_key(prefix: str, key: bytes) -> tuple[str, str] | None:
    """The workload and the id of a session's key; None: it belongs to another prefix, `a:b` beside `a`."""
    workload, separator, id = key.decode(errors="replace").removeprefix(f"{prefix}:").partition(":s:{")
    if not separator or ":" in workload or not id.endswith("}"):
        return None
    return workload, id[:-1]


class Keys:
    """Of one workload."""

    def __init__(self, prefix: str, workload: str) -> None:
        self._base = f"{prefix}:{workload}:".encode()
        self.replicas = self._base + b"replicas"
        self.secret = self._base + b"key"
        self.epoch = self._base + b"epoch"
        self.sessions = self._base + b"s:{*}"
        """A pattern for all of them."""

    def session(self, id: str) -> bytes:
        """Of a session."""
        return self._base + b"s:{" + id.encode() + b"}"

    def stream(self, id: str, stream: str) -> bytes:
        """Of one of its streams."""
        return self._base + b"e:{" + id.encode() + b"}:" + stream.encode()

    def streams(self, id: str) -> bytes:
        """A pattern for all of them."""
        return self.stream(id, "*")

    def lease(self, incarnation: str) -> bytes:
        """Of a replica."""
        return self._base + b"l:" + incarnation.encode()

    def stream_of(self, id: str, key: bytes) -> str:
        """The name of the stream of a key."""
        return key[len(self.stream(id, "")) :].decode()

    def id_of(self, key: bytes) -> str:
        """The session of a key."""
        return key[len(self._base) + 3 : -1].decode()
