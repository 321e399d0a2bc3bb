"""A certificate with its chain and its key, as it is kept: in one PEM file, so that they belong together.

In front of them stand who has signed it, because one of a test authority must not be taken for a real one,
and a digest of all that follows, because one in which some bytes are others may still look like a good one.
Needs the package `cryptography`.
"""

import hashlib
import re
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

from mooring.relay.certificates.messages import one_line
from mooring.relay.certificates.signing import load_key

__all__ = ["Issued"]

_BLOCK = re.compile(rb"-----BEGIN ([A-Z ]{1,40})-----\r?\n[A-Za-z0-9+/=\s]+?-----END \1-----")
_WHOLE = re.compile(
    rb"The certificate of a Mooring relay, and its private key\.\nDigest: ([0-9a-f]{64})\n(.*)", re.DOTALL
)
_AUTHORITY = re.compile(rb"Authority: ([!-~]+)\n")
_SECONDS = 1.0
_DAMAGES = (
    TypeError,
    OverflowError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)
"""What `cryptography` says of a certificate that is none, when it is no ValueError."""


@dataclass(frozen=True)
class Issued:
    """Nothing tells the key by accident."""

    pem: bytes = field(repr=False)
    authority: str
    """Its directory."""
    names: frozenset[str]
    valid_from: float
    """In seconds since 1970."""
    valid_until: float
    issuer: str
    """For people."""

    @classmethod
    def assembled(cls, authority: str, key_pem: bytes, chain: bytes, longest: int) -> "Issued":
        """Of what an authority sent; whatever else it wrote between the certificates is left out.

        Raises ValueError if it is not what was asked for.
        """
        blocks = [found[0] for found in _BLOCK.finditer(chain) if found[1] == b"CERTIFICATE"]
        if not 1 <= len(blocks) <= longest:
            raise ValueError(f"a chain of {len(blocks)} certificates")
        content = b"\n".join([b"Authority: %b\n" % authority.encode(), key_pem.strip(), *blocks, b""])
        head = b"The certificate of a Mooring relay, and its private key.\nDigest: %b\n" % _digest(content)
        return cls.parsed(head + content)

    @classmethod
    def parsed(cls, pem: bytes) -> "Issued":
        """Of what is kept. Raises ValueError if it is damaged, or does not belong together."""
        try:
            return cls._read(pem)
        except _DAMAGES as error:
            raise ValueError(str(error)) from None

    @classmethod
    def _read(cls, pem: bytes) -> "Issued":
        whole = _WHOLE.fullmatch(pem)
        if whole is None or _digest(whole[2]) != whole[1]:
            raise ValueError("it is not as it was written")
        authority = _AUTHORITY.match(whole[2])
        blocks = [(found[1], found[0]) for found in _BLOCK.finditer(whole[2])]
        keys = [block for kind, block in blocks if kind == b"PRIVATE KEY"]
        chain = [x509.load_pem_x509_certificate(block) for kind, block in blocks if kind == b"CERTIFICATE"]
        if authority is None or len(keys) != 1 or not chain:
            raise ValueError("something is missing")
        leaf = chain[0]
        if load_key(keys[0]).public_key() != leaf.public_key():
            raise ValueError("the key is another one's")
        return cls(
            pem=pem,
            authority=authority[1].decode(),
            names=frozenset(_names(leaf)),
            valid_from=leaf.not_valid_before_utc.timestamp(),
            valid_until=leaf.not_valid_after_utc.timestamp() + _SECONDS,  # its last second is part of it
            issuer=one_line(leaf.issuer.rfc4514_string()),
        )

    def is_for(self, authority: str, domains: tuple[str, ...]) -> bool:
        """Is it what would be ordered there for these?"""
        return self.authority == authority and self.names >= set(domains)


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()


def _names(leaf: x509.Certificate) -> list[str]:
    try:
        found = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [name.lower() for name in found.get_values_for_type(x509.DNSName)]
