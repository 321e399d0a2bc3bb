"""Requests to addresses that somebody else has named. Every one of them, and every hop, is checked first.

Invariants:
- A name is looked up once; what is checked is what is connected to. A name that changes its mind between the
  two (DNS rebinding) changes nothing.
- If one address of a name may not be asked, none is.
- A proxy looks names up by itself, so there it is the proxy that keeps us out of where we must not go; what a
  name means here is still looked at, if it means anything.
- Only GET follows redirects, a few, each hop checked like the first; whatever carries a secret follows none.
- One request, one connection, which is closed when the answer is read; both have bounds.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urldefrag, urljoin

from mooring import __version__
from mooring.errors import MooringError, RemoteProtocolError, UserError
from mooring.http.client_connection import ClientConnection
from mooring.http.client_errors import BadAnswer, NoAnswer, NotSent, NotTrusted
from mooring.http.client_limits import ClientLimits
from mooring.http.client_opening import open_connection
from mooring.http.client_proxies import NO_PROXIES, Proxies
from mooring.http.client_racing import first_of
from mooring.http.origin import Origin, parse_url
from mooring.oauth.addresses import Kind, kind_of, may_name, nearest
from mooring.oauth.bounds import MAX_ANSWER_BYTES, MOST_ADDRESSES, MOST_REDIRECTS, REQUEST_S
from mooring.oauth.metadata import canonical, origin_of
from mooring.wire.http import Headers

__all__ = ["INTERNET", "Answer", "Fetcher", "Network", "TlsFiles", "server_of", "through"]

REDIRECTS = frozenset({301, 302, 303, 307, 308})
AGENT = f"mooring/{__version__}".encode()


@dataclass(frozen=True)
class Answer:
    """To one request. Its body may be a token, so it is not shown."""

    status: int
    headers: Headers = field(repr=False)
    body: bytes = field(repr=False)

    def header_all(self, name: bytes) -> list[bytes]:
        """Every field of that (lower case) name."""
        return [value for key, value in self.headers if key == name]


Resolve = Callable[[str, int], Awaitable[list[str]]]
Dial = Callable[
    [Callable[[], ClientConnection], str, int, ssl.SSLContext | None, str],
    Coroutine[Any, Any, ClientConnection],
]


async def _resolve(host: str, port: int) -> list[str]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


async def _dial(
    make: Callable[[], ClientConnection], address: str, port: int, tls: ssl.SSLContext | None, name: str
) -> ClientConnection:
    loop = asyncio.get_running_loop()
    server_name = name if tls is not None else None
    _, connection = await loop.create_connection(make, address, port, ssl=tls, server_hostname=server_name)
    return connection


class Network(NamedTuple):
    """How names become addresses, and addresses (with the name that TLS expects there) connections."""

    resolve: Resolve = _resolve
    dial: Dial = _dial
    proxies: Proxies = NO_PROXIES
    """For https; they look names up by themselves."""


INTERNET = Network()


class TlsFiles(NamedTuple):
    """How we and the MCP server know each other. Others get no certificate of ours to see."""

    ca_file: Path | None = None
    """Whom we trust there; at others' beside the authorities of this system."""
    client_cert: Path | None = None
    client_key: Path | None = None


def through(proxies: Proxies) -> Network:
    """The internet, by way of these."""
    return INTERNET._replace(proxies=proxies)


def server_of(url: str) -> str:
    """The one name of the MCP server at that address. Raises UserError."""
    origin, _ = parse_url(url)
    if origin.unix is not None:
        raise UserError(
            "a server on a unix socket asks for no login", code="bad_url", hint="give a URL of http or https"
        )
    return canonical(url)


