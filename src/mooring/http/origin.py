"""Where a server is: what a URL says about it, and TLS towards it."""

import ssl
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from mooring.errors import UserError

__all__ = ["Origin", "client_context", "parse_url"]

DEFAULT_PORTS = {"http": 80, "https": 443}
UNIX_TARGET = "/mcp"
"""What a unix socket is asked for: its address is a path already, and Mooring serves this one."""


@dataclass(frozen=True, kw_only=True)
class Origin:
    """One server."""

    host: str = "localhost"
    port: int = 80
    unix: Path | None = None
    tls: ssl.SSLContext | None = None

    @property
    def authority(self) -> str:
        """What `Host` says."""
        if self.unix is not None:
            return self.host
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = DEFAULT_PORTS["https" if self.tls else "http"]
        return host if self.port == usual else f"{host}:{self.port}"


def parse_url(url: str, ca_file: Path | None = None) -> tuple[Origin, str]:
    """The server, and the target of requests. Raises UserError that says what to write instead."""
    if url.startswith("unix:"):
        return _parse_unix(url)
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise _bad(f"{url!r} is not a URL: {error}") from None
    if parts.scheme not in DEFAULT_PORTS or not parts.netloc:
        raise _without_scheme(url, parts.scheme)
    if parts.username is not None or parts.password is not None:
        raise UserError(
            "the URL holds a user name or a password, which everybody can see who lists processes",
            code="secret_in_url",
            hint="use --token-file PATH, or --header-env Authorization=VARIABLE",
        )
    if not host or not host.isascii():
        raise _bad(f"{url!r} names no host" if not host else f"the host of {url!r} is not ASCII")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not target.isascii() or not target.isprintable() or " " in target:
        raise _bad(f"the path of {url!r} has characters that must be percent-encoded")
    tls = client_context(ca_file) if parts.scheme == "https" else None
    return Origin(host=host, port=port or DEFAULT_PORTS[parts.scheme], tls=tls), target


def _parse_unix(url: str) -> tuple[Origin, str]:
    path = url.removeprefix("unix:")
    path = path.removeprefix("//") if path.startswith("///") else path
    if not path:
        raise _bad("unix: without a path")
    return Origin(unix=Path(path)), UNIX_TARGET


def _without_scheme(url: str, scheme: str) -> UserError:
    if "://" in url:
        return _bad(f"{scheme}:// is not spoken here")
    return UserError(
        f"{url!r} does not begin with http:// or https://", code="bad_url", hint=f"write: http://{url}"
    )


def _bad(message: str) -> UserError:
    hint = "give a URL such as http://127.0.0.1:4670/mcp, or unix:PATH"
    return UserError(message, code="bad_url", hint=hint)


def client_context(ca_file: Path | None) -> ssl.SSLContext:
    """TLS 1.2 or newer; trusts the system's authorities, or those in `ca_file` (PEM) alone."""
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except OSError as error:  # ssl.SSLError is one too
        reason = "it holds no PEM certificate" if isinstance(error, ssl.SSLError) else error.strerror
        raise UserError(
            f"the CA file {ca_file} cannot be used: {reason}",
            code="ca_file_unusable",
            hint="give a file that begins with -----BEGIN CERTIFICATE-----",
        ) from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context
