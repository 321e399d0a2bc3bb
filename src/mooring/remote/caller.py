"""How one call gets its answer, whatever happens on the way.

1. Wait until the server can be reached, and the session is not being opened anew.
2. Send it. If nothing of it went out, begin again.
3. Read the answer. A stream of events that is cut is resumed where it was.
4. The server has forgotten the session: it is opened anew, and the call sent once more.
   It refuses the headers, which its list of tools tells of: that is read, and the call sent once more.
   Not now: a read is sent again when the server said, and whatever was not done by the server's own words.
5. It was sent and no answer comes: a read is sent again, twice at most, a subscription always. Any other
   call may have been executed, so its client is told, and nobody sends it again; but a tool that says that
   it may be executed twice, once, where that is allowed.
"""

import asyncio
import logging
from collections.abc import Awaitable
from typing import NamedTuple, Protocol

from mooring.errors import MooringError, RemoteProtocolError
from mooring.http.client import ClientResponse
from mooring.http.client_errors import AnswerLost, NoPlace, NotSent, NotTrusted
from mooring.remote.calls import Call
from mooring.remote.endpoint import Endpoint, Standing
from mooring.remote.following import Ending, Follower, wait_s
from mooring.remote.messages import EventMessages, JsonMessages, Messages, verdict_on
from mooring.remote.policy import RemotePolicy
from mooring.remote.reach import Reach, Unreachable
from mooring.remote.relisting import Relisting
from mooring.remote.session import RemoteSession
from mooring.remote.waits import delays_s
from mooring.secrets.masking import LEAST_CHARACTERS
from mooring.wire import jsonrpc
from mooring.wire.budget import Budget
from mooring.wire.failures import Failure, lost
from mooring.wire.header_values import encode_value
from mooring.wire.http import Headers
from mooring.wire.jsonrpc import Envelope
from mooring.wire.mirrored import MarkedTools, mirrored_headers
from mooring.wire.modern import HEADER_MISMATCH
from mooring.wire.verdicts import (
    FOR_PEOPLE,
    MAX_WORDS,
    Meaning,
    describe_status,
    in_its_words,
    means_forgotten,
    says_not_done,
    words_of_refusal,
)

__all__ = ["Caller", "Hearing", "Lost"]

log = logging.getLogger("mooring.remote")

MAX_REFUSAL_BYTES = 64 * 1024
"""Of what a server says in place of an answer."""
REFUSAL_S = 3.0
"""For the rest of that: its status says enough."""

LINGER_S = 0.05
"""For a stream to end behind its answer, as most do in a moment: then its connection can be used again."""
MAX_LINGER_BYTES = 64 * 1024
"""Of what a server says until then: it is about nothing."""


class Hearing(Protocol):
    """Who hears what the server says."""

    def hear(self, data: bytes, standing: Standing) -> Awaitable[bool]:
        """A message of the server's, on whichever stream. False: it was none."""
        ...

    def is_answered(self, call: Call) -> bool:
        """Is there nothing left to wait for?"""
        ...

    def fail(self, call: Call, failure: Failure) -> None:
        """Answer a call with an error."""
        ...


class Lost(NamedTuple):
    """It was sent, and there is no answer."""

    why: str
    reason: str = "connection_lost"


class _Again(NamedTuple):
    """It was not executed; send it once more, at once or after that."""

    after_s: float | None = None


Outcome = Failure | Lost | _Again | None
"""None: it has been answered."""


