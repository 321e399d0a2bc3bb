"""Knowing which arguments of tools are headers too, before the first call that has such headers.

Whoever routes a call by `Mcp-Param-…` relies on our comparing it with the body, also if no client has ever
listed the tools. So the server is asked for its tools, once, in the name of the client that calls; calls
of that kind wait for it. They are not served unless it is known what their headers must be.
"""

import asyncio
from collections.abc import Callable

import msgspec
from msgspec import Raw

from mooring.errors import RemoteProtocolError
from mooring.proxy.policy import SessionPolicy
from mooring.proxy.stateless import Stateless
from mooring.wire import jsonrpc
from mooring.wire.eras import Preface
from mooring.wire.http import Head
from mooring.wire.members import read_members, write_members
from mooring.wire.mirrored import MarkedTools, has_mirrored_arguments
from mooring.wire.modern import ModernRequest

__all__ = ["ToolLists"]

LIST_S = 10.0
"""How long a call waits for the tools to be listed."""
MOST_PAGES = 64
"""Of one list; a list that goes on is not read."""

Then = Callable[[bool], None]
"""What to do when the tools are known, or (false) could not be."""


class ToolLists:
    """One list at a time, whoever wants to know."""

    def __init__(self, stateless: Stateless, tools: MarkedTools, policy: SessionPolicy) -> None:
        self._stateless = stateless
        self._tools = tools
        self._policy = policy
        self._waiting: list[Then] = []
        self._waiting_bytes = 0

    def are_wanted(self, request: ModernRequest, head: Head) -> bool:
        """Does a call have headers of which we do not know what they must be?"""
        is_call = request.method == "tools/call"
        return is_call and not self._tools.are_complete and has_mirrored_arguments(head)

    def read(self, request: ModernRequest, principal: str, then: Then) -> None:
        """Have them listed, as the client of that request would, and go on; at once if too many wait."""
        policy, size_bytes = self._policy, len(request.params)
        is_full = len(self._waiting) >= policy.max_calls
        if is_full or (self._waiting and self._waiting_bytes + size_bytes > policy.waiting_bytes):
            then(False)
            return
        self._waiting.append(then)
        self._waiting_bytes += size_bytes
        if len(self._waiting) == 1:
            _Reading(self._stateless, request, principal, self._go_on)

    def _go_on(self, are_known: bool) -> None:
        self._tools.are_complete = are_known
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        for then in waiting:
            then(are_known)


class _Reading:
    """One list, page by page. See `StatelessReply`: it is the client of requests of our own."""

    is_over = False

    def __init__(self, stateless: Stateless, request: ModernRequest, principal: str, then: Then) -> None:
        self._stateless = stateless
        self._for = request
        self._principal = principal
        self._then = then
        self._gone: Callable[[], None] | None = None
        self._pages = 0
        self._bound = asyncio.get_running_loop().call_later(LIST_S, self._give_up)
        self._ask(b"{}")

    def _ask(self, params: bytes) -> None:
        self._pages += 1
        client = self._for
        request = ModernRequest(
            f"tools-{self._pages}",
            "tools/list",
            Raw(Preface(client.capabilities, client.client).within(params)),
            client.capabilities,
            client.client,
            log_level=None,
            progress_token=None,
            name=b"",
            request_state=None,
            input_responses=b"",
        )
        self._stateless.take(request, self, self._principal)

    def answer(self, line: bytes, code: int, now: float) -> None:
        """A page. That of which it tells has been noted by whoever had it first."""
        try:
            cursor = read_members(jsonrpc.parse(line).result).get("nextCursor", b"null")
        except (RemoteProtocolError, msgspec.DecodeError):
            code = jsonrpc.INTERNAL_ERROR
        if self.is_over:
            return
        if code or self._pages >= MOST_PAGES:
            self._end(are_known=False)
        elif cursor == b"null":
            self._end(are_known=True)
        else:
            # Not within the call that has just ended: that has to be cleared away first.
            asyncio.get_running_loop().call_soon(self._ask_on, write_members({"cursor": cursor}))

    def _ask_on(self, params: bytes) -> None:
        if not self.is_over:
            self._ask(params)

    def _give_up(self) -> None:
        self._end(are_known=False)
        if self._gone is not None:
            self._gone()

    def _end(self, *, are_known: bool) -> None:
        self.is_over = True
        self._bound.cancel()
        asyncio.get_running_loop().call_soon(self._then, are_known)

    def on_gone(self, gone: Callable[[], None]) -> None:
        """See `StatelessReply`."""
        self._gone = gone

    def begin_stream(self, now: float) -> None:
        """See `StatelessReply`."""

    def note(self, line: bytes, now: float) -> None:
        """See `StatelessReply`."""

    def tick(self, now: float) -> None:
        """See `StatelessReply`."""
