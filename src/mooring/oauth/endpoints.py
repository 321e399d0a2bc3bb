"""What is sent to an authorization server: registrations, codes, refresh tokens, revocations.

`resource` goes with every request for a token. No error repeats what was sent: if an authorization server
does, its words are left out.
"""

import base64
from urllib.parse import quote_plus, urlencode

import msgspec

from mooring.errors import UserError
from mooring.oauth.answers import Refusal, is_refusal, read_refusal, read_registration, read_tokens
from mooring.oauth.fetching import Answer, Fetcher
from mooring.oauth.grants import Grant, Identity, Registration, Tokens
from mooring.oauth.metadata import AuthorizationServer
from mooring.wire.http import Headers

__all__ = ["Refused", "auth_method", "exchange", "refresh", "register", "revoke"]

BASIC, POST, NONE = "client_secret_basic", "client_secret_post", "none"
JSON: Headers = [(b"Accept", b"application/json"), (b"Content-Type", b"application/json")]
FORM: Headers = [(b"Accept", b"application/json"), (b"Content-Type", b"application/x-www-form-urlencoded")]


class Refused(UserError):
    """The authorization server says no."""

    def __init__(self, refusal: Refusal) -> None:
        error = refusal.error
        super().__init__(error.message, code=error.code, hint=error.hint)
        self.refusal = refusal


def auth_method(offered: tuple[str, ...], *, has_secret: bool | None) -> str:
    """How to say who we are. `has_secret` None: we do not know yet, and would rather have none.

    Raises UserError.
    """
    wanted = {True: (BASIC, POST), False: (NONE,), None: (NONE, BASIC, POST)}[has_secret]
    chosen = next((method for method in wanted if method in offered), None)
    if chosen is None and has_secret is not None:
        return wanted[0]  # it was given by somebody who should know
    if chosen is None:
        raise UserError(
            "the authorization server wants clients to prove who they are in a way that we do not know",
            code="no_client",
            hint="register Mooring there, and give its client id",
        )
    return chosen


async def register(
    server: AuthorizationServer,
    redirect_uri: str,
    redirect_port: int,
    scopes: tuple[str, ...],
    fetcher: Fetcher,
) -> Registration:
    """Be given an identity, by RFC 7591. Raises MooringError."""
    if server.registration_endpoint is None:
        raise UserError(
            f"the authorization server {server.issuer} does not register clients by itself",
            code="no_client",
            hint="register Mooring there as a native application, and give its client id",
        )
    method = auth_method(server.auth_methods, has_secret=None)
    wish = {
        "client_name": "Mooring",
        "application_type": "native",
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
    }
    wishes = [{**wish, "scope": " ".join(scopes)}, wish] if scopes else [wish]
    for one in wishes:
        answer = await fetcher.post(server.registration_endpoint, JSON, msgspec.json.encode(one))
        # Some give only the scopes of the registration, others know no scope that is the MCP server's.
        if answer.status in (200, 201):
            break
    else:
        raise Refused(read_refusal(answer.status, answer.body))
    identity, expires_at = read_registration(answer.body, method)
    return Registration(
        issuer=server.issuer,
        identity=identity,
        redirect_port=redirect_port,
        scopes=scopes,
        secret_expires_at=expires_at,
    )


async def exchange(
    server: AuthorizationServer,
    identity: Identity,
    *,
    code: str,
    verifier: str,
    redirect_uri: str,
    resource: str,
    fetcher: Fetcher,
) -> Tokens:
    """A code for tokens. Raises Refused, RemoteProtocolError, NotSent."""
    fields = {
        "grant_type": "authorization_code",
        "code": code,
        "code_verifier": verifier,
        "redirect_uri": redirect_uri,
        "resource": resource,
    }
    return await _tokens(server.token_endpoint, identity, fields, (code, verifier), fetcher)


async def refresh(grant: Grant, fetcher: Fetcher) -> Tokens:
    """A refresh token for others. Raises Refused, RemoteProtocolError, NotSent."""
    token = grant.refresh or ""
    fields = {"grant_type": "refresh_token", "refresh_token": token, "resource": grant.resource}
    return await _tokens(grant.token_endpoint, grant.identity, fields, (token,), fetcher)


async def revoke(grant: Grant, fetcher: Fetcher) -> bool:
    """Make the tokens useless, by RFC 7009; False: nobody there can be told. Raises MooringError."""
    if grant.revocation_endpoint is None:
        return False
    refusals: list[Refused] = []
    for kind, token in (("refresh_token", grant.refresh), ("access_token", grant.access)):
        if token is None:
            continue
        headers, body = _form(grant.identity, {"token": token, "token_type_hint": kind})
        answer = await fetcher.post(grant.revocation_endpoint, headers, body)
        if answer.status != 200:
            refusals.append(_refused(answer, (token, grant.identity.secret)))
    if refusals:
        raise refusals[0]
    return True


async def _tokens(
    endpoint: str, identity: Identity, fields: dict[str, str], secrets: tuple[str, ...], fetcher: Fetcher
) -> Tokens:
    headers, body = _form(identity, fields)
    answer = await fetcher.post(endpoint, headers, body)
    if answer.status != 200 or is_refusal(answer.body):
        raise _refused(answer, (*secrets, identity.secret))
    return read_tokens(answer.body)


def _refused(answer: Answer, secrets: tuple[str | None, ...]) -> Refused:
    """Without the words, if they repeat a secret."""
    refusal = read_refusal(answer.status, answer.body)
    repeats = any(secret and secret in refusal.words for secret in secrets)
    return Refused(Refusal(refusal.code) if repeats else refusal)


def _form(identity: Identity, fields: dict[str, str]) -> tuple[Headers, bytes]:
    """By RFC 6749 §2.3.1."""
    headers = list(FORM)
    if identity.auth_method == BASIC and identity.secret is not None:
        pair = f"{quote_plus(identity.client_id)}:{quote_plus(identity.secret)}"
        headers.append((b"Authorization", b"Basic " + base64.b64encode(pair.encode())))
    else:
        fields = {**fields, "client_id": identity.client_id}
        if identity.auth_method == POST and identity.secret is not None:
            fields["client_secret"] = identity.secret
    return headers, urlencode(fields).encode()
