"""A program that we have started, and all sessions with it over HTTP.

1. It has a while to begin: until it answers as an MCP server does it is asked again and again, by one for all
   sessions. What answers 502 to 504 in its place, or cuts the connection, is what stands before it (an engine
   listens for a container at once), or the program itself, which is not ready. Its route may be there later
   than its port: but one that goes on to answer anything else is spoken to, and whoever waits is told what it
   says.
2. From then on each session has a conversation with it.
3. If it listens no more, for about as long as calls wait, it is of no use: `on_deaf`.
"""

import asyncio
import logging
from collections.abc import Callable

from mooring.errors import RemoteProtocolError
from mooring.http.client import Client, ClientResponse
from mooring.http.client_errors import AnswerLost, NotSent
from mooring.http.origin import parse_url
from mooring.proxy.policy import SessionPolicy
from mooring.proxy.ports import ExitLike
from mooring.remote.conversation import Conversation
from mooring.remote.conversing import converse
from mooring.remote.endpoint import Endpoint, Standing
from mooring.remote.options import ServedOptions
from mooring.remote.policy import RemotePolicy
from mooring.remote.reach import Reach
from mooring.remote.waits import delays_s
from mooring.wire import jsonrpc
from mooring.wire.http import Headers
from mooring.wire.lines import LongLine
from mooring.wire.mirrored import MarkedTools
from mooring.wire.verdicts import Meaning, judge
from mooring.workloads.makers import Instance
from mooring.workloads.probe import INTRODUCTION
from mooring.workloads.remote_instance import limits_of
from mooring.workloads.served_instance import ServedInstance

__all__ = ["Program"]

log = logging.getLogger("mooring.workload")

FIRST_LOOK_S = 0.02
LONGEST_LOOK_S = 0.25
"""Between two looks whether it listens. On this machine they cost nothing."""
LAST_WORDS_S = 0.1
"""For what it has answered before its exit, and what was not read yet."""
PATIENCE = 0.8
"""Of the time that calls wait: so they can be given to the next program if this one listens no more."""
NOT_YET = frozenset({502, 503, 504})
STRANGE_S = 10.0
"""For one that answers, but not as an MCP server: who gave it a wrong path is waiting to be told."""
MAX_ANSWER_BYTES = 64 * 1024
"""Of an answer that may be one of MCP's, which is short."""
OF_ROUTES = frozenset({404, 405})
"""Refusals by what knows nothing of MCP; others are about the message."""
_PING = jsonrpc.request("mooring-ping", "ping")
"""Of no session: it opens none, and changes nothing."""
_INITIALIZE = jsonrpc.request("mooring-hello", "initialize", INTRODUCTION)
"""For a server that refuses whatever is of no session in the way of one that is not there."""


