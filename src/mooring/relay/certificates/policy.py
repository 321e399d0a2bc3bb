"""When a certificate is renewed, how often that is tried, and how long each step may take. Pure."""

from dataclasses import dataclass
from pathlib import Path

from mooring.http.client_proxies import NO_PROXIES, Proxies

__all__ = [
    "LETS_ENCRYPT",
    "Authority",
    "CertificatePolicy",
    "due_at",
    "next_look_s",
    "retry_s",
]

LETS_ENCRYPT = "https://acme-v02.api.letsencrypt.org/directory"
KIB = 1024
HOUR_S = 3600.0
DAY_S = 24 * HOUR_S


@dataclass(frozen=True, kw_only=True)
class Authority:
    """Who signs certificates for us."""

    url: str = LETS_ENCRYPT
    """Of its directory (RFC 8555, 7.1.1)."""
    ca_file: Path | None = None
    """Who signed the certificate of its own web server (PEM), if the system does not know."""
    email: str | None = None
    """Where it may write to, should something be wrong with our account."""
    proxies: Proxies = NO_PROXIES
    """On the way to it."""


@dataclass(frozen=True, kw_only=True)
class CertificatePolicy:
    """Values given where the relay is put together. Spans are in seconds."""

    left_for_renewal: float = 1 / 3
    """Of its lifetime: 30 of 90 days, as authorities advise. Whatever fails can fail for that long."""
    look_interval_s: float = 12 * HOUR_S
    """A look costs nothing: the clock is read. So often, because the clock may have been set meanwhile."""
    look_jitter: float = 0.1
    """Only shortens: relays that were started together do not all renew in the same moment."""
    first_retry_s: float = 60.0
    """After a failure; it doubles from there. Most often somebody is just setting things up."""
    longest_retry_s: float = HOUR_S
    """Let's Encrypt forgives five failures an hour for each domain; others less."""
    retry_jitter: float = 0.25
    """Only adds."""
    longest_retry_after_s: float = 7 * DAY_S
    """An authority that asks for more is asked again all the same: its longest window is a week."""

    request_timeout_s: float = 30.0
    """For one request, from the name to the end of the answer. Under load they take several seconds."""
    validation_timeout_s: float = 180.0
    """For the authority to look at one domain; it does so from several places, and tries again by itself."""
    issuing_timeout_s: float = 180.0
    """For the certificate, once everything is shown."""
    order_timeout_s: float = 900.0
    """For all of it, whatever the number of domains."""
    first_poll_s: float = 0.5
    """Until we ask whether it is done; it doubles from there. The authority may say otherwise."""
    longest_poll_s: float = 15.0
    """Whatever the authority says: to hear of a failure late is no use."""
    disk_timeout_s: float = 30.0
    """For a file to be read or written."""

    max_domains: int = 100
    """In one certificate; more is refused by Let's Encrypt."""
    max_answer_bytes: int = 256 * KIB
    """Of the authority; a chain has some 5 KiB."""
    max_chain: int = 10
    """Certificates in it; three are usual."""
    max_hosts: int = 4
    """That the authority's directory may name; all known ones name one."""
    nonce_tries: int = 10
    """How often one request may be refused because its nonce is not known (any more)."""
    max_clock_skew_s: float = HOUR_S
    """Between our clock and the authority's. Certificates begin an hour ago, so less does no harm."""


def due_at(policy: CertificatePolicy, valid_from: float, valid_until: float) -> float:
    """When a certificate is to be renewed that is good between these two."""
    return valid_until - policy.left_for_renewal * (valid_until - valid_from)


def next_look_s(
    policy: CertificatePolicy, now: float, valid_from: float, valid_until: float, random: float
) -> float:
    """How long until the clock is looked at again; 0: the certificate is due. `random`: below 1."""
    until_due_s = max(0.0, due_at(policy, valid_from, valid_until) - now)
    return min(until_due_s, policy.look_interval_s * (1 - policy.look_jitter * random))


def retry_s(policy: CertificatePolicy, failures: int, retry_after_s: float | None, random: float) -> float:
    """How long to wait after that many failures in a row. What the authority asks for is the least."""
    doubled_s = policy.first_retry_s * 2.0 ** min(failures - 1, 32)
    delay_s = min(doubled_s, policy.longest_retry_s) * (1 + policy.retry_jitter * random)
    return max(delay_s, min(retry_after_s or 0.0, policy.longest_retry_after_s))
