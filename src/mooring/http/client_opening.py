"""How a connection comes about: directly, or through a proxy; with TLS, or without. And why it did not.

Every failure is a NotSent, whose code tells programs what to think of it:

| code | |
|---|---|
| `dns_failed` | nobody knows the name |
| `refused` | nobody listens there |
| `unreachable` | there is no way to it |
| `timeout` | no connection in time |
| `reset` | it was cut while it was being made |
| `tls_failed` | what listens there does not speak TLS, or not ours |
| `not_trusted` | its certificate is not good |
| `proxy_refused` | the proxy does not let us through |
| `no_such_socket` | there is no unix socket of that name |
| `too_busy` | our own system has no descriptor left for one, or no memory (NoPlace) |
| `not_reachable` | anything else, in the words of the system |
"""

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from ipaddress import ip_address

from mooring.http.client_connection import ClientConnection
from mooring.http.client_errors import AnswerLost, NoPlace, NotSent, NotTrusted
from mooring.http.client_proxies import ProxyAddress
from mooring.http.client_racing import connected_socket
from mooring.http.origin import Origin

__all__ = ["open_connection", "proxy_refusal"]

PROXY_WANTS_PASSWORD = 407
_NOTHING_LEFT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
_NO_WAY = frozenset({errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EHOSTDOWN})


async def open_connection(
    origin: Origin, timeout_s: float, make: Callable[[], ClientConnection]
) -> ClientConnection:
    """One on which requests can be sent. Raises NotSent."""
    steps = _Steps(origin, make)
    try:
        async with asyncio.timeout(timeout_s):
            return await steps.open()
    except TimeoutError:
        raise NotSent(f"{steps.where}: no connection within {timeout_s:g} s", code="timeout") from None
    except ssl.SSLCertVerificationError as error:
        hint = "give the authority that signed it with --ca-file PATH, if you trust it"
        raise NotTrusted(
            f"{steps.where}: its certificate is not good: {error.verify_message}", hint=hint
        ) from None
    except ssl.SSLError as error:
        hint = "is it http:// rather than https://?"
        text = f"{steps.where}: no TLS: {_handshake_words(error)}"
        raise NotTrusted(text, code="tls_failed", hint=hint) from None
    except (OSError, UnicodeError) as error:
        if isinstance(error, OSError) and error.errno in _NOTHING_LEFT:
            text, hint = f"{steps.where}: no connection: {error.strerror}", "is ulimit -n high enough?"
            raise NoPlace(text, hint=hint) from None
        code, words = _reason(error)
        raise NotSent(f"{steps.where}: {words}", code=code, hint=steps.hint) from None


class _Steps:
    """`where` and `hint` say whom the step is about that is being taken."""

    def __init__(self, origin: Origin, make: Callable[[], ClientConnection]) -> None:
        self._origin = origin
        self._make = make
        self._loop = asyncio.get_running_loop()
        self.where = f"unix:{origin.unix}" if origin.unix is not None else origin.authority
        self.hint = ""

    async def open(self) -> ClientConnection:
        origin = self._origin
        if origin.unix is not None:
            _, connection = await self._loop.create_unix_connection(self._make, str(origin.unix))
        elif origin.proxy is not None:
            connection = await self._through(origin.proxy)
        else:
            connection = await self._connect(origin.host, origin.port, origin.tls)
        return connection

    async def _connect(self, host: str, port: int, tls: ssl.SSLContext | None) -> ClientConnection:
        if _is_address(host):
            _, connection = await self._loop.create_connection(self._make, host, port, ssl=tls)
            return connection
        connected = await connected_socket(host, port)
        try:
            _, connection = await self._loop.create_connection(
                self._make, sock=connected, ssl=tls, server_hostname=host if tls is not None else None
            )
        except BaseException:
            connected.close()
            raise
        return connection

    async def _through(self, proxy: ProxyAddress) -> ClientConnection:
        """To the proxy; with TLS, through it to the server. Without, the proxy reads each request itself."""
        origin, server = self._origin, self.where
        self.where = f"the proxy {proxy}"
        self.hint = f"{proxy.variable} names this proxy; NO_PROXY names hosts that are reached without"
        connection = await self._connect(proxy.host, proxy.port, origin.proxy_tls)
        if origin.tls is None:
            return connection
        try:
            await self._ask_for_tunnel(connection, proxy)
            self.where, self.hint = server, ""
            await connection.start_tls(origin.tls, origin.host)
        except BaseException:
            connection.abort()
            raise
        return connection

    async def _ask_for_tunnel(self, connection: ClientConnection, proxy: ProxyAddress) -> None:
        host = f"[{self._origin.host}]" if ":" in self._origin.host else self._origin.host
        there = f"{host}:{self._origin.port}"
        lines = [f"CONNECT {there} HTTP/1.1\r\nHost: {there}\r\n".encode("ascii")]
        if proxy.authorization is not None:
            lines.append(b"Proxy-Authorization: %b\r\n" % proxy.authorization)
        try:
            status = await connection.tunnel(b"".join([*lines, b"\r\n"]))
        except AnswerLost as error:
            # Of the request nothing was sent; it was only the way that was asked for.
            text = f"{self.where} gives no way to {there}: {error.message}"
            raise NotSent(text, code="proxy_refused", hint=self.hint) from None
        if not 200 <= status < 300:
            raise proxy_refusal(proxy, there, status)


def proxy_refusal(proxy: ProxyAddress, there: str, status: int) -> NotSent:
    """A proxy that says no."""
    hint = (
        f"put its user and password into {proxy.variable}: http://USER:PASSWORD@HOST:PORT"
        if status == PROXY_WANTS_PASSWORD
        else f"name the host in NO_PROXY, if it can be reached without the proxy of {proxy.variable}"
    )
    text = f"the proxy {proxy} refuses the way to {there} (HTTP status {status})"
    return NotSent(text, code="proxy_refused", hint=hint)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _handshake_words(error: ssl.SSLError) -> str:
    """OpenSSL has constants in place of words."""
    if error.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"):
        return "it answers in plain text"
    return error.reason.replace("_", " ").lower() if error.reason else str(error)


def _reason(error: OSError | UnicodeError) -> tuple[str, str]:
    """Code and words; the system has no numbers and addresses before its own, as asyncio does."""
    words = (isinstance(error, OSError) and error.strerror) or str(error)
    if isinstance(error, socket.gaierror | UnicodeError):
        return "dns_failed", f"the name is not known: {words}"
    if isinstance(error, ConnectionRefusedError) or "refused" in str(error).lower():
        return "refused", "connection refused"
    if isinstance(error, ConnectionError):
        return "reset", f"the connection was cut while it was made: {words}"
    if isinstance(error, FileNotFoundError):
        return "no_such_socket", "there is no such socket"
    is_no_way = isinstance(error, OSError) and error.errno in _NO_WAY
    return "unreachable" if is_no_way else "not_reachable", words
