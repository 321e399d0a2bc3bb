"""Which relay an address means, and that a token is sent to nobody who could be overheard."""

from pathlib import Path

import pytest

from mooring.errors import UserError
from mooring.host.connection_file import Wish
from mooring.host.places import Places
from mooring.host.relay_target import as_http, as_websocket, options_of


@pytest.mark.parametrize(
    ("relay", "url"),
    [
        ("wss://relay.example.com", "https://relay.example.com"),
        ("wss://relay.example.com/", "https://relay.example.com"),
        ("https://relay.example.com:8443/below", "https://relay.example.com:8443/below"),
        ("ws://127.0.0.1:8080", "http://127.0.0.1:8080"),
    ],
)
def test_an_address_as_http_has_it(relay: str, url: str) -> None:
    assert as_http(relay) == url


def test_an_address_is_the_same_however_it_is_written() -> None:
    for relay in ("wss://relay.example.com", "https://relay.example.com", "wss://relay.example.com/"):
        assert as_websocket(relay) == "wss://relay.example.com"
    assert (
        as_websocket("http://127.0.0.1:8080") == as_websocket("ws://127.0.0.1:8080") == "ws://127.0.0.1:8080"
    )


@pytest.mark.parametrize(
    ("relay", "form"),
    [
        ("wss://Relay.Example.COM", "wss://relay.example.com"),
        ("WSS://relay.example.com:443/", "wss://relay.example.com"),
        ("https://relay.example.com:0443", "wss://relay.example.com"),
        ("wss://relay.example.com:", "wss://relay.example.com"),
        ("wss://relay.example.com:80", "wss://relay.example.com:80"),
        ("wss://Relay.example.com:8443/Below//", "wss://relay.example.com:8443/Below"),
        ("ws://LOCALHOST:80", "ws://localhost"),
        ("ws://localhost:443", "ws://localhost:443"),
        ("wss://[2001:DB8::1]:443", "wss://[2001:db8::1]"),
        ("ws://[::1]:8080/", "ws://[::1]:8080"),
        ("wss://me:Secret@Relay.example.com", "wss://me:Secret@relay.example.com"),
    ],
)
def test_neither_the_hosts_case_nor_a_port_that_need_not_be_said_makes_another(relay: str, form: str) -> None:
    """Two connections of the daemon to one relay would take the name from one another for ever."""
    assert as_websocket(relay) == form == as_websocket(form)


@pytest.mark.parametrize(
    "relay",
    [
        "relay.example.com",
        "ftp://relay",
        "wss://",
        "wss://:443",
        "wss:///below",
        "wss://[::1",
        "wss://a:b",
        "wss://a:70000",
        "status2",
        "wss://a?b",
        "wss://a#b",
    ],
)
def test_what_is_none(relay: str) -> None:
    for ask in (as_http, as_websocket):
        with pytest.raises(UserError) as caught:
            ask(relay)
        assert caught.value.code == "bad_url" and caught.value.hint


def options(tmp_path: Path, relay: str, *, insists: bool = False) -> object:
    wish = Wish(relay=relay, token="env:T", allow_plaintext=insists)
    return options_of(wish, Places(tmp_path, 0), ("time",), environment={"T": "mrt_x"})


@pytest.mark.parametrize("relay", ["ws://relay.example.com", "ws://192.0.2.2:8080", "http://[2001:db8::1]"])
def test_a_token_is_not_sent_in_plain_text(tmp_path: Path, relay: str) -> None:
    with pytest.raises(UserError) as caught:
        options(tmp_path, relay)
    assert caught.value.code == "relay_plaintext" and "--allow-plaintext" in caught.value.hint
    assert f"write wss://{relay.partition('://')[2]};" in caught.value.hint
    assert options(tmp_path, relay, insists=True)


@pytest.mark.parametrize(
    "relay", ["wss://relay.example.com", "ws://127.0.0.1:1", "ws://localhost", "ws://[::1]:80"]
)
def test_where_nobody_listens_it_is(tmp_path: Path, relay: str) -> None:
    made = options_of(
        Wish(relay=relay, token="env:T"),
        Places(tmp_path, 0),
        ("time", "notes"),
        environment={"T": " mrt_x\n"},
    )
    assert (
        made.target.token() == "mrt_x" and made.target.servers == ("time", "notes") and made.target.is_willing
    )
    assert made.target.path == "/v1/server"
