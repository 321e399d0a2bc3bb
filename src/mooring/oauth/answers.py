"""What an authorization server answers: to the browser, at the token endpoint, to a registration. Pure.

Its words are a stranger's: cut and cleaned before people see them, and no error repeats what could be
a secret. An answer to the browser is judged in the order that keeps its checks worth something: is it ours
(`state`), is it from whom we asked (`iss`), and only then what it says.
"""

import re
from typing import NamedTuple
from urllib.parse import parse_qsl

import msgspec

from mooring.errors import MooringError, RemoteProtocolError, UserError
from mooring.oauth.bounds import MAX_LIFETIME_S, MAX_TEXT_CHARACTERS, MAX_WORDS_CHARACTERS
from mooring.oauth.challenges import split_scopes
from mooring.oauth.grants import Identity, Tokens
from mooring.oauth.proof import is_same

__all__ = [
    "Refusal",
    "Stray",
    "is_refusal",
    "read_callback",
    "read_refusal",
    "read_registration",
    "read_tokens",
]

MOST_FIELDS = 20
"""Of an answer to the browser; there are five that mean something."""
_VISIBLE = re.compile(r"[\x21-\x7e]+")
_CODE = re.compile(r"[\x20-\x21\x23-\x5b\x5d-\x7e]{1,64}")
"""Of an error, RFC 6749 §5.2; and short, since it is a name."""
_MEANINGS = {
    "access_denied": "the login was declined",
    "invalid_scope": "the authorization server does not give the scopes that were asked for",
    "invalid_target": "the authorization server does not know this MCP server (its `resource`)",
    "invalid_client": "the authorization server does not know us (any more)",
    "unauthorized_client": "the authorization server does not allow us to log in this way",
    "invalid_grant": "the authorization server does not accept this login (any more)",
    "invalid_redirect_uri": "the authorization server takes no answer on 127.0.0.1",
    "invalid_client_metadata": "the authorization server does not register us as we are",
    "server_error": "the authorization server has failed",
    "temporarily_unavailable": "the authorization server cannot answer now",
    "login_required": "the authorization server wants a person to log in",
    "consent_required": "the authorization server wants a person to consent",
}


_HINTS = {
    "server_error": "try again",
    "temporarily_unavailable": "try again later",
    "invalid_scope": "mooring logout NAME forgets the scopes of earlier logins; then log in again",
    "invalid_client": "log in again; if a client id was given, is it the right one?",
}


class Stray(Exception):
    """An answer that belongs to no login of ours."""


class Refusal(NamedTuple):
    """An authorization server says no."""

    code: str
    words: str = ""

    @property
    def text(self) -> str:
        """For people."""
        meaning = _MEANINGS.get(self.code, "the authorization server refuses")
        return f"{meaning} ({self.code}{f': {self.words}' if self.words else ''})"

    @property
    def error(self) -> MooringError:
        """As one of ours."""
        return UserError(self.text, code="login_refused", hint=_HINTS.get(self.code, ""))


# To the browser ------------------------------------------------------------------------------


def read_callback(query: str, *, state: str, issuer: str, promises_iss: bool) -> str:
    """The code. Raises Stray, RemoteProtocolError, UserError."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError:
        raise Stray from None
    fields = dict(pairs)
    if len(fields) != len(pairs) or not is_same(fields.get("state", ""), state):
        raise Stray
    if ("iss" in fields or promises_iss) and fields.get("iss") != issuer:
        raise RemoteProtocolError(
            f"the answer of the login does not come from {issuer}",
            code="wrong_issuer",
            hint="somebody may be trying to exchange authorization servers; the answer was thrown away",
        )
    if "error" in fields:
        raise _refusal(fields["error"], fields.get("error_description", "")).error
    code = fields.get("code", "")
    if not code or len(code) > MAX_TEXT_CHARACTERS:
        raise _bad("the answer of the login has no code")
    return code


# At the token endpoint -----------------------------------------------------------------------


class _Tokens(msgspec.Struct):
    access_token: str
    token_type: str
    expires_in: int | float | str | None = None
    refresh_token: str | None = None
    scope: str | None = None


class _Error(msgspec.Struct):
    error: str
    error_description: str | None = None


def read_tokens(data: bytes) -> Tokens:
    """Of a 200. Raises RemoteProtocolError."""
    try:
        answer = msgspec.json.decode(data, type=_Tokens)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise _bad("the authorization server answers with something that is no token") from None
    if answer.token_type.lower() != "bearer":
        raise _bad("the authorization server gives a kind of token that is not spoken here")
    for token in (answer.access_token, answer.refresh_token):
        if token is not None and (not _VISIBLE.fullmatch(token) or len(token) > MAX_TEXT_CHARACTERS):
            raise _bad("the authorization server gives a token that cannot be sent")
    return Tokens(
        access=answer.access_token,
        refresh=answer.refresh_token,
        scopes=None if answer.scope is None else split_scopes(answer.scope),
        lifetime_s=_span(answer.expires_in),
    )


def _span(value: float | str | None) -> float | None:
    """Seconds; some servers write them as text. What is no span counts as not said."""
    try:
        span_s = float(value) if value is not None else None
    except (ValueError, OverflowError):
        return None
    return min(span_s, MAX_LIFETIME_S) if span_s is not None and span_s > 0 else None


def is_refusal(data: bytes) -> bool:
    """Some refuse with a 200."""
    try:
        msgspec.json.decode(data, type=_Error)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def read_refusal(status: int, data: bytes) -> Refusal:
    """Of any other answer."""
    try:
        answer = msgspec.json.decode(data, type=_Error)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Refusal("temporarily_unavailable" if status >= 500 or status == 429 else f"HTTP {status}")
    return _refusal(answer.error, answer.error_description or "")


def _refusal(code: str, words: str) -> Refusal:
    if not _CODE.fullmatch(code):
        return Refusal("an error without a name")
    clean = "".join(letter if letter.isprintable() else " " for letter in words[:MAX_WORDS_CHARACTERS])
    return Refusal(code, " ".join(clean.split()))


# To a registration ---------------------------------------------------------------------------


class _Registered(msgspec.Struct):
    client_id: str
    client_secret: str | None = None
    client_secret_expires_at: int | float | None = None
    token_endpoint_auth_method: str | None = None


def read_registration(data: bytes, asked_method: str) -> tuple[Identity, float | None]:
    """Who we are now, and until when. Raises RemoteProtocolError."""
    try:
        answer = msgspec.json.decode(data, type=_Registered)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise _bad("the authorization server answers our registration with something else") from None
    for text in (answer.client_id, answer.client_secret or "x"):
        if not _VISIBLE.fullmatch(text.replace(" ", "")) or len(text) > MAX_TEXT_CHARACTERS:
            raise _bad("the authorization server gives us a name that cannot be used")
    method = answer.token_endpoint_auth_method or asked_method
    if method not in ("none", "client_secret_basic", "client_secret_post"):
        raise _bad("the authorization server wants us to prove who we are in a way that we do not know")
    if method != "none" and answer.client_secret is None:
        raise _bad("the authorization server wants a secret of us and gives none")
    secret = None if method == "none" else answer.client_secret
    expires_at = answer.client_secret_expires_at
    identity = Identity(client_id=answer.client_id, secret=secret, auth_method=method)
    return identity, float(expires_at) if secret is not None and expires_at else None


def _bad(message: str) -> RemoteProtocolError:
    return RemoteProtocolError(message, code="bad_login_answer", hint="tell the owner of the server")
