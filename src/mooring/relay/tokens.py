"""Tokens of a relay: what they look like, and what whoever holds one may do. Pure, but for chance.

    mrt_<id>_<secret>

- The id has 60 random bits in base32: by it a token is looked up. It proves nothing, and may be told.
- The secret has 256 random bits in base64url.
- Only the SHA-256 of the whole text is kept. Slow hashes are for passwords, which people choose and others
  guess; nobody guesses 256 random bits, and slowness would only be paid by us, for every stranger who asks.

A token's name is the name under which its holder connects: it belongs to that token alone.
"""

import base64
import hashlib
import re
import secrets
from typing import NamedTuple

from msgspec import Struct

__all__ = [
    "ANY",
    "CALL_PATTERN",
    "ID_PATTERN",
    "NAME_PATTERN",
    "RESERVED_AGENTS",
    "SERVER_PATTERN",
    "Grant",
    "Minted",
    "digest",
    "id_in",
    "is_name",
    "mint",
    "parse_agent",
    "parse_calls",
    "parse_servers",
]

ANY = "*"
NAME_PATTERN = "[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?"
"""As servers are called everywhere (`cli.values`, which a relay cannot import)."""
SERVER_PATTERN = rf"(?:\*|{NAME_PATTERN})"
CALL_PATTERN = rf"(?:\*|{NAME_PATTERN}/(?:\*|{NAME_PATTERN}))"
ID_PATTERN = "[a-z2-7]{12}"
RESERVED_AGENTS = frozenset({"v1", "healthz", "livez", "readyz", "metrics", "api", "static", "well-known"})
"""What a relay's own addresses begin with. (Names that begin with a dot are no names at all.)"""
SECRET_BYTES = 32
ID_BYTES, ID_CHARACTERS = 8, 12

_NAME = re.compile(NAME_PATTERN)
_SERVER = re.compile(SERVER_PATTERN)
_CALL = re.compile(CALL_PATTERN)
_TEXT = re.compile(rb"mrt_(%b)_[A-Za-z0-9_-]{43}" % ID_PATTERN.encode())
_NAME_RULE = "1 to 40 of a-z, 0-9 and '-', with no '-' at either end"


# The text -------------------------------------------------------------------------------------


class Minted(NamedTuple):
    """A new token. Nothing tells its text by accident."""

    id: str
    text: str

    def __repr__(self) -> str:
        return f"<Minted {self.id}>"


def mint() -> Minted:
    """A token that nobody has."""
    drawn = base64.b32encode(secrets.token_bytes(ID_BYTES)).decode()[:ID_CHARACTERS].lower()
    return Minted(drawn, f"mrt_{drawn}_{secrets.token_urlsafe(SECRET_BYTES)}")


def id_in(presented: bytes) -> str | None:
    """By which it is looked up; None if it does not even look like a token."""
    match = _TEXT.fullmatch(presented)
    return None if match is None else match[1].decode()


def digest(presented: bytes) -> str:
    """What is kept in its place."""
    return hashlib.sha256(presented).hexdigest()


# What it is good for --------------------------------------------------------------------------


class Grant(Struct, frozen=True, kw_only=True):
    """What a token was found to allow. Servers that its own agent offers, its holder may also call."""

    id: str
    """Stays the same for as long as the token is good, and never comes again."""
    name: str
    servers: frozenset[str]
    """What an agent may offer under that name."""
    calls: frozenset[str]
    """`AGENT/SERVER`, `AGENT/*` or `*`."""
    expires: float | None = None
    """In seconds since 1970."""

    def may_connect(self, server: str) -> bool:
        """May an agent with this token offer that server?"""
        # A star is a pattern of ours, and nobody's name.
        return is_name(server) if ANY in self.servers else server in self.servers

    def may_call(self, agent: str, server: str) -> bool:
        """May a caller with this token use that server?"""
        if not is_name(agent) or not is_name(server):
            return False
        if agent == self.name and self.may_connect(server):
            return True
        return not self.calls.isdisjoint((ANY, f"{agent}/{ANY}", f"{agent}/{server}"))


# Names as people write them -------------------------------------------------------------------


def is_name(text: str) -> bool:
    """May a token, an agent or a server be called so?"""
    return _NAME.fullmatch(text) is not None


def parse_agent(text: str) -> str:
    """The name of a token, and of the agent that connects with it. Raises ValueError."""
    if not is_name(text):
        raise ValueError(f"{text!r} cannot be a name; use {_NAME_RULE}")
    if text in RESERVED_AGENTS:
        raise ValueError(f"{text!r} is part of the relay's own URLs; choose another name")
    return text


def parse_servers(text: str) -> tuple[str, ...]:
    """`time,notes`, or `*` for any. Raises ValueError."""
    servers = _listed(text)
    for server in servers:
        if not _SERVER.fullmatch(server):
            raise ValueError(f"{server!r} is no server; write NAME,NAME or '*': a name has {_NAME_RULE}")
    return servers


def parse_calls(text: str) -> tuple[str, ...]:
    """`laptop/time,phone/*`, or `*` for any. Raises ValueError."""
    calls = _listed(text)
    for call in calls:
        if not _CALL.fullmatch(call):
            raise ValueError(f"{call!r} cannot be called; write AGENT/SERVER, 'AGENT/*' or '*'")
        if call != ANY:
            parse_agent(call.partition("/")[0])
    return calls


def _listed(text: str) -> tuple[str, ...]:
    """Each once, in their order."""
    return tuple(dict.fromkeys(piece.strip() for piece in text.split(",")))
