"""Which proxy the usual variables name for a server, and that its password is shown nowhere."""

import pytest

from mooring.errors import UserError
from mooring.http.client_proxies import NO_PROXIES, Proxies
from mooring.http.origin import parse_url

BOTH = {"HTTP_PROXY": "http://plain:1", "HTTPS_PROXY": "http://secure:2"}


def found(environ: dict[str, str], scheme: str = "https", host: str = "example.com", port: int = 443) -> str:
    return str(Proxies.from_environment(environ).find(scheme, host, port))


@pytest.mark.parametrize(
    ("environ", "scheme", "proxy"),
    [
        ({}, "https", "None"),
        (BOTH, "https", "http://secure:2"),
        (BOTH, "http", "http://plain:1"),
        ({"HTTPS_PROXY": "http://secure:2"}, "http", "None"),
        ({"ALL_PROXY": "p:3"}, "http", "http://p:3"),
        ({"ALL_PROXY": "p:3", **BOTH}, "https", "http://secure:2"),
        ({"all_proxy": "p:3", "https_proxy": "", "HTTPS_PROXY": " "}, "https", "http://p:3"),
        ({"https_proxy": "lower:1", "HTTPS_PROXY": "upper:1"}, "https", "http://lower:1"),
        ({"https_proxy": "https://p"}, "https", "https://p:443"),
        ({"https_proxy": "p"}, "https", "http://p:80"),
        ({"https_proxy": "http://[::2]:8080/"}, "https", "http://[::2]:8080"),
    ],
)
def test_the_variable_that_counts(environ: dict[str, str], scheme: str, proxy: str) -> None:
    assert found(environ, scheme) == proxy


@pytest.mark.parametrize(
    ("exceptions", "host", "direct"),
    [
        ("*", "example.com", True),
        ("example.com", "example.com", True),
        ("EXAMPLE.com", "Example.COM", True),
        ("example.com", "www.example.com", True),
        ("example.com", "example.com.", True),
        (".example.com", "www.example.com", True),
        ("*.example.com", "www.example.com", True),
        ("example.com", "notexample.com", False),
        ("example.com:443", "example.com", True),
        ("example.com:80", "example.com", False),
        ("a, b  example.com", "example.com", True),
        (",,", "example.com", False),
        (".", "example.com", False),
        ("10.0.0.0/8", "10.1.2.3", True),
        ("10.0.0.0/8", "11.1.2.3", False),
        ("10.0.0.0/8", "example.com", False),
        ("10.1.2.3", "10.1.2.3", True),
        ("10.1.2.3:443", "10.1.2.3", True),
        ("10.1.2.3:80", "10.1.2.3", False),
        ("fd00::/8", "fd12::1", True),
        ("fd12::1", "fd12::1", True),
        ("[fd12::1]:443", "fd12::1", True),
        ("[fd12::1]:80", "fd12::1", False),
        ("[fd12::1]", "fd12::1", True),
        ("10.0.0.0/8", "fd12::1", False),
        ("example.com", "10.1.2.3", False),
        ("", "localhost", True),
        ("", "a.localhost", True),
        ("", "127.0.0.9", True),
        ("", "::1", True),
        ("", "example.com", False),
    ],
)
@pytest.mark.parametrize("name", ["NO_PROXY", "no_proxy"])
def test_who_is_reached_directly(name: str, exceptions: str, host: str, direct: bool) -> None:
    assert (found({"HTTPS_PROXY": "http://p:1", name: exceptions}, host=host) == "None") == direct


def test_user_and_password_are_sent_and_never_shown() -> None:
    proxies = Proxies.from_environment({"HTTPS_PROXY": "http://me:s%40cret@p:1"})
    proxy = proxies.find("https", "example.com", 443)
    assert proxy is not None
    assert proxy.authorization == b"Basic bWU6c0BjcmV0"
    for shown in (str(proxy), repr(proxy), repr(proxies)):
        assert "cret" not in shown and "bWU6" not in shown


@pytest.mark.parametrize(
    "url", ["socks5://me:secret@p:1", "http://me:secret@[p:1", "http://me:secret@", "http://p:x"]
)
def test_a_variable_that_makes_no_sense_is_told_to_whoever_needs_it(url: str) -> None:
    proxies = Proxies.from_environment({"ALL_PROXY": url})
    assert proxies.find("https", "localhost", 1) is None
    with pytest.raises(UserError) as refused:
        proxies.find("https", "example.com", 443)
    assert refused.value.code == "bad_proxy"
    assert "ALL_PROXY" in refused.value.message and "secret" not in refused.value.message + refused.value.hint


def test_a_url_and_its_proxy() -> None:
    proxies = Proxies.from_environment({"HTTPS_PROXY": "https://p:1", "HTTP_PROXY": "http://q:2"})
    origin, _ = parse_url("https://example.com/mcp", proxies=proxies)
    assert str(origin.proxy) == "https://p:1" and origin.proxy_tls is not None
    origin, _ = parse_url("http://example.com/mcp", proxies=proxies)
    assert str(origin.proxy) == "http://q:2" and origin.proxy_tls is None
    for url in ("http://127.0.0.1:1/", "unix:/run/x"):
        assert parse_url(url, proxies=proxies)[0].proxy is None
    assert parse_url("https://example.com/", proxies=NO_PROXIES)[0].proxy is None
