"""What the API says and takes. These names are an interface: they change with the changelog only."""

from typing import Annotated, Any

import msgspec

from mooring.api.level import API_LEVEL

__all__ = [
    "Changed",
    "Daemon",
    "Definition",
    "Event",
    "Instance",
    "Problem",
    "RemoveQuery",
    "Run",
    "Server",
    "ServerExit",
    "WaitQuery",
    "WhichEvents",
]

MAX_WAIT_S = 60
"""For events that have not happened yet; whoever wants to wait longer asks again."""


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
    """A running process or container of a server, or a session with one elsewhere."""

    pid: int | None
    """Of a container: that of its first process, as its engine tells it.

    None: it is a session with a server elsewhere, or with a program over HTTP.
    """
    container: str
    """Its id; empty: it is none."""
    use: str
    """serving, probing, spare, stopping or paused; or program: the one that serves all sessions over HTTP."""
    session: str | None
    since: float


class ServerExit(msgspec.Struct, kw_only=True):
    """A process or container of a server that ended, and nobody had asked it to; or that was given up."""

    at: float
    pid: int
    container: str
    how: str
    """In words: the exit status or the signal, and what else is known."""
    code: int | None
    """Its exit status, if it exited by itself."""
    signal: int | None
    """The signal that ended it, if one did."""
    ran_s: float


class Server(msgspec.Struct, kw_only=True):
    """A server: what is wanted of it, and how it is."""

    name: str
    desired: str
    state: str
    reason: str
    """A stable code; `reason_text` is for people, and `hint` says what to do."""
    reason_text: str
    hint: str
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
    exits: list[ServerExit]
    """Of this generation; the latest last."""
    stderr: list[str]
    """Its last lines, while it does not work."""
    versions: list[str]
    """Revisions of the protocol that the server and its sessions speak."""
    command: list[str]
    """Of a server in containers: arguments of the image's own program."""
    image: str
    """Empty: it is a command, or elsewhere."""
    address: str
    """Where it is, without what a query may say; empty: it runs here."""
    references: list[str]
    """Where values of its variables come from, such as secret:NAME; never a value."""
    origin: str
    """The file that it was made from; empty if somebody asked for it alone."""


class Definition(msgspec.Struct, kw_only=True):
    """A server as it was asked for."""

    name: str
    origin: str
    options: dict[str, Any] | None
    """As `workloads.definition` writes them, values of variables included; null if they cannot be read."""


class Event(msgspec.Struct, kw_only=True):
    """Something that happened to a server; to the daemon, if it has no name."""

    number: int
    """Grows; ask for what came `after` it."""
    at: float
    name: str
    generation: int
    kind: str
    text: str


class WhichEvents(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which events are asked for."""

    name: str = ""
    after: int = 0
    since: float = 0.0
    wait_s: Annotated[float, msgspec.Meta(ge=0, le=MAX_WAIT_S)] = 0.0
    """If there are none: how long to wait for one."""


class WaitQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How a change is made."""

    wait: bool = True
    """Answer when it is done; if not, when it is certain that it will be."""


class RemoveQuery(WaitQuery, kw_only=True, forbid_unknown_fields=True):
    """How a server is forgotten."""

    origin: str = ""
    """Only if it was made from this file."""


class Run(msgspec.Struct, kw_only=True):
    """A server to have."""

    options: dict[str, Any]
    """As `workloads.definition` writes them."""
    replace: bool = False
    origin: str = ""
    """The file that asks for it; what was not made from that file is not replaced."""
    adopt: bool = False
    """It is that file's from now on, whosever it was."""


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
