"""Where a server is: what a URL says about it, TLS towards it, and who stands in between."""

import ssl
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urljoin, urlsplit

from mooring.errors import UserError
from mooring.http.client_proxies import DEFAULT_PORTS, NO_PROXIES, Proxies, ProxyAddress
from mooring.http.tls import load_identity

__all__ = ["Origin", "client_context", "parse_url"]

UNIX_TARGET = "/mcp"
"""What a unix socket is asked for: its address is a path already, and Mooring serves this one."""


@dataclass(frozen=True, kw_only=True)
class Origin:
    """One server."""

    host: str = "localhost"
    port: int = 80
    unix: Path | None = None
    tls: ssl.SSLContext | None = None
    proxy: ProxyAddress | None = None
    proxy_tls: ssl.SSLContext | None = None
    """For a proxy that is spoken to by TLS itself."""

    @property
    def scheme(self) -> str:
        """`http` or `https`."""
        return "https" if self.tls else "http"

    @property
    def authority(self) -> str:
        """What `Host` says."""
        if self.unix is not None:
            return self.host
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    def resolve(self, reference: str, base: str) -> str | None:
        """The target of a URL, relative or whole, that this server names in an answer to a request for
        `base`; None if it is another server's, or no URL."""
        try:
            parts = urlsplit(urljoin(f"{self.scheme}://{self.authority}{base}", reference))
            host, port = parts.hostname or "", parts.port
        except ValueError:
            return None
        there = (parts.scheme, host.lower(), port or DEFAULT_PORTS.get(parts.scheme))
        ours = (self.scheme, self.host.lower(), DEFAULT_PORTS["http"] if self.unix else self.port)
        target = _target(parts.path, parts.query)
        return target if there == ours and parts.username is None and _is_clean(target) else None


def parse_url(
    url: str,
    ca_file: Path | None = None,
    *,
    client_cert: Path | None = None,
    client_key: Path | None = None,
    proxies: Proxies = NO_PROXIES,
    beside_system: bool = False,
) -> tuple[Origin, str]:
    """The server, and the target of requests. Raises UserError that says what to write instead.

    `beside_system`: the system's authorities are trusted too if there is a `ca_file`.

    `client_cert` (PEM): who we are, for a server that asks; its key is in the same file, or in `client_key`.
    """
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
            hint="give them as a header, from a file or by reference: --header, --token-file or --header-env",
        )
    if not host or not host.isascii():
        raise _bad(f"{url!r} names no host" if not host else f"the host of {url!r} is not ASCII")
    target = _target(parts.path, parts.query)
    if not _is_clean(target):
        raise _bad(f"the path of {url!r} has characters that must be percent-encoded")
    if (client_cert or client_key) and (parts.scheme != "https" or client_cert is None):
        raise UserError(
            "a client certificate is shown over https:// only, and needs its file beside that of the key",
            code="client_cert_unusable",
            hint="give an https:// URL, the certificate, and its key",
        )
    port = port or DEFAULT_PORTS[parts.scheme]
    trusted = partial(client_context, ca_file, beside_system=beside_system)
    tls = trusted(client_cert, client_key) if parts.scheme == "https" else None
    proxy = proxies.find(parts.scheme, host, port)
    proxy_tls = trusted() if proxy is not None and proxy.scheme == "https" else None
    return Origin(host=host, port=port, tls=tls, proxy=proxy, proxy_tls=proxy_tls), target


def _target(path: str, query: str) -> str:
    return (path or "/") + (f"?{query}" if query else "")


def _is_clean(target: str) -> bool:
    return target.isascii() and target.isprintable() and " " not in target


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


def client_context(
    ca_file: Path | None, cert: Path | None = None, key: Path | None = None, *, beside_system: bool = False
) -> ssl.SSLContext:
    """TLS 1.2 or newer; trusts the system's authorities, or those in `ca_file` (PEM) alone, or both."""
    try:
        context = ssl.create_default_context(cafile=None if beside_system else ca_file)
        if beside_system and ca_file is not None:
            context.load_verify_locations(ca_file)
    except OSError as error:  # ssl.SSLError is one too
        reason = "it holds no PEM certificate" if isinstance(error, ssl.SSLError) else error.strerror
        raise UserError(
            f"the CA file {ca_file} cannot be used: {reason}",
            code="ca_file_unusable",
            hint="give a file that begins with -----BEGIN CERTIFICATE-----",
        ) from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if cert is not None:
        load_identity(context, cert, key or cert)
    return context
