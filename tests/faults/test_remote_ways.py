"""The way to a server elsewhere, with all of Mooring on it: proxies, certificates, names, redirects."""

from pathlib import Path

import pytest

from mooring.remote.options import RemoteOptions
from mooring.secrets.vault import Vault
from tests.faults.test_remote_points import NEWS, method_of
from tests.faults.test_remote_server import CALL, INTRODUCTION, Elsewhere
from tests.forward_proxy import forward_proxy
from tests.hosting import hosting
from tests.integration.test_http_client_ways import NAME, Authority
from tests.mcp_client import Json, McpClient, client_of
from tests.raw_server import Asked, Wire, answer, event, raw_server
from tests.support import until

TOOL: Json = {"name": "x", "arguments": {}}


class Mutual:
    """A server that wants to know who asks, and what it takes to be let in."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder)
        self.tls = self.authority.server(NAME, wants_certificate=True)
        self.ca_file = self.authority.ca_file
        self.cert, self.key = folder / "cert.pem", folder / "key.pem"
        mine = self.authority.ca.issue_cert("me@example.com")
        mine.cert_chain_pems[0].write_to_path(str(self.cert))
        mine.private_key_pem.write_to_path(str(self.key))


@pytest.mark.parametrize("lacks", ["", "ca_file", "client_cert", "proxy"])
async def test_a_server_behind_a_proxy_that_wants_to_know_who_asks(
    lacks: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutual = Mutual(tmp_path)
    remote = RemoteOptions(
        url=f"https://{NAME}/mcp",
        ca_file=None if lacks == "ca_file" else mutual.ca_file,
        client_cert=None if lacks == "client_cert" else mutual.cert,
        client_key=None if lacks == "client_cert" else mutual.key,
    )
    async with (
        raw_server(Elsewhere(), mutual.tls) as server,
        forward_proxy(upstream_test=server.port) as proxy,
    ):
        for name in ("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.delenv(name, raising=False)
        if lacks != "proxy":
            monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.port}")
        async with hosting(remote=remote) as host:
            if lacks:
                await host.logged("unreachable")
                assert not server.requests
                return
            async with client_of(host.port) as client:
                assert "n" in await client.result(CALL, TOOL)
        assert {asked.target for asked in proxy.asked} == {f"{NAME}:443"}


async def test_one_that_is_not_trusted_any_more_is_said_to_be_so_to_who_calls(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    authority, other = Authority(tmp_path), Authority(tmp_path / "other")
    trusted, stranger = authority.server("127.0.0.1"), other.server("127.0.0.1")
    async with raw_server(Elsewhere(), trusted) as server:
        remote = RemoteOptions(url=server.url, ca_file=authority.ca_file)
        async with hosting(remote=remote) as host, client_of(host.port) as client:
            assert "n" in await client.result(CALL, TOOL)
            await server.close()
            heard = len(server.requests)
            server.tls = stranger
            await server.open()
            refused = (await client.ask(CALL, TOOL))["error"]
            assert refused["data"] == {"reason": "not_trusted", "retryable": True}
            assert len(server.requests) == heard
            await server.close()
            server.tls = trusted
            await server.open()
            assert "n" in await client.result(CALL, TOOL)


async def test_a_name_that_leads_nowhere_is_told_to_who_calls() -> None:
    remote = RemoteOptions(url="http://no-such-host.invalid/mcp")
    async with hosting(remote=remote) as host, McpClient(host.port) as client:
        refused = (await client.ask("initialize", INTRODUCTION))["error"]
    assert refused["data"]["reason"] == "unreachable" and refused["data"]["retryable"]
    assert "no-such-host.invalid" in refused["message"]


# Redirects


class Moved(Elsewhere):
    """Everything is at another path now."""

    def __init__(self, place: str) -> None:
        super().__init__()
        self.place = place

    async def __call__(self, asked: Asked, wire: Wire) -> bytes | None:
        if asked.target == "/mcp":
            status = "302 Found" if asked.method == "GET" else "307 Temporary Redirect"
            return answer(status=status, Location=self.place)
        if asked.method == "DELETE" and "mcp-protocol-version" not in asked.headers:
            return answer(status="204 Gone")  # by who has found out which transport it is
        return await super().__call__(asked, wire)


async def test_a_server_that_is_at_another_path_gets_all_that_is_meant_for_it(tmp_path: Path) -> None:
    Vault(tmp_path / "secrets").put("linear", "s3cret")
    script = Moved("/there/mcp")
    async with raw_server(script) as server:
        remote = RemoteOptions(url=server.url, header_references={"Authorization": "Bearer {secret:linear}"})
        async with (
            hosting(remote=remote, secrets=tmp_path / "secrets") as host,
            client_of(host.port) as client,
        ):
            assert "n" in await client.result(CALL, TOOL)
            stream = await client.stream()
            await until(lambda: script.stream is not None)
            assert script.stream is not None
            script.stream.send(event(NEWS))
            assert await stream.message() == NEWS
            stream.reset()
            assert (await client.raw("DELETE")).status == 204
            await server.count(2, "DELETE")
    there = [asked for asked in server.requests if asked.target == "/there/mcp"]
    assert {asked.method for asked in there} == {"POST", "GET", "DELETE"}
    assert {asked.headers["authorization"] for asked in there} == {"Bearer s3cret"}
    assert sum(method_of(asked) == CALL for asked in there) == 1


@pytest.mark.parametrize("method", [CALL, "GET", "initialize"])
async def test_nothing_is_said_to_another_server(method: str, tmp_path: Path) -> None:
    Vault(tmp_path / "secrets").put("linear", "s3cret")

    class Leading(Elsewhere):
        async def __call__(self, asked: Asked, wire: Wire) -> bytes | None:
            if method_of(asked) == method:
                return answer(status="307 Temporary Redirect", Location=other.url)
            return await super().__call__(asked, wire)

    async with raw_server(Elsewhere()) as other, raw_server(Leading()) as server:
        remote = RemoteOptions(url=server.url, header_references={"Authorization": "Bearer {secret:linear}"})
        async with (
            hosting(remote=remote, secrets=tmp_path / "secrets") as host,
            McpClient(host.port) as client,
        ):
            if method == "initialize":
                opened = await client.raw("POST", client.request("initialize", INTRODUCTION))
                assert b"the server is now at" in opened.body and other.url.encode() in opened.body
            else:
                await client.initialize()
                said = await client.ask(CALL, TOOL)
                if method == CALL:
                    assert said["error"]["data"]["reason"] == "redirected"
                    assert other.url in said["error"]["message"]
                    assert len(await server.count(1, CALL)) == 1
            await server.count(1, method)
        assert not other.connections
