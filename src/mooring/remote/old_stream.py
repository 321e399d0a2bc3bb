"""The one stream of the HTTP+SSE transport, which is the session: kept, and opened anew when it is cut.

1. GET; the server's first event says where messages go (`endpoint`).
2. If the client had introduced itself on an earlier stream, all that `wire.memory` has kept is said again.
3. Now the stream is there for calls; whatever comes on it is heard.
4. It is cut: whoever waits for an answer is told, and 1 follows after a moment. Before the client has
   introduced itself only if somebody asks for it.

Invariants:
- One stream at a time, and one attempt to open it, for which everybody waits.
- An attempt that fails is told to all who wait for it. So nobody waits for longer than an attempt takes,
  but for a server that cannot be reached at all, for which `reach` says how long.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NoReturn

from mooring.errors import MooringError, RemoteProtocolError, ServerFailed, Unavailable
from mooring.http.client import ClientResponse
from mooring.http.client_errors import AnswerLost, NoPlace, NotSent, NotTrusted
from mooring.remote.endpoint import Standing
from mooring.remote.messages import EventMessages, verdict_on
from mooring.remote.old_endpoint import OldEndpoint
from mooring.remote.policy import RemotePolicy
from mooring.remote.reach import Reach, Unreachable
from mooring.remote.session import RemoteSession
from mooring.remote.waits import delays_s
from mooring.wire.budget import Budget
from mooring.wire.jsonrpc import Envelope, Id
from mooring.wire.memory import Handshake
from mooring.wire.verdicts import Meaning, describe_status

__all__ = ["OldSession"]

log = logging.getLogger("mooring.remote")

STREAM = b"stream"
"""In place of a session's name: there is one, and it has none."""
TOLD_ALIKE = frozenset({"message_too_long", "too_busy", "bad_answer"})
"""Ends of a stream that calls are told by their own code; the others are lost connections to them."""


