"""No call is executed twice, none that was cancelled, and none is lost without a word."""

import asyncio
import os
import random
import signal
import sys
from pathlib import Path

import pytest

from mooring.supervise.restart import RestartPolicy
from tests.hosting import DEMO, SCRIPTED, hosting
from tests.mcp_client import McpClient, client_of
from tests.support import suspend, within

EAGER = (sys.executable, str(Path(__file__).with_name("eager_server.py")))


async def in_flight(port: int, number: int) -> None:
    async with McpClient(port, path="/readyz") as probe, within():
        while f'"calls_in_flight":{number},'.encode() not in (await probe.raw("GET")).body:
            pass


async def test_a_server_that_acts_before_it_has_read_the_line_end_acts_once(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    async with hosting((*EAGER, str(ledger))) as host, client_of(host.port) as client:
        error = (await client.ask("x/die"))["error"]
        assert error["data"] == {
            "reason": "server_exited",
            "retryable": False,
            "exit": {"code": 7, "signal": None},
        }
        assert (await client.result("x/after"))["pid"]
    assert ledger.read_text().split() == ["x/die", "x/after"]


async def test_a_message_that_kills_its_server_is_not_given_to_the_next_one(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    async with hosting((*EAGER, str(ledger), "--lines")) as host, client_of(host.port) as client:
        error = (await client.ask("x/big", {"text": "x" * 1_000_000}))["error"]
        assert (error["data"]["reason"], error["data"]["retryable"]) == ("server_exited", False)
        assert (await client.result("x/after"))["pid"]
        assert len(host.events("server_exited")) == 1


async def test_a_cancelled_call_is_not_executed_by_the_next_server() -> None:
    async with hosting(DEMO) as host, client_of(host.port) as client:
        pid = int((await client.text("counter")).split('"pid": ')[1].rstrip("}"))
        await suspend(pid)
        body = client.request("tools/call", {"name": "counter", "arguments": {}}, id="c")
        cancelled = asyncio.create_task(client.raw("POST", body))
        await in_flight(host.port, 1)
        await client.notify("notifications/cancelled", {"requestId": "c"})
        os.kill(pid, signal.SIGKILL)
        assert b'"reason":"cancelled"' in (await cancelled).body
        assert '"count": 1,' in await client.text("counter"), "the first call that the new server has seen"


async def test_with_retry_a_cancelled_call_is_not_repeated() -> None:
    async with hosting(SCRIPTED, retry=True, cancel_wait_s=60) as host, client_of(host.port) as client:
        pid = await client.pid()
        await suspend(pid)
        held = asyncio.create_task(client.raw("POST", client.request("resources/read", id="r")))
        await in_flight(host.port, 1)
        await client.notify("notifications/cancelled", {"requestId": "r"})
        os.kill(pid, signal.SIGKILL)
        assert b'"reason":"cancelled"' in (await held).body
        assert not any(b"resources/read" in line for line in await client.heard())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
async def test_random_kills_execute_nothing_twice(seed: int, tmp_path: Path) -> None:
    """Eight clients, calls in parallel, kills at random: what is told agrees with what was done."""
    random_ = random.Random(seed)
    ledger = tmp_path / "ledger"
    told: dict[str, bool] = {}

    async def client_of_many(number: int, port: int) -> None:
        async with client_of(port) as client:
            for n in range(40):
                names = [f"x/{number}-{n}-{k}" for k in range(random_.randint(1, 5))]
                answers = await asyncio.gather(*(client.ask(name) for name in names))
                for name, answer in zip(names, answers, strict=True):
                    if "result" in answer:
                        told[name] = True
                        if random_.random() < 0.02:
                            os.kill(answer["result"]["pid"], signal.SIGKILL)
                    elif answer["error"]["data"]["reason"] == "server_unavailable":
                        told[name] = False

    patient = RestartPolicy(immediate=100_000, max_exits=100_000)  # kills are the subject, not back-off
    async with hosting((*EAGER, str(ledger)), restarts=patient) as host:
        await asyncio.gather(*(client_of_many(number, host.port) for number in range(8)))
    done = ledger.read_text().split()
    assert len(done) == len(set(done)), "executed twice"
    assert {name for name, executed in told.items() if executed} <= set(done)
    assert not {name for name, executed in told.items() if not executed} & set(done)
