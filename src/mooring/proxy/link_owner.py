"""What a link tells whoever talks through it: a session, or a trunk."""

from typing import Protocol

from mooring.errors import MooringError
from mooring.proxy.call_errors import Failure
from mooring.proxy.calls import Call
from mooring.proxy.ports import Channel, ExitLike
from mooring.proxy.waiting import WaitingLine
from mooring.wire.jsonrpc import Envelope, Id
from mooring.wire.lines import LongLine
from mooring.wire.memory import Memory

__all__ = ["LinkOwner"]


class LinkOwner(Protocol):
    """Who talks through a link."""

    @property
    def memory(self) -> Memory:
        """What a new instance must be told."""
        ...

    def on_line(self, line: bytes) -> None:
        """See `Receiver`."""
        ...

    def on_long_line(self, line: LongLine) -> None:
        """See `Receiver`."""
        ...

    def on_answer(self, response: Envelope, line: bytes) -> None:
        """See `FaceReceiver`."""
        ...

    def on_failed(self, id: Id, failure: Failure) -> None:
        """See `FaceReceiver`."""
        ...

    def on_related(self, line: bytes, id: Id) -> None:
        """See `FaceReceiver`."""
        ...

    def on_up(self, channel: Channel) -> None:
        """An instance is there and knows what it must; waiting lines are sent after this."""
        ...

    def on_lost(self, exit: ExitLike, consumed: int) -> None:
        """The instance has ended by itself, having read its input up to `consumed` at most."""
        ...

    def on_let_go(self, reason: str) -> None:
        """The instance is of no use, or not needed: whatever it asked is asked no more."""
        ...

    def on_unreachable(self, error: MooringError) -> None:
        """No instance can be had now."""
        ...

    def wants_instance(self, exit: ExitLike) -> bool:
        """Is another one wanted at once, or is it enough when somebody calls?"""
        ...

    def on_moved(self) -> None:
        """A server elsewhere knows it as another session now."""
        ...

    def is_pending(self, call: Call) -> bool:
        """Is the call still to be answered?"""
        ...

    def on_dismissed(self, item: WaitingLine, reason: str, message: str) -> None:
        """A line that waited will not be sent."""
        ...
