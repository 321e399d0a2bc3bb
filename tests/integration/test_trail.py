"""Servers elsewhere that lead back to themselves, at once or through another Mooring: refused, and said."""

import pytest

from mooring.proxy.trail import MOST_NAMES, Trail
from mooring.remote.options import RemoteOptions
from mooring.workloads import workload
from tests.faults.test_remote_server import INTRODUCTION
from tests.hosting import Host, hosting
from tests.mcp_client import McpClient
from tests.support import free_port, until, within


async def refused(host: Host) -> str:
    """What is said of it in the end."""
    await until(lambda: any(vars(one)["state"] == "failed" for one in host.events("state")))
    return host.events("state")[-1].getMessage()


async def test_a_server_whose_url_is_its_own_is_refused() -> None:
    port = free_port()
    remote = RemoteOptions(url=f"http://127.0.0.1:{port}/mcp")
    async with hosting(remote=remote, listen={"port": port}) as host:
        assert "this is the server's own address" in await refused(host)


async def test_two_that_lead_to_each_other_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload, "REFUSED_AGAIN_S", 0.0)
    ports = free_port(), free_port()
    first, second = (RemoteOptions(url=f"http://127.0.0.1:{port}/mcp") for port in ports)
    async with (
        hosting(remote=second, listen={"port": ports[0]}) as one,
        hosting(remote=first, listen={"port": ports[1]}),
        McpClient(one.port) as client,
        within(),
    ):
        # The first to begin could not reach the other yet.
        told = b""
        while b"this is the server's own address" not in told:
            told = (await client.raw("POST", client.request("initialize", INTRODUCTION))).body


def test_what_comes_another_way_is_let_in_and_its_way_is_told_on() -> None:
    first, second, third = Trail(), Trail(), Trail()
    assert not second.comes_back(None) and not second.comes_back(first.headers[0][1])
    assert not third.comes_back(second.headers[0][1])
    assert first.comes_back(third.headers[0][1]) and second.comes_back(third.headers[0][1])


def test_names_are_few_and_the_last_ones_count() -> None:
    server, others = Trail(), [Trail() for _ in range(100)]
    for other in others:
        assert not server.comes_back(other.headers[0][1])
    told = server.headers[0][1]
    assert len(told.split(b",")) == MOST_NAMES
    assert others[-1].comes_back(told) and not others[0].comes_back(told)
    assert not server.comes_back(b'"bad", \xff, , ' + b"x" * 99)
    assert server.headers[0][1] == told
