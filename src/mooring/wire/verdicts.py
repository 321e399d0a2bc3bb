"""What an HTTP answer means for the message that was sent. Pure: the table of `mooring stdio`.

| status | with a session | meaning |
|---|---|---|
| 200 | | the answer, as JSON or as events |
| 202, 204 | | taken; a request cannot be answered so |
| 404 | yes | the server has forgotten the session: the message was not executed |
| 429, 503 with Retry-After | | not now: what may be done twice may be sent again then |
| any other | | refused: the body says why if it is a JSON-RPC error, or else we do |
"""

import re
from enum import Enum
from typing import NamedTuple

import msgspec

from mooring.wire import jsonrpc
from mooring.wire.failures import Failure
from mooring.wire.jsonrpc import Envelope, Id
from mooring.wire.memory import READS

__all__ = [
    "FOR_PEOPLE",
    "MAX_WORDS",
    "OTHER_ERA",
    "Meaning",
    "Verdict",
    "describe_status",
    "in_its_words",
    "is_read",
    "judge",
    "means_forgotten",
    "parse_retry_after",
    "says_not_done",
    "words_of_refusal",
]

_MODERN_READS = frozenset(
    {"server/discover", "subscriptions/listen", "tasks/get", "tasks/list", "tasks/result"}
)
_EXECUTED_BY_NONE = frozenset({307, 308, 400, 401, 403, 404, 405, 406, 413, 414, 415, 421, 429, 431})
"""Refused for what the message is or who sent it: before anything was done.

Who redirects otherwise may have done it: 303 says where to see what came of it, and others are used so.
"""

_NO_SESSION = re.compile(
    r"(?:(?:bad|invalid) request[:.,]?\s|error[:.,]?\s)?"
    r"(?:(?:no|not a|invalid|missing|unknown|expired)\s(?:(?:valid|active|such|known|existing)\s)?"
    r"(?:or\s(?:no|invalid|missing|unknown|expired)\s)?(?:mcp[ -])?session(?:[ -]id)?"
    r"|(?:mcp[ -])?session(?:[ -]id)?\s(?:header\s)?(?:is\s|was\s|has\s)?"
    r"(?:not found|invalid|missing|unknown|expired|required|not valid)"
    r"|server (?:is )?not initialized)"
    r"(?:[.!:;,(]|\s(?:provided|given|found|header|or)\b|$)",
    re.IGNORECASE,
)
"""How such an error begins: of a text that comes to it later, the call may have been executed."""
NOT_LET_IN = "the server does not let us in (403)"
FOR_PEOPLE = frozenset({"unauthorized", "forbidden", "not_mcp", "redirected"})
"""Reasons of refusals that only people can put right."""
OTHER_ERA = frozenset({"not_mcp", "http_400"})
"""How a handshake is refused, by its HTTP status alone, by a server that knows none."""

_NOTHING_REACHED = frozenset({"server_stopped", "too_many_connections"})
"""Mooring's words for a request that went to no server."""

MAX_WORDS = 300
"""Characters of what a server says for people that are passed on."""


class Meaning(Enum):
    """What to do with an answer."""

    JSON = "json"
    EVENTS = "events"
    ACCEPTED = "accepted"
    SESSION_LOST = "session_lost"
    LATER = "later"
    REFUSED = "refused"


class Verdict(NamedTuple):
    """And when, for `LATER`."""

    meaning: Meaning
    after_s: float = 0.0


def is_read(method: str) -> bool:
    """Does asking again change nothing on the server?"""
    return method in READS or method in _MODERN_READS


def judge(
    status: int,
    content_type: bytes,
    retry_after: bytes | None,
    date: bytes | None = None,
    *,
    in_session: bool,
) -> Verdict:
    """By the head alone."""
    kind = content_type.split(b";", 1)[0].strip().lower()
    if status == 200:
        if kind == b"text/event-stream":
            return Verdict(Meaning.EVENTS)
        return Verdict(Meaning.JSON if kind == b"application/json" else Meaning.REFUSED)
    if status in (202, 204):
        return Verdict(Meaning.ACCEPTED)
    if status == 404 and in_session:
        return Verdict(Meaning.SESSION_LOST)
    if status in (429, 503) and (after_s := parse_retry_after(retry_after, date)) is not None:
        return Verdict(Meaning.LATER, after_s)
    return Verdict(Meaning.REFUSED)


