"""Where logins are kept, when that place is not as it should be."""

import asyncio
import threading
from pathlib import Path

import keyring
import keyring.backends.null
import pytest

from mooring.errors import Unavailable, UserError
from mooring.oauth import keeping
from mooring.oauth.grants import About, Grant, Identity, Registration
from mooring.oauth.keeping import Shelf, aside
from mooring.oauth.login import LoginState, statuses
from mooring.oauth.renewing import told_of
from mooring.secrets.vault import Vault
from tests.support import within

SERVER = "https://mcp.example.com/mcp"


def a_grant(obtained_at: float = 1.0, server: str = SERVER) -> Grant:
    return Grant(
        server=server,
        resource=server,
        issuer="https://as.example.com",
        token_endpoint="https://as.example.com/token",
        identity=Identity(client_id="me"),
        access=f"hunter2-{obtained_at:g}",
        obtained_at=obtained_at,
    )


def test_what_is_kept_is_found_by_whose_it_is(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    assert shelf.grant(SERVER) is None and shelf.about(SERVER) is None and shelf.stamp() is None
    shelf.drop(SERVER, None)
    shelf.keep(a_grant(), told_of(a_grant()), anew=True)
    assert shelf.grant(SERVER) == a_grant() and shelf.about(SERVER) == told_of(a_grant())
    assert shelf.grant(f"{SERVER}/") is None
    assert Shelf(tmp_path / "other").grant(SERVER) is None
    stamp = shelf.stamp()
    shelf.tell(About(server=SERVER, wanted=("x",)))
    assert shelf.stamp() != stamp
    shelf.drop(SERVER, None)
    assert Shelf(tmp_path).grant(SERVER) is None and Shelf(tmp_path).about(SERVER) is None
    made = Registration(issuer="https://as", identity=Identity(client_id="me"), redirect_port=1)
    shelf.keep_registration(made)
    assert shelf.registration("https://as") == made and shelf.registration("https://as/") is None
    shelf.drop_registration("https://as")
    assert shelf.registration("https://as") is None


def test_every_login_can_be_listed(tmp_path: Path) -> None:
    assert statuses(tmp_path) == []
    shelf = Shelf(tmp_path)
    for server in ("https://b.example.com", "https://a.example.com"):
        grant = a_grant(server=server)
        shelf.keep(grant, told_of(grant), anew=True)
    shelf.tell(About(server="https://c.example.com", wanted=("x",)))
    found = [(one.about.server[8:9], one.state) for one in statuses(tmp_path)]
    assert found == [("a", LoginState.GRANTED), ("b", LoginState.GRANTED), ("c", LoginState.NONE)]
    assert "hunter2" not in repr(statuses(tmp_path))


def test_a_keyring_that_keeps_nothing_is_none(tmp_path: Path, no_keyring: None) -> None:
    keyring.set_keyring(keyring.backends.null.Keyring())  # type: ignore[no-untyped-call]
    shelf = Shelf(tmp_path)
    shelf.keep(a_grant(), told_of(a_grant()), anew=True)
    assert shelf.grant(SERVER) == a_grant()


def test_a_keyring_is_not_tried_again_for_what_is_in_the_file(tmp_path: Path, entries: Path) -> None:
    keyring.set_keyring(keyring.backends.null.Keyring())  # type: ignore[no-untyped-call]
    shelf = Shelf(tmp_path)
    shelf.keep(a_grant(), told_of(a_grant()), anew=True)
    shelf.keep(a_grant(2.0), told_of(a_grant(2.0)))
    assert not entries.exists() and shelf.grant(SERVER) == a_grant(2.0)


def test_a_keyring_that_is_locked_is_told_if_nothing_else_is_known(
    tmp_path: Path, entries: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = Shelf(tmp_path)
    shelf.keep(a_grant(), told_of(a_grant()), anew=True)
    monkeypatch.delenv("MOORING_TEST_KEYRING")
    with pytest.raises(UserError) as caught:
        shelf.grant(SERVER)
    assert caught.value.code == "keyring_unavailable"
    shelf.keep(a_grant(2.0), told_of(a_grant(2.0)))
    assert shelf.grant(SERVER) == a_grant(2.0)


def test_an_entry_that_means_nothing_is_as_if_there_were_none(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    shelf.keep(a_grant(), told_of(a_grant()))
    vault = Vault(tmp_path / "oauth" / "tokens.json")
    for name in vault.all():
        vault.put(name, '{"server": 7}')
    assert shelf.grant(SERVER) is None and shelf.about(SERVER) is None


def test_a_damaged_file_is_begun_anew_by_whoever_writes(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    shelf.keep(a_grant(), told_of(a_grant()))
    (tmp_path / "oauth" / "tokens.json").write_text("{")
    with pytest.raises(UserError) as caught:
        shelf.grant(SERVER)
    assert caught.value.code == "logins_damaged"
    shelf.keep(a_grant(2.0), told_of(a_grant(2.0)))
    assert shelf.grant(SERVER) == a_grant(2.0)
    assert len(list((tmp_path / "oauth").glob("tokens.json.damaged-*"))) == 1


async def test_a_place_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    (tmp_path / "oauth").write_text("a file")
    shelf = Shelf(tmp_path)
    with pytest.raises(UserError) as caught:
        async with shelf.locked(SERVER):
            pass
    assert caught.value.code == "logins_unusable"
    (tmp_path / "oauth").unlink()
    async with shelf.locked(SERVER):
        pass
    [lock] = (tmp_path / "oauth").glob("*.lock")
    lock.unlink()
    lock.mkdir()
    with pytest.raises(UserError) as caught:
        async with shelf.locked(SERVER):
            pass
    assert caught.value.code == "logins_unusable"


async def test_a_login_that_somebody_else_renews_is_told_without_the_query_of_its_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "LOCK_S", 0.05)
    server = f"{SERVER}?key=hunter2"
    async with Shelf(tmp_path).locked(server):
        with pytest.raises(Unavailable) as caught:
            async with Shelf(tmp_path).locked(server):
                pass
    assert SERVER in caught.value.message and "hunter2" not in caught.value.message


async def test_a_keyring_that_asks_its_user_is_not_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keeping, "LOCK_S", 0.05)
    unlocked, done = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def asks() -> None:
        unlocked.wait(20)
        loop.call_soon_threadsafe(done.set)

    with pytest.raises(Unavailable) as caught:
        await aside(asks)
    assert caught.value.code == "logins_unavailable"
    # And what was begun is done to its end.
    unlocked.set()
    async with within():
        await done.wait()
