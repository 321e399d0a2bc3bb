"""Two connections made one: what comes on either goes out on the other, no faster than that takes it."""

from collections.abc import Callable

from mooring.relay.asked import Asked, Overheard
from mooring.relay.bodies import Share
from mooring.relay.link import Stream
from mooring.relay.words import Head, Reset

__all__ = ["splice"]


class _Half:
    """The ear of one that speaks to the other."""

    __slots__ = ("_end", "_from", "_note", "_talk", "_to")

    def __init__(
        self,
        heard: Stream,
        to: Stream,
        end: Callable[[Reset], None],
        talk: "_Talk | None",
        note: Callable[[bytes, bool], None] | None,
    ) -> None:
        self._from = heard
        self._to = to
        self._end = end
        self._talk = talk
        self._note = note

    def on_head(self, head: Head) -> None:
        self._to.head(head)

    def on_data(self, data: bytes, more: bool) -> None:
        to = self._to
        to.send(data, more)
        if self._note is not None:
            self._note(data, more)
        if to.writable:
            self._from.consumed()

    def on_end(self) -> None:
        self._to.end()
        self._end_talk()

    def on_reset(self, reset: Reset) -> None:
        self._end(reset)
        self._end_talk()

    def _end_talk(self) -> None:
        if self._talk is not None:
            self._talk.end()

    def on_writable(self) -> None:
        """It is the other direction that may go on."""
        other = self._to.ear
        if isinstance(other, _Half):
            other.settle()

    def settle(self) -> None:
        """Let more come, if what came has gone on."""
        if self._to.writable:
            self._from.consumed()


class _Talk:
    """What is said on a WebSocket, for both connections to know whether they are a call."""

    __slots__ = ("_asked", "_by_caller", "_by_server", "_streams")

    def __init__(self, streams: tuple[Stream, Stream], by_caller: Share, by_server: Share) -> None:
        self._streams = streams
        self._asked = Asked()
        self._by_caller = Overheard(self._asked.hear_caller, by_caller)
        self._by_server = Overheard(self._asked.hear_server, by_server)

    def note_caller(self, data: bytes, more: bool) -> None:
        self._by_caller.pass_by(data, more)
        self._tell()

    def note_server(self, data: bytes, more: bool) -> None:
        self._by_server.pass_by(data, more)
        self._tell()

    def end(self) -> None:
        """Neither says more."""
        self._by_caller.end()
        self._by_server.end()

    def _tell(self) -> None:
        is_asked = bool(self._asked) or self._by_caller.is_missed or self._by_server.is_missed
        for stream in self._streams:
            stream.note_asked(is_asked)


def splice(caller: Stream, server: Stream, by_caller: Share, by_server: Share) -> None:
    """Join them, for good. What a server said before its end is its caller's; who has gone wants nothing.

    `by_caller` and `by_server` count what is kept of messages, to see what they are."""
    talk = _Talk((caller, server), by_caller, by_server) if caller.is_socket else None
    caller.ear = _Half(caller, server, server.reset, talk, talk.note_caller if talk else None)
    server.ear = _Half(server, caller, caller.close, talk, talk.note_server if talk else None)
