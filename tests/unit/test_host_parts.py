"""The parts of a host that need no socket: the wish to end, the shares of a drain, tokens, metrics."""

import asyncio
import os
import resource
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from mooring.errors import UserError
from mooring.host import metrics
from mooring.host.access import make_guard, read_tokens
from mooring.host.capacity import connections_within
from mooring.host.options import ListenOptions
from mooring.host.shutdown import DrainPolicy
from mooring.host.stop import Stop
from mooring.http.listener import Listener
from mooring.runtimes.descriptors import DescriptorLimit
from mooring.workloads.definition import ServerOptions
from mooring.workloads.workload import Workload
from tests.support import within


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


async def test_a_second_wish_counts_half_a_second_after_the_first() -> None:
    clock = Clock()
    stop = Stop(clock)
    stop.request("SIGTERM")
    await stop.wait_requested()
    clock.now += 0.49
    stop.request("SIGINT")
    assert not stop.forced and stop.cause == "SIGTERM"
    assert not await stop.wait_forced(0.0)
    waiting = asyncio.create_task(stop.wait_forced())
    clock.now += 0.01
    stop.request("SIGINT")
    async with within():
        assert await waiting
    assert stop.cause == "SIGTERM", "the first is the cause"


@pytest.mark.parametrize(
    ("timeout_s", "children_s", "calls_s"),
    [
        (None, 7.0, None),
        (25.0, 7.0, 17.0),
        (20.0, 7.0, 12.0),
        (8.0, 7.0, 4.0),
        (1.0, 7.0, 0.5),
        (0.0, 7.0, 0.0),
    ],
)
def test_calls_get_what_the_children_do_not_need_and_at_least_half(
    timeout_s: float | None, children_s: float, calls_s: float | None
) -> None:
    assert DrainPolicy(delay_s=0, timeout_s=timeout_s, children_s=children_s).calls_s() == calls_s


@pytest.mark.parametrize(
    ("descriptors", "servers", "connections"),
    [
        (20_000, 1001, 20_000 - 128 - 4004),
        (1 << 20, 1001, (1 << 20) - 128 - 4004),
        (1024, 1001, 512),
        (1024, 11, 1024 - 128 - 44),
        (1, 1, 1),
    ],
)
def test_connections_take_what_servers_leave(descriptors: int, servers: int, connections: int) -> None:
    assert connections_within(descriptors, servers) == connections


def test_a_process_without_a_limit_has_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert DescriptorLimit().soft > 1 << 60


def file(tmp_path: Path, text: str | bytes, mode: int = 0o600) -> Path:
    path = tmp_path / "tokens"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(mode)
    return path


def test_tokens_with_and_without_names(tmp_path: Path) -> None:
    path = file(tmp_path, f"\n# comment\n  # another\n{'t' * 16}\nalice\t{'a' * 40}\r\n")
    assert read_tokens(path) == {"token": "t" * 16, "alice": "a" * 40}


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("", "token_file_empty", ""),
        ("# only words\n", "token_file_empty", ""),
        ("fifteen-letters", "token_file_invalid", "line 1"),
        (f"\nname {'s' * 16} more", "token_file_invalid", "line 2"),
        (f"{'s' * 16}\n{'u' * 16}", "token_file_invalid", "line 2"),
        (b"\xc3\xa9" * 16, "token_file_unreadable", ""),
    ],
)
def test_token_files_that_cannot_be_used(tmp_path: Path, text: str | bytes, code: str, place: str) -> None:
    with pytest.raises(UserError) as caught:
        read_tokens(file(tmp_path, text))
    assert caught.value.code == code and place in caught.value.message
    assert str(tmp_path) in caught.value.message
    assert not any(
        secret in caught.value.message + caught.value.hint for secret in ("ssss", "uuuu", "letters")
    )


def test_a_token_file_that_others_can_write_or_nobody_can_read(tmp_path: Path) -> None:
    path = file(tmp_path, "t" * 16, 0o666)
    with pytest.raises(UserError) as caught:
        make_guard(ListenOptions(token_file=path))
    assert caught.value.code == "token_file_unsafe" and "chmod" in caught.value.hint
    with pytest.raises(UserError) as caught:
        read_tokens(tmp_path / "none")
    assert caught.value.code == "token_file_unreadable"


async def test_the_page_keeps_every_digit_of_a_large_sum() -> None:
    definition = ServerOptions(name="a", argv=("x",), env=dict(os.environ))
    workload = Workload(definition, clock=Clock())
    listener = Listener(lambda exchange: None)
    stats = workload.proxy.stats
    stats.answered(0.001)
    stats.answered(0.0011)
    stats.answered(1e9 + 0.25)
    stats.failed("timeout")
    stats.failed("timeout")
    page = metrics.render([workload], listener, {"server": workload.name}).decode()
    found = {
        (sample.name, sample.labels.get("le") or sample.labels.get("reason")): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }
    assert found["mooring_call_duration_seconds_sum", None] == 0.001 + 0.0011 + 1e9 + 0.25
    assert found["mooring_call_duration_seconds_bucket", "0.001"] == 1, "a bound belongs to its bucket"
    assert found["mooring_call_duration_seconds_bucket", "0.0025"] == 2
    assert found["mooring_call_duration_seconds_bucket", "300.0"] == 2
    assert found["mooring_call_duration_seconds_bucket", "+Inf"] == 3
    assert found["mooring_calls_failed_total", "timeout"] == 2
    await listener.aclose()
    await workload.stop("end")
