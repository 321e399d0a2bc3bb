"""What a daemon and its successor say to each other, each word a parcel (`docs/adr/0012-handing-over.md`).

    old                                   new
    Greeting (or NotNow, until Taken)     Ready
    Offer, InstanceGoes…, SessionGoes…,   Taken
      OfferEnds
    SessionGoes…, SessionEnded…           ConnectionGoes… (for sessions that the old one still has)
    ConnectionGoes…, ParkedNoMore…
    Farewell                              Farewell
    ConnectionGoes…, and hangs up

Both say in which version they speak, first. Members may be added within a version; whoever does not know one
passes it over.
"""

import msgspec
from msgspec import Struct

from mooring.errors import MooringError, RemoteProtocolError
from mooring.proxy.passed_trunk import PassedTrunk
from mooring.proxy.passing import PassedSession
from mooring.runtimes.containers.passing import ContainerPassport
from mooring.runtimes.passing import Passport
from mooring.workloads.passing import PassedGeneration

__all__ = [
    "CLIENTS",
    "COLD_RESTART",
    "COMMANDS",
    "VERSION",
    "ConnectionGoes",
    "Farewell",
    "Greeting",
    "HandoverFailed",
    "InstanceGoes",
    "NotNow",
    "Offer",
    "OfferEnds",
    "ParkedNoMore",
    "Ready",
    "SessionEnded",
    "SessionGoes",
    "Taken",
    "Word",
    "check_version",
    "read_word",
    "write_word",
]

COLD_RESTART = "mooring daemon stop, then mooring daemon start: sessions are kept, connections are not"
VERSION = 1
CLIENTS, COMMANDS = "clients", "commands"
"""The two listeners of a daemon: on its port, and on its unix socket."""


class HandoverFailed(MooringError):
    """It did not come about; the old daemon goes on."""


class Greeting(Struct, tag=True):
    """Who is about to hand over."""

    version: int
    mooring: str
    pid: int


class NotNow(Struct, tag=True):
    """The old daemon does not hand over, after all."""

    message: str
    code: str
    hint: str


class Ready(Struct, tag=True):
    """The successor has all that it needs, and can take over."""

    version: int
    mooring: str


class Offer(Struct, tag=True):
    """All that moves at once. Descriptors: the lock, then the listening sockets, place by place."""

    generations: list[PassedGeneration]
    sockets: dict[str, int]
    """Place → how many."""


class OfferEnds(Struct, tag=True):
    """Everything that moves at once has been told of."""


class Taken(Struct, tag=True):
    """The successor has it: from this moment on it is the daemon."""


class SessionGoes(Struct, tag=True):
    """A session. Descriptors: those of its instance (`PassedProcess`, `PassedContainer`), if it has one."""

    name: str
    session: PassedSession
    process: Passport | None = None
    container: ContainerPassport | None = None


class InstanceGoes(Struct, tag=True):
    """An instance that belongs to no single session. Descriptors: its own."""

    name: str
    process: Passport | None = None
    trunk: PassedTrunk | None = None
    """For whom it is; None: it is a spare."""
    container: ContainerPassport | None = None


class SessionEnded(Struct, tag=True):
    """One that was to come later has ended where it was."""

    name: str
    id: str


class ParkedNoMore(Struct, tag=True):
    """No call waits there any more for its client to answer a question."""

    name: str


class ConnectionGoes(Struct, tag=True):
    """A connection of that place, and what was read of it. Descriptor: its own."""

    place: str
    begun: bytes


class Farewell(Struct, tag=True):
    """Nothing is left with the old daemon; the new one, to that: nothing is sent back any more."""


Word = (
    Greeting
    | NotNow
    | Ready
    | Offer
    | OfferEnds
    | Taken
    | InstanceGoes
    | SessionGoes
    | SessionEnded
    | ParkedNoMore
    | ConnectionGoes
    | Farewell
)

write_word = msgspec.msgpack.Encoder().encode
_read = msgspec.msgpack.Decoder(Word).decode


def read_word(data: bytes) -> Word:
    """Raises RemoteProtocolError."""
    try:
        word: Word = _read(data)
    except msgspec.DecodeError as error:
        raise RemoteProtocolError(f"not understood: {error}", code="bad_parcel") from None
    return word


def check_version(version: int, mooring: str) -> None:
    """Raises HandoverFailed if the other speaks another one."""
    if version != VERSION:
        raise HandoverFailed(
            f"version {mooring} of Mooring hands over in another way than this one",
            code="handover_mismatch",
            hint=COLD_RESTART,
        )
