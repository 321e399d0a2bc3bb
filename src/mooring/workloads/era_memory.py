"""Which era a server speaks, remembered from one Mooring to the next.

To find it out takes an instance of its own, which a client waits for. What was found out is written down for
the command of the server and the version that it said to be. It is believed as soon as a server of that
command has said, to the readiness probe, that it is of the same version; after an upgrade it is not, and is
found out anew by the next who needs it.
"""

from collections.abc import Callable

from mooring.proxy.era import Discovery
from mooring.proxy.stateless import Stateless
from mooring.store.records import Era
from mooring.wire.memory import Handshake

__all__ = ["MAX_DISCOVERY_BYTES", "EraMemory"]

MAX_DISCOVERY_BYTES = 64 * 1024
"""What a server of 2026-07-28 says of itself; longer words are not written down."""


class EraMemory:
    """Of one generation of a workload."""

    def __init__(self, command: str, stateless: Stateless, write: Callable[[Era], None]) -> None:
        self.command = command
        self._stateless = stateless
        self._write = write
        self._recalled: Era | None = None
        self._version = ""
        self._found: Discovery | None = None
        stateless.on_known = self._known

    def recall(self, era: Era | None) -> None:
        """What an earlier Mooring has found out."""
        self._recalled = era

    def met(self, handshake: Handshake) -> None:
        """A server of that command has said who it is."""
        info = handshake.server_info
        self._version = f"{info.name} {info.version}" if info.version else ""
        era = self._recalled
        if era is not None and era.version == self._version:
            self._stateless.known(Discovery(era.discovery))
        self._keep()

    def _known(self, discovery: Discovery) -> None:
        if not discovery.later:  # of revisions to come nobody knows what the next Mooring will speak
            self._found = discovery
        self._keep()

    def _keep(self) -> None:
        """Both are known, and are news."""
        if not self._version or self._found is None or len(self._found.result) > MAX_DISCOVERY_BYTES:
            return
        era = Era(self.command, self._version, self._found.result)
        if era != self._recalled:
            self._recalled = era
            self._write(era)
