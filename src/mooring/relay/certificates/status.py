"""What `mooring relay status` and its log may tell of the certificate. Pure."""

import msgspec

__all__ = ["CertificateStatus", "Trouble"]


class Trouble(msgspec.Struct, frozen=True):
    """What went wrong last."""

    at: float
    """In seconds since 1970, like every time here."""
    code: str
    message: str
    hint: str


class CertificateStatus(msgspec.Struct, frozen=True, kw_only=True):
    """In one moment."""

    domains: list[str]
    authority: str
    challenge: str
    valid_from: float | None
    """None, like the next two: there is no certificate."""
    valid_until: float | None
    issuer: str | None
    is_kept: bool
    """False: it could not be written so far; a restart would have to order another."""
    last_error: Trouble | None
    """None: the last attempt went well, or there was none."""
    next_attempt_at: float | None
    """None: nobody renews it."""
