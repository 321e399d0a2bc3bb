"""Which era a server speaks, found out on an instance of its own.

Servers that speak both lock a pipe to the era of its first request, so the instance that is asked
`server/discover` is not used for anything else. A server of the handshake era answers with an error,
whichever it likes, or not at all: a `ping` is sent behind the question, and once that is answered there
is nothing to wait for.
"""

import asyncio
from typing import NamedTuple

import msgspec

from mooring.errors import RemoteProtocolError, ServerFailed
from mooring.proxy.own_requests import OwnRequests
from mooring.proxy.ports import Backend, Channel, ExitLike
from mooring.wire import jsonrpc
from mooring.wire.eras import Preface
from mooring.wire.jsonrpc import Envelope, Id
from mooring.wire.lines import LongLine
from mooring.wire.members import read_members
from mooring.wire.revisions import MODERN

__all__ = ["Discovery", "discover_request", "find_era"]

LATE_S = 1.0
"""How much later than to the ping the answer to the question may come."""
_CLIENT = b'{"name":"mooring","version":"1"}'


class Discovery(NamedTuple):
    """What a server of 2026-07-28 says of itself; `result` is empty for one of the handshake era."""

    result: bytes

    @property
    def is_modern(self) -> bool:
        """It speaks 2026-07-28."""
        return bool(self.result)


class _Asker:
    """The receiver of the instance that is asked."""

    def __init__(self) -> None:
        self.requests = OwnRequests()

    def on_line(self, line: bytes) -> None:
        try:
            message = jsonrpc.parse(line)
        except RemoteProtocolError:
            return
        if message.is_response:
            self.requests.resolve(message)

    def on_long_line(self, line: LongLine) -> None: ...

    def on_writable(self) -> None: ...

    def on_gone(self, exit: ExitLike) -> None:
        self.requests.lose(f"it ended when it was asked for its era ({exit})")


def discover_request(id: Id) -> bytes:
    """What only a server of 2026-07-28 answers with a result."""
    return jsonrpc.request(id, "server/discover", Preface(client=_CLIENT).within(b""))


async def find_era(backend: Backend, timeout_s: float) -> Discovery:
    """Ask. Raises MooringError if there is no instance to ask, or none that says anything definite."""
    channel = await backend.acquire()
    asker = _Asker()
    channel.attach(asker)
    try:
        async with asyncio.timeout(timeout_s):
            discovery = Discovery(_read(await _ask(channel, asker.requests)))
        if discovery.is_modern:
            backend.spoke(channel)
    except TimeoutError:
        raise ServerFailed("it did not say which era it speaks", code="era_unknown") from None
    finally:
        backend.release(channel, "its era is known")
    return discovery


async def _ask(channel: Channel, requests: OwnRequests) -> Envelope | None:
    """The answer; None if it has none to that, but to other questions."""
    question = asyncio.ensure_future(requests.ask(channel, discover_request("discover"), "discover"))
    ping = asyncio.ensure_future(requests.ask(channel, jsonrpc.request("ping", "ping"), "ping"))
    try:
        await asyncio.wait((question, ping), return_when=asyncio.FIRST_COMPLETED)
        if not question.done():
            is_at_home = not ping.exception() and not ping.result().error
            await asyncio.wait((question,), timeout=LATE_S if is_at_home else None)
        return question.result() if question.done() else None
    finally:
        for wait in (question, ping):
            wait.cancel()
        await asyncio.gather(question, ping, return_exceptions=True)


def _read(response: Envelope | None) -> bytes:
    """A DiscoverResult that names our revision, or nothing."""
    if response is None:
        return b""
    try:
        members = read_members(response.result)
        versions = msgspec.json.decode(members.get("supportedVersions", b"[]"), type=list[str])
    except msgspec.DecodeError:
        return b""
    return bytes(response.result) if MODERN in versions else b""
