"""A token stays good: renewed ahead of its end or after a refusal, once, whoever asks, and kept at once."""

import asyncio
import fcntl
import json
import logging
import os
import stat
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mooring.errors import MooringError, Unavailable, UserError
from mooring.http.client_errors import NotSent
from mooring.oauth import credentials as credentials_module
from mooring.oauth import keeping
from mooring.oauth.bounds import RECENT_S, REST_S
from mooring.oauth.credentials import OAuthCredentials
from mooring.oauth.endpoints import refresh
from mooring.oauth.fetching import INTERNET, Fetcher, Network
from mooring.oauth.grants import Grant
from mooring.oauth.keeping import Shelf
from mooring.oauth.login import LoginState, logout, status
from mooring.oauth.renewing import told_of
from tests.e2e.program import Program
from tests.oauth.authority import Authority, running_authority
from tests.oauth.browser import query_of
from tests.oauth.person import Person, log_in
from tests.oauth.resource import Protected, call
from tests.raw_server import answer
from tests.support import until, within

HOUR = 3600.0


class Clock:
    """The time of day, and the one that never goes back, together."""

    def __init__(self) -> None:
        self.later_s = 0.0

    def wall(self) -> float:
        return time.time() + self.later_s

    def clock(self) -> float:
        return time.monotonic() + self.later_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@asynccontextmanager
async def holding(url: str, state: Path, clock: Clock, **more: Any) -> AsyncIterator[OAuthCredentials]:
    credentials = OAuthCredentials(url, state, name="mine", wall=clock.wall, clock=clock.clock, **more)
    yield credentials
    await credentials.aclose()


def kept(url: str, state: Path) -> Grant:
    grant = Shelf(state).grant(url)
    assert grant is not None
    return grant


# When ----------------------------------------------------------------------------------------


async def test_a_token_is_renewed_before_it_expires_and_not_sooner(
    authority: Authority, protected: Protected, tmp_path: Path, clock: Clock
) -> None:
    await log_in(protected.url, tmp_path)
    async with holding(protected.url, tmp_path, clock) as credentials:
        clock.later_s = HOUR - 120
        assert await call(protected.url, credentials) == 200
        assert await authority.refreshes() == 0
        clock.later_s = HOUR - 30
        assert await call(protected.url, credentials) == 200
        assert await call(protected.url, credentials) == 200
    assert await authority.refreshes() == 1
    [refreshed] = authority.events("granted", by="refresh_token")
    assert refreshed["resource"] == protected.url
    assert len(set(protected.seen)) == 2 and protected.seen[1] != protected.seen[0]
    told = status(protected.url, tmp_path).about
    assert told.expires_at is not None and told.expires_at > clock.wall() + HOUR - 60


async def test_a_token_that_is_refused_is_renewed_once(
    authority: Authority, protected: Protected, tmp_path: Path, clock: Clock
) -> None:
    await log_in(protected.url, tmp_path)
    async with holding(protected.url, tmp_path, clock) as credentials:
        await authority.control("revoke", kept(protected.url, tmp_path).access)
        assert await call(protected.url, credentials) == 200
        assert await authority.refreshes() == 1
        # The next one is refused too, at once: it is tried again as it is, and that is all.
        await authority.control("revoke", kept(protected.url, tmp_path).access)
        assert await call(protected.url, credentials) == 401
        assert await authority.refreshes() == 1
        clock.later_s = RECENT_S
        assert await call(protected.url, credentials) == 200
    assert await authority.refreshes() == 2


async def test_refresh_tokens_are_rotated_and_the_new_one_is_kept(
    authority: Authority, protected: Protected, tmp_path: Path, clock: Clock
) -> None:
    await log_in(protected.url, tmp_path)
    tokens = [kept(protected.url, tmp_path).refresh]
    for turn in range(1, 4):
        clock.later_s = turn * HOUR
        # Each time by somebody who knows only what is written down.
        async with holding(protected.url, tmp_path, clock) as credentials:
            assert await call(protected.url, credentials) == 200
        tokens.append(kept(protected.url, tmp_path).refresh)
    assert len(set(tokens)) == 4 and await authority.refreshes() == 3
    assert (await authority.control("refresh", str(tokens[2])))["consumed"]
    assert not (await authority.control("refresh", str(tokens[3])))["consumed"]


