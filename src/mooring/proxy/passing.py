"""A session that goes to another Mooring: all that its client has said, may still ask for, or is asked.

Only a quiet one goes: no call is under way, so that nothing of it is in between. What its instance has said
and nobody has read goes with the instance.
"""

from msgspec import Struct

from mooring.proxy.face import Face
from mooring.proxy.passed_trunk import PassedTrunk
from mooring.proxy.session import RESTARTED, Session
from mooring.proxy.streams import PassedStreams
from mooring.wire.asked import OpenQuestions
from mooring.wire.jsonrpc import Id
from mooring.wire.memory import Memory

__all__ = ["PassedSession", "pack", "unpack"]


class PassedSession(Struct, array_like=True):
    """See the module. Moments are by the system's monotonic clock, which all processes share."""

    id: str
    principal: str
    transport: str
    client: str
    last_used: float
    memory: bytes
    repeatable: dict[str, bool]
    streams: PassedStreams
    backlog: list[bytes]
    asked: OpenQuestions
    task_tokens: list[Id]
    reset_by: str
    """Why the next instance is another one; empty if the present one goes along, or is there already."""
    seat: PassedTrunk | None
    """What is told of its instance, if that is of 2026-07-28."""
    rides: str
    """The trunk on which it goes on with others, by its name; empty: none."""


def pack(session: Session, *, keeps_instance: bool) -> PassedSession:
    """Of a quiet session; `keeps_instance`: what it had goes along, by itself or with others."""
    channel, link = session.link.channel, session.link
    trunk = channel.trunk if isinstance(channel, Face) and keeps_instance else None
    has_seat = isinstance(channel, Face) and channel.is_alone
    asked, task_tokens = session.words.dump()
    return PassedSession(
        session.id,
        session.principal,
        session.transport,
        session.client,
        session.last_used,
        session.memory.dump(),
        session.memory.repeatable,
        session.streams.dump(),
        [line for _, line in session.delivery.backlog],
        asked,
        task_tokens,
        "" if keeps_instance else RESTARTED if link.is_live else link.reset_by,
        trunk.pack() if trunk is not None and has_seat else None,
        trunk.name if trunk is not None and not has_seat else "",
    )


def unpack(passed: PassedSession, session: Session) -> None:
    """Into a session that was just made. Raises msgspec.DecodeError."""
    session.remember(Memory.load(passed.memory))
    session.memory.repeatable.update(passed.repeatable)
    session.last_used = passed.last_used
    session.streams.load(passed.streams)
    session.delivery.load(passed.backlog)
    session.words.load(passed.asked, passed.task_tokens)
    session.link.reset_by = passed.reset_by
