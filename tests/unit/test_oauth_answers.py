"""What an authorization server answers."""

import json
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.errors import MooringError, RemoteProtocolError, UserError
from mooring.oauth.answers import (
    MOST_FIELDS,
    Refusal,
    Stray,
    read_callback,
    read_refusal,
    read_registration,
    read_tokens,
)
from mooring.oauth.bounds import MAX_LIFETIME_S, MAX_TEXT_CHARACTERS, MAX_WORDS_CHARACTERS

ISSUER = "https://as.example.com"


def called_back(promises_iss: bool = False, /, **fields: str) -> str:
    return read_callback(urlencode(fields), state="s1", issuer=ISSUER, promises_iss=promises_iss)


def test_the_code_of_our_own_login_is_taken() -> None:
    assert called_back(state="s1", code="c1") == "c1"
    assert called_back(True, state="s1", code="c1", iss=ISSUER) == "c1"


@pytest.mark.parametrize(
    "query",
    [
        "",
        "code=c1",
        "code=c1&state=s2",
        "code=c1&state=S1",
        "code=c1&state=s1&state=s1",
        "code=c1&code=c2&state=s1",
        "state=s1%ff&code=c1",
        "&".join(["state=s1", *(f"f{n}=x" for n in range(MOST_FIELDS))]),
    ],
)
def test_an_answer_with_another_state_or_twice_the_same_is_not_ours(query: str) -> None:
    with pytest.raises(Stray):
        read_callback(query, state="s1", issuer=ISSUER, promises_iss=False)


@pytest.mark.parametrize(
    "iss", ["https://evil.example.com", ISSUER + "/", ISSUER.upper(), ISSUER + ":443", ""]
)
@pytest.mark.parametrize("what", [{"code": "c1"}, {"error": "access_denied", "error_description": "hunter2"}])
def test_an_answer_of_another_issuer_is_not_even_looked_at(iss: str, what: dict[str, str]) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        called_back(state="s1", iss=iss, **what)
    assert caught.value.code == "wrong_issuer" and "hunter2" not in str(caught.value)


def test_an_issuer_that_was_promised_must_be_there() -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        called_back(True, state="s1", code="c1")
    assert caught.value.code == "wrong_issuer"


def test_a_refusal_is_told_in_plain_words() -> None:
    with pytest.raises(UserError) as caught:
        called_back(state="s1", error="access_denied", error_description="no\x1b[31m\nnever" + "x" * 1000)
    assert caught.value.message.startswith("the login was declined (access_denied: no [31m never")
    assert "\x1b" not in caught.value.message and len(caught.value.message) < MAX_WORDS_CHARACTERS + 60


@pytest.mark.parametrize("code", ["", "x" * (MAX_TEXT_CHARACTERS + 1)])
def test_an_answer_without_a_code_is_none(code: str) -> None:
    with pytest.raises(RemoteProtocolError):
        called_back(state="s1", code=code)


@given(st.text())
def test_no_text_that_does_not_know_the_state_is_an_answer(query: str) -> None:
    with pytest.raises(Stray):
        read_callback(query, state="e7R5nK0yq9", issuer=ISSUER, promises_iss=False)


def answered(**fields: Any) -> bytes:
    return json.dumps({"access_token": "a1", "token_type": "Bearer", **fields}).encode()


@pytest.mark.parametrize(
    ("expires_in", "lifetime_s"),
    [
        (3600, 3600.0),
        ("3600", 3600.0),
        (1.5, 1.5),
        (10**300, MAX_LIFETIME_S),
        (0, None),
        (-5, None),
        ("soon", None),
        ("nan", None),
        (None, None),
    ],
)
def test_a_span_is_taken_as_it_is_written_and_bounded(expires_in: Any, lifetime_s: float | None) -> None:
    assert read_tokens(answered(expires_in=expires_in)).lifetime_s == lifetime_s


def test_tokens_are_read() -> None:
    tokens = read_tokens(answered(token_type="bearer", refresh_token="r1", scope="x y", id_token="z"))
    assert (tokens.access, tokens.refresh, tokens.scopes) == ("a1", "r1", ("x", "y"))
    assert read_tokens(answered()).scopes is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<html>",
        b"{}",
        answered(token_type="mac"),
        answered(access_token=""),
        answered(access_token="hunter2 \r\nX-Evil: 1"),
        answered(access_token="hunter2é"),
        answered(refresh_token="x" * (MAX_TEXT_CHARACTERS + 1)),
        answered(access_token=7),
    ],
)
def test_what_is_no_token_is_refused_and_not_repeated(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        read_tokens(data)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "data", "expected"),
    [
        (400, b'{"error":"invalid_grant"}', Refusal("invalid_grant")),
        (401, b'{"error":"invalid_client","error_description":"who?"}', Refusal("invalid_client", "who?")),
        (400, b'{"error":"\\u0000"}', Refusal("an error without a name")),
        (503, b"<html>", Refusal("temporarily_unavailable")),
        (429, b"", Refusal("temporarily_unavailable")),
        (404, b"not here", Refusal("HTTP 404")),
    ],
)
def test_refusals_at_the_token_endpoint(status: int, data: bytes, expected: Refusal) -> None:
    assert read_refusal(status, data) == expected
    assert isinstance(expected.error, MooringError)


@given(st.integers(400, 599), st.binary())
def test_any_refusal_can_be_told(status: int, data: bytes) -> None:
    assert read_refusal(status, data).text.isprintable()


def registered(**fields: Any) -> bytes:
    return json.dumps({"client_id": "me", **fields}).encode()


def test_a_registration_is_read() -> None:
    identity, expires_at = read_registration(registered(client_secret="unused"), "none")
    assert (identity.client_id, identity.secret, identity.auth_method, expires_at) == (
        "me",
        None,
        "none",
        None,
    )
    identity, expires_at = read_registration(
        registered(
            client_secret="s", client_secret_expires_at=99, token_endpoint_auth_method="client_secret_post"
        ),
        "none",
    )
    assert (identity.secret, identity.auth_method, expires_at) == ("s", "client_secret_post", 99.0)
    assert read_registration(
        registered(client_secret="s", client_secret_expires_at=0), "client_secret_basic"
    )[1] is (None)


@pytest.mark.parametrize(
    "data",
    [
        b"{}",
        b"[]",
        registered(token_endpoint_auth_method="private_key_jwt"),
        registered(token_endpoint_auth_method="client_secret_basic"),
        registered(client_id="a\r\nb"),
        registered(client_id="x" * (MAX_TEXT_CHARACTERS + 1)),
    ],
)
def test_a_registration_that_cannot_be_used_is_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        read_registration(data, "none")
