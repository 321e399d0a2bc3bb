"""Speaking to one instance ourselves, to learn whether the server works.

It makes the workload ready before the first client comes, and shows a server that cannot
be used while somebody is still looking at the terminal.
"""

import logging

from mooring.errors import RemoteProtocolError, ServerFailed
from mooring.proxy.ports import Channel, ExitLike
from mooring.proxy.questions import Questions
from mooring.wire import jsonrpc
from mooring.wire.lines import LongLine
from mooring.wire.memory import Handshake, read_handshake
from mooring.wire.revisions import LATEST

__all__ = ["Deaf", "Probe"]

log = logging.getLogger("mooring.workload")

_PARAMS = (
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

    def __init__(self, name: str) -> None:
        self._name = name
        self._questions = Questions()

    async def speak(self, channel: Channel, timeout_s: float) -> Handshake:
        """What the server says of itself. Raises ServerFailed."""
        channel.attach(self)
        line = jsonrpc.request("mooring-probe", "initialize", _PARAMS)
        response = await self._questions.ask(channel, line, "mooring-probe", timeout_s)
        if response.error:
            text = bytes(response.error)[:500].decode("utf-8", "replace")
            raise ServerFailed(f"it refuses initialize: {text}", code="initialize_failed")
        try:
            handshake = read_handshake(response.result)
        except RemoteProtocolError as error:
            raise ServerFailed(error.message, code="initialize_failed") from None
        channel.send(jsonrpc.notification("notifications/initialized"))
        return handshake

    def on_line(self, line: bytes) -> None:
        """Only answers matter here. What is no message may say why there is none: a usage text, say."""
        try:
            message = jsonrpc.parse(line)
        except RemoteProtocolError:
            shown = line[:200].decode("utf-8", "replace")
            extra = {"event": "junk_on_stdout", "server": self._name}
            log.info("%s prints what is no MCP message: %s", self._name, shown, extra=extra)
            return
        if message.is_response:
            self._questions.resolve(message)

    def on_gone(self, exit: ExitLike) -> None:
        """The wait is over."""
        self._questions.lose(f"it ended before it answered initialize ({exit})")
