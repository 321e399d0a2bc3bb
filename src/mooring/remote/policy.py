"""The bounds of a conversation: every wait, queue and store it has, with its default and the reason."""

from dataclasses import dataclass

__all__ = ["RemotePolicy"]

MIB = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class RemotePolicy:
    """Values given where the conversation is put together. Spans are in seconds."""

    max_message_bytes: int = 64 * MIB
    """Either way; what Mooring itself takes."""
    max_calls: int = 512
    """In flight. Each takes a connection, and the usual limit is 1,024 descriptors."""
    max_asked: int = 256
    """Requests of the server that the client has not answered; each answer takes a connection too."""
    max_notes: int = 1024
    """Notifications of the client that wait for their turn, or for the server to come back."""
    shared_bytes: int = 256 * MIB
    """What all calls together may hold, and all answers that arrive; see `budget_bytes`."""

    first_wait_s: float = 0.1
    """Before the second attempt to reach a server; it doubles from there. A restart takes a second."""
    patience_s: float | None = None
    """For a server that cannot be reached, before whoever waits for it is told; None: for ever."""
    longest_wait_s: float = 5.0
    """Between two attempts. They go on for as long as there is a client."""
    default_retry_s: float = 1.0
    """Before a stream is resumed whose server does not say when; as the SDKs' clients have it."""
    longest_retry_s: float = 120.0
    """A server that asks for more patience than this is not waited for: its client is told."""
    most_repeats: int = 2
    """How often a read is sent again of which the answer got lost: it may be what kills the server."""
    repeats_tools: bool = False
    """So is, once, a call of a tool that says of itself that this does no harm, if the operator wants it."""
    most_refused_resumes: int = 10
    """Errors in a row in place of a stream that is to be resumed, or streams that say nothing."""
    most_busy: int = 100
    """How often a server may ask to come back later with one call, or one notification."""
    waits_when_busy: bool = True
    """Reads wait for a server that says when to come back; not where whoever calls is told when."""
    most_handshakes: int | None = None
    """Attempts to open a session anew that the server does not answer; None: for ever, as clients wait."""
    tells_people: bool = True
    """What only people can put right is logged in full; not where somebody else tells it, without secrets."""

    note_timeout_s: float = 30.0
    """For a server to take a notification, an answer, or to begin a stream."""
    handshake_timeout_s: float = 120.0
    """For each step when a session is opened anew; the server may have to start first."""
    cancel_wait_s: float = 5.0
    """A cancelled call that the server never answers is ended after this."""
    farewell_timeout_s: float = 2.0
    """For the server to hear that the session has ended."""

    @property
    def budget_bytes(self) -> int:
        """Whatever the bound of a message, four of the largest may be under way."""
        return max(self.shared_bytes, 4 * self.max_message_bytes)
