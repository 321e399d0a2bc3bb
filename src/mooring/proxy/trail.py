"""Which servers of Mooring's a request has come through: one that comes back would go round for ever.

Every server of Mooring's has a random name for that. What is sent to a server elsewhere carries it, and the
names that have come with the requests of its clients; who reads its own name there refuses.
"""

import re
import secrets

from mooring.proxy.calls import JSON_HEADERS
from mooring.wire import jsonrpc
from mooring.wire.http import Headers, Response
from mooring.wire.jsonrpc import INTERNAL_ERROR, Id

__all__ = ["VIA", "Trail", "goes_round"]

VIA = b"mooring-via"
MOST_NAMES = 16
"""Those that came last: with more, a loop is only noticed some rounds later."""
_NAME = re.compile(rb"[A-Za-z0-9_-]{1,32}")
GOES_ROUND = (
    "this is the server's own address: what is asked there comes back here, and would go round for ever"
)


class Trail:
    """Of one server."""

    def __init__(self) -> None:
        self._own = secrets.token_urlsafe(12).encode()
        self._met: dict[bytes, None] = {}

    @property
    def headers(self) -> Headers:
        """What is sent to a server elsewhere carries this."""
        return [(b"Mooring-Via", b", ".join((self._own, *self._met)))]

    def comes_back(self, via: bytes | None) -> bool:
        """Has it come through here before? `via`: what it says of that. If not, the names are noted."""
        if via is None:
            return False
        names = [name.strip() for name in via.split(b",", MOST_NAMES)[:MOST_NAMES]]
        if self._own in names:
            return True
        for name in reversed(names):
            if _NAME.fullmatch(name):
                self._met.pop(name, None)
                self._met = dict.fromkeys((name, *self._met))
        for name in list(self._met)[MOST_NAMES - 1 :]:
            del self._met[name]
        return False


def goes_round(id: Id | None) -> Response:
    """The answer to what comes back."""
    data = {"reason": "loop", "retryable": False}
    return Response(508, jsonrpc.error_response(id, INTERNAL_ERROR, GOES_ROUND, data), JSON_HEADERS)