class Fetcher:
    """For one errand on behalf of one MCP server: what it names is judged by where it is itself."""

    def __init__(self, server: str, tls: TlsFiles = TlsFiles(), network: Network = INTERNET) -> None:  # noqa: B008 - a constant
        self._server = server
        self._tls = tls
        self._network = network
        self._known: dict[tuple[str, int], list[str]] = {}

    async def get(self, url: str) -> Answer:
        """Follows redirects. Raises RemoteProtocolError, NotSent."""
        for _ in range(1 + MOST_REDIRECTS):
            answer = await self._ask("GET", url, [(b"Accept", b"application/json")])
            [*_, location] = [b"", *answer.header_all(b"location")]
            if answer.status not in REDIRECTS or not location:
                return answer
            try:
                url = urldefrag(urljoin(url, location.decode("latin-1"))).url
            except ValueError:
                raise _unusable("it leads to something that is no address") from None
        raise _unusable(f"it leads elsewhere more than {MOST_REDIRECTS} times")

    async def post(self, url: str, headers: Headers, body: bytes, *, head_only: bool = False) -> Answer:
        """Follows nothing. Raises RemoteProtocolError, NotSent."""
        return await self._ask("POST", url, headers, body, head_only=head_only)

    async def check(self, url: str) -> None:
        """May this address be asked? Raises RemoteProtocolError, NotSent."""
        await self._addresses(self._parsed(url)[0])

    async def _ask(
        self, method: str, url: str, headers: Headers, body: bytes = b"", *, head_only: bool = False
    ) -> Answer:
        origin, target = self._parsed(url)
        addresses = await self._addresses(origin)
        connection: ClientConnection | None = None
        try:
            async with asyncio.timeout(REQUEST_S):
                connection = await self._connected(origin, addresses)
                connection.send(_encoded(method, origin, target, headers, body), body)
                status, fields = await connection.head()
                return Answer(status, fields, b"" if head_only else await _body(connection))
        except TimeoutError:
            error = NotSent if connection is None else NoAnswer
            raise error(f"{origin.authority} did not answer within {REQUEST_S:g} s") from None
        finally:
            if connection is not None:
                connection.abort()
                await connection.wait_closed()

    async def _connected(self, origin: Origin, addresses: list[str]) -> ClientConnection:
        def make() -> ClientConnection:
            return ClientConnection(ClientLimits())

        if _is_through_proxy(origin):
            return await open_connection(origin, REQUEST_S, make)
        where = origin.authority
        try:
            return await first_of(
                [
                    partial(self._network.dial, make, address, origin.port, origin.tls, origin.host)
                    for address in addresses
                ],
                ClientConnection.abort,
            )
        except ssl.SSLCertVerificationError as error:
            hint = "give the authority that signed it with --ca-file PATH, if you trust it"
            words = f"{where}: its certificate is not good: {error.verify_message}"
            raise NotTrusted(words, hint=hint) from None
        except ssl.SSLError as error:
            raise NotTrusted(f"{where}: no TLS: {error.reason or error}") from None
        except OSError as error:
            # asyncio puts its own words before the system's.
            is_refused = isinstance(error, ConnectionRefusedError)
            reason = "connection refused" if is_refused else error.strerror or "it cannot be reached"
            raise NotSent(f"{where}: {reason}") from None

    # What may be asked ------------------------------------------------------------------------

    def _parsed(self, url: str) -> tuple[Origin, str]:
        ca_file, cert, key = self._tls
        try:
            is_its_own = origin_of(url) == origin_of(self._server)
        except ValueError:
            is_its_own = False
        try:
            if is_its_own:
                origin, target = parse_url(
                    url, ca_file, client_cert=cert, client_key=key, proxies=self._network.proxies
                )
            else:
                origin, target = parse_url(url, ca_file, beside_system=True, proxies=self._network.proxies)
        except UserError as error:
            if error.code not in ("bad_url", "secret_in_url"):
                raise
            raise _unusable("it names an address that is no URL of http or https") from None
        if origin.unix is not None:
            raise _unusable("it names a file")
        return origin, target

    async def _addresses(self, origin: Origin) -> list[str]:
        found = await self._looked_up(origin)
        kinds = {kind_of(address) for address in found}
        server = await self._server_kind()
        forbidden = [kind for kind in kinds if not may_name(server, kind, is_https=origin.tls is not None)]
        if not forbidden:
            return found
        if Kind.PUBLIC in forbidden:
            raise _forbidden(f"{origin.authority} is to be asked without https", "use https")
        where = nearest(set(forbidden)).value
        raise _forbidden(
            f"{origin.authority} is at a {where} address, where the server itself is not",
            "a server must not send us into networks that are not its own",
        )

    async def _server_kind(self) -> Kind:
        origin, _ = self._parsed(self._server)
        return nearest({kind_of(address) for address in await self._looked_up(origin)})

    async def _looked_up(self, origin: Origin) -> list[str]:
        key = origin.host, origin.port
        if key not in self._known:
            self._known[key] = await self._look_up(origin)
        return self._known[key]

    async def _look_up(self, origin: Origin) -> list[str]:
        host = origin.host
        try:
            return [str(ip_address(host))]
        except ValueError:
            pass
        try:
            async with asyncio.timeout(REQUEST_S):
                found = await self._network.resolve(host, origin.port)
        except TimeoutError:
            raise NotSent(f"{host}: its name was not found within {REQUEST_S:g} s") from None
        except (OSError, UnicodeError) as error:
            if _is_through_proxy(origin):
                return []  # behind a proxy names need not be known here
            reason = (isinstance(error, OSError) and error.strerror) or "this is no name"
            raise NotSent(f"{host}: {reason}") from None
        if not found:
            raise NotSent(f"{host}: it has no address")
        return list(dict.fromkeys(found))[:MOST_ADDRESSES]


def _is_through_proxy(origin: Origin) -> bool:
    return origin.proxy is not None and origin.tls is not None


def _encoded(method: str, origin: Origin, target: str, headers: Headers, body: bytes) -> bytes:
    """The head; every value in it is ours, or was looked at by `parse_url`."""
    ours: Headers = [(b"User-Agent", AGENT), (b"Accept-Encoding", b"identity")]
    fields: Headers = [(b"Host", origin.authority.encode("ascii")), *ours, *headers]
    if method == "POST":
        fields.append((b"Content-Length", b"%d" % len(body)))
    lines = [b"%b %b HTTP/1.1" % (method.encode(), target.encode("ascii"))]
    lines += [b"%b: %b" % field for field in [*fields, (b"Connection", b"close")]]
    return b"\r\n".join([*lines, b"", b""])


async def _body(connection: ClientConnection) -> bytes:
    pieces: list[bytes] = []
    length = 0
    while piece := await connection.piece():
        length += len(piece)
        if length > MAX_ANSWER_BYTES:
            raise BadAnswer(f"the answer is over {MAX_ANSWER_BYTES:,} bytes", code="message_too_long")
        pieces.append(piece)
    return b"".join(pieces)


def _unusable(why: str) -> RemoteProtocolError:
    return RemoteProtocolError(
        f"what the server says about its login cannot be used: {why}",
        code="bad_metadata",
        hint="tell the owner of the server",
    )


def _forbidden(what: str, hint: str) -> MooringError:
    return RemoteProtocolError(f"{what}; it is not asked", code="forbidden_address", hint=hint)
