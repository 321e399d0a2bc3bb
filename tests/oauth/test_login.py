"""The whole way of a login, with real authorization servers, the steps of a browser and a real resource."""

import asyncio
import json
import socket
from pathlib import Path
from urllib.parse import quote

import pytest

from mooring.errors import ListenFailed, MooringError, RemoteProtocolError, Unavailable, UserError
from mooring.oauth.bounds import MOST_STRAYS
from mooring.oauth.credentials import OAuthCredentials
from mooring.oauth.keeping import Shelf
from mooring.oauth.login import ClientGiven, LoginState, login, status
from tests import parts
from tests.e2e.program import Program
from tests.oauth.authority import Authority, running_authority
from tests.oauth.browser import Page, query_of
from tests.oauth.person import Person, log_in
from tests.oauth.resource import WELL_KNOWN, Protected, call
from tests.support import within


class Dawdler(Person):
    """Goes all the way but for the last step: `answer` is the address that leads back to us."""

    def __init__(self, authority: Authority) -> None:
        super().__init__()
        self._authority = authority
        self.answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def visit(self, address: str) -> Page:
        page = await self.browser.log_in(address, stop_before=query_of(address)["redirect_uri"])
        self.answer.set_result(page.url)
        return page


class Decliner(Person):
    async def visit(self, address: str) -> Page:
        return await self.browser.decline(address)


async def test_a_login_gives_a_token_that_the_server_takes(
    authority: Authority, protected: Protected, tmp_path: Path
) -> None:
    person = Person()
    assert status(protected.url, tmp_path).state is LoginState.NONE
    done = await log_in(protected.url, tmp_path, person)
    assert (done.issuer, done.renews) == (authority.issuer, True)
    assert "mcp:read" in done.scopes

    asked = query_of(person.shown[0])
    assert asked["resource"] == protected.url and asked["code_challenge_method"] == "S256"
    assert asked["scope"].split() == ["mcp:read", "offline_access"]
    [page] = person.pages
    assert page.status == 200 and "go back to where you started" in page.text
    assert page.headers["cache-control"] == "no-store"
    assert not any(value in page.text for value in query_of(page.url).values())
    granted = await authority.event("granted", by="authorization_code")
    assert granted["resource"] == protected.url
    registered = await authority.event("registered")
    assert (registered["type"], registered["method"]) == ("native", "none")

    credentials = OAuthCredentials(protected.url, tmp_path, name="mine")
    assert credentials.headers == []
    assert await call(protected.url, credentials) == 200
    [token] = protected.seen
    known = status(protected.url, tmp_path)
    assert known.state is LoginState.GRANTED and known.about.issuer == authority.issuer
    assert token not in repr(known) and token not in repr(credentials)


async def test_metadata_is_found_at_the_well_known_places_too(
    authority: Authority, protected: Protected, tmp_path: Path
) -> None:
    protected.names_place = False
    protected.challenge = {}
    protected.places = [WELL_KNOWN]
    protected.metadata |= {"resource": protected.origin, "scopes_supported": ["mcp:write"]}
    person = Person()
    await log_in(protected.url, tmp_path, person)
    asked = query_of(person.shown[0])
    assert asked["resource"] == protected.origin
    assert "mcp:write" in asked["scope"].split()
    places = [asked.target for asked in protected.requests if asked.method == "GET"]
    assert places == [f"{WELL_KNOWN}/mcp", WELL_KNOWN]
    assert await call(protected.url, OAuthCredentials(protected.url, tmp_path, name="mine")) == 200


async def test_an_issuer_with_a_path_is_found_by_inserting_it(tmp_path: Path) -> None:
    async with (
        running_authority(path="/tenant/one") as authority,
        Protected(authority).serving() as protected,
    ):
        done = await log_in(protected.url, tmp_path)
        assert done.issuer == authority.issuer and authority.issuer.endswith("/tenant/one")
        assert authority.events("asked", path="/.well-known/oauth-authorization-server/tenant/one")


async def test_a_server_of_2025_03_26_is_its_own_authorization_server(tmp_path: Path) -> None:
    parts.require("oauth-servers", "node")
    script = Path(__file__).with_name("oauth2_mock_server.mjs")
    argv = [parts.node(), script, parts.node_modules("oauth-servers")]
    async with Program(argv, environment=parts.node_environment()) as program:
        async with within(60):
            issuer = (await program.message(lambda message: message["event"] == "listening"))["issuer"]
        url = f"{issuer}/mcp"
        with pytest.raises(UserError) as caught:
            await log_in(url, tmp_path)
        assert caught.value.code == "no_client" and "client id" in caught.value.hint
        done = await log_in(url, tmp_path, client=ClientGiven(id="me"))
        assert done.issuer == issuer
        granted = await program.message(lambda message: message["event"] == "granted")
        assert (granted["by"], granted["resource"]) == ("authorization_code", url)
        credentials = OAuthCredentials(url, tmp_path, name="mine")
        assert await call(url, credentials) == 200


