"""The token that goes with requests to one server, always the newest that anybody has.

Invariants:
- `headers` never waits, and is empty if there is no token.
- At most one refresh is under way, and it goes on if whoever asked for it does not wait any more.
- A login, a logout or a refresh by another process is seen by the next `ready`.
- Nothing here raises: what is wrong is `problem`, which says what to do, and in the log, once.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from mooring.errors import MooringError, UserError
from mooring.oauth.bounds import PATIENCE_S, RECENT_S, REST_S
from mooring.oauth.challenges import bearer_of
from mooring.oauth.fetching import INTERNET, Network, TlsFiles, server_of
from mooring.oauth.grants import About, Grant, united
from mooring.oauth.keeping import Shelf, aside
from mooring.oauth.metadata import shown
from mooring.oauth.renewing import Held, LoginNeeded, renewed
from mooring.wire.http import Headers

__all__ = ["OAuthCredentials"]

log = logging.getLogger("mooring.oauth")


class OAuthCredentials:
    """Of one server; what `remote.endpoint` asks for its headers."""

    def __init__(
        self,
        url: str,
        state: Path,
        *,
        name: str,
        tls: TlsFiles = TlsFiles(),  # noqa: B008 - a constant
        network: Network = INTERNET,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`name` is what the server is called in `mooring login NAME`; `state` is the state directory."""
        self._server = server_of(url)
        self._name = name
        self._tls = tls
        self._network = network
        self._wall = wall
        self._clock = clock
        self._shelf = Shelf(state, wall)
        self._held: Held | None = None
        self._stamp: tuple[int, int] | None = None
        self._looking = asyncio.Lock()
        self._renewing: asyncio.Task[bool] | None = None
        self._changed_at = float("-inf")
        self._failed_at = float("-inf")
        self._failed_stamp: tuple[int, int] | None = None
        self._look_failed_at = float("-inf")
        self.problem: MooringError | None = None
        """Why there is no token, or not the right one, and what to do about it."""

    def __repr__(self) -> str:
        return f"<OAuthCredentials for {shown(self._server)}>"

    @property
    def _grant(self) -> Grant | None:
        return self._held.grant if self._held is not None else None

    @property
    def headers(self) -> Headers:
        """To be sent to the server, and to nobody else."""
        if self._grant is None:
            return []
        return [(b"Authorization", b"Bearer " + self._grant.access.encode("ascii"))]

    async def ready(self) -> None:
        """Before a request: take what others have got, and renew what expires soon."""
        await self._look()
        if self._grant is None:
            self._say(self.problem or LoginNeeded(self._server, self._name, "nobody has logged in"))
        elif self._grant.needs_another(now := self._wall()) and not self._rests():
            renewing = self._renew(None)
            # One that is still good goes with the request, if the authorization server is slow.
            await asyncio.wait([renewing], timeout=None if self._grant.is_expired(now) else PATIENCE_S)

    async def renew(self, status: int = 401, challenge: bytes | None = None) -> bool:
        """The server did not accept the token. True: there is another one now."""
        bearer = bearer_of([challenge] if challenge is not None else [])
        if bearer.error == "insufficient_scope":
            await self._want(bearer.scopes)
            return False
        if status != 401:
            return False
        before = self._grant
        await self._look()
        if self._grant is None:
            return False
        if before is None or self._grant.access != before.access:
            return True
        if self._clock() - self._changed_at < RECENT_S and not self._grant.needs_another(self._wall()):
            # What was refused is the one before: this call was on its way when another one renewed it.
            return True
        return not self._rests() and await asyncio.shield(self._renew(self._grant.access))

    async def aclose(self) -> None:
        """Let a refresh that is under way come to its end."""
        if self._renewing is not None:
            await asyncio.wait([self._renewing])

    def _rests(self) -> bool:
        return self._clock() - self._failed_at < REST_S

    async def _look(self) -> None:
        """Has anybody changed the login?"""
        async with self._looking:
            stamp = self._shelf.stamp()
            is_tried = stamp == self._failed_stamp and self._clock() - self._look_failed_at < REST_S
            if stamp == self._stamp or is_tried:
                return
            try:
                grant = await aside(lambda: self._shelf.grant(self._server))
                about = None if grant else await aside(lambda: self._shelf.about(self._server))
            except MooringError as error:
                self._failed_stamp, self._look_failed_at = stamp, self._clock()
                self._say(error)
                return
            self._stamp = stamp
            if grant is not None:
                self._adopt(self._held.beside(grant) if self._held is not None else Held(grant))
                return
            self._held = None
            why = (about and about.login_needed) or "nobody has logged in"
            self._say(LoginNeeded(self._server, self._name, why))

    def _adopt(self, held: Held) -> None:
        if self._grant is not None and self._grant.access != held.grant.access:
            self._changed_at = self._clock()
        self._held = held
        self.problem = None

    def _renew(self, refused: str | None) -> asyncio.Task[bool]:
        """The refresh that is under way, from now on if none was; whoever waits must not cancel it."""
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.create_task(self._run(refused), name="oauth refresh")
        return self._renewing

    async def _run(self, refused: str | None) -> bool:
        before = self._grant
        try:
            held = await renewed(
                self._server,
                self._held,
                refused,
                name=self._name,
                shelf=self._shelf,
                tls=self._tls,
                network=self._network,
                wall=self._wall,
            )
        except LoginNeeded as error:
            self._held = None
            self._say(error)
            return False
        except MooringError as error:
            self._failed_at = self._clock()
            self._say(error)
            return False
        self._adopt(held)
        if is_another := before is None or held.grant.access != before.access:
            log.info("the token for %s was renewed", shown(self._server), extra={"event": "token_renewed"})
        return is_another

    async def _want(self, scopes: tuple[str, ...]) -> None:
        """Only a person can grant more: the next login asks for it."""
        words = " ".join(scopes) or "more than was granted"
        self._say(
            UserError(
                f"{shown(self._server)} wants scopes that the login does not have: {words}",
                code="insufficient_scope",
                hint=f"mooring login {self._name}",
            )
        )
        try:
            async with self._shelf.locked(self._server):
                about = await aside(lambda: self._shelf.about(self._server)) or About(server=self._server)
                missing = tuple(scope for scope in scopes if scope not in about.scopes)
                changed = msgspec.structs.replace(about, wanted=united(about.wanted, missing))
                if changed != about:
                    await aside(lambda: self._shelf.tell(changed))
        except MooringError as error:
            log.warning("the scopes that are wanted could not be noted: %s", error.message)

    def _say(self, error: MooringError) -> None:
        if self.problem is None or self.problem.message != error.message:
            log.error("%s (%s)", error.message, error.hint, extra={"event": error.code})
        self.problem = error
