"""What makes an answer ours: PKCE (RFC 7636) and `state`. Random, and compared without telling by time."""

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass, field

__all__ = ["Proof", "challenge_of", "is_same", "new_proof"]

RANDOM_BYTES = 32
"""RFC 7636 §7.1: as many bits as the digest has."""


@dataclass(frozen=True)
class Proof:
    """Of one authorization request. Never shown by accident."""

    verifier: str = field(repr=False)
    state: str = field(repr=False)

    @property
    def challenge(self) -> str:
        """What the authorization server is shown first."""
        return challenge_of(self.verifier)


def new_proof() -> Proof:
    """For one request, never for another."""
    return Proof(secrets.token_urlsafe(RANDOM_BYTES), secrets.token_urlsafe(RANDOM_BYTES))


def challenge_of(verifier: str) -> str:
    """S256: the digest of the verifier."""
    digest = hashlib.sha256(verifier.encode("ascii")).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")


def is_same(one: str, other: str) -> bool:
    """Are the texts equal?"""
    return hmac.compare_digest(one.encode("utf-8", "surrogatepass"), other.encode("utf-8", "surrogatepass"))