async def test_a_server_that_says_nothing_about_logins_is_told_apart(tmp_path: Path) -> None:
    async with Protected().serving() as protected:
        protected.names_place = False
        protected.places = []
        with pytest.raises(UserError) as caught:
            await log_in(protected.url, tmp_path)
    assert caught.value.code == "no_login"


# Who we are ----------------------------------------------------------------------------------


async def test_a_registration_is_used_again_and_made_anew_when_it_is_not_known_any_more(
    authority: Authority, protected: Protected, tmp_path: Path
) -> None:
    await log_in(protected.url, tmp_path)
    again = Person()
    await log_in(protected.url, tmp_path, again)
    [registered] = authority.events("registered")
    assert query_of(again.shown[0])["client_id"] == registered["id"]

    # The authorization server tells only the user: nothing comes back to us.
    await authority.control("forget", registered["id"])
    lost = Person()
    with pytest.raises(Unavailable) as caught:
        await log_in(protected.url, tmp_path, lost, timeout_s=1)
    assert caught.value.code == "login_timeout" and lost.pages[0].status == 400
    await log_in(protected.url, tmp_path)
    assert len(authority.events("registered")) == 2


async def test_a_client_that_is_forgotten_meanwhile_registers_again_and_asks_once_more(
    authority: Authority, protected: Protected, tmp_path: Path
) -> None:
    class Forgetter(Person):
        async def visit(self, address: str) -> Page:
            if len(self.shown) > 1:
                return await super().visit(address)
            page = await self.browser.log_in(address, stop_before=query_of(address)["redirect_uri"])
            await authority.control("forget", query_of(address)["client_id"])
            return await self.browser.open(page.url)

    person = Forgetter()
    unused = ClientGiven(document="https://example.com/mooring.json")
    await log_in(protected.url, tmp_path, person, client=unused)
    assert len(person.shown) == 2 and len(authority.events("registered")) == 2
    assert authority.events("refused", error="invalid_client")
    assert await call(protected.url, OAuthCredentials(protected.url, tmp_path, name="mine")) == 200


async def test_a_registration_whose_port_is_taken_is_not_used(
    authority: Authority, protected: Protected, tmp_path: Path
) -> None:
    await log_in(protected.url, tmp_path)
    kept = Shelf(tmp_path).registration(authority.issuer)
    assert kept is not None
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", kept.redirect_port))
        taken.listen()
        await log_in(protected.url, tmp_path)
        with pytest.raises(ListenFailed):
            await log_in(protected.url, tmp_path, client=ClientGiven(redirect_port=kept.redirect_port))
    assert len(authority.events("registered")) == 2


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post", "none"])
async def test_a_client_that_was_given_is_not_registered(method: str, tmp_path: Path) -> None:
    secret = None if method == "none" else "a secret: with/odd+letters & more, of some length"
    given = {
        "client_id": "given one",
        "redirect_uris": ["http://127.0.0.1/callback"],
        "application_type": "native",
        "grant_types": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_method": method,
        **({"client_secret": secret} if secret else {}),
    }
    async with (
        running_authority(clients=[given], methods=[method]) as authority,
        Protected(authority).serving() as protected,
    ):
        now = [1000.0]
        us = ClientGiven(id="given one", secret=secret)
        await log_in(protected.url, tmp_path, client=us, wall=lambda: now[0])
        assert authority.events("registered") == []
        now[0] += 3590
        credentials = OAuthCredentials(protected.url, tmp_path, name="mine", wall=lambda: now[0])
        assert await call(protected.url, credentials) == 200
        assert await authority.refreshes() == 1


async def test_a_client_id_is_not_taken_to_another_authorization_server(tmp_path: Path) -> None:
    given = {
        "client_id": "given",
        "redirect_uris": ["http://127.0.0.1/callback"],
        "application_type": "native",
        "token_endpoint_auth_method": "none",
    }
    async with (
        running_authority(clients=[given]) as one,
        running_authority() as other,
        Protected(one).serving() as protected,
    ):
        await log_in(protected.url, tmp_path, client=ClientGiven(id="given"))
        protected.metadata["authorization_servers"] = [other.issuer]
        with pytest.raises(UserError) as caught:
            await log_in(protected.url, tmp_path, client=ClientGiven(id="given"))
        assert caught.value.code == "other_issuer"
        with pytest.raises(UserError) as caught:
            await log_in(protected.url, tmp_path, client=ClientGiven(secret="of whom?"))
        assert caught.value.code == "no_client"
        # Without one that was given, we are registered there.
        done = await log_in(protected.url, tmp_path)
        assert done.issuer == other.issuer and len(other.events("registered")) == 1


