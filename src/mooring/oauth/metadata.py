"""What servers publish about themselves: where it stands, how it is read, what must be true of it. Pure.

A document is refused, in words, unless it is about whom we asked: `resource` must be the MCP server, `issuer`
the authorization server to the letter, and PKCE with S256 must be offered.
"""

from typing import NamedTuple
from urllib.parse import urlsplit, urlunsplit

import msgspec

from mooring.errors import RemoteProtocolError
from mooring.oauth.bounds import MAX_TEXT_CHARACTERS, MOST_ISSUERS, MOST_SCOPES
from mooring.oauth.challenges import split_scopes

__all__ = [
    "AuthorizationServer",
    "ProtectedResource",
    "canonical",
    "covers",
    "origin_of",
    "places_of_authorization_server",
    "places_of_resource",
    "read_authorization_server",
    "read_resource",
    "shown",
]

_DEFAULT_PORTS = {"http": 80, "https": 443}
_RESOURCE = "/.well-known/oauth-protected-resource"
_OAUTH = "/.well-known/oauth-authorization-server"
_OPENID = "/.well-known/openid-configuration"


class ProtectedResource(NamedTuple):
    """An MCP server, by RFC 9728."""

    resource: str
    issuers: tuple[str, ...]
    scopes: tuple[str, ...]


