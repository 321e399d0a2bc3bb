"""Messages of the client that want no answer: its notifications, in order, and its answers to questions.

A notification reaches the server once, or not at all: it is sent again only if nothing of it went out,
or if a second one does no harm.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from mooring.errors import MooringError
from mooring.http.client_errors import AnswerLost, NoPlace, NotSent, NotTrusted
from mooring.remote.endpoint import Endpoint, Standing
from mooring.remote.messages import verdict_on
from mooring.remote.policy import RemotePolicy
from mooring.remote.reach import Reach, Unreachable
from mooring.remote.session import RemoteSession
from mooring.remote.waits import delays_s
from mooring.wire.http import Headers
from mooring.wire.verdicts import Meaning

__all__ = ["Note", "Notes"]

log = logging.getLogger("mooring.remote")


@dataclass(eq=False)
class Note:
    """One message without an answer."""

    line: bytes
    what: str
    headers: Headers | None = None
    """Of a message of the era without sessions; None for one of the session."""
    of_one_session: bool = False
    """Means nothing to another: a cancellation, an answer."""
    repeatable: bool = False
    is_void: Callable[[], bool] = lambda: False
    """Has it become pointless while it waited?"""
    gone: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    """It was sent, or dropped."""
    barrier: asyncio.Future[None] | None = None
    """What must have been sent before it."""
    generation: int | None = None
    losses: int = 0
    reopened: bool = False


class Notes:
    """Sends them one after the other."""

    def __init__(
        self, endpoint: Endpoint, reach: Reach, session: RemoteSession, policy: RemotePolicy
    ) -> None:
        self._endpoint = endpoint
        self._reach = reach
        self._session = session
        self._policy = policy
        self._waiting: deque[Note] = deque()
        self._worker: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """How many are not sent yet."""
        return len(self._waiting)

    def put(self, note: Note) -> None:
        """Queue it; it is dropped if too many wait already."""
        if len(self._waiting) >= self._policy.max_notes:
            log.warning("%s was dropped: too many messages wait for the server", note.what)
            note.gone.set_result(None)
            return
        self._waiting.append(note)
        if self._worker is None:
            self._worker = asyncio.create_task(self._work(), name="notes")

    async def wait_sent(self) -> None:
        """Until none waits; those that wait for a server that is not there do not count."""
        while self._worker is not None and self._reach.is_up:
            await asyncio.wait([self._waiting[0].gone] if self._waiting else [self._worker], timeout=0.1)

    async def aclose(self) -> None:
        """Drop what waits."""
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)
        for note in self._waiting:
            if not note.gone.done():
                note.gone.set_result(None)
        self._waiting.clear()

    async def _work(self) -> None:
        while self._waiting:
            note = self._waiting[0]
            try:
                await self.send(note)
            except Exception:
                log.exception("%s could not be sent", note.what)
            finally:
                if not note.gone.done():
                    note.gone.set_result(None)
            if self._waiting and self._waiting[0] is note:
                self._waiting.popleft()
        self._worker = None

    async def send(self, note: Note) -> None:
        """Send it, now or when the server can be reached."""
        if note.barrier is not None and not note.barrier.done():
            await asyncio.wait([note.barrier])
        if note.generation is None:
            note.generation = self._session.standing.generation
        for attempt, delay_s in enumerate(delays_s(self._policy), 1):
            again = await self._attempt(note)
            if again is None:
                return
            if attempt >= self._policy.most_busy:
                log.warning("%s was dropped: the server does not take it", note.what)
                return
            await asyncio.sleep(max(again, delay_s) if again else 0)

    async def _attempt(self, note: Note) -> float | None:
        """None: sent or dropped; otherwise after how many seconds to try again."""
        try:
            await self._reach.wait()
            standing = await self._session.settled()
            if note.is_void() or (note.of_one_session and standing.generation != note.generation):
                return None
            return await self._post(note, standing)
        except (NotTrusted, Unreachable) as error:
            log.warning("%s was dropped: %s", note.what, error.message)
            return None
        except NoPlace as error:  # calls that have them all may wait for this very message
            log.debug("%s waits: %s", note.what, error.message)
            return self._policy.first_wait_s
        except NotSent as error:
            self._reach.lost(error)
            return 0.0
        except AnswerLost as error:
            note.losses += 1
            if note.repeatable and note.losses <= self._policy.most_repeats:
                return self._policy.first_wait_s
            log.warning("%s may not have reached the server: %s", note.what, error.message)
            return None
        except MooringError as error:  # the session could not be opened anew
            log.warning("%s was dropped: %s", note.what, error.message)
            return None

    async def _post(self, note: Note, standing: Standing) -> float | None:
        headers = standing.headers if note.headers is None else note.headers
        response = await self._endpoint.post(note.line, headers, head_timeout_s=self._policy.note_timeout_s)
        response.close()
        in_session = standing.session is not None and note.headers is None
        verdict = verdict_on(response, in_session=in_session)
        if verdict.meaning is Meaning.SESSION_LOST and not note.reopened:
            note.reopened = True
            await self._session.reopen(standing)
            return None if note.of_one_session else 0.0
        if verdict.meaning is Meaning.LATER:
            return min(verdict.after_s, self._policy.longest_retry_s)
        if response.status >= 300:
            log.warning("the server refuses %s (HTTP status %d)", note.what, response.status)
        return None
