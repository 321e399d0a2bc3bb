"""Log in, log out, and what is known of a login: all that a command needs.

A login: find out who gives tokens for the server, be somebody there, send the user's browser, wait for its
answer, exchange that for tokens, keep them. Whoever we are is given by the user, or is the address of a
document that was given, or was registered before, or is registered now.
"""

import time
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

import msgspec

from mooring.errors import MooringError, UserError
from mooring.oauth.bounds import LOGIN_S, MOST_ROUNDS
from mooring.oauth.discovery import Discovered, discover
from mooring.oauth.endpoints import Refused, auth_method, exchange, register, revoke
from mooring.oauth.fetching import INTERNET, Fetcher, Network, TlsFiles, server_of
from mooring.oauth.grants import About, Grant, Identity, Registration, Tokens, united
from mooring.oauth.keeping import Shelf, aside
from mooring.oauth.metadata import AuthorizationServer
from mooring.oauth.proof import new_proof
from mooring.oauth.redirect import Callback
from mooring.oauth.renewing import told_of

__all__ = [
    "ClientGiven",
    "LoggedIn",
    "LoggedOut",
    "LoginState",
    "Status",
    "login",
    "logout",
    "status",
    "statuses",
]

OFFLINE = "offline_access"


class ClientGiven(NamedTuple):
    """Who we are to the authorization server, as far as the user says so. Never shown by accident."""

    id: str | None = None
    secret: str | None = None
    document: str | None = None
    """The https address of a document about us, which some authorization servers take for a client id."""
    redirect_port: int = 0
    """Of 127.0.0.1, where the authorization server knows only one; 0: any."""

    def __repr__(self) -> str:
        return f"<ClientGiven {self.id or self.document}>"


class LoggedIn(NamedTuple):
    """What came of a login."""

    issuer: str
    scopes: tuple[str, ...]
    expires_at: float | None
    """Of the first token, in seconds since 1970."""
    renews: bool
    """It goes on by itself after that."""


class LoggedOut(NamedTuple):
    """What came of a logout: nothing is kept any more."""

    was_there: bool
    is_revoked: bool = False
    """The authorization server does not take the tokens any more."""
    problem: MooringError | None = None
    """Why it still may, if it could have been told."""


class LoginState(Enum):
    """Of one server."""

    NONE = "none"
    GRANTED = "granted"
    NEEDED = "login needed"


class Status(NamedTuple):
    """What is known, and no secret."""

    state: LoginState
    about: About
    why: str | None = None
    """A login is needed."""


async def login(
    url: str,
    state: Path,
    *,
    show: Callable[[str], None],
    client: ClientGiven = ClientGiven(),  # noqa: B008 - a constant
    tls: TlsFiles = TlsFiles(),  # noqa: B008 - a constant
    timeout_s: float = LOGIN_S,
    network: Network = INTERNET,
    wall: Callable[[], float] = time.time,
) -> LoggedIn:
    """Have a token for the MCP server at `url`, kept in the state directory.

    `show` is given the address that the user is to open in a browser. It is called again, for a second try,
    if the authorization server has forgotten us. Raises MooringError.
    """
    server = server_of(url)
    errand = _Errand(server, Shelf(state, wall), Fetcher(server, tls, network), client, wall)
    found = await discover(server, errand.fetcher)
    before = await aside(lambda: errand.shelf.about(server))
    _check_given(client, before, found.authority)
    scopes = _scopes(found, before)
    for last in (*[False] * (MOST_ROUNDS - 1), True):
        try:
            grant = await errand.run(found, scopes, show, timeout_s)
            break
        except Refused as error:
            if last or errand.given(found.authority) or error.refusal.code != "invalid_client":
                raise
    async with errand.shelf.locked(server):
        last_known = await aside(lambda: errand.shelf.about(server))
        grant = msgspec.structs.replace(grant, generation=(last_known.generation if last_known else 0) + 1)
        about = told_of(grant, About(server=server, is_given=client.id is not None))
        await aside(lambda: errand.shelf.keep(grant, about, anew=True))
    return LoggedIn(grant.issuer, grant.scopes, grant.expires_at, grant.refresh is not None)


