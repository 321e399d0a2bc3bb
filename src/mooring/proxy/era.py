"""Which era a server speaks, found out on an instance of its own.

Servers that speak both lock a pipe to the era of its first request, so the instance that is asked
`server/discover` is not used for anything else. A server of the handshake era answers with an error,
whichever it likes, or not at all: a `ping` is sent behind the question, and once that is answered there
is nothing to wait for. One that says nothing to either, or exits, is supposed to be of that era; whether
it is, its handshake will show.
"""

import asyncio
from typing import NamedTuple

import msgspec

from mooring.errors import RemoteProtocolError, ServerFailed
from mooring.proxy.introduction import introduce
from mooring.proxy.own_requests import OwnRequests
from mooring.proxy.ports import Backend, Channel, ExitLike
from mooring.wire import jsonrpc
from mooring.wire.eras import Preface
from mooring.wire.jsonrpc import Envelope, Id, error_code_of
from mooring.wire.lines import LongLine
from mooring.wire.members import read_members
from mooring.wire.memory import Memory
from mooring.wire.modern import UNSUPPORTED_VERSION
from mooring.wire.revisions import MODERN, SERVED
from mooring.wire.verdicts import OTHER_ERA

__all__ = ["Discovery", "discover_request", "find_era", "takes_handshakes"]

LATE_S = 1.0
"""How much later than to the ping the answer to the question may come."""
_CLIENT = b'{"name":"mooring","version":"1"}'


class Discovery(NamedTuple):
    """What a server of 2026-07-28 says of itself; `result` is empty for others."""

    result: bytes = b""
    later: tuple[str, ...] = ()
    """The revisions of a server that speaks none which is known here."""
    is_sure: bool = True
    """Else it has told nothing, and the handshake era is only supposed."""

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
    """Ask. Raises MooringError if there is no instance to ask."""
    channel = await backend.acquire(expendable=True)
    asker = _Asker()
    channel.attach(asker)
    try:
        async with asyncio.timeout(timeout_s):
            discovery = _read(await _ask(channel, asker.requests))
        if discovery.is_modern:
            backend.spoke(channel)
    except (TimeoutError, ServerFailed):
        return Discovery(is_sure=False)
    finally:
        backend.release(channel, "it was asked for its era")
    return discovery


async def takes_handshakes(backend: Backend, timeout_s: float) -> bool:
    """Does it answer an `initialize` of ours? Raises MooringError if there is no instance to ask."""
    channel = await backend.acquire(expendable=True)
    asker = _Asker()
    channel.attach(asker)
    try:
        async with asyncio.timeout(timeout_s):
            await introduce(channel, Memory.introducing_ourselves(), asker.requests, "mooring")
    except (TimeoutError, ServerFailed):
        return False
    finally:
        backend.release(channel, "it was asked whether it takes handshakes")
    return True


async def _ask(channel: Channel, requests: OwnRequests) -> Envelope | None:
    """The answer; None if it has none to that, but to other questions."""
    asking = requests.ask(channel, discover_request("discover"), "discover")
    if getattr(channel, "speaks_modern", False):
        return await asking  # it is elsewhere, and has said so: what has no envelope is nothing to it
    question = asyncio.ensure_future(asking)
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


def _read(response: Envelope | None) -> Discovery:
    """A DiscoverResult that names our revision, or another that says which ones it has."""
    if response is None:
        return Discovery()
    try:
        if response.error:
            if not _is_of_the_server(response):
                return Discovery(is_sure=False)
            is_modern = error_code_of(response) == UNSUPPORTED_VERSION
            data = read_members(response.error).get("data", b"{}") if is_modern else b"{}"
            named = read_members(data).get("supported", b"[]")
        else:
            named = read_members(response.result).get("supportedVersions", b"[]")
        versions = msgspec.json.decode(named, type=list[str])
    except msgspec.DecodeError:
        return Discovery()
    if MODERN in versions and response.result:
        return Discovery(bytes(response.result))
    return Discovery() if set(SERVED).intersection(versions) else Discovery(later=tuple(versions))


class _Data(msgspec.Struct):
    reason: str = ""


class _Error(msgspec.Struct):
    data: _Data = msgspec.field(default_factory=_Data)


def _is_of_the_server(response: Envelope) -> bool:
    """Else Mooring has answered in its place: who is busy, or lets nobody in, tells nothing of its era."""
    try:
        reason = msgspec.json.decode(response.error, type=_Error).data.reason
    except msgspec.DecodeError:
        return True
    return not reason or reason in OTHER_ERA
