"""Where the rest of the relay comes in. Only who wants to order a certificate needs what that takes."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mooring.errors import UserError, how_to_install
from mooring.relay.certificates.policy import Authority, CertificatePolicy

if TYPE_CHECKING:
    from mooring.relay.certificates.keeper import Certificates

__all__ = ["open_certificates"]


def open_certificates(
    domains: Sequence[str],
    folder: Path,
    authority: Authority | None = None,
    *,
    challenge: str | None = None,
    policy: CertificatePolicy | None = None,
    wall: Callable[[], float] = time.time,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> "Certificates":
    """See `keeper.Certificates`. Raises UserError, also if what it needs is not installed."""
    try:
        from mooring.relay.certificates.keeper import Certificates  # noqa: PLC0415 - optional, and large
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "cryptography":
            raise
        raise UserError(
            "no certificate can be ordered: the Python package cryptography is not installed beside Mooring",
            code="acme_not_installed",
            hint=f"install it with: {how_to_install('acme')}; or give a certificate with --tls-cert",
        ) from None
    return Certificates(
        domains,
        folder,
        authority or Authority(),
        challenge=challenge,
        policy=policy or CertificatePolicy(),
        wall=wall,
        sleep=sleep,
    )
