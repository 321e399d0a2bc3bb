"""Which proxy stands between us and a server: what the usual variables say. Pure.

- `HTTPS_PROXY` or `HTTP_PROXY`, by the scheme of the URL; `ALL_PROXY` for either. Lower case counts first,
  as it does for curl, and an empty one as if it were not there.
- `NO_PROXY` is a list of hosts that are reached directly: names (and all names below them), addresses,
  networks (`10.0.0.0/8`), each perhaps with a port; `*` for all.
- What is on this machine is never asked for through a proxy.

A proxy's URL may hold a password: it is in no message, and in no `repr`.
"""

import base64
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote_to_bytes, urlsplit

from mooring.errors import UserError

__all__ = ["NO_PROXIES", "Proxies", "ProxyAddress"]

DEFAULT_PORTS = {"http": 80, "https": 443}
PORT_DIGITS = 5
_SEPARATORS = re.compile(r"[,\s]+")


@dataclass(frozen=True, kw_only=True)
class ProxyAddress:
    """One proxy."""

    scheme: str
    """How the proxy itself is spoken to: `http` or `https`."""
    host: str
    port: int
    variable: str
    """Which variable names it."""
    authorization: bytes | None = field(default=None, repr=False)
    """Value of `Proxy-Authorization`."""

    def __str__(self) -> str:
        """For people: without the password."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


@dataclass(frozen=True)
class _Setting:
    variable: str = ""
    url: str = field(default="", repr=False)


@dataclass(frozen=True, kw_only=True)
class Proxies:
    """What an environment says about proxies."""

    http: _Setting = _Setting()
    https: _Setting = _Setting()
    exceptions: tuple[str, ...] = ()

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> "Proxies":
        """Nothing is checked yet: a variable that makes no sense harms nobody who does not need it."""

        def first(*names: str) -> _Setting:
            found = ((name, environ.get(name, "").strip()) for name in names)
            return next((_Setting(name, url) for name, url in found if url), _Setting())

        return cls(
            http=first("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"),
            https=first("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"),
            exceptions=tuple(filter(None, _SEPARATORS.split(first("no_proxy", "NO_PROXY").url))),
        )

    def find(self, scheme: str, host: str, port: int) -> ProxyAddress | None:
        """The proxy on the way to a server; None: it is reached directly. Raises UserError."""
        setting = self.https if scheme == "https" else self.http
        if not setting.url or _is_here(host) or any(_covers(one, host, port) for one in self.exceptions):
            return None
        return _parse(setting)


NO_PROXIES = Proxies()


def _is_here(host: str) -> bool:
    name = host.lower().rstrip(".")
    address = _address(host)
    return name == "localhost" or name.endswith(".localhost") or (address is not None and address.is_loopback)


def _covers(entry: str, host: str, port: int) -> bool:
    """Is that host one of those that an entry of NO_PROXY names?"""
    if entry == "*":
        return True
    entry, wanted_port = _split_port(entry.lower())
    if wanted_port is not None and wanted_port != port:
        return False
    if (address := _address(host)) is not None:
        try:
            network = ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
        return address.version == network.version and address in network
    name, host = entry.removeprefix("*").strip("."), host.lower().rstrip(".")
    return bool(name) and (host == name or host.endswith(f".{name}"))


def _split_port(entry: str) -> tuple[str, int | None]:
    """`host:1`, `[::1]:1`, `[::1]`, and `::1`, which has no port."""
    host, colon, port = entry.rpartition(":")
    is_number = port.isascii() and port.isdigit() and len(port) <= PORT_DIGITS
    if colon and is_number and (":" not in host or host.endswith("]")):
        return host.strip("[]"), int(port)
    return entry.strip("[]"), None


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None


def _parse(setting: _Setting) -> ProxyAddress:
    text = setting.url if "://" in setting.url else f"http://{setting.url}"
    try:
        parts = urlsplit(text)
        scheme, host, port = parts.scheme, parts.hostname, parts.port
        words = unquote_to_bytes(parts.username or "") + b":" + unquote_to_bytes(parts.password or "")
    except ValueError:  # what was no UTF-8 in the environment, too
        raise _bad(setting, "is no URL") from None
    if scheme not in DEFAULT_PORTS:
        raise _bad(setting, f"wants {scheme}://, and only http:// and https:// proxies are spoken to")
    if not host or not host.isascii():
        raise _bad(setting, "names no host")
    authorization = b"Basic " + base64.b64encode(words) if parts.username is not None else None
    return ProxyAddress(
        scheme=scheme,
        host=host,
        port=DEFAULT_PORTS[scheme] if port is None else port,
        variable=setting.variable,
        authorization=authorization,
    )


def _bad(setting: _Setting, why: str) -> UserError:
    return UserError(
        f"the variable {setting.variable} {why}",
        code="bad_proxy",
        hint=f"set {setting.variable} to http://HOST:PORT, or name the server's host in NO_PROXY",
    )
