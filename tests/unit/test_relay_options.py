"""What `mooring relay` refuses before it opens anything, and how one insists."""

import os
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mooring.cli.relay.command import relay
from mooring.errors import ListenFailed, MooringError, UserError, exit_status
from mooring.host.relay_options import RelayOptions, check
from mooring.relay.envelope import MAX_MESSAGE_BYTES
from mooring.relay.meters import LEAST_BYTES_PER_MINUTE, BytePolicy

CERT, KEY = Path("relay.pem"), Path("relay.key")
PLAIN = RelayOptions(state=Path("state"), insecure_listen=("127.0.0.1", 8080))
DOMAIN = RelayOptions(state=Path("state"), domain="relay.example.com", is_production=True)
LOOPBACK = ["127.0.0.1", "127.8.9.10", "::1"]
PUBLIC = ["0.0.0.0", "::", "", "10.0.0.1", "192.168.1.7", "203.0.113.9", "2001:db8::1", "fe80::1"]
NAMES = ["localhost", "relay.example.com", "127.0.0.1.example.com", "0x7f.1", "127.1"]
"""What a name leads to may change after it was looked at."""


def refusal(options: RelayOptions, *, is_root: bool = False) -> UserError:
    with pytest.raises(UserError) as caught:
        check(options, is_root=is_root)
    assert exit_status(caught.value) == 2
    return caught.value


@pytest.mark.parametrize(
    "options",
    [
        PLAIN,
        DOMAIN,
        RelayOptions(state=Path("state"), tls_cert=CERT, tls_key=KEY),
        RelayOptions(state=Path("state"), tls_cert=CERT, tls_key=KEY, listen=("0.0.0.0", 443)),
    ],
)
def test_each_way_to_be_reached_is_good_alone(options: RelayOptions) -> None:
    check(options, is_root=False)


@pytest.mark.parametrize(
    "ways",
    [
        {},
        {"domain": "relay.example.com", "insecure_listen": ("127.0.0.1", 8080)},
        {"domain": "relay.example.com", "tls_cert": CERT, "tls_key": KEY},
        {"tls_cert": CERT, "tls_key": KEY, "insecure_listen": ("127.0.0.1", 8080)},
        {"tls_cert": CERT},
        {"tls_key": KEY},
        {"domain": "relay.example.com", "tls_key": KEY},
        {"insecure_listen": ("127.0.0.1", 8080), "tls_key": KEY},
    ],
)
def test_none_of_them_or_two_or_half_a_one_are_refused(ways: dict[str, Any]) -> None:
    error = refusal(RelayOptions(state=Path("state"), **ways))
    assert error.code == "relay_address"
    assert all(flag in error.message for flag in ("--domain", "--tls-cert", "--tls-key", "--insecure-listen"))


@pytest.mark.parametrize("host", LOOPBACK)
def test_plain_text_that_stays_on_this_machine_is_nobodys_business(host: str) -> None:
    check(replace(PLAIN, insecure_listen=(host, 8080)), is_root=False)


@pytest.mark.parametrize("host", PUBLIC + NAMES)
def test_plain_text_that_others_can_read_is_refused_unless_one_insists(host: str) -> None:
    options = replace(PLAIN, insecure_listen=(host, 8080))
    error = refusal(options)
    assert error.code == "relay_plaintext" and "--allow-plaintext" in error.hint
    check(replace(options, allow_plaintext=True), is_root=False)


@pytest.mark.parametrize("host", LOOPBACK)
def test_metrics_are_for_this_machine(host: str) -> None:
    check(replace(PLAIN, metrics_listen=(host, 9090)), is_root=False)
    check(replace(DOMAIN, metrics_listen=(host, 9090)), is_root=False)


@pytest.mark.parametrize("host", PUBLIC + NAMES)
@pytest.mark.parametrize("base", [PLAIN, DOMAIN])
def test_metrics_for_others_are_refused_however_one_insists(base: RelayOptions, host: str) -> None:
    options = replace(base, metrics_listen=(host, 9090), allow_plaintext=True, allow_root=True)
    assert refusal(options).code == "relay_metrics_public"


@pytest.mark.parametrize("base", [DOMAIN, replace(PLAIN, is_production=True)])
def test_root_in_production_is_refused_unless_one_insists(base: RelayOptions) -> None:
    error = refusal(base, is_root=True)
    assert error.code == "relay_as_root" and "--allow-root" in error.hint
    check(base, is_root=False)
    check(replace(base, allow_root=True), is_root=True)


def test_root_may_try_it_out() -> None:
    check(PLAIN, is_root=True)


def test_defaults_are_those_of_the_issue() -> None:
    assert (PLAIN.drain_timeout_s, PLAIN.metrics_listen, PLAIN.trust_proxies) == (10.0, None, ())
    assert not (PLAIN.announce_restart or PLAIN.allow_plaintext or PLAIN.allow_root or PLAIN.allow_origins)
    policy = PLAIN.policy
    assert (policy.grace_s, policy.hold_s, policy.probe_s) == (30.0, 10.0, 10.0)
    assert (policy.flush_s, policy.spread_s, policy.goodbye_s) == (2.0, 3.0, 5.0)


def test_a_token_may_send_enough_to_work_with() -> None:
    """With less, the largest message of a link would be more than its turn pays for."""
    assert LEAST_BYTES_PER_MINUTE / 60 * BytePolicy().turn_s >= MAX_MESSAGE_BYTES
    [option] = [one for one in relay.params if one.name == "bytes_per_minute"]
    assert option.type.convert("8MiB", None, None) == LEAST_BYTES_PER_MINUTE
    assert option.type.convert("none", None, None) is None
    done = CliRunner().invoke(relay, ["--bytes-per-minute", "1MiB", "--insecure-listen", "127.0.0.1:0"])
    assert done.exit_code == 2 and "1MiB is too little to work with: give 8MiB or more" in done.output


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--domain", "relay.example.com"], UserError),
        (["--domain", "relay.example.com", "--allow-root"], ListenFailed),
        (["--production", "--insecure-listen", "TAKEN"], UserError),
        (["--insecure-listen", "TAKEN"], ListenFailed),
    ],
)
def test_who_is_reached_by_a_domain_is_in_production(
    arguments: list[str], error: type[MooringError], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root is refused there before anything is opened; otherwise it fails because its address is taken."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        words = [address if word == "TAKEN" else word for word in arguments]
        words += ["--listen", address, "--http-listen", "none", "--state", str(tmp_path / "state")]
        with pytest.raises(error) as caught:
            relay.main(words, "mooring relay", standalone_mode=False)
    if error is UserError:
        assert (caught.value.code, exit_status(caught.value)) == ("relay_as_root", 2)
        assert "--allow-root" in caught.value.hint and not (tmp_path / "state").exists()
