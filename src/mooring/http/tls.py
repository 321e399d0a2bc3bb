"""Who we are to others over TLS: a certificate and its key from two files, and what is wrong with them
in plain words. For a server, and for a client that a server wants to know."""

import ssl
from pathlib import Path

from mooring.errors import UserError

__all__ = ["load_identity", "server_context"]


def server_context(cert: Path, key: Path) -> ssl.SSLContext:
    """TLS 1.2 or newer, with the certificate chain in `cert` and its private key in `key` (both PEM)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # A client that offers HTTP/2 then knows that it will not get it.
    context.set_alpn_protocols(["http/1.1"])
    load_identity(context, cert, key)
    return context


def load_identity(context: ssl.SSLContext, cert: Path, key: Path) -> None:
    """Have `context` show that certificate. Raises UserError."""
    for path, what in ((cert, "certificate"), (key, "private key")):
        _check_readable(path, what)

    def no_password() -> str:
        # Without this OpenSSL would ask on the terminal.
        raise UserError(
            f"the private key {key} is encrypted",
            code="tls_key_encrypted",
            hint="give a key without a passphrase: openssl pkey -in KEY -out NEW",
        )

    try:
        context.load_cert_chain(cert, key, no_password)
    except ssl.SSLError as error:
        raise _explained(error, cert, key) from error


def _check_readable(path: Path, what: str) -> None:
    try:
        with path.open("rb"):
            pass
    except OSError as error:
        raise UserError(
            f"the TLS {what} {path} cannot be read: {error.strerror}",
            code="tls_file_unreadable",
            hint=f"check the path and that its reader may read it: ls -l {path}",
        ) from error


def _explained(error: ssl.SSLError, cert: Path, key: Path) -> UserError:
    if error.reason == "KEY_VALUES_MISMATCH":
        return UserError(
            f"the TLS private key {key} does not belong to the certificate {cert}",
            code="tls_mismatch",
            hint="give the key that the certificate was made for",
        )
    if b"-----BEGIN CERTIFICATE-----" not in cert.read_bytes():
        wrong, what = cert, "certificate"
    elif b"PRIVATE KEY-----" not in key.read_bytes():
        wrong, what = key, "private key"
    else:
        return UserError(
            f"{cert} and {key} cannot be used for TLS: {error.reason or error}",
            code="tls_bad_file",
            hint="make both files anew; one of them is damaged",
        )
    return UserError(
        f"{wrong} is not a PEM {what}", code="tls_bad_file", hint="give a file that begins with -----BEGIN"
    )