class Program:
    """See the module. `instance`: the process or container; `sessions`: those that have not ended."""

    def __init__(
        self,
        instance: Instance,
        port: int,
        options: ServedOptions,
        sessions: SessionPolicy,
        tools: MarkedTools,
        *,
        on_stdout: Callable[[int, str], None],
        on_gone: "Callable[[Program, ExitLike], None]",
        on_deaf: "Callable[[Program], None]",
    ) -> None:
        self.instance = instance
        self.sessions: dict[int, ServedInstance] = {}
        self.is_open = False
        """It has listened."""
        self.is_discarded = False
        """It is to end: its exit is no news."""
        self._options = options
        self._tools = tools
        self._on_stdout = on_stdout
        self._tell_gone = on_gone
        self._tell_deaf = on_deaf
        self._policy = RemotePolicy(
            max_message_bytes=sessions.max_message_bytes,
            first_wait_s=FIRST_LOOK_S,
            longest_wait_s=LONGEST_LOOK_S,
            patience_s=sessions.recovery_wait_s,
            waits_when_busy=False,
            repeats_tools=sessions.retry,
            tells_people=False,
        )
        self._deaf_s = PATIENCE * sessions.recovery_wait_s
        self._deafness: asyncio.TimerHandle | None = None
        url = f"http://127.0.0.1:{port}{options.path}"
        origin, self._target = parse_url(url)
        self._client = Client(origin, limits_of(sessions))
        self._reach = Reach(self._client, url, self._policy, self._on_reach, is_told=False)
        self._opening = asyncio.create_task(self._open(), name=f"waiting for {instance.title} to listen")
        instance.attach(self)

    # 1

    async def _open(self) -> None:
        strange_since: float | None = None
        for delay_s in delays_s(self._policy):
            try:
                if await self._is_there():
                    break
                now = asyncio.get_running_loop().time()
                strange_since = strange_since or now
                if now - strange_since >= STRANGE_S:
                    break
            except (NotSent, AnswerLost) as error:
                log.debug("%s: %s", self.instance.title, error.message)
            await asyncio.sleep(delay_s)
        self.is_open = True
        for session in self.sessions.values():
            session.open(self._converse(session))

    async def _is_there(self) -> bool:
        """Is it an MCP server that answers? Raises NotSent, AnswerLost: nobody does."""
        endpoint = Endpoint(self._client, self._target, _Nobody(), self._policy)
        span_s = self._policy.note_timeout_s
        if self._options.transport == "sse":
            return await _is_of_mcp(await endpoint.get(Standing(), ""), span_s)
        if await _is_of_mcp(await endpoint.post(_PING, [], head_timeout_s=span_s), span_s):
            return True
        response = await endpoint.post(_INITIALIZE, [], head_timeout_s=span_s)
        if not await _is_of_mcp(response, span_s):
            return False
        if (session := response.header(b"mcp-session-id")) is not None:
            (await endpoint.delete(Standing(session=session))).close()
        return True

    # 2

    def add(self, session: ServedInstance) -> None:
        """A session more."""
        self.sessions[session.n] = session
        if self.is_open:
            session.open(self._converse(session))

    def _converse(self, session: ServedInstance) -> Conversation:
        return converse(
            self._options.transport,
            self._client,
            self._target,
            _Nobody(),
            reach=self._reach,
            outlet=session.outlet,
            policy=self._policy,
            on_outcome=session.on_outcome,
            tools=self._tools,
        )

    # 3

    def _on_reach(self, why: NotSent | None) -> None:
        if self._deafness is not None:
            self._deafness.cancel()
            self._deafness = None
        if why is not None:
            self._deafness = asyncio.get_running_loop().call_later(self._deaf_s, self._tell_deaf, self)

    # The end

    @property
    def in_use(self) -> list[ServedInstance]:
        """Sessions that nobody has asked to end."""
        return [session for session in self.sessions.values() if not session.is_ending]

    async def hear_last_words(self) -> None:
        """It has exited: hear what it has answered, and no more than is there."""
        for session in self.in_use:
            session.leave()
        give_up_at = asyncio.get_running_loop().time() + LAST_WORDS_S
        while any(session.calls_sent for session in self.in_use):
            if asyncio.get_running_loop().time() >= give_up_at:
                return
            await asyncio.sleep(LAST_WORDS_S / 50)

    async def aclose(self) -> None:
        """After its end, or that of all sessions: leave no connection."""
        self._opening.cancel()
        await asyncio.gather(self._opening, return_exceptions=True)
        await self._reach.aclose()
        if self._deafness is not None:  # last: `_on_reach` may have set it meanwhile
            self._deafness.cancel()
        await self._client.aclose()

    # What the program writes to stdout, and its exit: `Receiver`

    def on_line(self, line: bytes) -> None:
        """For people, as its stderr is."""
        self._on_stdout(self.instance.process, line.decode("utf-8", "replace"))

    def on_long_line(self, line: LongLine) -> None:
        """The head of it."""
        missing = line.length - len(line.head)
        self._on_stdout(
            self.instance.process, f"{line.head.decode('utf-8', 'replace')}… [{missing} more bytes]"
        )

    def on_writable(self) -> None:
        """Nothing is said to its stdin."""

    def on_gone(self, exit: ExitLike) -> None:
        """It has exited."""
        self._tell_gone(self, exit)


async def _is_of_mcp(response: ClientResponse, span_s: float) -> bool:
    """Closes it. Raises AnswerLost: it is nobody's."""
    if response.status in NOT_YET:
        response.close()
        raise AnswerLost(f"it is not ready (HTTP status {response.status})")
    try:
        kind = response.header(b"content-type") or b""
        meaning = judge(response.status, kind, None, in_session=False).meaning
        if meaning in (Meaning.EVENTS, Meaning.ACCEPTED):
            return True
        if response.status >= 500:
            return False
        if response.status >= 400 and response.status not in OF_ROUTES:
            return True
        async with asyncio.timeout(span_s):
            body = await response.read(MAX_ANSWER_BYTES)
        if meaning is not Meaning.JSON:
            return jsonrpc.parse_refusal(body) is not None
        return jsonrpc.parse(body).is_response
    except (RemoteProtocolError, TimeoutError):
        return False
    finally:
        response.close()


class _Nobody:
    """It is our own program, on this machine: it is told nothing of who asks."""

    headers: Headers = []  # noqa: RUF012 - never changed

    async def ready(self) -> None:
        """There is nothing to expire."""

    async def renew(self, status: int = 401, challenge: bytes | None = None) -> bool:
        """There is nothing else."""
        return False
