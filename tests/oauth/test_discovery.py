"""Strangers' addresses: who may name which, what is connected to, and what a document must be.

The servers are "public": their names lead to public addresses, which are dialled on loopback with real TLS.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trustme

from mooring.errors import MooringError, RemoteProtocolError, UserError
from mooring.http.client_connection import ClientConnection
from mooring.http.client_errors import BadAnswer, NoAnswer, NotSent, NotTrusted
from mooring.http.client_proxies import Proxies
from mooring.oauth import fetching
from mooring.oauth.addresses import Kind, kind_of
from mooring.oauth.bounds import MAX_ANSWER_BYTES, MOST_ADDRESSES, MOST_REDIRECTS
from mooring.oauth.discovery import discover
from mooring.oauth.endpoints import Refused, refresh, revoke
from mooring.oauth.fetching import Fetcher, Network, TlsFiles
from mooring.oauth.grants import Grant, Identity
from tests.forward_proxy import forward_proxy
from tests.http_client import echo, serving
from tests.raw_server import Asked, RawServer, Wire, answer, chunk
from tests.support import on_both_loops, within

SERVER = "https://mcp.example.com/mcp"
ISSUER = "https://as.example.com"
PRM = "https://mcp.example.com/.well-known/oauth-protected-resource/mcp"
AS = "https://as.example.com/.well-known/oauth-authorization-server"
PUBLIC = {
    "mcp.example.com": "93.184.215.14",
    "as.example.com": "93.184.215.15",
    "www.example.com": "2606:2800::1",
}
INNER = [
    "https://169.254.169.254/latest/meta-data",
    "http://169.254.169.254/latest/meta-data",
    "https://[::ffff:10.0.0.1]/",
    "https://[::ffff:a9fe:a9fe]/",
    "https://10.0.0.1/",
    "https://127.0.0.1/",
    "http://127.0.0.1:8080/",
    "https://[::1]/",
    "https://[fe80::1]/",
    "https://0.0.0.0/",
    "https://[64:ff9b::7f00:1]/",
    "https://224.0.0.1/",
    "https://inner.example.com/",
    "https://both.example.com/",
    "https://2130706433/",
    "https://localhost/",
    "http://as.example.com/",
]
ODD = [
    "file:///etc/passwd",
    "unix:/run/secret.sock",
    "https://user:word@as.example.com/",
    "https://",
    "https://[bad",
]


class World:
    """Names, addresses and the one server behind all of them; `pages` by URL."""

    def __init__(self, folder: Path) -> None:
        self.names: dict[str, list[str]] = {name: [address] for name, address in PUBLIC.items()}
        self.names |= {
            "inner.example.com": ["127.0.0.1"],
            "localhost": ["127.0.0.1", "::1"],
            "both.example.com": ["93.184.215.16", "192.168.1.1"],
            "2130706433": ["127.0.0.1"],
        }
        self.pages: dict[str, bytes | Callable[[Asked, Wire], Awaitable[bytes | None]]] = {}
        self.looked_up: list[str] = []
        self.dialled: list[str] = []
        authority = trustme.CA()
        self.ca_file = folder / "ca.pem"
        authority.cert_pem.write_to_path(str(self.ca_file))
        self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        authority.issue_cert("mcp.example.com", "as.example.com").configure_cert(self._tls)
        self._server = RawServer(self._answer)
        self.document(PRM, {"resource": SERVER, "authorization_servers": [ISSUER]})
        self.document(AS, authorization_server())
        self.pages[SERVER] = challenge(PRM)

    def document(self, url: str, content: Any) -> None:
        self.pages[url] = answer(content)

    @property
    def requests(self) -> list[str]:
        return [_url(asked) for asked in self._server.requests]

    @property
    def port(self) -> int:
        return self._server.port

    @property
    def network(self) -> Network:
        return Network(self._resolve, self._dial)

    def fetcher(self, server: str = SERVER) -> Fetcher:
        return Fetcher(server, TlsFiles(self.ca_file), self.network)

    async def _resolve(self, host: str, port: int) -> list[str]:
        self.looked_up.append(host)
        if host not in self.names:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return self.names[host]

    async def _dial(
        self,
        make: Callable[[], ClientConnection],
        address: str,
        port: int,
        tls: ssl.SSLContext | None,
        name: str,
    ) -> ClientConnection:
        self.dialled.append(address)
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            make, "127.0.0.1", self._server.port, ssl=tls, server_hostname=name if tls else None
        )
        return connection

    async def _answer(self, asked: Asked, wire: Wire) -> bytes | None:
        page = self.pages.get(_url(asked), answer(b"no", "404 Not Found", kind="text/plain"))
        return page if isinstance(page, bytes) else await page(asked, wire)

    @asynccontextmanager
    async def turning(self) -> AsyncIterator["World"]:
        self._server._server = await asyncio.start_server(
            self._server._serve, "127.0.0.1", 0, ssl=self._tls, limit=1 << 24
        )
        self._server.port = self._server._server.sockets[0].getsockname()[1]
        try:
            async with within(60):
                yield self
        finally:
            await self._server.close()
        # Whatever happened, nobody went where the server itself is not.
        assert {kind_of(address) for address in self.dialled} <= {Kind.PUBLIC}


def _url(asked: Asked) -> str:
    return f"https://{asked.headers['host']}{asked.target}"


def authorization_server(**changes: Any) -> dict[str, Any]:
    return {
        "issuer": ISSUER,
        "authorization_endpoint": f"{ISSUER}/authorize",
        "token_endpoint": f"{ISSUER}/token",
        "code_challenge_methods_supported": ["S256"],
        **changes,
    }


def challenge(place: str) -> bytes:
    return answer(
        b"{}", "401 Unauthorized", WWW_Authenticate=f'Bearer resource_metadata="{place}", scope="a"'
    )


def leading_to(place: str, status: str = "302 Found") -> bytes:
    return answer(b"", status, Location=place)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@on_both_loops
async def test_a_public_server_leads_to_a_public_authorization_server(world: World) -> None:
    async with world.turning():
        found = await discover(SERVER, world.fetcher())
    assert (found.resource, found.scopes, found.authority.issuer) == (SERVER, ("a",), ISSUER)
    assert world.requests == [SERVER, PRM, AS]
    assert set(world.dialled) == {PUBLIC["mcp.example.com"], PUBLIC["as.example.com"]}


async def test_a_name_is_looked_up_once_so_that_it_cannot_change_its_mind(world: World) -> None:
    answers = iter([["93.184.215.15"], ["127.0.0.1"]])

    class Rebinding(World):
        async def _resolve(self, host: str, port: int) -> list[str]:
            return next(answers) if host == "as.example.com" else await super()._resolve(host, port)

    world.__class__ = Rebinding
    async with world.turning():
        await discover(SERVER, world.fetcher())
    assert next(answers) == ["127.0.0.1"]


async def test_a_certificate_must_be_that_of_the_name(world: World) -> None:
    world.pages[SERVER] = challenge("https://www.example.com/prm")
    async with world.turning():
        with pytest.raises(NotTrusted):
            await discover(SERVER, world.fetcher())
        with pytest.raises(NotTrusted):
            await discover(SERVER, Fetcher(SERVER, network=world.network))


async def test_what_speaks_no_tls_is_told(world: World) -> None:
    async with serving(echo) as served, within():
        url = f"https://127.0.0.1:{served.port}/mcp"
        with pytest.raises(NotTrusted, match="no TLS"):
            await discover(url, Fetcher(url, TlsFiles(world.ca_file)))
    with pytest.raises(UserError) as caught:
        await discover(SERVER, Fetcher(SERVER, TlsFiles(Path("/nowhere.pem")), world.network))
    assert caught.value.code == "ca_file_unusable"


async def test_names_are_looked_up_by_the_system() -> None:
    async with within():
        await Fetcher("http://localhost/mcp").check("http://localhost/")
        with pytest.raises(RemoteProtocolError):
            await Fetcher("https://93.184.215.14/mcp").check("https://localhost/")


async def test_a_name_without_an_address_or_an_answer_is_told(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.names["mcp.example.com"] = []
    with pytest.raises(NotSent, match="no address"):
        await discover(SERVER, world.fetcher())
    monkeypatch.setattr(fetching, "REQUEST_S", 0.05)

    async def silent(_host: str, _port: int) -> list[str]:
        await asyncio.Event().wait()
        return []

    with pytest.raises(NotSent, match="not found within"):
        await discover(SERVER, Fetcher(SERVER, network=Network(resolve=silent)))


async def test_a_name_that_nobody_knows_is_told(world: World) -> None:
    world.pages[SERVER] = challenge("https://unknown.example.com/prm")
    async with world.turning():
        with pytest.raises(NotSent, match="Name or service not known"):
            await discover(SERVER, world.fetcher())


async def test_of_a_name_with_many_addresses_some_are_tried(world: World) -> None:
    world.names["mcp.example.com"] = [f"93.184.215.{number}" for number in range(100)]

    class Deaf(World):
        async def _dial(self, *arguments: Any) -> ClientConnection:
            self.dialled.append(arguments[1])
            raise ConnectionRefusedError(111, "Connection refused")

    world.__class__ = Deaf
    async with world.turning():
        with pytest.raises(NotSent, match="connection refused"):
            await discover(SERVER, world.fetcher())
    assert len(world.dialled) == MOST_ADDRESSES


async def test_an_address_that_is_dead_does_not_stand_before_one_that_is_not(world: World) -> None:
    world.names["mcp.example.com"] = ["93.184.215.17", PUBLIC["mcp.example.com"]]

    class HalfDeaf(World):
        async def _dial(self, make: Any, address: str, *arguments: Any) -> ClientConnection:
            if address == "93.184.215.17":
                await asyncio.Event().wait()
            return await super()._dial(make, address, *arguments)

    world.__class__ = HalfDeaf
    async with world.turning():
        assert (await discover(SERVER, world.fetcher())).authority.issuer == ISSUER


# Where nobody may send us --------------------------------------------------------------------


@pytest.mark.parametrize("place", [*INNER, *ODD])
@pytest.mark.parametrize(
    "by",
    [
        "challenge",
        "authorization_servers",
        "redirect",
        "authorization_endpoint",
        "token_endpoint",
        "registration_endpoint",
        "revocation_endpoint",
    ],
)
async def test_nobody_sends_us_into_networks_that_are_not_his(world: World, by: str, place: str) -> None:
    if by == "challenge":
        world.pages[SERVER] = challenge(place)
    elif by == "authorization_servers":
        world.document(PRM, {"resource": SERVER, "authorization_servers": [place]})
    elif by == "redirect":
        world.pages[PRM] = leading_to(place)
    else:
        world.document(AS, authorization_server(**{by: place}))
    async with world.turning():
        with pytest.raises(RemoteProtocolError) as caught:
            await discover(SERVER, world.fetcher())
    assert caught.value.code == ("forbidden_address" if place in INNER else "bad_metadata")


async def test_a_token_endpoint_that_has_moved_inside_gets_no_token(world: World) -> None:
    world.names["as.example.com"] = ["10.1.2.3"]
    async with world.turning():
        with pytest.raises(RemoteProtocolError) as caught:
            await refresh(a_grant(f"{ISSUER}/token"), world.fetcher())
    assert caught.value.code == "forbidden_address" and world.requests == []


async def test_what_carries_a_secret_follows_no_redirect(world: World) -> None:
    world.pages[f"{ISSUER}/token"] = leading_to("https://mcp.example.com/steal", "307 Temporary Redirect")
    async with world.turning():
        with pytest.raises(Refused) as caught:
            await refresh(a_grant(f"{ISSUER}/token"), world.fetcher())
    assert "HTTP 307" in caught.value.message
    assert world.requests == [f"{ISSUER}/token"]


def a_grant(token_endpoint: str) -> Grant:
    return Grant(
        server=SERVER,
        resource=SERVER,
        issuer=ISSUER,
        token_endpoint=token_endpoint,
        identity=Identity(client_id="me"),
        access="hunter2-access",
        refresh="hunter2-refresh",
        obtained_at=0.0,
    )


async def test_an_authorization_server_that_repeats_a_secret_is_not_quoted(world: World) -> None:
    refusal = {"error": "invalid_grant", "error_description": "hunter2-refresh is not known"}
    world.pages[f"{ISSUER}/token"] = answer(refusal, "400 Bad Request")
    async with world.turning():
        with pytest.raises(Refused) as caught:
            await refresh(a_grant(f"{ISSUER}/token"), world.fetcher())
    assert "hunter2" not in repr(caught.value) + caught.value.message
    assert "invalid_grant" in caught.value.message


async def test_a_refusal_with_a_good_status_is_one(world: World) -> None:
    world.document(f"{ISSUER}/token", {"error": "bad_refresh_token", "error_description": "it is bad"})
    async with world.turning():
        with pytest.raises(Refused, match=r"\(bad_refresh_token: it is bad\)"):
            await refresh(a_grant(f"{ISSUER}/token"), world.fetcher())


@pytest.mark.parametrize(
    ("revocation_endpoint", "statuses", "expected"),
    [
        (None, (), False),
        (f"{ISSUER}/revoke", ("200 OK", "200 OK"), True),
        (f"{ISSUER}/revoke", ("503 Busy", "200 OK"), Refused),
        (f"{ISSUER}/revoke", ("200 OK", "400 No"), Refused),
    ],
)
async def test_both_tokens_are_revoked_whatever_becomes_of_the_first(
    world: World, revocation_endpoint: str | None, statuses: tuple[str, ...], expected: Any
) -> None:
    left = iter(statuses)

    async def revoking(_asked: Asked, _wire: Wire) -> bytes:
        return answer(b"", next(left))

    world.pages[f"{ISSUER}/revoke"] = revoking
    grant = msgspec.structs.replace(a_grant(f"{ISSUER}/token"), revocation_endpoint=revocation_endpoint)
    async with world.turning():
        if expected is Refused:
            with pytest.raises(Refused):
                await revoke(grant, world.fetcher())
        else:
            assert await revoke(grant, world.fetcher()) is expected
    assert len(world.requests) == len(statuses)


@pytest.mark.parametrize(
    ("server", "named", "is_allowed"),
    [
        ("http://10.0.0.5/mcp", "http://10.0.0.6/", True),
        ("http://10.0.0.5/mcp", "https://127.0.0.1/", False),
        ("http://10.0.0.5/mcp", "http://169.254.169.254/", False),
        ("http://10.0.0.5/mcp", "http://as.example.com/", False),
        ("http://127.0.0.1/mcp", "http://localhost/", True),
        ("http://127.0.0.1/mcp", "http://192.168.0.1/", False),
        ("http://127.0.0.1/mcp", "https://as.example.com/", True),
        ("http://127.0.0.1/mcp", "http://169.254.169.254/", False),
        ("http://mcp.example.com/mcp", "https://as.example.com/", True),
        ("http://mcp.example.com/mcp", "http://mcp.example.com/", False),
        ("http://both.example.com/mcp", "http://192.168.1.1/", False),
    ],
)
async def test_where_a_server_is_itself_it_may_send_us(
    world: World, server: str, named: str, is_allowed: bool
) -> None:
    fetcher = world.fetcher(server)
    if is_allowed:
        await fetcher.check(named)
        return
    with pytest.raises(RemoteProtocolError) as caught:
        await fetcher.check(named)
    assert caught.value.code == "forbidden_address"


# Redirects, sizes, times ---------------------------------------------------------------------


async def test_metadata_that_has_moved_is_followed_a_few_times(world: World) -> None:
    hops = [f"https://as.example.com/{number}" for number in range(MOST_REDIRECTS)]
    document = world.pages[PRM]
    for here, there in zip([PRM, *hops], hops, strict=False):
        world.pages[here] = leading_to(there.replace("https://as.example.com", "") if here in hops else there)
    world.pages[hops[-1]] = document
    async with world.turning():
        assert (await discover(SERVER, world.fetcher())).authority.issuer == ISSUER
        world.pages[hops[-1]] = leading_to(PRM)
        with pytest.raises(RemoteProtocolError, match="leads elsewhere more than"):
            await discover(SERVER, world.fetcher())


async def test_a_document_without_end_is_not_read_to_its_end(world: World) -> None:
    world.pages[PRM] = answer(b" " * (MAX_ANSWER_BYTES + 1))
    async with world.turning():
        with pytest.raises(BadAnswer) as caught:
            await discover(SERVER, world.fetcher())
        assert caught.value.code == "message_too_long"

        async def endless(_asked: Asked, wire: Wire) -> None:
            wire.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            for _ in range(1 + MAX_ANSWER_BYTES // 65536):
                wire.send(chunk(b" " * 65536))
            await wire.closed_by_peer()

        world.pages[PRM] = endless
        with pytest.raises(BadAnswer):
            await discover(SERVER, world.fetcher())


async def test_an_answer_that_does_not_come_is_not_waited_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "REQUEST_S", 0.3)

    async def silent(_asked: Asked, wire: Wire) -> None:
        await wire.closed_by_peer()

    world.pages[PRM] = silent
    async with world.turning():
        with pytest.raises(NoAnswer):
            await discover(SERVER, world.fetcher())


# What documents must be ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"issuer": "https://evil.example.com"}, "wrong_issuer"),
        ({"issuer": f"{ISSUER}/"}, "wrong_issuer"),
        ({"code_challenge_methods_supported": ["plain"]}, "no_pkce"),
        ({"code_challenge_methods_supported": None}, "no_pkce"),
    ],
)
async def test_an_authorization_server_that_is_another_or_not_safe_is_refused(
    world: World, changes: dict[str, Any], code: str
) -> None:
    world.document(AS, authorization_server(**changes))
    async with world.turning():
        with pytest.raises(RemoteProtocolError) as caught:
            await discover(SERVER, world.fetcher())
    assert caught.value.code == code


async def test_a_document_about_another_server_is_refused(world: World) -> None:
    world.document(PRM, {"resource": "https://as.example.com/mcp", "authorization_servers": [ISSUER]})
    async with world.turning():
        with pytest.raises(RemoteProtocolError) as caught:
            await discover(SERVER, world.fetcher())
    assert caught.value.code == "wrong_resource" and AS not in world.requests


async def test_a_document_that_was_named_must_be_there(world: World) -> None:
    world.pages[SERVER] = challenge("https://mcp.example.com/elsewhere")
    async with world.turning():
        with pytest.raises(RemoteProtocolError, match="HTTP 404"):
            await discover(SERVER, world.fetcher())


async def test_openid_documents_will_do_and_another_authorization_server_too(world: World) -> None:
    tenant = f"{ISSUER}/tenant"
    issuers = ["https://mcp.example.com", "https://10.0.0.1", tenant]
    world.document(PRM, {"resource": "https://MCP.example.com", "authorization_servers": issuers})
    world.document(f"{tenant}/.well-known/openid-configuration", authorization_server(issuer=tenant))
    async with world.turning():
        found = await discover(SERVER, world.fetcher())
    assert found.authority.issuer == tenant and found.resource == "https://MCP.example.com"
    assert world.requests[-3:] == [
        f"{AS}/tenant",
        f"{ISSUER}/.well-known/openid-configuration/tenant",
        f"{tenant}/.well-known/openid-configuration",
    ]


@pytest.mark.parametrize("issuer", ["https://mcp.example.com", "https://mcp.example.com/"])
async def test_a_server_without_a_document_about_itself_is_its_own_authorization_server(
    world: World, issuer: str
) -> None:
    world.pages[SERVER] = answer(b"{}", "401 Unauthorized", WWW_Authenticate="Bearer")
    del world.pages[PRM]
    place = "https://mcp.example.com/.well-known/oauth-authorization-server"
    world.document(place, authorization_server(issuer=issuer))
    async with world.turning():
        found = await discover(SERVER, world.fetcher())
        assert (found.resource, found.scopes, found.authority.issuer) == (SERVER, (), issuer)
        world.document(place, authorization_server(issuer=ISSUER))
        with pytest.raises(RemoteProtocolError) as caught:
            await discover(SERVER, world.fetcher())
    assert caught.value.code == "wrong_issuer"


async def test_pages_in_place_of_documents_are_passed_over(world: World) -> None:
    page = answer(b"<html>Welcome!</html>", kind="text/html")
    world.pages[SERVER] = answer(b"{}", "401 Unauthorized")
    world.pages[PRM] = world.pages[PRM.removesuffix("/mcp")] = page
    async with world.turning():
        with pytest.raises(UserError) as caught:
            await discover(SERVER, world.fetcher())
    assert caught.value.code == "no_login"


async def test_the_query_of_a_servers_url_may_be_a_secret_and_is_nobody_elses(world: World) -> None:
    server = f"{SERVER}?key=hunter2"
    world.pages[server] = answer(b"{}", "401 Unauthorized", WWW_Authenticate="Bearer")
    del world.pages[PRM]
    place = "https://mcp.example.com/.well-known/oauth-authorization-server"
    async with world.turning():
        with pytest.raises(UserError) as unknown:
            await discover(server, world.fetcher(server))
        world.document(place, authorization_server(issuer="https://mcp.example.com"))
        found = await discover(server, world.fetcher(server))
        assert found.resource == SERVER, "which whoever gives tokens is told"
        world.pages[server] = challenge(PRM)
        with pytest.raises(RemoteProtocolError) as missing:
            await discover(server, world.fetcher(server))
        world.document(PRM, {"resource": "https://as.example.com", "authorization_servers": [ISSUER]})
        with pytest.raises(RemoteProtocolError) as of_another:
            await discover(server, world.fetcher(server))
    assert (unknown.value.code, missing.value.code) == ("no_login", "bad_metadata")
    assert of_another.value.code == "wrong_resource"
    assert not any("hunter2" in caught.value.message for caught in (unknown, missing, of_another))


async def test_a_server_that_answers_with_a_stream_is_not_listened_to(world: World) -> None:
    async def streaming(_asked: Asked, wire: Wire) -> None:
        wire.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        await wire.closed_by_peer()

    world.pages[SERVER] = streaming
    async with world.turning():
        assert (await discover(SERVER, world.fetcher())).authority.issuer == ISSUER


# Proxies -------------------------------------------------------------------------------------


async def test_what_is_public_goes_through_the_proxy(world: World) -> None:
    del world.names["as.example.com"]  # behind a proxy nobody needs to know names
    async with world.turning(), forward_proxy(mcp_example_com=world.port, as_example_com=world.port) as proxy:
        proxies = Proxies.from_environment({"https_proxy": f"http://127.0.0.1:{proxy.port}"})
        network = world.network._replace(proxies=proxies)
        found = await discover(SERVER, Fetcher(SERVER, TlsFiles(world.ca_file), network))
        assert found.authority.issuer == ISSUER and world.dialled == []
        tunnels = {(asked.method, asked.target) for asked in proxy.asked}
        assert tunnels == {("CONNECT", "mcp.example.com:443"), ("CONNECT", "as.example.com:443")}
        for place in ("https://inner.example.com/", "https://10.0.0.1/", "http://as.example.com/"):
            with pytest.raises(MooringError):
                await Fetcher(SERVER, TlsFiles(world.ca_file), network).check(place)


# TLS -----------------------------------------------------------------------------------------


@asynccontextmanager
async def encrypted(
    script: Callable[[Asked, Wire], Awaitable[bytes | None]],
    authority: trustme.CA,
    *,
    asks: ssl.VerifyMode,
    of: trustme.CA,
) -> AsyncIterator[str]:
    """An origin that asks clients for a certificate."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    of.configure_trust(tls)
    tls.verify_mode = asks
    server = RawServer(script)
    server._server = await asyncio.start_server(server._serve, "127.0.0.1", 0, ssl=tls)
    try:
        async with within():
            yield f"https://127.0.0.1:{server._server.sockets[0].getsockname()[1]}"
    finally:
        await server.close()


