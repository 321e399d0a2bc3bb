"""One client's conversation with a server of the HTTP+SSE transport (2024-11-05), which may come and go.

What `remote.conversation` promises holds here too: one answer for every request, in order, within bounds.
The stream is the session (`remote.old_stream`): whoever waits for an answer when it is cut is told at once.
"""

from collections.abc import Callable
from typing import cast

from mooring.errors import RemoteProtocolError
from mooring.remote.caller import Caller
from mooring.remote.calls import Call
from mooring.remote.conversation import Conversation, Outlet
from mooring.remote.endpoint import Endpoint
from mooring.remote.old_caller import OldCaller
from mooring.remote.old_endpoint import OldEndpoint
from mooring.remote.old_stream import OldSession
from mooring.remote.policy import RemotePolicy
from mooring.remote.reach import Reach
from mooring.wire import jsonrpc
from mooring.wire.failures import Failure
from mooring.wire.jsonrpc import Envelope, Id
from mooring.wire.memory import Handshake

__all__ = ["OldSseConversation"]


class OldSseConversation(Conversation):
    """`take` is called with each line of the client; answers and whatever else comes go to the outlet."""

    _session: OldSession
    _caller: OldCaller

    def __init__(
        self,
        endpoint: OldEndpoint,
        reach: Reach,
        outlet: Outlet,
        policy: RemotePolicy,
        on_outcome: Callable[[Failure | None], None] = lambda failure: None,
    ) -> None:
        super().__init__(endpoint, reach, outlet, policy, on_outcome)
        self._withdrawn: list[Id] = []
        """Questions of which the client does not know yet that nobody asks them any more."""

    def _make_session(self, endpoint: Endpoint, reach: Reach) -> OldSession:
        return OldSession(
            cast("OldEndpoint", endpoint),
            reach,
            self._policy,
            self._arriving,
            hear=self.hear,
            on_cut=self._on_cut,
            on_reopened=self._on_reopened,
        )

    def _make_caller(self, endpoint: Endpoint, reach: Reach, kind: type[Caller] = OldCaller) -> Caller:
        return super()._make_caller(endpoint, reach, kind)

    def _version_of(self, message: Envelope) -> str | None:
        """Here every message is one of the session."""
        return None

    def _hear_junk(self, error: RemoteProtocolError) -> None:
        super()._hear_junk(error)
        if self.calls_in_flight:
            # It may have been the answer to any of them.
            text = f"the server sent what is no message: {error.message}"
            raise RemoteProtocolError(text, code="bad_answer")

    def _hear_answer(self, message: Envelope, line: bytes) -> None:
        if self._session.hears(message):
            return
        if message.id is None and len(self._calls) == 1:
            # An error about something that the server could not read: there is only this.
            line = jsonrpc.with_id(message, next(iter(self._calls)))
            message = jsonrpc.parse(line)
        elif message.id is None:
            self._hear_junk(RemoteProtocolError("an error that names no call", code="bad_answer"))
        super()._hear_answer(message, line)

    def _answer(self, call: Call, line: bytes) -> None:
        super()._answer(call, line)
        self._caller.answered(call)

    def _on_cut(self, why: str, code: str) -> None:
        self._withdrawn = [*self._withdrawn, *self._asked.lose()][-self._policy.max_asked :]
        self._caller.cut(why, code)

    async def _on_reopened(self, fresh: Handshake) -> None:
        withdrawn, self._withdrawn = self._withdrawn, []
        await self._tell_reopened(fresh, withdrawn)

    def _listen(self, _confirmed: object = None) -> None:
        """There is one stream for everything."""
