"""`requestState` of ours: what a client sends back to go on with a call that waits for its answers.

It comes from the client, so nothing in it is believed before its seal is found good: HMAC-SHA-256 with a
key that never leaves this process. It names the call and the round of questions, and is good for one
principal, one method and one set of params, until it expires.
"""

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from mooring.wire.members import read_members, write_members
from mooring.wire.surrogates import MALFORMED

__all__ = ["MAX_CHARACTERS", "Claims", "Sealer", "digest", "replica_of"]

_SEAL_BYTES = 32
MAX_CHARACTERS = 1024
"""Of a state that is looked at; ours have some two hundred."""


OF_REPLICA = "~"
_MEMBER = b'"requestState"'
_NAME = re.compile(rf"^[A-Za-z0-9-]{{1,60}}-[0-9a-f]{{10}}{OF_REPLICA}")


class Claims(msgspec.Struct, array_like=True):
    """What a state says."""

    call: str
    round: int
    expires_at: float
    digest: bytes


class Opened(NamedTuple):
    """A state that was looked at: its claims, or why it is refused."""

    claims: Claims | None
    reason: str = ""


class Sealer:
    """Makes and checks them."""

    def __init__(self, key: bytes | None = None) -> None:
        self.key = key or secrets.token_bytes(32)
        self.replica = ""
        """Named before each seal, where there are several: only this one has the call."""

    def seal(self, claims: Claims) -> str:
        """The state for a client."""
        payload = msgspec.json.encode(claims)
        sealed = base64.urlsafe_b64encode(self._mac(payload) + payload).decode()
        return f"{self.replica}{OF_REPLICA}{sealed}" if self.replica else sealed

    def open(self, state: str, wanted: bytes, now: float) -> Opened:
        """Check one; `wanted` is the digest of the request it came with."""
        payload = self._payload(state)
        if payload is None:
            return Opened(None, "requestState is not one of ours, or was changed")
        claims = msgspec.json.decode(payload, type=Claims)
        if not hmac.compare_digest(claims.digest, wanted):
            return Opened(None, "requestState belongs to another request, or to somebody else")
        if now >= claims.expires_at:
            return Opened(None, "requestState has expired: call again without it")
        return Opened(claims)

    def has_sealed(self, state: str) -> bool:
        """Is it one that was made with this key, whatever it says?"""
        return self._payload(state) is not None

    def is_of_another_replica(self, state: str) -> bool:
        """Does it name one, and is not ours? Only that one could tell whether it is good."""
        return bool(self.replica and replica_of(state)) and not self.has_sealed(state)

    def _payload(self, state: str) -> bytes | None:
        """What is said, if the seal is good."""
        if len(state) > MAX_CHARACTERS:
            return None
        sealed = state.rpartition(OF_REPLICA)[2]
        try:
            data = base64.b64decode(sealed.encode(), altchars=b"-_", validate=True)
        except ValueError:
            return None
        seal, payload = data[:_SEAL_BYTES], data[_SEAL_BYTES:]
        return payload if hmac.compare_digest(seal, self._mac(payload)) else None

    def _mac(self, payload: bytes) -> bytes:
        return hmac.new(self.key, payload, hashlib.sha256).digest()


def replica_of(state: str) -> str:
    """The replica that a state names; empty: none."""
    return found[0].removesuffix(OF_REPLICA) if (found := _NAME.match(state)) else ""


def named(members: bytes, replica: str) -> bytes:
    """A result whose `requestState` is the server's own: from now on it names where that server is."""
    if _MEMBER not in members:
        return members
    return _changed(members, lambda state: f"{replica}{OF_REPLICA}{state}")


def unnamed(members: bytes) -> bytes:
    """Params as the server knows them: its state without the name, whichever replica that was."""
    if _MEMBER not in members:
        return members
    return _changed(members, lambda state: _NAME.sub("", state, count=1))


def _changed(members: bytes, change: Callable[[str], str]) -> bytes:
    read = read_members(members)
    try:
        state = msgspec.json.decode(read.get("requestState", b""), type=str)
    except MALFORMED:
        return members  # as it came: it is the other side's to refuse
    read["requestState"] = msgspec.json.encode(change(state))
    return write_members(read)


def digest(principal: str, method: str, params: bytes) -> bytes:
    """What a state is bound to; `params` without answers, state and `_meta`, in whichever order."""
    text = msgspec.json.encode((principal, method, _in_order(params)))
    return hashlib.sha256(text).digest()


def _in_order(params: bytes) -> bytes:
    """The same JSON with the members of every object in one order; as it came if it cannot be read."""
    try:
        return msgspec.json.encode(msgspec.json.decode(params), order="sorted")
    except MALFORMED:
        return params
