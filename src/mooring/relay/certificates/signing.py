"""The key of our account with an authority, and what is signed for it. Needs the package `cryptography`.

All keys are on the curve P-256: every authority takes them, they are made in no time, and nothing is quicker
in a handshake.
"""

import base64
import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

__all__ = ["AccountKey", "answering_certificate", "base64url", "load_key", "new_key_pem", "signing_request"]

NUMBER_BYTES = 32
ACME_IDENTIFIER = x509.ObjectIdentifier("1.3.6.1.5.5.7.1.31")
OCTET_STRING = b"\x04"
NOT_LONG = timedelta(days=7)
"""For a certificate that one authority looks at, once; as long as such things may ever take."""


class AccountKey:
    """Who we are to an authority. Nothing tells the key by accident."""

    def __init__(self, pem: str) -> None:
        """Raises ValueError if it is no such key."""
        self.pem = pem
        self._key = load_key(pem.encode())
        numbers = self._key.public_key().public_numbers()
        x, y = (base64url(number.to_bytes(NUMBER_BYTES)) for number in (numbers.x, numbers.y))
        self.public = {"crv": "P-256", "kty": "EC", "x": x, "y": y}
        """As JWK; its fields in the order of their names, as the thumbprint wants them (RFC 7638)."""
        self.thumbprint = base64url(hashlib.sha256(msgspec.json.encode(self.public)).digest())

    def __repr__(self) -> str:
        return f"<AccountKey {self.thumbprint}>"

    @classmethod
    def new(cls) -> "AccountKey":
        """One that nobody has."""
        return cls(new_key_pem().decode())

    def key_authorization(self, token: str) -> str:
        """What proves that whoever shows it has this account (RFC 8555, 8.1)."""
        return f"{token}.{self.thumbprint}"

    def sign(self, head: dict[str, Any], payload: bytes) -> bytes:
        """A request (RFC 8555, 6.2): JWS with ES256, in its flattened form."""
        protected = base64url(msgspec.json.encode({"alg": "ES256", **head}))
        encoded = base64url(payload)
        signature = self._key.sign(f"{protected}.{encoded}".encode(), ec.ECDSA(hashes.SHA256()))
        numbers = (number.to_bytes(NUMBER_BYTES) for number in decode_dss_signature(signature))
        return msgspec.json.encode(
            {"protected": protected, "payload": encoded, "signature": base64url(b"".join(numbers))}
        )


def base64url(data: bytes) -> str:
    """Without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def new_key_pem() -> bytes:
    """A private key."""
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )


def signing_request(key_pem: bytes, domains: Sequence[str]) -> bytes:
    """What an authority makes a certificate of, in DER. The names are where they belong, and nowhere else."""
    return (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([]))
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName(domain) for domain in domains]), critical=False
        )
        .sign(load_key(key_pem), hashes.SHA256())
        .public_bytes(Encoding.DER)
    )


def answering_certificate(domain: str, key_authorization: str) -> bytes:
    """For TLS-ALPN-01 (RFC 8737, 3), with its key, in PEM."""
    key_pem = new_key_pem()
    key, now = load_key(key_pem), datetime.now(UTC)
    name = x509.Name([])
    digest = hashlib.sha256(key_authorization.encode()).digest()
    proof = x509.UnrecognizedExtension(ACME_IDENTIFIER, OCTET_STRING + bytes([len(digest)]) + digest)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - NOT_LONG)
        .not_valid_after(now + NOT_LONG)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(domain)]), critical=True)
        .add_extension(proof, critical=True)
        .sign(key, hashes.SHA256())
    )
    return key_pem + certificate.public_bytes(Encoding.PEM)


def load_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    """Raises ValueError if it is none of ours."""
    try:
        key = load_pem_private_key(pem, None)
    except (TypeError, UnsupportedAlgorithm) as error:  # with a passphrase; of a kind nobody knows
        raise ValueError(str(error)) from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ValueError("not a key of ours")
    return key