async def logout(
    url: str,
    state: Path,
    *,
    tls: TlsFiles = TlsFiles(),  # noqa: B008 - a constant
    network: Network = INTERNET,
    wall: Callable[[], float] = time.time,
) -> LoggedOut:
    """Have no token for that server any more; the authorization server is told. Raises MooringError."""
    server = server_of(url)
    shelf = Shelf(state, wall)
    is_revoked, problem = False, None
    async with shelf.locked(server):
        known = await aside(lambda: shelf.about(server))
        try:
            grant = await aside(lambda: shelf.grant(server))
            if grant is not None:
                is_revoked = await revoke(grant, Fetcher(server, tls, network))
        except MooringError as error:
            problem = error
        await aside(lambda: shelf.drop(server, None))
    return LoggedOut(known is not None, is_revoked, problem)


def status(url: str, state: Path, *, wall: Callable[[], float] = time.time) -> Status:
    """What is known of the login; waits for a disk only. Raises MooringError."""
    server = server_of(url)
    return _status(Shelf(state, wall).about(server) or About(server=server), wall())


def statuses(state: Path, *, wall: Callable[[], float] = time.time) -> list[Status]:
    """The same of every server of which anything is known. Raises MooringError."""
    return [_status(about, wall()) for about in Shelf(state, wall).abouts()]


def _status(about: About, now: float) -> Status:
    if about.login_needed is not None:
        return Status(LoginState.NEEDED, about, about.login_needed)
    if about.issuer is None:
        return Status(LoginState.NONE, about)
    if not about.renews and about.expires_at is not None and about.expires_at <= now:
        return Status(LoginState.NEEDED, about, "its token has expired, and cannot be renewed")
    return Status(LoginState.GRANTED, about)


