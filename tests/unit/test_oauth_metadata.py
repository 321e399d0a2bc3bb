"""What servers publish about themselves: where it is, and what must be true of it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.errors import RemoteProtocolError
from mooring.oauth.bounds import MAX_TEXT_CHARACTERS, MOST_ISSUERS
from mooring.oauth.metadata import (
    canonical,
    covers,
    places_of_authorization_server,
    places_of_resource,
    read_authorization_server,
    read_resource,
)

URL = "https://mcp.example.com/a/mcp"
ISSUER = "https://as.example.com/tenant"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("HTTPS://MCP.Example.COM:443/A/mcp?x=Y#z", "https://mcp.example.com/A/mcp?x=Y"),
        ("http://host:80/", "http://host"),
        ("https://host:8443", "https://host:8443"),
        ("http://[::1]:80/mcp", "http://[::1]/mcp"),
        ("https://host/mcp/", "https://host/mcp/"),
    ],
)
def test_a_server_is_called_by_one_name(url: str, expected: str) -> None:
    assert canonical(url) == expected
    assert canonical(expected) == expected


@pytest.mark.parametrize("url", ["host/mcp", "ftp://host/", "https://", "unix:/x", "https://h:99999/"])
def test_what_is_no_url_has_no_name(url: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        canonical(url)


@pytest.mark.parametrize(
    ("resource", "is_so"),
    [
        (URL, True),
        ("https://mcp.example.com", True),
        ("https://mcp.example.com/", True),
        ("https://MCP.example.com:443/a", True),
        ("https://mcp.example.com/a/mcp/", True),
        ("https://mcp.example.com/a/mc", False),
        ("https://mcp.example.com/a/mcp/more", False),
        ("https://mcp.example.com/b", False),
        ("https://mcp.example.com/a/mcp/..", False),
        ("https://mcp.example.com/A", False),
        ("http://mcp.example.com/a/mcp", False),
        ("https://mcp.example.com:8443/a/mcp", False),
        ("https://example.com", False),
        ("https://mcp.example.com.evil.com/a/mcp", False),
        ("https://mcp.example.com/a/mcp#x", False),
        ("https://mcp.example.com/a/mcp?x=1", False),
        ("https://mcp.example.com:x/", False),
        ("mcp.example.com", False),
    ],
)
def test_a_resource_covers_what_is_below_it(resource: str, is_so: bool) -> None:
    assert covers(resource, URL) is is_so


def test_documents_are_where_the_specification_says() -> None:
    well_known = "https://mcp.example.com/.well-known/oauth-protected-resource"
    assert places_of_resource(URL) == [f"{well_known}/a/mcp", well_known]
    assert places_of_resource("https://mcp.example.com/") == [well_known]
    assert places_of_authorization_server(ISSUER) == [
        "https://as.example.com/.well-known/oauth-authorization-server/tenant",
        "https://as.example.com/.well-known/openid-configuration/tenant",
        "https://as.example.com/tenant/.well-known/openid-configuration",
    ]
    assert places_of_authorization_server("https://as.example.com:8443/") == [
        "https://as.example.com:8443/.well-known/oauth-authorization-server",
        "https://as.example.com:8443/.well-known/openid-configuration",
    ]


def resource_document(**changes: Any) -> bytes:
    return json.dumps({"resource": URL, "authorization_servers": [ISSUER], **changes}).encode()


def server_document(**changes: Any) -> bytes:
    document = {
        "issuer": ISSUER,
        "authorization_endpoint": "https://as.example.com/authorize",
        "token_endpoint": "https://as.example.com/token",
        "code_challenge_methods_supported": ["plain", "S256"],
        **changes,
    }
    return json.dumps({key: value for key, value in document.items() if value is not ...}).encode()


def test_a_document_about_the_server_is_read() -> None:
    found = read_resource(resource_document(scopes_supported=["a", "b"], more={"x": [1]}), URL)
    assert found == (URL, (ISSUER,), ("a", "b"))
    many = [f"https://as{number}.example.com" for number in range(100)]
    assert read_resource(resource_document(authorization_servers=many), URL).issuers == tuple(
        many[:MOST_ISSUERS]
    )


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (resource_document(resource="https://other.example.com"), "wrong_resource"),
        (resource_document(resource=URL + "/" * MAX_TEXT_CHARACTERS), "wrong_resource"),
        (resource_document(resource=7), "bad_metadata"),
        (resource_document(authorization_servers=[]), "bad_metadata"),
        (resource_document(authorization_servers=["file:///etc/passwd"]), "bad_metadata"),
        (resource_document(authorization_servers=["https://as.example.com:port"]), "bad_metadata"),
        (resource_document(authorization_servers=["https://as.example.com?x"]), "bad_metadata"),
        (resource_document(authorization_servers=["https://a:b@as.example.com"]), "bad_metadata"),
        (b"<html>", "bad_metadata"),
        (b"\xff", "bad_metadata"),
        (b"[" * 200_000, "bad_metadata"),
    ],
)
def test_a_document_about_somebody_else_is_refused(data: bytes, code: str) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        read_resource(data, f"{URL}?key=hunter2")
    assert caught.value.code == code and "hunter2" not in caught.value.message


def test_a_document_about_an_authorization_server_is_read() -> None:
    found = read_authorization_server(
        server_document(
            registration_endpoint="https://as.example.com/reg",
            authorization_response_iss_parameter_supported=True,
            token_endpoint_auth_methods_supported=["none"],
            client_id_metadata_document_supported=True,
        ),
        (ISSUER,),
    )
    assert (found.issuer, found.auth_methods, found.promises_iss) == (ISSUER, ("none",), True)
    assert found.takes_documents and found.registration_endpoint == "https://as.example.com/reg"
    assert read_authorization_server(server_document(), (ISSUER,)).auth_methods == ("client_secret_basic",)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (server_document(issuer=ISSUER + "/"), "wrong_issuer"),
        (server_document(issuer=ISSUER.upper()), "wrong_issuer"),
        (server_document(issuer="https://as.example.com"), "wrong_issuer"),
        (server_document(code_challenge_methods_supported=...), "no_pkce"),
        (server_document(code_challenge_methods_supported=["plain"]), "no_pkce"),
        (server_document(code_challenge_methods_supported=None), "no_pkce"),
        (server_document(token_endpoint=...), "bad_metadata"),
        (server_document(token_endpoint="https://x/" + "a" * MAX_TEXT_CHARACTERS), "bad_metadata"),
        (server_document(response_types_supported=["token"]), "bad_metadata"),
        (b"null", "bad_metadata"),
    ],
)
def test_an_authorization_server_that_is_not_the_one_or_not_safe_is_refused(data: bytes, code: str) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        read_authorization_server(data, (ISSUER,))
    assert caught.value.code == code


@given(st.binary())
def test_any_bytes_are_refused_in_words(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        read_resource(data, URL)
    with pytest.raises(RemoteProtocolError):
        read_authorization_server(data, (ISSUER,))


@given(st.text(max_size=60), st.text(max_size=60))
def test_a_name_before_the_host_or_after_it_never_covers_another(before: str, after: str) -> None:
    for resource in (f"https://{before}@evil.com{after}", f"https://mcp.example.com{after}.evil.com"):
        if covers(resource, URL):
            assert canonical(resource).startswith("https://mcp.example.com/") or (
                canonical(resource) == "https://mcp.example.com"
            )
