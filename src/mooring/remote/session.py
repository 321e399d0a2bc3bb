"""A session of the handshake era, which outlives the server's memory of it.

The server may forget a session whenever it likes (it says so with 404). Then the client's own
`initialize` is said again, and all that `wire.memory` has kept; the client goes on as if nothing had
happened, but for the news that lists may differ now.

Invariants:
- One reopening at a time; whoever meets a 404 waits for the one that is under way.
- `standing` changes only when a handshake has succeeded. Its generation tells old streams and late
  answers from those of the session that holds now.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from mooring.errors import MooringError, RemoteProtocolError, ServerFailed
from mooring.http.client_errors import AnswerLost, NoPlace, NotSent, NotTrusted
from mooring.remote.endpoint import Endpoint, Standing
from mooring.remote.messages import EventMessages, JsonMessages, verdict_on
from mooring.remote.policy import RemotePolicy
from mooring.remote.reach import Reach, Unreachable
from mooring.remote.waits import delays_s
from mooring.wire import jsonrpc
from mooring.wire.budget import Budget
from mooring.wire.jsonrpc import Envelope, Id
from mooring.wire.memory import Handshake, Memory, Replay, expect_handshake, read_handshake
from mooring.wire.verdicts import Meaning, describe_status

__all__ = ["RemoteSession"]

log = logging.getLogger("mooring.remote")

ID_PREFIX = "mooring-stdio"
"""Of the ids of what we say again ourselves; no client has those."""


class RemoteSession:
    """`on_reopened(handshake)` is called when a new session has taken the old one's place."""

    def __init__(
        self,
        endpoint: Endpoint,
        reach: Reach,
        policy: RemotePolicy,
        budget: Budget,
        on_reopened: Callable[[Handshake], Awaitable[None]],
    ) -> None:
        self._endpoint = endpoint
        self._reach = reach
        self._policy = policy
        self._budget = budget
        self._on_reopened = on_reopened
        self._reopening: asyncio.Task[None] | None = None
        self.memory = Memory()
        self.standing = Standing()

    @property
    def is_open(self) -> bool:
        """The client's handshake has succeeded."""
        return self.memory.handshake is not None

    def opened(self, line: bytes, response: Envelope, session: bytes | None) -> None:
        """The client's `initialize` was answered. What is no handshake is left to the client to judge."""
        try:
            handshake = read_handshake(response.result)
        except RemoteProtocolError as error:
            log.warning("the server answers initialize with something else: %s", error.message)
            return
        self.memory.opened(Replay(line, response.request_id), handshake)
        self.standing = Standing(self.standing.generation + 1, session, handshake.protocol_version)
        info = handshake.server_info
        log.info(
            "connected to %s %s",
            info.name or "a server without a name",
            info.version,
            extra={"event": "connected", "revision": handshake.protocol_version},
        )

    def go_on_with(self, initialize: Replay, handshake: Handshake, session: bytes) -> None:
        """Another has opened it, for the same client; the server may have forgotten it, and says so."""
        self.memory.opened(initialize, handshake)
        self.standing = Standing(self.standing.generation + 1, session, handshake.protocol_version)

    async def settled(self) -> Standing:
        """How we stand, once nobody is changing that. Raises MooringError if it could not be put right."""
        while self._reopening is not None:
            await asyncio.shield(self._reopening)
        return self.standing

    async def reopen(self, forgotten: Standing) -> None:
        """The server has forgotten a session: open another, unless somebody has. Raises MooringError."""
        if forgotten.generation == self.standing.generation and self._reopening is None:
            log.info("the server has forgotten the session; opening it anew", extra={"event": "session_lost"})
            self._reopening = asyncio.create_task(self._reopen(), name="reopen")
            self._reopening.add_done_callback(self._reopened)
        await self.settled()

    def _reopened(self, task: asyncio.Task[None]) -> None:
        self._reopening = None
        if not task.cancelled() and (error := task.exception()) is not None:
            message = error.message if isinstance(error, MooringError) else repr(error)
            log.error("the session cannot be opened anew: %s", message, extra={"event": "reopen_failed"})

    async def aclose(self) -> None:
        """Stop what is under way."""
        if (task := self._reopening) is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def farewell(self, unopened: Standing | None) -> None:
        """Tell the server that the session has ended; what it says to that does not matter.

        `unopened` is another that it has named, and that was never open here.
        """
        try:
            async with asyncio.timeout(self._policy.farewell_timeout_s):
                for standing in (self.standing, unopened):
                    if standing is not None and standing.session is not None and self._reach.is_up:
                        (await self._endpoint.delete(standing)).close()
        except (NotSent, AnswerLost, TimeoutError) as error:
            log.debug("the server did not hear of the end: %s", error)

    # Opening it anew -----------------------------------------------------------------------

    async def _reopen(self) -> None:
        steps = self.memory.replay(ID_PREFIX)
        first = next(steps)
        assert first.id is not None  # noqa: S101 - `initialize` is a request
        session, response = await self._ask(first.line, first.id, Standing())
        fresh = self._compare(expect_handshake(response))
        standing = Standing(self.standing.generation + 1, session, fresh.protocol_version)
        self._introduced(standing)
        for step in steps:
            _, response = await self._ask(step.line, step.id, standing)
            if response is not None and response.error:
                log.warning("the server refuses what it had accepted before: %s", step.id)
        self.standing = standing
        log.info("the session goes on", extra={"event": "session_reopened"})
        await self._on_reopened(fresh)

    def _introduced(self, standing: Standing) -> None:
        """The handshake has succeeded; not everything has been said again."""

    def _compare(self, fresh: Handshake) -> Handshake:
        """Is the server still what the client was promised?"""
        known = self.memory.handshake
        if known is not None and fresh.protocol_version != known.protocol_version:
            text = f"the server now speaks {fresh.protocol_version}, not {known.protocol_version}"
            raise ServerFailed(text, code="version_changed")
        if known is not None and fresh.capabilities != known.capabilities:
            log.warning(
                "the server has other capabilities than the client was told of; the session goes on",
                extra={"event": "capabilities_changed"},
            )
        return fresh

    async def _ask(self, line: bytes, id: Id | None, standing: Standing) -> tuple[bytes | None, Envelope]:
        """Session and answer to a message of ours (an empty one to a notification)."""
        for attempt, delay_s in enumerate(delays_s(self._policy), 1):
            await self._reach.wait()
            try:
                return await self._ask_once(line, id, standing)
            except (NotTrusted, Unreachable, NoPlace):
                raise
            except NotSent as error:
                self._reach.lost(error)
            except AnswerLost as error:
                # Each of these may be said twice.
                log.debug("no answer while the session is opened anew: %s", error.message)
                if self._policy.most_handshakes is not None and attempt >= self._policy.most_handshakes:
                    raise
            await asyncio.sleep(delay_s)
        raise AssertionError("unreachable")  # pragma: no cover

    async def _ask_once(
        self, line: bytes, id: Id | None, standing: Standing
    ) -> tuple[bytes | None, Envelope]:
        policy = self._policy
        response = await self._endpoint.post(
            line, standing.headers, head_timeout_s=policy.handshake_timeout_s
        )
        try:
            content_type = response.header(b"content-type") or b""
            verdict = verdict_on(response, in_session=False)
            session = response.header(b"mcp-session-id")
            if verdict.meaning is Meaning.LATER:
                await asyncio.sleep(min(verdict.after_s, policy.longest_retry_s))
                raise AnswerLost(f"the server is busy ({response.status})")
            if verdict.meaning is Meaning.ACCEPTED:
                return session, Envelope()
            if verdict.meaning is Meaning.REFUSED:
                location = response.header(b"location")
                failure = describe_status(response.status, content_type, location, "initialize")
                raise ServerFailed(failure.message, code=failure.reason)
            kind = EventMessages if verdict.meaning is Meaning.EVENTS else JsonMessages
            async with asyncio.timeout(policy.handshake_timeout_s):
                async for data in kind(response, policy.max_message_bytes, self._budget):
                    message = jsonrpc.parse(data)
                    if message.is_response and message.id == id:
                        return session, message
        except TimeoutError:
            raise AnswerLost("the server does not answer") from None
        except RemoteProtocolError as error:
            if isinstance(error, AnswerLost):
                raise
            raise ServerFailed(f"not an answer: {error.message}", code="bad_answer") from None
        finally:
            response.close()
        raise AnswerLost("the stream ended without an answer")