async def test_a_token_that_expires_during_a_call_is_renewed_for_the_next_try(
    authority: Authority, protected: Protected, tmp_path: Path, clock: Clock
) -> None:
    await log_in(protected.url, tmp_path)
    async with holding(protected.url, tmp_path, clock) as credentials:
        await credentials.ready()
        sent = credentials.headers
        await authority.control("revoke", kept(protected.url, tmp_path).access)
        clock.later_s = HOUR
        assert await credentials.renew(401, b'Bearer error="invalid_token"')
        assert credentials.headers != sent
        assert await call(protected.url, credentials) == 200
    assert await authority.refreshes() == 1


# At once -------------------------------------------------------------------------------------


async def test_calls_at_once_renew_once(
    authority: Authority, protected: Protected, tmp_path: Path, clock: Clock
) -> None:
    await log_in(protected.url, tmp_path)
    async with holding(protected.url, tmp_path, clock) as credentials:
        clock.later_s = HOUR
        assert await asyncio.gather(*(call(protected.url, credentials) for _ in range(20))) == [200] * 20
        assert await authority.refreshes() == 1
        await authority.control("revoke", kept(protected.url, tmp_path).access)
        clock.later_s += RECENT_S
        assert await asyncio.gather(*(call(protected.url, credentials) for _ in range(20))) == [200] * 20
    assert await authority.refreshes() == 2


async def test_several_holders_in_one_process_renew_once(
    authority: Authority, protected: Protected, tmp_path: Path, clock: Clock
) -> None:
    await log_in(protected.url, tmp_path)
    clock.later_s = HOUR
    async with AsyncExitStack() as stack:
        holders = [await stack.enter_async_context(holding(protected.url, tmp_path, clock)) for _ in range(5)]
        assert await asyncio.gather(*(call(protected.url, holder) for holder in holders)) == [200] * 5
    assert await authority.refreshes() == 1


@pytest.mark.parametrize("reason", ["due", "refused"])
async def test_processes_at_once_renew_once(
    reason: str, authority: Authority, protected: Protected, tmp_path: Path
) -> None:
    await log_in(protected.url, tmp_path)
    later_s = str(HOUR) if reason == "due" else "0"
    argv = [sys.executable, "-m", "tests.oauth.holder", protected.url, str(tmp_path), later_s, "3"]
    environment = {**os.environ, "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"}
    async with AsyncExitStack() as stack:
        programs = [await stack.enter_async_context(Program(argv, environment=environment)) for _ in range(2)]
        async with within(60):
            for program in programs:
                await program.message(lambda message: message["event"] == "ready")
            if reason == "refused":
                await authority.control("revoke", kept(protected.url, tmp_path).access)
            for program in programs:
                await program.send({})
            for program in programs:
                done = await program.message(lambda message: message["event"] == "done")
                assert done["statuses"] == [200] * 3
                assert await program.ended() == 0
    assert await authority.refreshes() == 1
    assert not authority.events("refused")


async def test_who_stops_waiting_does_not_stop_the_refresh(
    authority: Authority, protected: Protected, tmp_path: Path, clock: Clock
) -> None:
    await log_in(protected.url, tmp_path)
    clock.later_s = HOUR
    async with holding(protected.url, tmp_path, clock) as credentials:
        waiting = asyncio.create_task(credentials.ready())
        await until(lambda: credentials._renewing is not None)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await credentials.aclose()
        assert await call(protected.url, credentials) == 200
    assert await authority.refreshes() == 1
    assert protected.seen == [kept(protected.url, tmp_path).access]