class Caller:
    """Runs calls; each in a task of its own."""

    def __init__(
        self,
        endpoint: Endpoint,
        reach: Reach,
        session: RemoteSession,
        *,
        follower: Follower,
        policy: RemotePolicy,
        budget: Budget,
        tools: MarkedTools,
        hearing: Hearing,
    ) -> None:
        self._endpoint = endpoint
        self._reach = reach
        self._session = session
        self._follower = follower
        self._policy = policy
        self._budget = budget
        self._tools = tools
        self._relisting = Relisting(endpoint, policy, budget, tools)
        self._hearing = hearing

    async def run(self, call: Call) -> None:
        """Until the call is answered."""
        if call.barrier is not None and not call.barrier.done():
            await asyncio.wait([call.barrier])
        repeats = 0
        delays = delays_s(self._policy)
        while True:
            outcome = await self._attempt(call)
            if isinstance(outcome, Lost) and self._may_repeat(call, repeats):
                repeats += 1
                log.debug("%s: %s; asking again", call.method, outcome.why)
                await asyncio.sleep(next(delays))
                continue
            if isinstance(outcome, _Again):
                if outcome.after_s is not None:
                    await asyncio.sleep(max(outcome.after_s, next(delays)))
                continue
            if isinstance(outcome, Lost):
                outcome = lost(call.method, outcome.why, reads=self._is_harmless(call), reason=outcome.reason)
            if outcome is not None:
                self._hearing.fail(call, outcome)
            return

    def _may_repeat(self, call: Call, repeats: int) -> bool:
        """A subscription lasts for days, and is cut whenever its server restarts: it is always renewed."""
        if call.is_stream:
            return True
        if call.reads:
            return repeats < self._policy.most_repeats
        return self._policy.repeats_tools and repeats == 0 and self._is_harmless(call)

    def _is_harmless(self, call: Call) -> bool:
        """May it be executed twice? It reads, or is a tool that says so of itself."""
        return call.reads or self._session.memory.may_repeat(call.method, call.message.params)

    async def _attempt(self, call: Call) -> Outcome:
        try:
            # 1
            await self._reach.wait()
            standing = Standing() if call.is_modern else await self._session.settled()
            # 2
            call.sent = True
            call.headers = self._headers(call, standing)
            response = await self._endpoint.post(call.line, call.headers)
        except Unreachable as error:
            return Failure("unreachable", f"{error.message}; the call was not executed", retryable=True)
        except NotTrusted as error:
            return Failure(error.code, f"{error.message} ({error.hint})", retryable=True)
        except NoPlace as error:
            if call.is_stream:
                return _Again(self._policy.first_wait_s)
            return Failure(error.code, f"{error.message}; the call was not executed", retryable=True)
        except NotSent as error:
            call.sent = False
            self._reach.lost(error)
            return _Again()
        except AnswerLost as error:
            return Lost(error.message, "bad_answer" if error.code == "bad_answer" else "connection_lost")
        except MooringError as error:  # the session could not be opened anew
            return Failure(error.code, f"{error.message}; the call was not executed", retryable=True)
        try:
            return await self._read(call, standing, response)
        finally:
            response.close()

    def _headers(self, call: Call, standing: Standing) -> Headers:
        if call.version is not None:
            return mirrored_headers(call.message, call.version, self._tools)
        # Whoever routes by it may, whatever the era; servers that know nothing of it pass over it.
        method = (b"Mcp-Method", encode_value(call.method))
        return [method] if call.method == "initialize" else [*standing.headers, method]

    async def _read(self, call: Call, standing: Standing, response: ClientResponse) -> Outcome:
        in_session = standing.session is not None and call.method != "initialize"
        verdict = verdict_on(response, in_session=in_session)
        limit_bytes = self._policy.max_message_bytes
        if verdict.meaning is Meaning.EVENTS:
            call.session = response.header(b"mcp-session-id")
            outcome = await self._hear(call, standing, EventMessages(response, limit_bytes, self._budget))
            if outcome is None and call.method != "initialize":  # (what follows that waits for our end)
                await _linger(response)
            return outcome
        if verdict.meaning is Meaning.JSON:
            call.session = response.header(b"mcp-session-id")
            return await self._hear(call, standing, JsonMessages(response, limit_bytes, self._budget))
        if verdict.meaning is Meaning.SESSION_LOST:
            return await self._reopen(call, standing)
        if verdict.meaning is Meaning.LATER:
            return await self._later(call, verdict.after_s, response)
        return await self._refused(call, standing, response)

    # 3 ---------------------------------------------------------------------------------------

    async def _hear(self, call: Call, standing: Standing, messages: Messages) -> Outcome:
        whole = isinstance(messages, JsonMessages)
        why = _NOT_AN_ANSWER if whole else _NO_ANSWER
        try:
            async for data in messages:
                is_message = await self._hearing.hear(_addressed(data, call) if whole else data, standing)
                if self._hearing.is_answered(call):
                    return None
                if not is_message and not call.is_stream:
                    return _NOT_AN_ANSWER  # it may have been the answer, and no other would come
        except RemoteProtocolError as error:
            why = Lost(error.message, _reason(error))
        if call.is_modern or not messages.last_event_id:
            return why
        return await self._resume(call, standing, messages)

    async def _resume(self, call: Call, standing: Standing, messages: Messages) -> Outcome:
        async def hear(data: bytes) -> bool:
            is_message = await self._hearing.hear(data, standing)
            return self._hearing.is_answered(call) or not is_message

        first_wait_s = wait_s(messages.retry_ms, self._policy)
        ending = await self._follower.follow(
            standing, messages.last_event_id, hear, first_wait_s=first_wait_s
        )
        if ending is Ending.DONE:
            return None if self._hearing.is_answered(call) else _NOT_AN_ANSWER
        return Lost(ending.value)

    # 4 ---------------------------------------------------------------------------------------

    async def _reopen(self, call: Call, standing: Standing) -> Outcome:
        if call.reopened:
            text = "the server forgets every session at once; the call was not executed"
            return Failure("session_lost", text, retryable=True)
        call.reopened, call.sent = True, False
        try:
            await self._session.reopen(standing)
        except MooringError as error:
            reason = "unreachable" if isinstance(error, Unreachable) else error.code
            return Failure(reason, f"{error.message}; the call was not executed", retryable=True)
        return _Again()

    async def _later(self, call: Call, after_s: float, response: ClientResponse) -> Outcome:
        """No status says that nothing was done: gateways give up on calls that go on behind them."""
        try:
            async with asyncio.timeout(REFUSAL_S):
                body = await response.read(MAX_REFUSAL_BYTES)
        except (RemoteProtocolError, TimeoutError):
            body = b""
        words = self._words(body)
        may_repeat = call.reads or says_not_done(body)
        why = (
            f"the server asks us to wait for {after_s:g} s ({response.status}{f': {words}' if words else ''})"
        )
        call.refusals += 1
        if (
            not self._policy.waits_when_busy
            or not may_repeat
            or after_s > self._policy.longest_retry_s
            or call.refusals > self._policy.most_busy
        ):
            # Who counts requests (429) refuses them before anything is done.
            retryable = may_repeat or response.status == 429 or self._is_harmless(call)
            return Failure("server_busy", why, retryable, retry_after_s=after_s)
        call.sent = False
        # (Without its words: they may be anything.)
        log.info("the server asks us to wait %g s", after_s, extra={"event": "busy"})
        return _Again(after_s)

    async def _refused(self, call: Call, standing: Standing, response: ClientResponse) -> Outcome:
        """An error of HTTP's: the server's own if it has any, or else ours.

        That we are not let in is ours whatever it says: it is about Mooring, and no answer to the call.
        """
        content_type, location = response.header(b"content-type") or b"", response.header(b"location")
        failure = describe_status(response.status, content_type, location, call.method)
        failure = failure._replace(retryable=failure.retryable or self._is_harmless(call))
        try:
            async with asyncio.timeout(REFUSAL_S):
                body = await response.read(MAX_REFUSAL_BYTES)
        except (RemoteProtocolError, TimeoutError):
            body = b""
        is_about_us = response.status in (401, 403)
        message = None if is_about_us else jsonrpc.parse_refusal(body)
        if message is None:
            # What only people can put right, they hear of on stderr too. (Without its words, as above.)
            if self._policy.tells_people and failure.reason in FOR_PEOPLE:
                log.error("%s", failure.message, extra={"event": failure.reason, "status": response.status})
            if is_about_us and (words := self._words(body)):
                failure = in_its_words(failure, words)
            return failure
        in_session = standing.session is not None and not call.reopened
        if in_session and means_forgotten(response.status, message, call.id):
            return await self._reopen(call, standing)
        if await self._may_say_more(call, response.status, message):
            call.sent = False
            return _Again()
        await self._hearing.hear(jsonrpc.with_id(message, call.id), standing)
        return None

    def _words(self, body: bytes) -> str:
        """What it says for people; nothing if it says again who we are, as in "the token … is over"."""
        words = words_of_refusal(body)
        values = (value.decode("utf-8", "replace") for _, value in self._endpoint.credentials.headers)
        repeats = any(
            len(part) >= LEAST_CHARACTERS and part in words for value in values for part in value.split()
        )
        return "" if repeats else words[:MAX_WORDS]

    async def _may_say_more(self, call: Call, status: int, message: Envelope) -> bool:
        """Were its headers refused, and do we know by now what others it should have?"""
        is_refused = status == 400 and jsonrpc.error_code_of(message) == HEADER_MISMATCH
        if not is_refused or call.version is None or call.method != "tools/call" or call.relisted:
            return False
        call.relisted = True
        return await self._relisting.changes(call, call.version)


_NOT_AN_ANSWER = Lost("the server sent something that is no answer to this call", "bad_answer")
_NO_ANSWER = Lost("the stream ended without an answer")


async def _linger(response: ClientResponse) -> None:
    """Hear a stream out, if its end comes soon."""
    length = 0
    try:
        async with asyncio.timeout(LINGER_S):
            async for piece in response:
                length += len(piece)
                if length > MAX_LINGER_BYTES:
                    return
    except (RemoteProtocolError, TimeoutError):
        pass


def _reason(error: RemoteProtocolError) -> str:
    return error.code if error.code in ("message_too_long", "too_busy") else "connection_lost"


def _addressed(data: bytes, call: Call) -> bytes:
    """An error without an id can only be about the call that it answers."""
    try:
        message = jsonrpc.parse(data)
    except RemoteProtocolError:
        return data
    return jsonrpc.with_id(message, call.id) if message.error and message.id is None else data