async def test_a_document_about_us_is_our_name_where_that_is_taken(
    authority: Authority, protected: Protected, tmp_path: Path
) -> None:
    document = "https://example.com/mooring.json"
    metadata = {
        "issuer": protected.origin,
        "authorization_endpoint": f"{authority.issuer}/auth",
        "token_endpoint": f"{authority.issuer}/token",
        "registration_endpoint": f"{authority.issuer}/reg",
        "code_challenge_methods_supported": ["S256"],
        "client_id_metadata_document_supported": True,
    }
    serve(protected, metadata)

    shown: list[str] = []
    with pytest.raises(Unavailable):
        await login(
            protected.url,
            tmp_path,
            show=shown.append,
            client=ClientGiven(document=document),
            timeout_s=0.01,
        )
    assert query_of(shown[0])["client_id"] == document
    with pytest.raises(UserError) as caught:
        await log_in(protected.url, tmp_path, client=ClientGiven(document="https://example.com/"))
    assert caught.value.code == "bad_client_document"
    assert authority.events("registered") == []


def serve(protected: Protected, metadata: dict[str, object]) -> None:
    """The server is its own authorization server, with that document."""
    protected.metadata["authorization_servers"] = [protected.origin]
    body = json.dumps(metadata).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    protected.pages["/.well-known/oauth-authorization-server"] = head.encode() + body


# What comes back -----------------------------------------------------------------------------


async def test_a_login_that_is_declined_is_told_in_plain_words(
    authority: Authority, protected: Protected, tmp_path: Path
) -> None:
    with pytest.raises(UserError) as caught:
        await log_in(protected.url, tmp_path, Decliner())
    assert caught.value.message.startswith("the login was declined (access_denied")
    assert status(protected.url, tmp_path).state is LoginState.NONE


async def test_answers_that_are_not_ours_are_not_heard(
    authority: Authority, protected: Protected, tmp_path: Path
) -> None:
    person = Dawdler(authority)
    logging_in = asyncio.create_task(log_in(protected.url, tmp_path, person))
    async with within():
        answer = await person.answer
    ours = query_of(answer)
    uri = answer.partition("?")[0]
    browser = person.browser
    for strange in (
        f"{uri}?code={ours['code']}&state=another&iss={ours['iss']}",
        f"{uri}?code={ours['code']}",
        f"{uri}?error=access_denied",
        f"{answer}&state=more",
    ):
        page = await browser.open(strange)
        assert page.status == 400 and ours["code"] not in page.text
    for elsewhere in (uri.replace("/callback", "/"), f"{uri}/more?state={ours['state']}"):
        assert (await browser.open(elsewhere)).status == 404
    assert (await browser.open(answer, b"form=1")).status == 405
    rebound = answer.replace("127.0.0.1", "localhost", 1)
    assert (await browser.open(rebound)).status == 404
    assert (await browser.open(answer)).status == 200
    done = await logging_in
    assert done.issuer == authority.issuer


async def test_too_many_answers_that_are_not_ours_end_the_login(
    authority: Authority, protected: Protected, tmp_path: Path
) -> None:
    person = Dawdler(authority)
    logging_in = asyncio.create_task(log_in(protected.url, tmp_path, person))
    async with within():
        uri = (await person.answer).partition("?")[0]
    for number in range(MOST_STRAYS):
        assert (await person.browser.open(f"{uri}?state={number}")).status == 400
    with pytest.raises(RemoteProtocolError) as caught:
        await logging_in
    assert caught.value.code == "login_besieged"


@pytest.mark.parametrize("change", ["other", "slash", "missing"])
async def test_an_answer_of_another_issuer_is_thrown_away(
    change: str, authority: Authority, protected: Protected, tmp_path: Path
) -> None:
    person = Dawdler(authority)
    logging_in = asyncio.create_task(log_in(protected.url, tmp_path, person))
    async with within():
        answer = await person.answer
    iss = f"&iss={quote(authority.issuer, safe='')}"
    assert iss in answer
    changed = {"other": "&iss=https%3A%2F%2Fevil.example.com", "slash": f"{iss}%2F", "missing": ""}[change]
    await person.browser.open(answer.replace(iss, changed))
    with pytest.raises(RemoteProtocolError) as caught:
        await logging_in
    assert caught.value.code == "wrong_issuer"
    assert authority.events("granted") == []


async def test_nobody_logs_in(authority: Authority, protected: Protected, tmp_path: Path) -> None:
    shown: list[str] = []
    with pytest.raises(MooringError) as caught:
        await login(protected.url, tmp_path, show=shown.append, timeout_s=0.01)
    assert caught.value.code == "login_timeout" and len(shown) == 1
