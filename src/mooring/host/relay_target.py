"""Which relay is meant by an address, and with which token it is dialled."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from mooring.errors import UserError
from mooring.host.connecting import ConnectOptions
from mooring.host.connection_file import Wish
from mooring.host.credentials import is_open_to_listeners
from mooring.host.places import Places
from mooring.http.client_proxies import DEFAULT_PORTS, Proxies
from mooring.http.origin import parse_url
from mooring.relay.agent import Target
from mooring.secrets.resolving import Resolver
from mooring.secrets.vault import Vault

__all__ = ["AGENT_PATH", "CLIENT_PATH", "as_http", "as_websocket", "options_of", "token_source"]

AGENT_PATH, CLIENT_PATH = "/v1/server", "/v1/client"
SPOKEN = {"https": "wss", "http": "ws"}
SCHEMES = {"wss": "https", "ws": "http", "https": "https", "http": "http"}


def as_http(relay: str) -> str:
    """`wss://relay.example.com` as the address that HTTP has for it. Raises UserError."""
    parts, _, _ = _parts(relay)
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def as_websocket(relay: str) -> str:
    """The same in one form, however it was written: by it connections are told apart. Raises UserError."""
    parts, host, port = _parts(relay)
    user, at, _ = parts.netloc.rpartition("@")  # to be refused by whoever dials it
    place = f"[{host}]" if ":" in host else host
    suffix = "" if port == DEFAULT_PORTS[parts.scheme] else f":{port}"
    return f"{SPOKEN[parts.scheme]}://{user}{at}{place}{suffix}{parts.path.rstrip('/')}"


def _parts(relay: str) -> tuple[SplitResult, str, int]:
    """As HTTP has it, with the host in lower case and the port. Raises UserError."""
    scheme, separator, rest = relay.partition("://")
    try:
        parts = urlsplit(f"{SCHEMES[scheme.lower()]}{separator}{rest}")
        host, port = parts.hostname, parts.port or DEFAULT_PORTS[parts.scheme]
    except (KeyError, ValueError):
        host, port = None, 0
    if not host:
        raise UserError(
            f"{relay!r} is no address of a relay", code="bad_url", hint="write: wss://relay.example.com"
        )
    if parts.query or parts.fragment:
        raise UserError(
            f"the address {relay!r} has more than a relay's", code="bad_url", hint="leave out what follows"
        )
    return parts, host, port


def token_source(reference: str, places: Places, environment: Mapping[str, str]) -> Callable[[], str]:
    """Looks where the reference says, each time anew. Raises UserError when it is asked."""
    resolver = Resolver(
        Vault(places.secrets),
        environment,
        whose="the environment",
        remedy="set {name}, or keep it: mooring secret set {name}",
    )

    def token() -> str:
        try:
            return resolver.resolve({"token": reference}).variables["token"].strip()
        except UserError as error:
            if error.code != "file_unreadable":
                raise
            hint = "put the token there that mooring relay token create printed"
            raise UserError(error.message, code=error.code, hint=hint) from None

    return token


def options_of(
    wish: Wish,
    places: Places,
    servers: tuple[str, ...],
    *,
    environment: Mapping[str, str] | None = None,
    path: str = AGENT_PATH,
    on_connected: Callable[..., None] = lambda status: None,
) -> ConnectOptions:
    """What it takes to have that wish. Raises UserError."""
    origin, base = parse_url(
        as_http(wish.relay),
        Path(wish.ca_file) if wish.ca_file else None,
        proxies=Proxies.from_environment(os.environ),
    )
    if is_open_to_listeners(origin) and not wish.allow_plaintext:
        raise UserError(
            f"the token would be sent to {origin.host} in plain text, where others can read it",
            code="relay_plaintext",
            hint=f"write wss://{origin.authority}; --allow-plaintext insists",
        )
    target = Target(
        origin=origin,
        path=base.rstrip("/") + path,
        shown=wish.relay,
        url=as_http(wish.relay),
        servers=wish.servers or servers,
        is_willing=not wish.servers,
        token=token_source(wish.token, places, os.environ if environment is None else environment),
    )
    return ConnectOptions(places=places, target=target, on_connected=on_connected)
