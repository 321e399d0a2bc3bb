"""How we say who we are, and what we are called."""

import pytest

from mooring.errors import UserError
from mooring.oauth.endpoints import auth_method
from mooring.oauth.fetching import server_of
from mooring.oauth.login import ClientGiven

ALL = ("private_key_jwt", "client_secret_post", "client_secret_basic", "none")


@pytest.mark.parametrize(
    ("offered", "has_secret", "expected"),
    [
        (ALL, None, "none"),
        (("client_secret_post",), None, "client_secret_post"),
        (("client_secret_basic",), None, "client_secret_basic"),
        (ALL, True, "client_secret_basic"),
        (("client_secret_post",), True, "client_secret_post"),
        ((), True, "client_secret_basic"),
        (ALL, False, "none"),
        (("client_secret_basic",), False, "none"),
    ],
)
def test_the_way_is_one_that_is_offered(
    offered: tuple[str, ...], has_secret: bool | None, expected: str
) -> None:
    assert auth_method(offered, has_secret=has_secret) == expected


def test_ways_that_we_do_not_know_need_a_client_that_is_given() -> None:
    with pytest.raises(UserError) as caught:
        auth_method(("private_key_jwt",), has_secret=None)
    assert caught.value.code == "no_client"


def test_a_server_has_one_name_and_is_no_socket() -> None:
    assert server_of("HTTPS://Mcp.Example.com:443/mcp") == "https://mcp.example.com/mcp"
    for url in ("unix:/run/x.sock", "mcp.example.com", "https://a:b@mcp.example.com/"):
        with pytest.raises(UserError):
            server_of(url)


def test_a_client_that_is_given_does_not_show_its_secret() -> None:
    assert "hunter2" not in repr(ClientGiven("me", "hunter2"))
