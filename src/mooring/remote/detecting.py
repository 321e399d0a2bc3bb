"""Which era and which transport does a URL speak? As the specification's sections on compatibility have it:

0. POST `server/discover`, as 2026-07-28 has it: what answers that needs no handshake (`speaks_modern`).
1. POST `initialize`. It is answered: Streamable HTTP.
2. 400, 404 or 405: GET. The first event says where messages go: HTTP+SSE.

Every wait is bounded: the first by `handshake_timeout_s` (the server may have to start), the others by
`note_timeout_s`, the farewell by `farewell_timeout_s`.
"""

import asyncio
import logging
from typing import Literal

import msgspec

from mooring import __version__
from mooring.errors import RemoteProtocolError
from mooring.http.client import ClientResponse
from mooring.http.client_errors import AnswerLost, NotSent
from mooring.remote.endpoint import Endpoint, Standing
from mooring.remote.messages import EventMessages, verdict_on
from mooring.remote.policy import RemotePolicy
from mooring.wire import jsonrpc
from mooring.wire.budget import Budget
from mooring.wire.jsonrpc import Envelope
from mooring.wire.mirrored import MarkedTools, mirrored_headers
from mooring.wire.modern import (
    CAPABILITIES_KEY,
    CLIENT_KEY,
    DISCOVER,
    MAX_INTRODUCTION_BYTES,
    UNSUPPORTED_VERSION,
    VERSION_KEY,
)
from mooring.wire.revisions import LATEST, MODERN
from mooring.wire.verdicts import Meaning

__all__ = ["detect", "speaks_modern"]

log = logging.getLogger("mooring.remote")

MAX_FIRST_EVENT_BYTES = 64 * 1024
"""An address and its name; a server that begins with more is no server of that transport."""
NOT_SPOKEN = frozenset({400, 404, 405})
"""How a server that knows only the older transport answers a POST."""
_DISCOVER = jsonrpc.request(
    "mooring-detect",
    DISCOVER,
    msgspec.json.encode(
        {
            "_meta": {
                VERSION_KEY: MODERN,
                CLIENT_KEY: {"name": "mooring", "version": __version__},
                CAPABILITIES_KEY: {},
            }
        }
    ),
)
_INITIALIZE = jsonrpc.request(
    "mooring-detect",
    "initialize",
    b'{"protocolVersion":"%b","capabilities":{},"clientInfo":{"name":"mooring","version":"%b"}}'
    % (LATEST.encode(), __version__.encode()),
)


async def speaks_modern(endpoint: Endpoint, policy: RemotePolicy) -> bool:
    """Is it a server of 2026-07-28? It may be one of other revisions, too.

    Raises:
        NotSent: it cannot be reached.
        AnswerLost: it does not answer.
    """
    response = await _ask_era(endpoint, policy)
    try:
        meaning = verdict_on(response, in_session=False).meaning
        budget = Budget(policy.budget_bytes)
        async with asyncio.timeout(policy.note_timeout_s):
            if meaning is Meaning.EVENTS:
                async for data in EventMessages(response, MAX_INTRODUCTION_BYTES, budget):
                    if (message := jsonrpc.parse(data)).is_response:
                        return _is_of_era(message)
                return False
            body = await response.read(MAX_INTRODUCTION_BYTES)
        message = (
            jsonrpc.parse(body) if meaning is Meaning.JSON else jsonrpc.parse_refusal(body) or Envelope()
        )
        return _is_of_era(message)
    except (TimeoutError, RemoteProtocolError):
        return False
    finally:
        response.close()


async def _ask_era(endpoint: Endpoint, policy: RemotePolicy) -> ClientResponse:
    request = jsonrpc.parse(_DISCOVER)
    headers = mirrored_headers(request, MODERN, MarkedTools())
    return await endpoint.post(_DISCOVER, headers, head_timeout_s=policy.handshake_timeout_s)


def _is_of_era(message: Envelope) -> bool:
    """A result, or the error that only such a server knows."""
    if message.error:
        known = MODERN.encode() in bytes(message.error)
        return known and jsonrpc.error_code_of(message) == UNSUPPORTED_VERSION
    return b'"supportedVersions"' in bytes(message.result)


async def detect(endpoint: Endpoint, policy: RemotePolicy) -> Literal["http", "sse"] | None:
    """None: neither has shown itself. Streamable HTTP has the words for what is wrong then.

    A session that was opened by asking is ended.

    Raises:
        NotSent: it cannot be reached.
        AnswerLost: it does not answer.
    """
    response = await _introduce(endpoint, policy)
    if 200 <= response.status < 300:
        await _leave(endpoint, response.header(b"mcp-session-id"), policy)
        return "http"
    if response.status in NOT_SPOKEN and await _says_where(endpoint, policy):
        return "sse"
    return None


async def _introduce(endpoint: Endpoint, policy: RemotePolicy) -> ClientResponse:
    """Its head is all that is wanted."""
    response = await endpoint.post(_INITIALIZE, [], head_timeout_s=policy.handshake_timeout_s)
    response.close()
    return response


async def _leave(endpoint: Endpoint, session: bytes | None, policy: RemotePolicy) -> None:
    if session is None:
        return
    try:
        async with asyncio.timeout(policy.farewell_timeout_s):
            (await endpoint.delete(Standing(session=session))).close()
    except (NotSent, AnswerLost, TimeoutError) as error:
        log.debug("the server did not hear of the end: %s", error)


async def _says_where(endpoint: Endpoint, policy: RemotePolicy) -> bool:
    """Does a stream begin with the address for messages?"""
    response = await endpoint.get(Standing(), "")
    try:
        if verdict_on(response, in_session=False).meaning is not Meaning.EVENTS:
            return False
        budget = Budget(policy.budget_bytes)
        async with asyncio.timeout(policy.note_timeout_s):
            first = await EventMessages(response, MAX_FIRST_EVENT_BYTES, budget).next_event()
        return first.event == "endpoint"
    except (TimeoutError, StopAsyncIteration, RemoteProtocolError):
        return False
    finally:
        response.close()
