"""A certificate with its chain and its key, as it is kept: in one PEM file, so that they belong together.

In front of them stands who has signed it, because one of a test authority must not be taken for a real one.
Needs the package `cryptography`.
"""

import re
from dataclasses import dataclass, field

from cryptography import x509

from mooring.relay.certificates.messages import one_line
from mooring.relay.certificates.signing import load_key

__all__ = ["Issued"]

_BLOCK = re.compile(rb"-----BEGIN ([A-Z ]{1,40})-----\r?\n[A-Za-z0-9+/=\s]+?-----END \1-----")
_AUTHORITY = re.compile(rb"^Authority: ([!-~]+)$", re.MULTILINE)
_SECONDS = 1.0


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
        head = (
            b"The certificate of a Mooring relay, and its private key.\nAuthority: %b\n" % authority.encode()
        )
        return cls.parsed(b"\n".join([head, key_pem.strip(), *blocks, b""]))

    @classmethod
    def parsed(cls, pem: bytes) -> "Issued":
        """Of what is kept. Raises ValueError if it is damaged, or does not belong together."""
        authority = _AUTHORITY.search(pem)
        blocks = [(found[1], found[0]) for found in _BLOCK.finditer(pem)]
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


def _names(leaf: x509.Certificate) -> list[str]:
    try:
        found = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return [name.lower() for name in found.get_values_for_type(x509.DNSName)]
    except x509.ExtensionNotFound:
        return []
    except (x509.DuplicateExtension, x509.UnsupportedGeneralNameType) as error:
        raise ValueError(str(error)) from None
