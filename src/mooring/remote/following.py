"""A GET stream, kept open across whatever cuts it: resumed where it was, when the server wants it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import NamedTuple

from mooring.errors import RemoteProtocolError
from mooring.http.client import ClientResponse
from mooring.http.client_errors import AnswerLost, NoPlace, NotSent, NotTrusted
from mooring.remote.endpoint import Endpoint, Standing
from mooring.remote.messages import EventMessages, verdict_on
from mooring.remote.policy import RemotePolicy
from mooring.remote.reach import Reach, Unreachable
from mooring.remote.waits import delays_s
from mooring.wire.budget import Budget
from mooring.wire.verdicts import Meaning

__all__ = ["Ending", "Follower", "wait_s"]

log = logging.getLogger("mooring.remote")

ERRORS_OF_OTHERS = frozenset({429, 500, 502, 503, 504})
"""Of a server that is busy, or being restarted behind a balancer: worth another attempt."""
NO_SUCH_STREAM = frozenset({400, 404, 405, 406, 501})
"""Of a server that has none for what belongs to no call. Whatever else it says may pass."""


class Ending(Enum):
    """Why a stream is not followed any longer."""

    DONE = "done"
    FORGOTTEN = "the server has forgotten the session"
    REFUSED = "the server does not resume the stream"
    NOT_TRUSTED = "the server is not trusted any more"
    UNREACHABLE = "the server cannot be reached any more"


class _Later(NamedTuple):
    """Not now."""

    after_s: float = 0.0
    was_refused: bool = False


def wait_s(retry_ms: int | None, policy: RemotePolicy) -> float:
    """Before a stream is asked for again: as the server said, within reason."""
    if retry_ms is None:
        return policy.default_retry_s
    return min(max(retry_ms / 1000, policy.first_wait_s), policy.longest_retry_s)


class Follower:
    """Follows the streams of one session."""

    def __init__(self, endpoint: Endpoint, reach: Reach, policy: RemotePolicy, budget: Budget) -> None:
        self._endpoint = endpoint
        self._reach = reach
        self._policy = policy
        self._budget = budget

    async def follow(
        self,
        standing: Standing,
        last_event_id: str,
        hear: Callable[[bytes], Awaitable[bool]],
        *,
        first_wait_s: float = 0.0,
    ) -> Ending:
        """Give every message to `hear`, until that returns True or the server does not go on.

        With a `last_event_id` it is the rest of another stream. Without one it is a stream of its own,
        which begins anew if the server cannot go on where it was, and is asked for as long as there is a
        session: nobody would be told that nothing comes any more.
        """
        is_rest = bool(last_event_id)
        pause_s, refused, delays = first_wait_s, 0, delays_s(self._policy)
        while True:
            if refused >= self._policy.most_refused_resumes:
                if is_rest:
                    return Ending.REFUSED
                last_event_id, refused = "", 0
            await asyncio.sleep(pause_s)
            opened = await self._open(standing, last_event_id, is_waited_for=is_rest)
            if opened is Ending.REFUSED and last_event_id and not is_rest:
                last_event_id, pause_s = "", next(delays)
                continue
            if isinstance(opened, Ending):
                return opened
            if isinstance(opened, _Later):
                refused += opened.was_refused
                pause_s = max(opened.after_s, next(delays))
                continue
            messages = EventMessages(opened, self._policy.max_message_bytes, self._budget, last_event_id)
            try:
                if await self._hear_all(messages, hear):
                    return Ending.DONE
            finally:
                opened.close()
            went_on = messages.last_event_id != last_event_id
            last_event_id, pause_s = messages.last_event_id, wait_s(messages.retry_ms, self._policy)
            if went_on or not is_rest:
                refused, delays = 0, delays_s(self._policy)
            else:  # it is resumed, and says nothing
                refused += 1

    async def _open(
        self, standing: Standing, last_event_id: str, *, is_waited_for: bool
    ) -> "ClientResponse | Ending | _Later":
        """`is_waited_for`: somebody has asked for what comes on it, and is told if it cannot be had."""
        try:
            await self._reach.wait(for_ever=not is_waited_for)
            response = await self._endpoint.get(standing, last_event_id)
        except Unreachable:
            return Ending.UNREACHABLE
        except NotTrusted as error:
            log.debug("a stream could not be opened: %s", error.message)
            return Ending.NOT_TRUSTED if is_waited_for else _Later()
        except NoPlace as error:
            log.debug("a stream could not be opened: %s", error.message)
            return _Later()
        except NotSent as error:
            self._reach.lost(error)
            return _Later()
        except AnswerLost as error:
            log.debug("a stream could not be opened: %s", error.message)
            return _Later(was_refused=True)
        verdict = verdict_on(response, in_session=standing.session is not None)
        if verdict.meaning is Meaning.EVENTS:
            return response
        response.close()
        if verdict.meaning is Meaning.SESSION_LOST:
            return Ending.FORGOTTEN
        if verdict.meaning is Meaning.LATER:
            return _Later(min(verdict.after_s, self._policy.longest_retry_s), was_refused=True)
        status = response.status
        may_pass = status in ERRORS_OF_OTHERS if is_waited_for else status not in NO_SUCH_STREAM
        return _Later(was_refused=True) if may_pass else Ending.REFUSED

    @staticmethod
    async def _hear_all(messages: EventMessages, hear: Callable[[bytes], Awaitable[bool]]) -> bool:
        try:
            async for data in messages:
                if await hear(data):
                    return True
        except RemoteProtocolError as error:
            log.debug("a stream was cut: %s", error.message)
        return False
