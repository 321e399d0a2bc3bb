"""Which relays the daemon is to be connected to: one writer at a time, and a file that is whole."""

import fcntl
from pathlib import Path

import pytest

from mooring.errors import Unavailable, UserError
from mooring.host import connection_file
from mooring.host.connection_file import Wish, read_wishes, write_wish
from mooring.host.places import StateUnusable


def wish(relay: str, token: str = "secret:relay") -> Wish:
    return Wish(relay=relay, token=token)


def test_wishes_come_are_replaced_and_go(tmp_path: Path) -> None:
    path = tmp_path / "connections.json"
    assert read_wishes(path) == []
    assert not write_wish(path, "wss://a", wish("wss://a"))
    assert not write_wish(path, "wss://b", wish("wss://b"))
    assert write_wish(path, "wss://a", wish("wss://a", "secret:other"))
    assert read_wishes(path) == [wish("wss://b"), wish("wss://a", "secret:other")]
    assert write_wish(path, "wss://b", None) and not write_wish(path, "wss://b", None)
    assert read_wishes(path) == [wish("wss://a", "secret:other")]
    assert path.stat().st_mode & 0o777 == 0o600
    assert sorted(one.name for one in tmp_path.iterdir()) == ["connections.json", "connections.lock"]


def test_writers_wait_for_each_other_but_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_file, "LOCK_S", 0.05)
    path = tmp_path / "connections.json"
    write_wish(path, "wss://a", wish("wss://a"))
    with path.with_suffix(".lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(Unavailable, match="another command"):
            write_wish(path, "wss://a", None)
        assert len(read_wishes(path)) == 1, "readers do not wait"
    assert write_wish(path, "wss://a", None)


@pytest.mark.parametrize("data", [b"", b"{}", b'[{"relay":1}]', b"\xff"])
def test_a_damaged_file_is_told(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "connections.json"
    path.write_bytes(data)
    with pytest.raises(UserError) as caught:
        read_wishes(path)
    assert caught.value.code == "connections_damaged" and str(path) in caught.value.message


def test_a_folder_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    with pytest.raises(StateUnusable):
        write_wish(tmp_path / "nowhere" / "connections.json", "wss://a", None)
