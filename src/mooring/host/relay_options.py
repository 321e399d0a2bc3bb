"""What `mooring relay` is asked to do, and what it refuses: plain values, and a pure judgement of them."""

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path

from mooring.errors import UserError
from mooring.relay.admission import Proxy
from mooring.relay.certificates.policy import CertificatePolicy
from mooring.relay.policy import RelayPolicy

__all__ = ["AcmeOptions", "Address", "RelayOptions", "check"]

Address = tuple[str, int]
PUBLIC_HOST = "::"
"""Every address of the machine, of both families."""


@dataclass(frozen=True, kw_only=True)
class AcmeOptions:
    """Where the certificate comes from."""

    directory: str = ""
    """Empty: Let's Encrypt."""
    ca_file: Path | None = None
    email: str = ""
    challenge: str | None = None
    """None: by HTTP if port 80 can be had, otherwise by TLS."""
    policy: CertificatePolicy = field(default_factory=CertificatePolicy)


@dataclass(frozen=True, kw_only=True)
class RelayOptions:
    """Everything it was asked to do. One of `domain`, `tls_cert` and `insecure_listen` is given."""

    state: Path
    domain: str = ""
    acme: AcmeOptions = field(default_factory=AcmeOptions)
    tls_cert: Path | None = None
    tls_key: Path | None = None
    listen: Address = (PUBLIC_HOST, 443)
    """For TLS."""
    http_listen: Address | None = (PUBLIC_HOST, 80)
    """For the authority's question, with `domain`."""
    insecure_listen: Address | None = None
    metrics_listen: Address | None = None
    public_url: str = ""
    """Empty: what can be concluded from the rest."""
    allow_origins: tuple[str, ...] = ()
    trust_proxies: tuple[Proxy, ...] = ()
    max_connections: int = 10_000
    bytes_per_minute: int | None = 512 * 1024 * 1024
    upgrades_per_second: float = 20.0
    drain_timeout_s: float = 10.0
    announce_restart: bool = False
    is_production: bool = False
    allow_plaintext: bool = False
    allow_root: bool = False
    policy: RelayPolicy = field(default_factory=RelayPolicy)

    @property
    def has_tls(self) -> bool:
        """Do we speak it ourselves?"""
        return self.insecure_listen is None


def check(options: RelayOptions, *, is_root: bool) -> None:
    """Raises UserError for what would be a mistake, in words that say how to insist."""
    ways = [bool(options.domain), options.tls_cert is not None, options.insecure_listen is not None]
    if sum(ways) != 1 or (options.tls_cert is None) != (options.tls_key is None):
        raise UserError(
            "say how the relay is reached: --domain, --tls-cert with --tls-key, or --insecure-listen",
            code="relay_address",
            hint="mooring relay --domain relay.example.com",
        )
    plain = options.insecure_listen
    if plain is not None and not _is_loopback(plain[0]) and not options.allow_plaintext:
        raise UserError(
            f"tokens would be sent in plain text to {plain[0]}, where others can read them",
            code="relay_plaintext",
            hint="listen on 127.0.0.1 behind a proxy with TLS, or use --domain; --allow-plaintext insists",
        )
    if options.metrics_listen is not None and not _is_loopback(options.metrics_listen[0]):
        raise UserError(
            "metrics are for this machine alone: --metrics-listen takes an address such as 127.0.0.1:9090",
            code="relay_metrics_public",
            hint="let a collector on this machine fetch them",
        )
    if is_root and options.is_production and not options.allow_root:
        raise UserError(
            "a relay that strangers reach should not run as root",
            code="relay_as_root",
            hint="run it as a user of its own (docs/relay.md has a systemd unit); --allow-root insists",
        )


def _is_loopback(host: str) -> bool:
    """Literals only: what a name leads to may change."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
