"""One refresh, among all processes that have the same login.

Under the lock of the server's login the shelf is looked at first: somebody else may have renewed the token
while we waited. What the authorization server gives is written down before anything else is done with it,
since it may have made the old refresh token useless.
"""

import logging
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from mooring.errors import MooringError, UserError
from mooring.oauth.endpoints import Refused, refresh
from mooring.oauth.fetching import Fetcher, Network, TlsFiles
from mooring.oauth.grants import About, Grant, Tokens
from mooring.oauth.keeping import Shelf, aside
from mooring.oauth.metadata import shown

__all__ = ["Held", "LoginNeeded", "renewed", "told_of"]

log = logging.getLogger("mooring.oauth")

FINAL = frozenset({"invalid_grant", "invalid_client", "unauthorized_client", "bad_refresh_token"})
"""Refusals that no second try changes; the last is GitHub's."""


class LoginNeeded(UserError):
    """Only a person can help."""

    def __init__(self, server: str, name: str, why: str) -> None:
        super().__init__(
            f"{shown(server)} needs a login: {why}", code="login_needed", hint=f"mooring login {name}"
        )


class Held(NamedTuple):
    """The grant that a process goes by."""

    grant: Grant
    unkept_for: Grant | None = None
    """It could not be kept: what is on the shelf in its place."""

    def beside(self, kept: Grant) -> "Held":
        """The one to go by when that is on the shelf: what anybody has put there since is later than ours."""
        return self if self.unkept_for == kept else Held(kept)


def told_of(grant: Grant, before: About | None = None) -> About:
    """What may be told of a grant; what only a login changes is as it was."""
    before = before or About(server=grant.server)
    return msgspec.structs.replace(
        before,
        resource=grant.resource,
        issuer=grant.issuer,
        client_id=grant.identity.client_id,
        scopes=grant.scopes,
        expires_at=grant.expires_at,
        renews=grant.refresh is not None,
        login_needed=None,
        generation=grant.generation,
    )


async def renewed(
    server: str,
    ours: Held | None,
    refused: str | None,
    *,
    name: str,
    shelf: Shelf,
    tls: TlsFiles,
    network: Network,
    wall: Callable[[], float],
) -> Held:
    """A grant that is not due, and whose token is not `refused`. Raises LoginNeeded, MooringError.

    `ours` is what the caller has.
    """
    async with shelf.locked(server):
        kept = await aside(lambda: shelf.grant(server))
        about = await aside(lambda: shelf.about(server))
        if kept is None:
            raise LoginNeeded(server, name, (about and about.login_needed) or "nobody has logged in")
        held = ours.beside(kept) if ours is not None else Held(kept)
        grant, began_at = held.grant, wall()
        if grant.access != refused and not grant.needs_another(began_at):
            return held
        outcome = await _refreshed(grant, Fetcher(server, tls, network), shelf)
        if isinstance(outcome, Tokens):
            return await _keep(grant.renewed(outcome, began_at), kept, about, shelf)
        needed = msgspec.structs.replace(told_of(grant, about), login_needed=outcome, renews=False)
        await aside(lambda: shelf.drop(server, needed))
    raise LoginNeeded(server, name, outcome)


async def _refreshed(grant: Grant, fetcher: Fetcher, shelf: Shelf) -> Tokens | str:
    """Other tokens, or why there will never be any. Raises MooringError: not now."""
    if grant.refresh is None:
        return "its token is not good any more, and cannot be renewed"
    try:
        return await refresh(grant, fetcher)
    except Refused as error:
        if error.refusal.code not in FINAL:
            raise
        if error.refusal.code == "invalid_client":
            await aside(lambda: shelf.drop_registration(grant.issuer))
        return error.refusal.text


async def _keep(grant: Grant, before: Grant, about: About | None, shelf: Shelf) -> Held:
    try:
        await aside(lambda: shelf.keep(grant, told_of(grant, about)))
    except MooringError as error:
        # Good for as long as this process lives, which is better than nothing.
        log.error("the renewed login could not be kept: %s", error.message, extra={"event": "login_unkept"})
        return Held(grant, unkept_for=before)
    return Held(grant)
