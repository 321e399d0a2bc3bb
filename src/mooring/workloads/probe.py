"""Speaking to one instance ourselves, to learn whether the server works.

It makes the workload ready before the first client comes, and shows a server that cannot
be used while somebody is still looking at the terminal.
"""

import asyncio
import logging

from mooring.errors import RemoteProtocolError, ServerFailed
from mooring.proxy.era import discover_request
from mooring.proxy.noise import Noise
from mooring.proxy.own_requests import OwnRequests
from mooring.proxy.ports import Channel, ExitLike
from mooring.wire import jsonrpc
from mooring.wire.lines import LongLine
from mooring.wire.memory import Handshake, expect_handshake
from mooring.wire.modern import DISCOVER
from mooring.wire.revisions import LATEST

__all__ = ["INTRODUCTION", "Deaf", "Probe"]

log = logging.getLogger("mooring.workload")

INTRODUCTION = (
    b'{"protocolVersion":"' + LATEST.encode() + b'","capabilities":{},'
    b'"clientInfo":{"name":"mooring","title":"Mooring readiness check","version":"1"}}'
)


class Deaf:
    """The receiver of an instance that nobody listens to any more."""

    def on_line(self, line: bytes) -> None:
        """Ignored."""

    def on_long_line(self, line: LongLine) -> None:
        """Ignored."""

    def on_writable(self) -> None:
        """Ignored."""

    def on_gone(self, exit: ExitLike) -> None:
        """Ignored."""


class Probe(Deaf):
    """Says `initialize` to an instance and hears the answer."""

    def __init__(self, name: str, noise: Noise) -> None:
        self._name = name
        self._noise = noise
        self._requests = OwnRequests()

    async def speak(self, channel: Channel, timeout_s: float) -> Handshake:
        """What the server says of itself. Raises ServerFailed."""
        channel.attach(self)
        line = jsonrpc.request("mooring-probe", "initialize", INTRODUCTION)
        try:
            async with asyncio.timeout(timeout_s):
                response = await self._requests.ask(channel, line, "mooring-probe")
        except TimeoutError:
            text = f"it did not answer initialize within {timeout_s:g} s"
            raise ServerFailed(text, code="initialize_timeout") from None
        handshake = expect_handshake(response)
        channel.send(jsonrpc.notification("notifications/initialized"))
        return handshake

    async def answers(self, channel: Channel, method: str, timeout_s: float) -> bool:
        """Does it give a sign of life? That may be an error.

        Most servers answer pings, and must; to know it now tells one that hangs later from one that never
        does.
        """
        channel.attach(self)
        id = f"mooring-{method}"
        line = discover_request(id) if method == DISCOVER else jsonrpc.request(id, method)
        try:
            async with asyncio.timeout(timeout_s):
                await self._requests.ask(channel, line, id)
        except (TimeoutError, ServerFailed):
            return False
        return True

    def on_line(self, line: bytes) -> None:
        """Only answers matter here. What is no message may say why there is none: a usage text, say."""
        try:
            message = jsonrpc.parse(line)
        except RemoteProtocolError:
            if (shown := self._noise.excerpt(line)) is not None:
                extra = {"event": "junk_on_stdout", "server": self._name}
                log.info("%s prints what is no MCP message: %s", self._name, shown, extra=extra)
            return
        if message.is_response:
            self._requests.resolve(message)

    def on_gone(self, exit: ExitLike) -> None:
        """The wait is over."""
        self._requests.lose(f"it ended before it answered initialize ({exit})")
