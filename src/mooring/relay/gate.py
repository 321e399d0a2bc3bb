"""Who asks: the token of a request, and how often its address has come with none."""

import math
import re

from mooring.http.problems import problem
from mooring.relay.admission import ClientAddress, RateLimiter
from mooring.relay.token_book import TokenBook
from mooring.relay.tokens import Grant
from mooring.wire.http import Headers, Request, Response

__all__ = ["Gate", "unauthorized"]

BEARER = re.compile(rb"bearer +(\S+)", re.IGNORECASE)


class Gate:
    """Judges by the head of a request alone, before any of its body is read."""

    def __init__(
        self, book: TokenBook, addresses: ClientAddress, *, upgrades: RateLimiter, failures: RateLimiter
    ) -> None:
        self._book = book
        self._addresses = addresses
        self._upgrades = upgrades
        self._failures = failures

    def address(self, request: Request) -> str:
        """Whom it counts for."""
        return self._addresses.of(request.peer, request.header_all(b"x-forwarded-for"))

    def check_upgrade(self, request: Request) -> Response | None:
        """May this address open one more WebSocket now?"""
        return _too_often(self._upgrades.take(self.address(request)))

    def check_token(self, request: Request) -> Grant | Response:
        """What the token of a request allows, or the answer to one that has none."""
        presented = request.header_all(b"authorization")
        match = BEARER.fullmatch(presented[0]) if len(presented) == 1 else None
        return self.check(match[1] if match else None, request)

    def check(self, token: bytes | None, request: Request) -> Grant | Response:
        """The same of a token that came in other words."""
        grant = (self._book.find(token) or self._book.find_new(token)) if token is not None else None
        if grant is not None:
            return grant
        # Only who has failed before is slowed down: whoever has a good token is not, wherever it comes from.
        return _too_often(self._failures.take(self.address(request))) or unauthorized(
            is_wrong=token is not None
        )


def unauthorized(*, is_wrong: bool) -> Response:
    """A token is needed, and this was none."""
    challenge = b'Bearer realm="mooring relay"' + (b', error="invalid_token"' if is_wrong else b"")
    return problem(
        401,
        "unauthorized",
        "the token presented is not valid here" if is_wrong else "this relay needs a token",
        hint="send the header Authorization: Bearer TOKEN; mooring relay token create makes one",
        headers=[(b"www-authenticate", challenge)],
    )


def _too_often(wait_s: float) -> Response | None:
    if not wait_s:
        return None
    headers: Headers = [(b"retry-after", b"%d" % math.ceil(wait_s))]
    return problem(
        429, "rate_limited", "too many attempts from this address; try again later", headers=headers
    )