async def test_the_servers_own_authority_and_our_certificate_are_not_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private, public = trustme.CA(), trustme.CA()
    private.cert_pem.write_to_path(str(tmp_path / "private.pem"))
    public.cert_pem.write_to_path(str(tmp_path / "system.pem"))
    private.issue_cert("me").private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "me.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "system.pem"))
    documents: dict[str, dict[str, Any]] = {}
    certificates: dict[str, Any] = {}

    async def respond(asked: Asked, wire: Wire) -> bytes:
        origin = f"https://{asked.headers['host']}"
        certificates[origin] = wire.writer.get_extra_info("peercert")
        return challenge(f"{origin}/document") if asked.method == "POST" else answer(documents[origin])

    async with (
        encrypted(respond, public, asks=ssl.CERT_OPTIONAL, of=private) as issuer,
        encrypted(respond, private, asks=ssl.CERT_REQUIRED, of=private) as server,
    ):
        documents[server] = {"resource": f"{server}/mcp", "authorization_servers": [issuer]}
        places = {name: f"{issuer}/{name}" for name in ("authorization_endpoint", "token_endpoint")}
        documents[issuer] = authorization_server(issuer=issuer, **places)
        tls = TlsFiles(tmp_path / "private.pem", tmp_path / "me.pem")
        found = await discover(f"{server}/mcp", Fetcher(f"{server}/mcp", tls))
        assert found.authority.issuer == issuer
        assert certificates[server] and not certificates[issuer]
        with pytest.raises(NotTrusted):  # by the system's authorities the server is not known
            await Fetcher(f"{issuer}/mcp").get(f"{server}/document")
        with pytest.raises(NotTrusted):  # nor by itself is who is known to the system
            await Fetcher(f"{issuer}/mcp", tls).get(f"{issuer}/document")
