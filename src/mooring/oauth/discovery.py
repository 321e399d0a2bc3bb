"""From an MCP server to whoever gives tokens for it.

1. Ask the server without a token: its 401 says where the document about it is, and which scopes are needed.
2. Read that document; if none was named, the one at the well-known places. Servers from before there were
   such documents (revision 2025-03-26) are their own authorization server.
3. Read the document about the authorization server, and look at every address in it.
"""

from collections.abc import Sequence
from typing import NamedTuple

from mooring.errors import MooringError, RemoteProtocolError, UserError
from mooring.oauth.challenges import Bearer, bearer_of
from mooring.oauth.fetching import Fetcher
from mooring.oauth.metadata import (
    AuthorizationServer,
    ProtectedResource,
    canonical,
    origin_of,
    places_of_authorization_server,
    places_of_resource,
    read_authorization_server,
    read_resource,
    shown,
)
from mooring.wire.http import Headers

__all__ = ["Discovered", "discover"]

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
"""Asks nothing of a server that wants no token, and opens no session."""
AS_MCP: Headers = [
    (b"Accept", b"application/json, text/event-stream"),
    (b"Content-Type", b"application/json"),
]


class Discovered(NamedTuple):
    """Where to log in, and for what."""

    resource: str
    """How the authorization server calls the MCP server."""
    scopes: tuple[str, ...]
    authority: AuthorizationServer


async def discover(url: str, fetcher: Fetcher) -> Discovered:
    """Who gives tokens for the MCP server at `url`. Raises MooringError."""
    challenge = await _challenge(url, fetcher)
    found = await _resource(url, challenge, fetcher)
    if found is None:
        return await _of_old(url, challenge, fetcher)
    refusals: list[MooringError] = []
    for issuer in found.issuers:
        try:
            authority = await _authority((issuer,), fetcher)
        except MooringError as error:
            refusals.append(error)
        else:
            return Discovered(found.resource, challenge.scopes or found.scopes, authority)
    raise refusals[0]


async def _challenge(url: str, fetcher: Fetcher) -> Bearer:
    answer = await fetcher.post(url, AS_MCP, PING, head_only=True)
    return bearer_of(answer.header_all(b"www-authenticate"))


async def _resource(url: str, challenge: Bearer, fetcher: Fetcher) -> ProtectedResource | None:
    if challenge.resource_metadata is not None:
        answer = await fetcher.get(challenge.resource_metadata)
        if answer.status != 200:
            raise RemoteProtocolError(
                f"the document about the login of {shown(url)} is not there (HTTP {answer.status})",
                code="bad_metadata",
                hint="tell the owner of the server",
            )
        return read_resource(answer.body, url)
    for place in places_of_resource(url):
        answer = await fetcher.get(place)
        if answer.status == 200 and _is_json(answer.header_all(b"content-type")):
            return read_resource(answer.body, url)
    return None


def _is_json(content_types: Sequence[bytes]) -> bool:
    """Some servers answer every address with a page."""
    return any(b"json" in value.lower() for value in content_types)


async def _of_old(url: str, challenge: Bearer, fetcher: Fetcher) -> Discovered:
    origin, called = origin_of(url), shown(canonical(url))
    try:
        # Both of these names lead to the same document.
        authority = await _authority((origin, f"{origin}/"), fetcher)
    except _NotThere:
        raise UserError(
            f"{called} does not say where to log in",
            code="no_login",
            hint="perhaps it needs none; or it wants a token that its owner gives in another way",
        ) from None
    return Discovered(called, challenge.scopes, authority)


class _NotThere(RemoteProtocolError):
    """No document was found."""


async def _authority(issuers: tuple[str, ...], fetcher: Fetcher) -> AuthorizationServer:
    refused: MooringError | None = None
    for place in places_of_authorization_server(issuers[0]):
        answer = await fetcher.get(place)
        if answer.status != 200:
            continue
        try:
            authority = read_authorization_server(answer.body, issuers)
        except RemoteProtocolError as error:
            refused = refused or error
            continue
        for endpoint in (
            authority.authorization_endpoint,
            authority.token_endpoint,
            authority.registration_endpoint,
            authority.revocation_endpoint,
        ):
            if endpoint is not None:
                await fetcher.check(endpoint)
        return authority
    raise refused or _NotThere(
        f"nothing is known of the authorization server {issuers[0]}",
        code="bad_metadata",
        hint="is it running? If so, tell its owner that its metadata is missing",
    )
