"""A Redis that does not fit its address is refused at once; one that is not there is waited for, aloud."""

import logging
import time
from pathlib import Path

import pytest

from mooring.errors import UserError
from mooring.host.options import ReplicaOptions
from mooring.host.replicated import _wait_there
from mooring.replicas.address import parse_store_address
from mooring.replicas.policy import ReplicaPolicy
from mooring.replicas.records import Keys
from mooring.replicas.redis_client import open_client
from mooring.replicas.shared_store import SharedStore
from tests.replicas.stores import running_server
from tests.support import free_port

SOON_S = 5.0
"""Before a start would have been given up, and with room for a machine that has much to do."""
POLICY = ReplicaPolicy(store_s=1.0)


async def refused(url: str, password: str | None = None, policy: ReplicaPolicy = POLICY) -> UserError:
    address = parse_store_address(url)
    store = SharedStore(open_client(address, password, None, policy.store_s), Keys("t", "x"), policy.store_s)
    options = ReplicaOptions(store=address, advertise="http://127.0.0.1:1", password=password)
    try:
        with pytest.raises(UserError) as told:
            await _wait_there(store, options, policy)
    finally:
        await store.aclose()
    return told.value


async def test_what_does_not_fit_is_refused_at_once(tmp_path: Path) -> None:
    async with (
        running_server("redis", tmp_path / "open") as store,
        running_server("redis", tmp_path / "locked", "--requirepass", "sesame") as locked,
    ):
        at, there = f"127.0.0.1:{store.port}", f"127.0.0.1:{locked.port}"
        begun = time.monotonic()
        for url, password, message in (
            (f"redis://{there}", None, "Redis wants a password"),
            (f"redis+cluster://{there}", None, "Redis wants a password"),
            (f"redis://{at}/9999", None, "Redis has no database 9999"),
            (f"redis+sentinel://{at}/fleet", None, f"what answers at {at} is no sentinel"),
            (f"redis+sentinel://{there}/fleet", "sesame", f"what answers at {there} is no sentinel"),
            (f"redis+cluster://{at}", None, f"Redis at {at} is no cluster"),
        ):
            error = await refused(url, password)
            assert (error.message, error.code) == (message, "sessions_refused")
        assert time.monotonic() - begun < SOON_S


async def test_tls_that_is_not_spoken(tmp_path: Path) -> None:
    async with running_server("redis", tmp_path / "open") as store:
        error = await refused(
            f"rediss://127.0.0.1:{store.port}", policy=ReplicaPolicy(store_s=1.0, start_s=0.0)
        )
    assert error.code == "sessions_unreachable"
    assert error.hint.endswith("it may not speak TLS: try redis://")


async def test_waiting_is_told_once_and_at_once(caplog: pytest.LogCaptureFixture) -> None:
    port = free_port()
    with caplog.at_level(logging.WARNING, "mooring.replicas"):
        error = await refused(f"redis://127.0.0.1:{port}", policy=ReplicaPolicy(store_s=1.0, start_s=1.2))
    assert error.code == "sessions_unreachable"
    [line] = [record.getMessage() for record in caplog.records if record.name == "mooring.replicas"]
    assert line.startswith(f"waiting for Redis at 127.0.0.1:{port}, up to 1.2 s: ")