async def test_a_login_that_somebody_else_does_not_let_go_of_is_not_waited_for_without_end(
    authority: Authority, protected: Protected, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await log_in(protected.url, tmp_path)
    monkeypatch.setattr(keeping, "LOCK_S", 0.05)
    [lock] = [path for path in (tmp_path / "oauth").glob("*.lock") if path.stem != "tokens"]
    clock.later_s = HOUR
    with lock.open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        async with holding(protected.url, tmp_path, clock) as credentials:
            await credentials.ready()
            assert credentials.problem is not None and credentials.problem.code == "login_busy"
        with pytest.raises(Unavailable):
            await logout(protected.url, tmp_path)


# When it does not work -----------------------------------------------------------------------


async def test_a_login_that_is_not_accepted_any_more_is_dropped_and_a_person_asked_for(
    authority: Authority,
    protected: Protected,
    tmp_path: Path,
    clock: Clock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await log_in(protected.url, tmp_path)
    stolen = kept(protected.url, tmp_path)
    async with holding(protected.url, tmp_path, clock) as credentials:
        await credentials.ready()
        # Somebody else uses our refresh token: when we do, the authorization server ends the whole login.
        await refresh(stolen, Fetcher(protected.url))
        clock.later_s = HOUR
        await credentials.ready()
        assert credentials.headers == []
        assert credentials.problem is not None
        assert (credentials.problem.code, credentials.problem.hint) == ("login_needed", "mooring login mine")
        assert "invalid_grant" in credentials.problem.message
        for _ in range(3):
            await credentials.ready()
            assert not await credentials.renew()
        assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == [
            f"{credentials.problem.message} (mooring login mine)"
        ]
        known = status(protected.url, tmp_path)
        assert known.state is LoginState.NEEDED and "invalid_grant" in str(known.why)
        assert Shelf(tmp_path).grant(protected.url) is None
        # And when somebody has logged in again, it goes on.
        clock.later_s = 0
        await log_in(protected.url, tmp_path)
        assert await call(protected.url, credentials) == 200
        assert vars(credentials)["problem"] is None
    assert len(authority.events("refused", error="invalid_grant")) == 1


async def test_a_client_that_is_not_known_any_more_logs_in_as_another(
    authority: Authority, protected: Protected, tmp_path: Path, clock: Clock
) -> None:
    await log_in(protected.url, tmp_path)
    await authority.control("forget", kept(protected.url, tmp_path).identity.client_id)
    async with holding(protected.url, tmp_path, clock) as credentials:
        clock.later_s = HOUR
        assert await call(protected.url, credentials) == 401
        assert credentials.problem is not None and "invalid_client" in credentials.problem.message
        clock.later_s = 0
        await log_in(protected.url, tmp_path)
        assert await call(protected.url, credentials) == 200
    assert len(authority.events("registered")) == 2


async def test_an_authorization_server_that_is_busy_costs_no_login(
    authority: Authority, protected: Protected, tmp_path: Path, clock: Clock
) -> None:
    await log_in(protected.url, tmp_path)
    grant = kept(protected.url, tmp_path)
    protected.pages["/busy"] = answer(b"<html>", "503 Service Unavailable", kind="text/html")
    busy = msgspec.structs.replace(grant, token_endpoint=f"{protected.origin}/busy")
    Shelf(tmp_path).keep(busy, told_of(busy))
    async with holding(protected.url, tmp_path, clock) as credentials:
        clock.later_s = HOUR
        assert await call(protected.url, credentials) == 200
        assert credentials.problem is not None and "cannot answer now" in credentials.problem.message
        Shelf(tmp_path).keep(grant, told_of(grant))
        clock.later_s += REST_S
        assert await call(protected.url, credentials) == 200
    assert await authority.refreshes() == 1


async def test_a_login_elsewhere_is_taken_when_the_old_token_is_refused(
    authority: Authority, protected: Protected, tmp_path: Path, clock: Clock
) -> None:
    await log_in(protected.url, tmp_path)
    async with holding(protected.url, tmp_path, clock) as credentials:
        await credentials.ready()
        before = credentials.headers
        await log_in(protected.url, tmp_path)
        assert await credentials.renew() and credentials.headers != before
    assert await authority.refreshes() == 0


async def test_a_clock_that_is_put_back_costs_no_login(
    authority: Authority, protected: Protected, tmp_path: Path, clock: Clock
) -> None:
    clock.later_s = 2 * HOUR
    await log_in(protected.url, tmp_path, wall=clock.wall)
    async with AsyncExitStack() as stack:
        holders = [await stack.enter_async_context(holding(protected.url, tmp_path, clock)) for _ in range(2)]
        assert [await call(protected.url, holder) for holder in holders] == [200, 200]
        clock.later_s = 0.0
        # Nobody knows how old it is: one of them renews it, and both go on with what came of that.
        assert [await call(protected.url, holder) for holder in holders] == [200, 200]
        assert await authority.refreshes() == 1
        assert holders[0].headers == holders[1].headers
        # So with one by a person, who comes in the middle.
        clock.later_s = 2 * HOUR
        assert [await call(protected.url, holder) for holder in holders] == [200, 200]
        clock.later_s = 0.0
        await log_in(protected.url, tmp_path)
        assert [await call(protected.url, holder) for holder in holders] == [200, 200]
        assert protected.seen[-1] == kept(protected.url, tmp_path).access
    assert await authority.refreshes() == 2
    assert status(protected.url, tmp_path).state is LoginState.GRANTED


async def test_an_authorization_server_that_is_away_is_not_asked_all_the_time(
    tmp_path: Path, clock: Clock
) -> None:
    async with running_authority() as authority, Protected(authority).serving() as protected:
        await log_in(protected.url, tmp_path)
        before = kept(protected.url, tmp_path)
        dialled: list[int] = []

        async def dial(make: Any, address: str, port: int, tls: Any, name: str) -> Any:
            dialled.append(port)
            raise ConnectionRefusedError("refused")

        clock.later_s = HOUR - 30
        network = Network(dial=dial)
        async with holding(protected.url, tmp_path, clock, network=network) as credentials:
            for _ in range(3):
                await credentials.ready()
            assert len(dialled) == 1
            assert isinstance(credentials.problem, NotSent)
            assert credentials.headers == [(b"Authorization", f"Bearer {before.access}".encode())]
            assert not await credentials.renew()
            assert len(dialled) == 1
            clock.later_s += REST_S
            assert not await credentials.renew()
            assert len(dialled) == 2
    assert kept(protected.url, tmp_path) == before


async def test_a_slow_authorization_server_holds_up_nobody_whose_token_is_good(
    authority: Authority, protected: Protected, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials_module, "PATIENCE_S", 0.05)
    await log_in(protected.url, tmp_path)
    go_on = asyncio.Event()

    async def dial(*arguments: Any) -> Any:
        await go_on.wait()
        return await INTERNET.dial(*arguments)

    network = Network(dial=dial)
    async with holding(protected.url, tmp_path, clock, network=network) as credentials:
        clock.later_s = HOUR - 30
        assert await call(protected.url, credentials) == 200
        clock.later_s = HOUR
        waiting = asyncio.create_task(call(protected.url, credentials))
        assert await asyncio.wait([waiting], timeout=0.3) == (set(), {waiting})
        go_on.set()
        assert await waiting == 200
    assert len(set(protected.seen)) == 2 and await authority.refreshes() == 1


async def test_a_token_that_cannot_be_renewed_is_used_to_its_end(tmp_path: Path, clock: Clock) -> None:
    async with running_authority(noRefresh=True) as authority, Protected(authority).serving() as protected:
        done = await log_in(protected.url, tmp_path)
        assert not done.renews
        async with holding(protected.url, tmp_path, clock) as credentials:
            clock.later_s = HOUR - 30
            assert await call(protected.url, credentials) == 200
            assert status(protected.url, tmp_path, wall=clock.wall).state is LoginState.GRANTED
            clock.later_s = HOUR
            assert status(protected.url, tmp_path, wall=clock.wall).state is LoginState.NEEDED
            await credentials.ready()
            assert credentials.headers == [] and credentials.problem is not None
            assert credentials.problem.code == "login_needed"


async def test_more_scopes_need_a_person_and_the_next_login_asks_for_all(
    authority: Authority, protected: Protected, tmp_path: Path, clock: Clock
) -> None:
    await log_in(protected.url, tmp_path)
    protected.wanted_scope = "mcp:write"
    async with holding(protected.url, tmp_path, clock) as credentials:
        for _ in range(2):
            assert await call(protected.url, credentials) == 403
        assert credentials.problem is not None
        assert "mcp:write" in credentials.problem.message and "mooring login mine" in credentials.problem.hint
        known = status(protected.url, tmp_path)
        assert known.state is LoginState.GRANTED and known.about.wanted == ("mcp:write",)
        assert await authority.refreshes() == 0

        person = Person()
        done = await log_in(protected.url, tmp_path, person)
        assert set(query_of(person.shown[0])["scope"].split()) == {"mcp:read", "mcp:write", "offline_access"}
        assert {"mcp:read", "mcp:write"} <= set(done.scopes)
        assert await call(protected.url, credentials) == 200
        for status_of_others in (400, 403, 500):
            assert not await credentials.renew(status_of_others, b"Basic")
        assert await authority.refreshes() == 0
    assert status(protected.url, tmp_path).about.wanted == ()


# Where it is kept ----------------------------------------------------------------------------


async def test_files_are_for_the_user_alone(
    authority: Authority, protected: Protected, tmp_path: Path
) -> None:
    folder = tmp_path / "state" / "oauth"
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    await log_in(protected.url, folder.parent)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert "tokens.json" in modes and set(modes.values()) == {0o600}
    assert kept(protected.url, folder.parent).access in (folder / "tokens.json").read_text()


async def test_tokens_are_in_the_keyring_if_there_is_one(
    authority: Authority, protected: Protected, tmp_path: Path, clock: Clock, entries: Path
) -> None:
    await log_in(protected.url, tmp_path)
    grant = kept(protected.url, tmp_path)
    file = tmp_path / "oauth" / "tokens.json"
    assert grant.access in entries.read_text() and grant.refresh is not None
    assert grant.access not in file.read_text() and grant.refresh not in file.read_text()
    clock.later_s = HOUR
    async with holding(protected.url, tmp_path, clock) as credentials:
        assert await call(protected.url, credentials) == 200
    assert kept(protected.url, tmp_path).access in entries.read_text()
    await logout(protected.url, tmp_path)
    assert "Bearer" not in entries.read_text() and json.loads(entries.read_text()) == {}


async def test_a_keyring_that_is_locked_meanwhile_loses_no_token(
    authority: Authority,
    protected: Protected,
    tmp_path: Path,
    clock: Clock,
    entries: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await log_in(protected.url, tmp_path)
    clock.later_s = HOUR
    async with holding(protected.url, tmp_path, clock) as credentials:
        # It is locked while the refresh is under way.
        real = Shelf.keep

        def locked(shelf: Shelf, *arguments: Any) -> None:
            with monkeypatch.context() as patch:
                patch.delenv("MOORING_TEST_KEYRING")
                real(shelf, *arguments)

        monkeypatch.setattr(Shelf, "keep", locked)
        assert await call(protected.url, credentials) == 200
    monkeypatch.setattr(Shelf, "keep", real)
    newest = kept(protected.url, tmp_path)
    assert newest.access == protected.seen[-1] and newest.access not in entries.read_text()
    # So with one by a person, whatever the time is then.
    with monkeypatch.context() as patch:
        patch.delenv("MOORING_TEST_KEYRING")
        await log_in(protected.url, tmp_path, wall=lambda: 0.0)
        newest = kept(protected.url, tmp_path)
    assert kept(protected.url, tmp_path) == newest and newest.access not in entries.read_text()
    # Unlocked again, everything is where it belongs.
    clock.later_s = 2 * HOUR
    async with holding(protected.url, tmp_path, clock) as credentials:
        assert await call(protected.url, credentials) == 200
    newest = kept(protected.url, tmp_path)
    assert newest.access in entries.read_text()
    assert newest.access not in (tmp_path / "oauth" / "tokens.json").read_text()


async def test_a_disk_that_is_full_does_not_take_the_token_away(
    authority: Authority, protected: Protected, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await log_in(protected.url, tmp_path)

    def full(*_: Any) -> None:
        raise UserError("no room", code="secrets_unusable")

    async with holding(protected.url, tmp_path, clock) as credentials:
        with monkeypatch.context() as patch:
            patch.setattr(Shelf, "keep", full)
            clock.later_s = HOUR
            assert await call(protected.url, credentials) == 200
            assert await call(protected.url, credentials) == 200
            assert await authority.refreshes() == 1
            # What is on the shelf is older than what we have: its refresh token has been used.
            (tmp_path / "oauth" / "tokens.json").touch()
            clock.later_s = 2 * HOUR
            assert await call(protected.url, credentials) == 200
        clock.later_s = 3 * HOUR
        assert await call(protected.url, credentials) == 200
        assert await authority.refreshes() == 3
        assert kept(protected.url, tmp_path).access == protected.seen[-1]
        # What a person has put there since is not.
        with monkeypatch.context() as patch:
            patch.setattr(Shelf, "keep", full)
            clock.later_s = 4 * HOUR
            assert await call(protected.url, credentials) == 200
        await logout(protected.url, tmp_path)
        await log_in(protected.url, tmp_path, wall=clock.wall)
        assert await call(protected.url, credentials) == 200
    assert kept(protected.url, tmp_path).access == protected.seen[-1]


async def test_a_damaged_file_is_told_and_a_login_begins_another(
    authority: Authority, protected: Protected, tmp_path: Path, clock: Clock
) -> None:
    await log_in(protected.url, tmp_path)
    file = tmp_path / "oauth" / "tokens.json"
    file.write_text("{")
    async with holding(protected.url, tmp_path, clock) as credentials:
        await credentials.ready()
        assert credentials.headers == []
        assert credentials.problem is not None and credentials.problem.code == "logins_damaged"
        assert "mooring login" in credentials.problem.hint
        file.unlink()
        await log_in(protected.url, tmp_path)
        assert await call(protected.url, credentials) == 200


# Who hears of it -----------------------------------------------------------------------------


async def test_nothing_secret_is_logged_or_raised(
    authority: Authority,
    protected: Protected,
    tmp_path: Path,
    clock: Clock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    person = Person()
    await log_in(protected.url, tmp_path, person)
    grants = [kept(protected.url, tmp_path)]
    words: list[str] = []
    async with holding(protected.url, tmp_path, clock) as credentials:
        clock.later_s = HOUR
        assert await call(protected.url, credentials) == 200
        grants.append(kept(protected.url, tmp_path))
        await refresh(grants[-1], Fetcher(protected.url))
        clock.later_s = 2 * HOUR
        await credentials.ready()
        words += [repr(credentials.problem), str(credentials.problem), repr(vars(credentials))]
    try:
        await refresh(grants[0], Fetcher(protected.url))
    except MooringError as error:
        words += [repr(error), str(error), error.hint, repr(vars(error))]
    answer = query_of(person.browser.trail[-1])
    secrets = {answer["code"], answer["state"]}
    for grant in grants:
        secrets |= {grant.access, str(grant.refresh)}
    everything = "\n".join([caplog.text, *words, *(repr(vars(record)) for record in caplog.records)])
    assert len(secrets) == 6
    assert not [secret for secret in secrets if secret in everything]


async def test_a_token_is_sent_to_its_server_only(
    authority: Authority, protected: Protected, tmp_path: Path, clock: Clock
) -> None:
    await log_in(protected.url, tmp_path)
    async with (
        Protected(authority).serving() as other,
        holding(other.url, tmp_path, clock) as credentials,
    ):
        assert await call(other.url, credentials) == 401
        assert other.seen == []
        assert credentials.problem is not None and credentials.problem.code == "login_needed"


async def test_logout_revokes_and_leaves_nothing(
    authority: Authority, protected: Protected, tmp_path: Path, clock: Clock
) -> None:
    await log_in(protected.url, tmp_path)
    grant = kept(protected.url, tmp_path)
    async with holding(protected.url, tmp_path, clock) as credentials:
        assert await call(protected.url, credentials) == 200
        assert await logout(protected.url, tmp_path) == (True, True, None)
        assert await authority.control("token", grant.access) is None
        assert await authority.control("refresh", str(grant.refresh)) is None
        assert await call(protected.url, credentials) == 401
        assert credentials.headers == []
    assert grant.access not in (tmp_path / "oauth" / "tokens.json").read_text()
    assert status(protected.url, tmp_path).state is LoginState.NONE
    assert await logout(protected.url, tmp_path) == (False, False, None)


async def test_logout_deletes_also_what_cannot_be_revoked(tmp_path: Path) -> None:
    async with running_authority() as authority, Protected(authority).serving() as protected:
        await log_in(protected.url, tmp_path)
        url = protected.url
    done = await logout(url, tmp_path)
    assert done.was_there and not done.is_revoked and done.problem is not None
    assert Shelf(tmp_path).grant(url) is None and status(url, tmp_path).state is LoginState.NONE
