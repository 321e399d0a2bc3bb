"""Where the browser brings the answer of a login: a listener on 127.0.0.1, for the time of one login.

It answers GET of one path, of a browser that was sent to this very address; whatever else comes is refused,
and whatever belongs to no login of ours is not heard. Nothing of what came is ever shown.
"""

import asyncio
from typing import Self

from mooring.errors import ListenFailed, MooringError, RemoteProtocolError, Unavailable
from mooring.http.limits import Limits
from mooring.http.listener import Listener
from mooring.oauth.answers import Stray, read_callback
from mooring.oauth.bounds import KEEP_WAITING_S, MOST_STRAYS
from mooring.wire.http import Exchange, Headers, Response

__all__ = ["Callback"]

HOST = "127.0.0.1"
PATH = "/callback"
LIMITS = Limits(
    max_connections=16,
    max_overflow_connections=4,
    backlog=16,
    max_header_bytes=32 * 1024,
    max_body_bytes=1024,
    header_timeout_s=10.0,
    keep_alive_timeout_s=10.0,
)
"""Of one browser."""
HEADERS: Headers = [
    (b"content-type", b"text/html; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'"),
    (b"x-content-type-options", b"nosniff"),
]


def _page(text: str) -> bytes:
    return f"<!doctype html><html lang=en><title>Mooring</title><p>{text}</p></html>\n".encode()


TAKEN = _page("Mooring has the answer. You can close this window and go back to where you started the login.")
STRAY = _page("This answer does not belong to the login that is under way. Please start the login again.")


class Callback:
    """Use as a context manager, within which it listens."""

    def __init__(self, port: int = 0, or_any: bool = True) -> None:
        self._wished_port = port
        self._or_any = or_any
        self._listener = Listener(self._serve, limits=LIMITS)
        self._expected: tuple[str, str, bool] | None = None
        self._answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.port = 0
        self.strays = 0

    @property
    def uri(self) -> str:
        """What the authorization server is told."""
        return f"http://{HOST}:{self.port}{PATH}"

    async def __aenter__(self) -> Self:
        """Raises ListenFailed."""
        try:
            [(_, self.port)] = await self._listener.listen_tcp(HOST, self._wished_port)
        except ListenFailed:
            if not self._wished_port or not self._or_any:
                raise
            [(_, self.port)] = await self._listener.listen_tcp(HOST, 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._listener.stop_accepting(0)
        try:
            async with asyncio.timeout(KEEP_WAITING_S):
                await self._listener.wait_drained()
        except TimeoutError:
            pass
        finally:
            await self._listener.aclose()

    def expect(self, *, state: str, issuer: str, promises_iss: bool) -> None:
        """From now on an answer with that state is ours."""
        self._expected = state, issuer, promises_iss
        self._answer = asyncio.get_running_loop().create_future()

    async def code(self, timeout_s: float) -> str:
        """Wait for the answer. Raises MooringError."""
        try:
            async with asyncio.timeout(timeout_s):
                return await self._answer
        except TimeoutError:
            strays = f"; {self.strays} answers did not belong to this login" if self.strays else ""
            raise Unavailable(
                f"nobody has logged in within {timeout_s:g} s{strays}", code="login_timeout", hint="try again"
            ) from None

    def _serve(self, exchange: Exchange) -> None:
        request = exchange.request
        if request.header(b"host") != f"{HOST}:{self.port}".encode() or request.path != PATH:
            exchange.respond(Response(404))
        elif request.method != "GET":
            exchange.respond(Response(405, headers=[(b"allow", b"GET")]))
        elif self._hears(request.query):
            exchange.respond(Response(200, TAKEN, HEADERS))
        else:
            exchange.respond(Response(400, STRAY, HEADERS))

    def _hears(self, query: str) -> bool:
        """Is it the answer?"""
        if self._expected is None or self._answer.done():
            return False
        state, issuer, promises_iss = self._expected
        try:
            code = read_callback(query, state=state, issuer=issuer, promises_iss=promises_iss)
        except Stray:
            self.strays += 1
            if self.strays >= MOST_STRAYS:
                self._answer.set_exception(_besieged())
            return False
        except MooringError as error:
            self._answer.set_exception(error)
        else:
            self._answer.set_result(code)
        return True


def _besieged() -> RemoteProtocolError:
    return RemoteProtocolError(
        f"{MOST_STRAYS} answers came that do not belong to this login",
        code="login_besieged",
        hint="some program or page sends them: find it, and try again",
    )
