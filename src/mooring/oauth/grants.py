"""What is kept of a login, and when a token is due. Pure: the time is given.

Nothing here tells a secret by accident: `repr` of what has one says only whose it is.
"""

from typing import Self

import msgspec

from mooring.oauth.bounds import MARGIN_S, MOST_SCOPES
from mooring.oauth.metadata import shown

__all__ = ["About", "Grant", "Identity", "Registration", "Tokens", "united"]

SHORT_LIVED = 5
"""Of a token that lives only minutes, the margin is this part of its life."""


class Identity(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who we are to an authorization server."""

    client_id: str
    secret: str | None = None
    auth_method: str = "none"
    """`none`, `client_secret_basic` or `client_secret_post`."""

    def __repr__(self) -> str:
        return f"<Identity {self.client_id}>"


class Registration(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An identity that an authorization server gave us."""

    issuer: str
    identity: Identity
    redirect_port: int
    """What it was told; some compare to the letter."""
    scopes: tuple[str, ...] = ()
    secret_expires_at: float | None = None

    def fits(self, issuer: str, scopes: tuple[str, ...], now: float) -> bool:
        """Can it be used again?"""
        fresh = self.secret_expires_at is None or now < self.secret_expires_at - MARGIN_S
        return fresh and self.issuer == issuer and set(scopes) <= set(self.scopes)


class Tokens(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an authorization server gave."""

    access: str
    refresh: str | None = None
    scopes: tuple[str, ...] | None = None
    """None: those that were asked for."""
    lifetime_s: float | None = None

    def __repr__(self) -> str:
        return "<Tokens>"


class Grant(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A token, whose it is, and what is needed to have the next one."""

    server: str
    """The MCP server: the only one to whom the token is ever sent."""
    resource: str
    issuer: str
    token_endpoint: str
    revocation_endpoint: str | None = None
    identity: Identity
    access: str
    refresh: str | None = None
    scopes: tuple[str, ...] = ()
    obtained_at: float
    lifetime_s: float | None = None
    generation: int = 0
    """More than that of the one before it. (A clock does not tell which is later: it may be put back.)"""

    def __repr__(self) -> str:
        return f"<Grant of {self.issuer} for {shown(self.resource)}>"

    @property
    def expires_at(self) -> float | None:
        """In seconds since 1970; None: nobody said."""
        return None if self.lifetime_s is None else self.obtained_at + self.lifetime_s

    def is_expired(self, now: float) -> bool:
        """Is it of no use any more?"""
        return self.expires_at is not None and now >= self.expires_at

    def is_due(self, now: float) -> bool:
        """Is it time for another? Also if the clock was put back to before it was obtained: nobody knows."""
        if self.lifetime_s is None:
            return False
        due_after_s = self.lifetime_s - min(MARGIN_S, self.lifetime_s / SHORT_LIVED)
        return not -MARGIN_S <= now - self.obtained_at < due_after_s

    def needs_another(self, now: float) -> bool:
        """Is it time to do something? One that cannot be renewed is used to its end."""
        return self.is_due(now) if self.refresh is not None else self.is_expired(now)

    def renewed(self, tokens: Tokens, now: float) -> Self:
        """With what a refresh gave; the refresh token stays if there is no other (RFC 6749 §6)."""
        return msgspec.structs.replace(
            self,
            access=tokens.access,
            refresh=tokens.refresh or self.refresh,
            scopes=self.scopes if tokens.scopes is None else tokens.scopes,
            obtained_at=now,
            lifetime_s=tokens.lifetime_s,
            generation=self.generation + 1,
        )


class About(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What may be told of a login; no secret is in it."""

    server: str
    resource: str = ""
    issuer: str | None = None
    client_id: str | None = None
    is_given: bool = False
    """The client id was given by its user, and is good for that issuer alone."""
    scopes: tuple[str, ...] = ()
    """Those granted."""
    wanted: tuple[str, ...] = ()
    """Those that the server asked for since: the next login asks for them too."""
    expires_at: float | None = None
    renews: bool = False
    """There is a refresh token."""
    login_needed: str | None = None
    """Why, if it is."""
    generation: int = 0
    """Of the last grant."""


def united(*lists: tuple[str, ...]) -> tuple[str, ...]:
    """Every scope once, in the order in which they came."""
    return tuple(dict.fromkeys(scope for scopes in lists for scope in scopes))[:MOST_SCOPES]