class AuthorizationServer(NamedTuple):
    """Who gives tokens, by RFC 8414."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    registration_endpoint: str | None = None
    revocation_endpoint: str | None = None
    scopes: tuple[str, ...] = ()
    auth_methods: tuple[str, ...] = ("client_secret_basic",)
    """How clients say at the token endpoint who they are; that one if nothing is said (RFC 8414 §2)."""
    promises_iss: bool = False
    takes_documents: bool = False
    """A client may be called by the address of a document about it."""


# Addresses -----------------------------------------------------------------------------------


def canonical(url: str) -> str:
    """How a server is called: scheme and host in lower case, no usual port, no fragment, no lone slash.

    Raises ValueError.
    """
    parts = urlsplit(url)
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
        raise ValueError("not a URL of http or https")
    path = "" if parts.path == "/" else parts.path
    return urlunsplit((parts.scheme, _authority(url), path, parts.query, ""))


def shown(url: str) -> str:
    """For people, without a query, which may hold a secret."""
    return url.partition("?")[0]


def origin_of(url: str) -> str:
    """Scheme, host and port. Raises ValueError."""
    return urlunsplit((urlsplit(url).scheme, _authority(url), "", "", ""))


def _authority(url: str) -> str:
    parts = urlsplit(url)
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    usual = _DEFAULT_PORTS.get(parts.scheme)
    return host if parts.port in (None, usual) else f"{host}:{parts.port}"


def covers(resource: str, url: str) -> bool:
    """Is a token for `resource` one for `url`? The same origin, and the one path leads to the other."""
    try:
        wide, narrow = urlsplit(canonical(resource)), urlsplit(canonical(url))
    except ValueError:
        return False
    if urlsplit(resource).fragment or (wide.scheme, wide.netloc) != (narrow.scheme, narrow.netloc):
        return False
    if wide.query and wide.query != narrow.query:
        return False
    segments = wide.path.rstrip("/").split("/")
    return ".." not in segments and narrow.path.rstrip("/").split("/")[: len(segments)] == segments


def places_of_resource(url: str) -> list[str]:
    """Where the document about an MCP server may be: with its path, then without."""
    origin, path = origin_of(url), urlsplit(url).path.rstrip("/")
    return list(dict.fromkeys((f"{origin}{_RESOURCE}{path}", f"{origin}{_RESOURCE}")))


def places_of_authorization_server(issuer: str) -> list[str]:
    """Where the document about an authorization server may be, in the order in which they are tried."""
    origin, path = origin_of(issuer), urlsplit(issuer).path.rstrip("/")
    places = (f"{origin}{_OAUTH}{path}", f"{origin}{_OPENID}{path}", f"{origin}{path}{_OPENID}")
    return list(dict.fromkeys(places))


# Documents -----------------------------------------------------------------------------------


class _Resource(msgspec.Struct):
    resource: str
    authorization_servers: list[str] = []
    scopes_supported: list[str] | None = None


class _Server(msgspec.Struct):
    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    registration_endpoint: str | None = None
    revocation_endpoint: str | None = None
    scopes_supported: list[str] | None = None
    code_challenge_methods_supported: list[str] | None = None
    response_types_supported: list[str] | None = None
    token_endpoint_auth_methods_supported: list[str] | None = None
    authorization_response_iss_parameter_supported: bool | None = None
    client_id_metadata_document_supported: bool | None = None


def read_resource(data: bytes, url: str) -> ProtectedResource:
    """The document about the MCP server at `url`. Raises RemoteProtocolError."""
    try:
        document = msgspec.json.decode(data, type=_Resource)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise _bad("what the server says about its login is no metadata of a protected resource") from None
    if len(document.resource) > MAX_TEXT_CHARACTERS or not covers(document.resource, url):
        raise RemoteProtocolError(
            f"the metadata that was found is about another server than {shown(url)}",
            code="wrong_resource",
            hint="no token is asked for; the owner of the server must put its `resource` right",
        )
    issuers = tuple(dict.fromkeys(document.authorization_servers))[:MOST_ISSUERS]
    if not issuers or not all(map(_is_issuer, issuers)):
        raise _bad("the server does not say who gives tokens for it")
    return ProtectedResource(document.resource, issuers, _scopes(document.scopes_supported))


def read_authorization_server(data: bytes, expected: tuple[str, ...]) -> AuthorizationServer:
    """The document about one of the `expected` issuers. Raises RemoteProtocolError."""
    try:
        found = msgspec.json.decode(data, type=_Server)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise _bad("what was found is no metadata of an authorization server") from None
    if found.issuer not in expected:
        raise RemoteProtocolError(
            f"the metadata of the authorization server {expected[0]} names another issuer",
            code="wrong_issuer",
            hint="no token is asked for: tokens of one must not be had from another",
        )
    if "S256" not in (found.code_challenge_methods_supported or ()):
        raise RemoteProtocolError(
            f"the authorization server {found.issuer} does not say that it knows PKCE with S256",
            code="no_pkce",
            hint="without it codes can be stolen; its owner must offer code_challenge_methods_supported",
        )
    if found.response_types_supported is not None and "code" not in found.response_types_supported:
        raise _bad(f"the authorization server {found.issuer} gives no codes")
    endpoints = (found.authorization_endpoint, found.token_endpoint)
    others = (found.registration_endpoint or "", found.revocation_endpoint or "")
    if any(len(endpoint) > MAX_TEXT_CHARACTERS for endpoint in (*endpoints, *others)):
        raise _bad("an address of the authorization server is too long")
    methods = found.token_endpoint_auth_methods_supported
    return AuthorizationServer(
        found.issuer,
        *endpoints,
        found.registration_endpoint,
        found.revocation_endpoint,
        scopes=_scopes(found.scopes_supported),
        auth_methods=("client_secret_basic",) if methods is None else tuple(methods),
        promises_iss=bool(found.authorization_response_iss_parameter_supported),
        takes_documents=bool(found.client_id_metadata_document_supported),
    )


def _is_issuer(text: str) -> bool:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    is_web = parts.scheme in _DEFAULT_PORTS and bool(parts.hostname) and "@" not in parts.netloc
    return is_web and not parts.query and not parts.fragment and len(text) <= MAX_TEXT_CHARACTERS


def _scopes(texts: list[str] | None) -> tuple[str, ...]:
    return split_scopes(" ".join((texts or [])[:MOST_SCOPES]))


def _bad(message: str) -> RemoteProtocolError:
    return RemoteProtocolError(message, code="bad_metadata", hint="tell the owner of the server")
