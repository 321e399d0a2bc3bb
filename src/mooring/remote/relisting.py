"""Having the tools listed by ourselves, for a call whose headers the server has refused.

Which arguments become headers is said by the list of tools, which the client may have had from another
conversation, or in another life of ours. Who refuses headers has not executed the call.
"""

import asyncio
import logging

import msgspec

from mooring.errors import MooringError
from mooring.remote.calls import Call
from mooring.remote.endpoint import Endpoint
from mooring.remote.messages import EventMessages, JsonMessages, verdict_on
from mooring.remote.policy import RemotePolicy
from mooring.wire import jsonrpc
from mooring.wire.budget import Budget
from mooring.wire.jsonrpc import Envelope
from mooring.wire.members import read_members, write_members
from mooring.wire.mirrored import MarkedTools, mirrored_headers
from mooring.wire.modern import CAPABILITIES_KEY, CLIENT_KEY, VERSION_KEY
from mooring.wire.verdicts import Meaning

__all__ = ["Relisting"]

log = logging.getLogger("mooring.remote")

MOST_PAGES = 64
"""Of one list; a list that goes on is not read."""
_ID = "mooring-tools"
_NO_CURSOR = b"null"


class Relisting:
    """Of one conversation: one list at a time."""

    def __init__(self, endpoint: Endpoint, policy: RemotePolicy, budget: Budget, tools: MarkedTools) -> None:
        self._endpoint = endpoint
        self._policy = policy
        self._budget = budget
        self._tools = tools
        self._turn = asyncio.Lock()
        self._looked = 0
        """How often we have."""

    async def changes(self, call: Call, version: str) -> bool:
        """Would a call go with other headers than it did, now that we have looked?"""

        def is_changed() -> bool:
            return mirrored_headers(call.message, version, self._tools) != call.headers

        looked = self._looked
        async with self._turn:
            if looked == self._looked and not is_changed():  # nobody has looked meanwhile
                try:
                    async with asyncio.timeout(self._policy.note_timeout_s):
                        await self._list(call, version)
                except (MooringError, TimeoutError, msgspec.DecodeError) as error:
                    log.debug("the tools could not be listed: %s", error)
                self._looked += 1
        return is_changed()

    async def _list(self, call: Call, version: str) -> None:
        """As the client of that call would."""
        said = read_members(read_members(call.message.params).get("_meta", b""))
        meta = {key: said[key] for key in (VERSION_KEY, CLIENT_KEY, CAPABILITIES_KEY) if key in said}
        params = {"_meta": write_members(meta)}
        for _ in range(MOST_PAGES):
            page = await self._ask(jsonrpc.request(_ID, "tools/list", write_members(params)), version)
            if not page.result:
                return
            for fault in self._tools.learn(page.result):
                log.warning("%s", fault, extra={"event": "bad_tool"})
            cursor = read_members(page.result).get("nextCursor", _NO_CURSOR)
            if cursor == _NO_CURSOR:
                return
            params["cursor"] = cursor

    async def _ask(self, line: bytes, version: str) -> Envelope:
        headers = mirrored_headers(jsonrpc.parse(line), version, self._tools)
        response = await self._endpoint.post(line, headers)
        try:
            meaning = verdict_on(response, in_session=False).meaning
            if meaning not in (Meaning.JSON, Meaning.EVENTS):
                return Envelope()
            kind = EventMessages if meaning is Meaning.EVENTS else JsonMessages
            async for data in kind(response, self._policy.max_message_bytes, self._budget):
                if (message := jsonrpc.parse(data)).is_response and message.id == _ID:
                    return message
            return Envelope()
        finally:
            response.close()