class _Errand(NamedTuple):
    """One login."""

    server: str
    shelf: Shelf
    fetcher: Fetcher
    client: ClientGiven
    wall: Callable[[], float]

    async def run(
        self, found: Discovered, scopes: tuple[str, ...], show: Callable[[str], None], timeout_s: float
    ) -> Grant:
        """From the browser to the tokens, once. Raises MooringError."""
        authority, given = found.authority, self.given(found.authority)
        kept = None if given else await self._kept(authority, scopes)
        async with Callback(*self._port(kept)) as callback:
            identity = given or await self._registered(authority, kept, callback, scopes)
            try:
                tokens = await self._authorize(
                    found, identity, scopes, callback=callback, show=show, timeout_s=timeout_s
                )
            except BaseException as error:
                if given is None and _may_be_forgotten(error):
                    await aside(lambda: self.shelf.drop_registration(authority.issuer))
                raise
        return self._grant(found, identity, tokens, scopes)

    async def _kept(self, authority: AuthorizationServer, scopes: tuple[str, ...]) -> Registration | None:
        kept = await aside(lambda: self.shelf.registration(authority.issuer))
        return kept if kept and kept.fits(authority.issuer, scopes, self.wall()) else None

    def _port(self, kept: Registration | None) -> tuple[int, bool]:
        """Where to listen, and whether any other port would do as well."""
        if self.client.redirect_port:
            return self.client.redirect_port, False
        return (kept.redirect_port if kept else 0), True

    async def _registered(
        self,
        authority: AuthorizationServer,
        kept: Registration | None,
        callback: Callback,
        scopes: tuple[str, ...],
    ) -> Identity:
        if kept is not None and kept.redirect_port == callback.port:
            return kept.identity
        made = await register(authority, callback.uri, callback.port, scopes, self.fetcher)
        await aside(lambda: self.shelf.keep_registration(made))
        return made.identity

    def given(self, authority: AuthorizationServer) -> Identity | None:
        """Who we are, if the user says so. Raises UserError."""
        id, secret, document, _ = self.client
        if id is not None:
            method = auth_method(authority.auth_methods, has_secret=secret is not None)
            return Identity(client_id=id, secret=secret, auth_method=method)
        if document is not None and authority.takes_documents:
            return Identity(client_id=_checked_document(document))
        return None

    async def _authorize(
        self,
        found: Discovered,
        identity: Identity,
        scopes: tuple[str, ...],
        *,
        callback: Callback,
        show: Callable[[str], None],
        timeout_s: float,
    ) -> Tokens:
        authority, proof = found.authority, new_proof()
        callback.expect(state=proof.state, issuer=authority.issuer, promises_iss=authority.promises_iss)
        fields = {
            "response_type": "code",
            "client_id": identity.client_id,
            "redirect_uri": callback.uri,
            "state": proof.state,
            "code_challenge": proof.challenge,
            "code_challenge_method": "S256",
            "resource": found.resource,
        }
        if scopes:
            fields["scope"] = " ".join(scopes)
        if OFFLINE in scopes:
            fields["prompt"] = "consent"  # OpenID Connect Core §11 gives no refresh token without it
        show(_with_query(authority.authorization_endpoint, fields))
        code = await callback.code(timeout_s)
        return await exchange(
            authority,
            identity,
            code=code,
            verifier=proof.verifier,
            redirect_uri=callback.uri,
            resource=found.resource,
            fetcher=self.fetcher,
        )

    def _grant(self, found: Discovered, identity: Identity, tokens: Tokens, scopes: tuple[str, ...]) -> Grant:
        return Grant(
            server=self.server,
            resource=found.resource,
            issuer=found.authority.issuer,
            token_endpoint=found.authority.token_endpoint,
            revocation_endpoint=found.authority.revocation_endpoint,
            identity=identity,
            access=tokens.access,
            refresh=tokens.refresh,
            scopes=scopes if tokens.scopes is None else tokens.scopes,
            obtained_at=self.wall(),
            lifetime_s=tokens.lifetime_s,
        )


def _may_be_forgotten(error: BaseException) -> bool:
    """Of a client that it does not know an authorization server may tell the user only: nothing comes."""
    if isinstance(error, Refused):
        return error.refusal.code == "invalid_client"
    return not isinstance(error, MooringError) or error.code == "login_timeout"


def _scopes(found: Discovered, before: About | None) -> tuple[str, ...]:
    """What the server asks for, and what it asked for and was granted before."""
    earlier = (before.scopes, before.wanted) if before and before.issuer == found.authority.issuer else ()
    scopes = united(found.scopes, *earlier)
    is_offered = OFFLINE in found.authority.scopes
    return united(scopes, (OFFLINE,)) if scopes and is_offered else scopes


def _check_given(client: ClientGiven, before: About | None, authority: AuthorizationServer) -> None:
    """A client id is good where it was given. Raises UserError."""
    if client.secret is not None and client.id is None:
        raise UserError(
            "a client secret was given, and no client id that it belongs to",
            code="no_client",
            hint="give both, or neither",
        )
    if client.id is None or before is None or before.issuer in (None, authority.issuer):
        return
    if before.is_given and before.client_id == client.id:
        raise UserError(
            f"the server now sends us to {authority.issuer}, but the client id is known to {before.issuer}",
            code="other_issuer",
            hint="if that is right, mooring logout NAME, and log in with a client id of the new one",
        )


def _checked_document(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname or parts.path in ("", "/") or parts.fragment:
        raise UserError(
            "the document about the client must have an https address with a path",
            code="bad_client_document",
            hint="such as https://example.com/mooring.json",
        )
    return url


def _with_query(url: str, fields: dict[str, str]) -> str:
    before = urlsplit(url)
    query = "&".join(filter(None, (before.query, urlencode(fields))))
    return before._replace(query=query, fragment="").geturl()
