"""Where sessions are kept: what an address means, and which ones are refused."""

import pytest

from mooring.errors import UserError
from mooring.replicas.address import StoreAddress, parse_store_address


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("redis://redis", StoreAddress("single", (("redis", 6379),))),
        ("redis://redis:7000/3", StoreAddress("single", (("redis", 7000),), database=3)),
        ("redis://redis/", StoreAddress("single", (("redis", 6379),))),
        ("rediss://me@[::1]:7000", StoreAddress("single", (("::1", 7000),), tls=True, user="me")),
        ("redis://a%40b@redis", StoreAddress("single", (("redis", 6379),), user="a@b")),
        (
            "redis+sentinel://a,b:7/main/2",
            StoreAddress("sentinel", (("a", 26379), ("b", 7)), database=2, primary="main"),
        ),
        ("rediss+cluster://a,b", StoreAddress("cluster", (("a", 6379), ("b", 6379)), tls=True)),
        ("redis+cluster://a/0", StoreAddress("cluster", (("a", 6379),))),
    ],
)
def test_what_an_address_means(text: str, meant: StoreAddress) -> None:
    assert parse_store_address(text) == meant


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "bad_sessions_address"),
        ("redis", "bad_sessions_address"),
        ("http://redis", "bad_sessions_address"),
        ("redis://", "bad_sessions_address"),
        ("redis://a,b", "bad_sessions_address"),
        ("redis://a:port", "bad_sessions_address"),
        ("redis://a:0", "bad_sessions_address"),
        ("redis://a:70000", "bad_sessions_address"),
        ("redis://a/x", "bad_sessions_address"),
        ("redis://a/1/2", "bad_sessions_address"),
        ("redis://a/-1", "bad_sessions_address"),
        ("redis://a?db=1", "bad_sessions_address"),
        ("redis+sentinel://a", "bad_sessions_address"),
        ("redis+sentinel://a//1", "bad_sessions_address"),
        ("redis+cluster://a/1", "bad_sessions_address"),
        ("redis+cluster://" + ",".join("a" * 65), "bad_sessions_address"),
        ("redis://:hunter2@redis", "password_in_address"),
        ("redis://me:hunter2@redis", "password_in_address"),
        ("redis://me:hunter2/3@redis:6379/0", "password_in_address"),
        ("redis://me:12/hunter2@redis/0", "password_in_address"),
        ("redis://:1/hunter2@redis", "password_in_address"),
        ("redis://me:hunter2?3@redis", "password_in_address"),
        ("redis://me:1#hunter2@redis", "password_in_address"),
        ("redis+cluster://me:1,2/hunter2@a,b", "password_in_address"),
    ],
)
def test_what_is_refused(text: str, code: str) -> None:
    with pytest.raises(UserError) as refused:
        parse_store_address(text)
    assert refused.value.code == code
    assert refused.value.hint
    assert "hunter2" not in refused.value.message


def test_it_is_shown_without_its_user() -> None:
    assert parse_store_address("redis+cluster://me@a,[::1]:7").shown == "a:6379, [::1]:7"
