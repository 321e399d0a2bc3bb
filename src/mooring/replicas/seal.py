"""How a replica shows another that it is one: a seal on each request, made with the key that all have. Pure.

    mooring-replica: NAME TIME PRINCIPAL SEAL

The seal covers who asks, for whom and when, by the span in which it is good; so it is the same for all
requests of one principal in that span, and so is the head of the request, which is then read once. It does
not cover the body: between replicas the network is trusted not to change what passes, or is TLS.
"""

import hashlib
import hmac
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import quote, unquote

from mooring.wire.http import Request

__all__ = ["HEADER", "INSPECTOR", "NOBODY", "SPAN_S", "Seal", "Voucher"]

HEADER = b"mooring-replica"
SPAN_S = 30
"""Of one seal. Clocks of replicas may differ by as much."""
NOBODY = ""
"""The principal for whom a replica asks that asks for itself. No client has that name."""
MAX_CHARACTERS = 1024
INSPECTOR = "mooring-sessions"
"""By which name `mooring sessions` asks for something: no incarnation has it, since those end with digits."""
KNOWN = 1024
"""Seals kept for those who are served again in the same span."""


class Voucher(NamedTuple):
    """What a replica says of a request that it passes on."""

    replica: str
    principal: str


class Seal:
    """Makes and checks them; `wall` is the time that all machines share."""

    def __init__(self, key: bytes, wall: Callable[[], float]) -> None:
        self._wall = wall
        self._made: dict[tuple[str, str, int], tuple[bytes, bytes]] = {}
        self.use(key)

    def use(self, key: bytes) -> None:
        """That of all others, from now on."""
        self._key = hashlib.sha256(b"mooring replicas\0" + key).digest()
        self._made.clear()

    def header(self, replica: str, principal: str) -> tuple[bytes, bytes]:
        """For a request of that principal; the same one throughout a span."""
        span = int(self._wall()) // SPAN_S
        field = self._made.get((replica, principal, span))
        if field is None:
            if len(self._made) >= KNOWN:
                self._made.clear()
            words = f"{quote(replica)} {span} {quote(principal)}".encode()
            field = self._made[replica, principal, span] = HEADER, words + b" " + self._mac(words)
        return field

    def read(self, request: Request) -> Voucher | None:
        """Who passes a request on, and for whom; None: no replica does, as far as can be believed."""
        value = request.head.fields.get(HEADER)
        if value is None:
            return None
        read: tuple[int, Voucher] | None = request.head.notes.get(self._key)
        if read is None:
            read = self._read(value)
            if read is None:
                return None
            request.head.notes[self._key] = read  # of this key: there may be another
        span, voucher = read
        return voucher if abs(int(self._wall()) // SPAN_S - span) <= 1 else None

    def vouch(self, request: Request) -> str | None:
        """For whom another replica passes it on, if we believe that."""
        voucher = self.read(request)
        return None if voucher is None else voucher.principal

    def _read(self, value: bytes) -> tuple[int, Voucher] | None:
        words, _, mac = value.rpartition(b" ")
        if len(value) > MAX_CHARACTERS or not hmac.compare_digest(mac, self._mac(words)):
            return None
        replica, span, principal = words.decode("ascii").split(" ")
        return int(span), Voucher(unquote(replica), unquote(principal))

    def _mac(self, words: bytes) -> bytes:
        return hmac.digest(self._key, words, "sha256").hex().encode()