class OldSession(RemoteSession):
    """`hear` gets every message, `on_cut` why the stream is no more and by which code calls are told so."""

    _endpoint: OldEndpoint

    def __init__(
        self,
        endpoint: OldEndpoint,
        reach: Reach,
        policy: RemotePolicy,
        budget: Budget,
        *,
        hear: Callable[[bytes, Standing], Awaitable[object]],
        on_cut: Callable[[str, str], None],
        on_reopened: Callable[[Handshake], Awaitable[None]],
    ) -> None:
        super().__init__(endpoint, reach, policy, budget, on_reopened)
        self._hear = hear
        self._on_cut = on_cut
        self._is_up = False
        self._is_closed = False
        self._reader: asyncio.Task[None] | None = None
        self._opening: asyncio.Task[None] | None = None
        self._delays = delays_s(policy)
        self._failures = 0
        self._expected: dict[Id, asyncio.Future[Envelope | None]] = {}

    # For those who send ------------------------------------------------------------------------

    def opened(self, line: bytes, response: Envelope, session: bytes | None) -> None:
        """The client's `initialize` was answered."""
        super().opened(line, response, STREAM)

    async def settled(self) -> Standing:
        """How we stand, once there is a stream. Raises MooringError if none can be had."""
        while not self._is_up:
            opening = self._opening or self._open_soon(0.0)
            if opening is None:
                raise Unavailable("the conversation is over", code="closed")
            await asyncio.shield(opening)
        return self.standing

    async def reopen(self, forgotten: Standing) -> None:
        """The server does not know the session of its own stream any more."""
        if forgotten.generation == self.standing.generation and self._is_up:
            self._stop_reading()
            self._cut("the server has forgotten the session", "connection_lost")
        await self.settled()

    def hears(self, message: Envelope) -> bool:
        """Was it the answer to something that we have said again ourselves?"""
        answer = self._expected.get(message.request_id) if message.id is not None else None
        if answer is None or answer.done():
            return False
        answer.set_result(message)
        return True

    async def aclose(self) -> None:
        """Stop what is under way; that ends the session."""
        self._is_closed, self._is_up = True, False
        tasks = [task for task in (self._opening, self._reader) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def farewell(self, unopened: Standing | None) -> None:
        """The end of the stream said it."""

    # 1, 2 --------------------------------------------------------------------------------------

    def _open_soon(self, pause_s: float) -> asyncio.Task[None] | None:
        if self._is_closed:
            return None
        self._opening = asyncio.create_task(self._open(pause_s), name="open stream")
        self._opening.add_done_callback(self._on_attempt)
        return self._opening

    def _on_attempt(self, attempt: asyncio.Task[None]) -> None:
        self._opening = None
        if attempt.cancelled():
            return
        error = attempt.exception()
        if error is None:
            self._failures = 0
            if not self._is_up:  # cut already
                self._go_on()
            return
        message = error.message if isinstance(error, MooringError) else repr(error)
        level = logging.DEBUG if self._failures else logging.ERROR  # people hear of it once
        log.log(level, "there is no stream: %s", message, extra={"event": "no_stream"})
        self._failures += 1
        if self._failures < self._policy.most_refused_resumes and not isinstance(error, NotTrusted):
            self._go_on()

    def _go_on(self) -> None:
        """What the server says by itself is wanted too, whether anybody calls or not."""
        if self.is_open and self._opening is None:
            self._open_soon(next(self._delays))

    async def _open(self, pause_s: float) -> None:
        await asyncio.sleep(pause_s)
        losses = 0
        while not self._is_up:
            try:
                await self._reach.wait()
                await self._open_once()
            except (NotTrusted, Unreachable, NoPlace):
                raise
            except NotSent as error:
                self._reach.lost(error)
            except AnswerLost as error:
                losses += 1
                if losses > self._policy.most_repeats:
                    text = f"the server opens no stream: {error.message}"
                    raise Unavailable(text, code="connection_lost") from None
                await asyncio.sleep(next(self._delays))

    async def _open_once(self) -> None:
        """Raises AnswerLost for what is worth another attempt."""
        response = await self._endpoint.get(Standing(), "")
        try:
            await self._check(response)
            messages = EventMessages(response, self._policy.max_message_bytes, self._budget)
            await self._find_mailbox(messages)
            self._reader = asyncio.create_task(self._read(messages), name="stream")
            self._reader.add_done_callback(lambda _reader: response.close())
        except BaseException:
            response.close()
            raise
        try:
            if self.is_open:
                await self._reopen()
        except BaseException:
            self._stop_reading()
            raise
        if self._reader.done():
            raise AnswerLost("the stream was cut as soon as it was open")
        self._is_up = True

    async def _check(self, response: ClientResponse) -> None:
        """Is it a stream?"""
        if verdict_on(response, in_session=False).meaning is Meaning.EVENTS:
            return
        await self._refuse(response)

    async def _refuse(self, response: ClientResponse) -> NoReturn:
        """The server does not do what it was asked; perhaps later, or for others."""
        response.close()
        verdict = verdict_on(response, in_session=False)
        if verdict.meaning is Meaning.LATER and verdict.after_s <= self._policy.longest_retry_s:
            await asyncio.sleep(verdict.after_s)
            raise AnswerLost(f"the server is busy ({response.status})")
        kind = response.header(b"content-type") or b""
        failure = describe_status(response.status, kind, response.header(b"location"), "initialize")
        raise ServerFailed(failure.message, code=failure.reason)

    async def _find_mailbox(self, messages: EventMessages) -> None:
        span_s = self._policy.note_timeout_s
        try:
            async with asyncio.timeout(span_s):
                while (event := await messages.next_event()).event != "endpoint":
                    pass
            self._endpoint.move(event.data)
        except TimeoutError:
            text = f"the server does not say within {span_s:g} s where messages go"
            raise ServerFailed(text, code="not_mcp") from None
        except StopAsyncIteration:
            raise AnswerLost("the stream ended before the server said where messages go") from None
        except RemoteProtocolError as error:
            if isinstance(error, AnswerLost) and error.code not in TOLD_ALIKE:
                raise
            raise ServerFailed(error.message, code=error.code) from None

    def _introduced(self, standing: Standing) -> None:
        """What the server asks from here on, it asks in the new session."""
        self.standing = standing

    async def _ask(self, line: bytes, id: Id | None, standing: Standing) -> tuple[bytes | None, Envelope]:
        """The answer to a message of ours, on the stream (an empty one to a notification)."""
        policy = self._policy
        answer: asyncio.Future[Envelope | None] = asyncio.get_running_loop().create_future()
        if id is not None:
            self._expected[id] = answer
        if self._reader is None or self._reader.done():
            answer.set_result(None)  # who would have told us is gone
        try:
            async with asyncio.timeout(policy.handshake_timeout_s):
                response = await self._endpoint.post(line, [], head_timeout_s=policy.note_timeout_s)
                response.close()
                if response.status >= 300:
                    await self._refuse(response)
                message = await answer if id is not None or answer.done() else Envelope()
        except TimeoutError:
            raise AnswerLost("the server does not answer") from None
        finally:
            self._expected = {key: one for key, one in self._expected.items() if one is not answer}
        if message is None:
            raise AnswerLost("the stream was cut while the session was opened anew")
        return STREAM, message

    # 3, 4 --------------------------------------------------------------------------------------

    async def _read(self, messages: EventMessages) -> None:
        since = asyncio.get_running_loop().time()
        why, code = "the server ended the stream", "connection_lost"
        try:
            async for data in messages:
                await self._hear(data, self.standing)
        except RemoteProtocolError as error:
            why, code = error.message, error.code if error.code in TOLD_ALIKE else code
        except Exception:  # a bug of ours: never a session that seems to be up, and hears nothing
            log.exception("a stream could not be read")
            why = "Mooring failed to read the stream; its log says more"
        if asyncio.get_running_loop().time() - since > self._policy.longest_wait_s:
            self._delays = delays_s(self._policy)
        self._cut(why, code)

    def _stop_reading(self) -> None:
        if self._reader is not None:
            self._reader.cancel()

    def _cut(self, why: str, code: str) -> None:
        was_up, self._is_up = self._is_up, False
        log.info("the stream is cut: %s", why, extra={"event": "stream_cut"})
        for answer in self._expected.values():
            if not answer.done():
                answer.set_result(None)
        self._on_cut(why, code)
        if was_up:
            self._go_on()
