"""References of servers: followed at each start, in a thread, for a bounded time."""

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from mooring.errors import Unavailable, UserError
from mooring.proxy.policy import SessionPolicy
from mooring.secrets.references import Reference
from mooring.secrets.resolving import Resolved, Resolver
from mooring.secrets.vault import Vault
from mooring.supervise.states import State
from mooring.workloads import resolving
from mooring.workloads.definition import ServerOptions, dump_options, load_options
from mooring.workloads.resolving import Resolving
from mooring.workloads.workload import Workload
from tests.e2e.program import ROOT
from tests.hosting import ENVIRONMENT, SCRIPTED, SHORT
from tests.support import until, within

TOKEN = {"TOKEN": "secret:linear"}


def described(name: str = "one", references: Mapping[str, str] = TOKEN) -> ServerOptions:
    return ServerOptions(
        name=name,
        argv=SCRIPTED,
        env=ENVIRONMENT,
        env_references=references,
        spare=0,
        patience=SHORT,
        sessions=SessionPolicy(),
    )


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    return Vault(tmp_path / "secrets.json")


def following(vault: Vault) -> Resolving:
    return Resolving(Resolver(vault, {}, whose="the environment", remedy=""))


class Stuck(Resolver):
    """Like a keyring that waits for its user."""

    def __init__(self) -> None:
        self.asked = 0
        self.go_on = threading.Event()

    def resolve(self, referring: Mapping[str, str]) -> Resolved:
        self.asked += 1
        self.go_on.wait(60)
        return Resolved({"TOKEN": "value"})


def test_a_definition_has_references_and_is_read_as_it_was_written() -> None:
    options = described(references={"A": "x {env:B} {secret:linear}", "C": "secret:linear"})
    assert load_options(dump_options(options)) == options
    assert options.references == (Reference("env", "B"), Reference("secret", "linear"))
    with pytest.raises(ValueError, match="secret"):
        described(references={"A": "secret:"})
    with pytest.raises(ValueError, match="somebody who follows"):
        Workload(described(), clock=time.monotonic)


async def test_each_start_looks_anew(vault: Vault) -> None:
    vault.put("linear", "the-first-one")
    workload = Workload(described(), clock=time.monotonic, resolving=following(vault))
    try:
        await workload.check()
        for value in ("the-first-one", "the-second-one"):
            vault.put("linear", value)
            channel = await workload.acquire()
            place = Path(f"/proc/{channel.pid}/environ")
            await until(place.read_bytes)  # the system fills it in a moment after the start
            assert f"TOKEN={value}".encode() in place.read_bytes().split(b"\0")
            assert value not in repr(workload.definition) + dump_options(workload.definition).decode()
            workload.release(channel, "seen")
    finally:
        await workload.stop("end of test")


async def test_a_secret_that_disappears_is_the_reason_why_it_cannot_start(vault: Vault) -> None:
    vault.put("linear", "a-value-of-it")
    workload = Workload(described(), clock=time.monotonic, resolving=following(vault))
    try:
        vault.remove("linear")
        with pytest.raises(UserError, match="no secret named linear"):
            await workload.check()
        with pytest.raises(Unavailable) as refused:
            await workload.acquire()
        assert refused.value.code == "cannot_start"
        seen = workload.supervisor.snapshot()
        assert (seen.state, seen.reason.code) == (State.FAILED, "cannot_start")
        assert "no secret named linear (needed for TOKEN)" in seen.reason.text
        assert "mooring secret set linear" in seen.reason.hint
        vault.put("linear", "a-value-of-it")
        workload.supervisor.skip_wait()
        await until(lambda: workload.supervisor.state is State.READY)
    finally:
        await workload.stop("end of test")


async def test_what_a_server_says_of_its_values_is_masked(
    vault: Vault, caplog: pytest.LogCaptureFixture
) -> None:
    vault.put("linear", "hunter2-hunter2")
    argv = (sys.executable, str(ROOT / "tests/telltale_server.py"))
    options = ServerOptions(name="one", argv=argv, env=ENVIRONMENT, env_references=TOKEN, patience=SHORT)
    workload = Workload(options, clock=time.monotonic, resolving=following(vault))
    with caplog.at_level(logging.DEBUG, "mooring"):
        try:
            workload.start()
            await until(lambda: workload.supervisor.state is State.FAILED)
            seen = workload.supervisor.snapshot()
            assert "[secret:linear]" in seen.reason.text and "hunter2" not in seen.reason.text
            assert "the key is [secret:linear]" in workload.recollection.last_words()
        finally:
            await workload.stop("end of test")
    assert "junk with [secret:linear]" in caplog.text and "hunter2" not in caplog.text


async def test_a_look_that_hangs_is_given_up_and_costs_one_thread_of_its_own_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resolving, "RESOLVE_S", 0.05)
    stuck = Stuck()
    following = Resolving(stuck)
    for _ in range(3):
        with pytest.raises(UserError, match=r"one: secret:linear could not be read within 0.05 s"):
            await following.resolve(described())
    assert stuck.asked == 1, "one look at a time"
    with pytest.raises(UserError, match="other: "):
        await following.resolve(described("other"))
    assert stuck.asked == 2, "another server is not held up"
    stuck.go_on.set()
    monkeypatch.setattr(resolving, "RESOLVE_S", 20.0)
    async with within():
        assert (await following.resolve(described())).variables == {"TOKEN": "value"}
    assert await following.resolve(described(references={})) == Resolved()


async def test_who_stops_waiting_disturbs_nobody() -> None:
    stuck = Stuck()
    following = Resolving(stuck)
    first = asyncio.create_task(following.resolve(described()))
    await until(lambda: stuck.asked)
    second = asyncio.create_task(following.resolve(described()))
    first.cancel()
    await asyncio.wait([first])
    stuck.go_on.set()
    async with within():
        assert (await second).variables == {"TOKEN": "value"}
    assert stuck.asked == 2


async def test_no_thread_to_look_with_is_not_the_fault_of_the_server(
    vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    vault.put("linear", "a-value-of-it")
    following = Resolving(Resolver(vault, {}, whose="", remedy=""))
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(Unavailable, match="no thread"):
            await following.resolve(described())
    assert (await following.resolve(described())).variables == {"TOKEN": "a-value-of-it"}
