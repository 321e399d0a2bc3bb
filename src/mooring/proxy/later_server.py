"""A server that speaks no revision which is known here: every request is told which ones it does."""

from collections.abc import Callable

from mooring.proxy.passed_trunk import PassedTrunk
from mooring.proxy.ports import Channel
from mooring.proxy.stateless_call import StatelessCall
from mooring.wire.modern import UNSUPPORTED_VERSION
from mooring.wire.revisions import MODERN

__all__ = ["LaterServer"]


class LaterServer:
    """See `Service`: nothing is under way here."""

    has_listeners = False
    calls_in_flight = 0

    def __init__(self, versions: tuple[str, ...], clock: Callable[[], float]) -> None:
        self._data: dict[str, object] = {"supported": list(versions), "requested": MODERN}
        self._text = f"the server speaks {', '.join(versions)} only; Mooring speaks revisions up to {MODERN}"
        self._clock = clock

    def take(self, call: StatelessCall) -> None:
        """Refuse it."""
        call.refuse(UNSUPPORTED_VERSION, self._text, self._clock(), self._data)

    def adopt(self, passed: PassedTrunk, channel: Channel) -> bool:
        """See `Service`."""
        return False

    def tick(self, now: float) -> None:
        """See `Service`."""

    def hang_up(self) -> None:
        """See `Service`."""

    def cut(self, reason: str, message: str) -> int:
        """See `Service`."""
        return 0