def means_forgotten(status: int, message: Envelope, call: Id) -> bool:
    """Does a 400 say what should be a 404? Servers made after the SDK's example do: "No valid session ID".

    Only if it can mean nothing else: what is refused so was not executed, and is sent again. Who refuses a
    session has not looked at the call, so that what bears its id is the answer of whoever has.
    """
    return (
        status == 400
        and message.id != call
        and _NO_SESSION.match(jsonrpc.error_message_of(message)) is not None
    )


def parse_retry_after(value: bytes | None, date: bytes | None = None) -> float | None:
    """Seconds; None if there are none. `date` is when it was said, by the server's clock.

    A date (which is rare) that nobody can compare with another counts as one second.
    """
    text = (value or b"").strip()
    if text.isdigit() and len(text) <= 9:
        return float(text)
    if not text.endswith(b"GMT"):
        return None
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 - a megabyte, for what is rare

    try:
        span = parsedate_to_datetime(_printable(text)) - parsedate_to_datetime(_printable(date or b""))
    except (ValueError, TypeError, OverflowError):
        return 1.0
    return max(0.0, span.total_seconds())


class _Problem(msgspec.Struct):
    message: str = ""
    hint: str = ""


class _Refusal(msgspec.Struct):
    error: _Problem = msgspec.field(default_factory=_Problem)


class _Data(msgspec.Struct):
    retryable: bool = False


class _Statement(msgspec.Struct):
    code: str | int = ""
    data: _Data = msgspec.field(default_factory=_Data)


class _Stated(msgspec.Struct):
    error: _Statement = msgspec.field(default_factory=_Statement)


_read_refusal = msgspec.json.Decoder(_Refusal).decode
_read_stated = msgspec.json.Decoder(_Stated).decode


def words_of_refusal(body: bytes) -> str:
    """What a server that turns a call away says for people; Mooring does, others may."""
    try:
        said = _read_refusal(body).error
    except msgspec.DecodeError:
        return ""
    text = f"{said.message}; {said.hint}" if said.hint else said.message
    return "".join(c for c in text if c.isprintable())


def says_not_done(body: bytes) -> bool:
    """Does a server that asks to come back later say that nothing was done? Mooring does."""
    try:
        said = _read_stated(body).error
    except msgspec.DecodeError:
        return False
    return said.data.retryable or said.code in _NOTHING_REACHED


def _printable(value: bytes) -> str:
    return "".join(c for c in value.decode("latin-1") if c.isascii() and c.isprintable())


def in_its_words(failure: Failure, words: str) -> Failure:
    """Of a server that does not let us in and says why: with 403, what the token lacks."""
    before = f"{NOT_LET_IN}: " if failure.reason == "forbidden" else f"{failure.message}; it says: "
    return failure._replace(message=before + words)


def describe_status(status: int, content_type: bytes, location: bytes | None, method: str) -> Failure:
    """The words for a refusal whose body says nothing that a client could be told."""
    retryable = status in _EXECUTED_BY_NONE or is_read(method)
    executed = "" if retryable else f"; {method} may have been executed"
    if status == 200:
        kind = _printable(content_type)[:80] or "nothing at all"
        text = f"what answers there is not an MCP server: it sends {kind}, not JSON or events"
        return Failure("not_mcp", text, retryable)
    if status == 401:
        text = (
            "the server wants to know who asks (401): give it a token "
            "(mooring run: --header, or mooring login; mooring stdio: --token-file or --header-env)"
        )
        return Failure("unauthorized", text, retryable)
    if status == 403:
        return Failure("forbidden", f"{NOT_LET_IN}: is the token the right one?", retryable)
    if status in (404, 405):
        text = (
            f"there is no MCP server at this URL ({status}): is its path right? With Mooring it is /NAME/mcp"
        )
        return Failure("not_mcp", text, retryable)
    if 300 <= status < 400:
        where = _printable(location)[:200] if location else "elsewhere"
        return Failure(
            "redirected", f"the server is now at {where} ({status}): give that URL{executed}", retryable
        )
    return Failure(f"http_{status}", f"the server answers with HTTP status {status}{executed}", retryable)
