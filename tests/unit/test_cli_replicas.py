"""`--sessions` and what belongs to it: what is understood, and what is refused before anything starts."""

from pathlib import Path
from typing import Any

import pytest

from mooring.cli.running.replicas import LEAST_KEY, LEAST_LEASE_S, MOST_LEASE_S, plan_replicas
from mooring.errors import UserError
from mooring.host.options import ListenOptions, ReplicaOptions

DEFAULTS = {
    "sessions": "redis://redis:6379/0",
    "sessions_password": None,
    "sessions_prefix": "mooring",
    "sessions_ca": None,
    "advertise": None,
    "replica_key": None,
    "lease": 10.0,
}


def plan(tmp_path: Path, listen: ListenOptions | None = None, **given: Any) -> ReplicaOptions | None:
    ours = {"MOORING_STATE_DIR": str(tmp_path), "PASSWORD": "of the environment"}
    return plan_replicas({**DEFAULTS, **given}, set(given), listen or ListenOptions(), ours)


def test_without_sessions_there_are_no_replicas(tmp_path: Path) -> None:
    assert plan_replicas({**DEFAULTS, "sessions": None}, set(), ListenOptions(), {}) is None


def test_what_is_given(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("k" * LEAST_KEY + "\n")
    options = plan(
        tmp_path,
        sessions="rediss://redis",
        sessions_password="env:PASSWORD",
        sessions_ca="ca.pem",
        advertise="http://10.1.2.3:4670/",
        replica_key=f"file:{tmp_path / 'key'}",
        lease=5.0,
    )
    assert options is not None
    assert options.password == "of the environment"
    assert options.key == "k" * LEAST_KEY
    assert options.advertise == "http://10.1.2.3:4670"
    assert options.policy.lease_s == 5.0
    assert "of the environment" not in repr(options) and options.key not in repr(options)


@pytest.mark.parametrize(
    ("listen", "where"),
    [
        (ListenOptions(), "http://127.0.0.1:4670"),
        (ListenOptions(host="::1", port=1), "http://[::1]:1"),
        (ListenOptions(host="10.0.0.1", tls_cert=Path("c"), tls_key=Path("k")), "https://10.0.0.1:4670"),
    ],
)
def test_where_it_listens_is_where_it_is_reached(tmp_path: Path, listen: ListenOptions, where: str) -> None:
    options = plan(tmp_path, listen)
    assert options is not None
    assert options.advertise == where


@pytest.mark.parametrize(
    ("port", "url"),
    [(80, "http://10.1.2.3"), (443, "https://replica-1"), (4670, "http://10.1.2.3:80"), (0, "http://a:4670")],
)
def test_a_port_is_told_unless_it_follows(tmp_path: Path, port: int, url: str) -> None:
    options = plan(tmp_path, ListenOptions(port=port), advertise=url)
    assert options is not None and options.advertise == url


def test_an_address_of_no_machine_is_explained(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="means every address of a machine") as refused:
        plan(tmp_path, advertise="http://[::]:4670")
    assert "--advertise http://10.1.2.3:4670" in refused.value.hint


@pytest.mark.parametrize(
    ("listen", "given", "code"),
    [
        (ListenOptions(host="0.0.0.0"), {}, "advertise_missing"),
        (ListenOptions(port=0), {}, "advertise_missing"),
        (ListenOptions(unix=Path("s")), {}, "advertise_missing"),
        (None, {"advertise": "http://a/path"}, "bad_url"),
        (None, {"advertise": "10.0.0.1:1"}, "bad_url"),
        (None, {"advertise": "http://0.0.0.0:4670"}, "bad_url"),
        (None, {"advertise": "http://0:4670"}, "bad_url"),
        (None, {"advertise": "http://[::]:4670"}, "bad_url"),
        (None, {"advertise": "https://[::ffff:0.0.0.0]:4670"}, "bad_url"),
        (None, {"advertise": "http://10.1.2.3"}, "bad_url"),
        (None, {"advertise": "http://10.1.2.3:0"}, "bad_url"),
        (None, {"sessions": "redis://:x@redis"}, "password_in_address"),
        (None, {"sessions_password": "plain"}, "secret_on_command_line"),
        (None, {"sessions_password": "env:NOBODY"}, None),
        (None, {"sessions_ca": "ca.pem"}, "conflicting_options"),
        (None, {"sessions_prefix": "a b"}, "conflicting_options"),
        (None, {"sessions_prefix": "a{b}"}, "conflicting_options"),
        (None, {"lease": LEAST_LEASE_S / 2}, "conflicting_options"),
        (None, {"lease": MOST_LEASE_S * 2}, "conflicting_options"),
        (None, {"sessions": None, "lease": 5.0}, "conflicting_options"),
    ],
)
def test_what_is_refused(
    tmp_path: Path, listen: ListenOptions | None, given: dict[str, Any], code: str | None
) -> None:
    with pytest.raises(UserError) as refused:
        plan(tmp_path, listen, **given)
    assert refused.value.hint
    assert code is None or refused.value.code == code


def test_a_password_that_is_empty_is_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("\n")
    with pytest.raises(UserError, match=r"--sessions-password file:.*password leads to nothing") as refused:
        plan(tmp_path, sessions_password=f"file:{tmp_path / 'password'}")
    assert refused.value.code == "empty_secret"


def test_a_key_has_some_length(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("k" * (LEAST_KEY - 1))
    with pytest.raises(UserError) as refused:
        plan(tmp_path, replica_key=f"file:{tmp_path / 'key'}")
    assert refused.value.code == "weak_key"
