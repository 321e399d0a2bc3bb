"""The file of secrets and the keyring of the system, on a real disk and with the real package."""

import fcntl
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import keyring
import keyring.backends.fail
import pytest

from mooring.errors import MooringError, Unavailable, UserError
from mooring.secrets import system_keyring, vault
from mooring.secrets.references import Reference
from mooring.secrets.resolving import Resolver
from mooring.secrets.vault import Vault, VaultDamaged
from tests.keyring_in_file import KeyringInFile

VALUE = "hunter2-hunter2"


@pytest.fixture
def kept(tmp_path: Path) -> Vault:
    return Vault(tmp_path / "secrets.json", lambda: 1000.0)


@pytest.fixture
def entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the keyring of the system is, for this test."""
    before = keyring.get_keyring()
    path = tmp_path / "keyring.json"
    monkeypatch.setenv("MOORING_TEST_KEYRING", str(path))
    keyring.set_keyring(KeyringInFile())  # type: ignore[no-untyped-call]
    yield path
    keyring.set_keyring(before)


def resolver(kept: Vault, **environment: str) -> Resolver:
    return Resolver(kept, environment, whose="the environment", remedy="set {name}")


def resolved(resolver: Resolver, text: str) -> str:
    return resolver.resolve({"TOKEN": text}).variables["TOKEN"]


# The file


def test_what_is_put_is_there_until_it_is_removed(kept: Vault) -> None:
    assert kept.all() == {} and kept.look_up("linear") is None
    assert kept.put("linear", VALUE) == ("file", None)
    kept.put("another", "é\n")
    assert (kept.look_up("linear"), kept.look_up("another")) == (VALUE, "é\n")
    assert [(name, one.place, one.since) for name, one in kept.all().items()] == [
        ("another", "file", 1000.0),
        ("linear", "file", 1000.0),
    ]
    assert VALUE not in repr(kept.all())
    assert kept.remove("linear") and not kept.remove("linear")
    assert kept.look_up("linear") is None and VALUE not in kept.path.read_text()


def test_only_its_user_can_read_it(kept: Vault) -> None:
    before = os.umask(0)
    try:
        kept.put("linear", VALUE)
        kept.path.chmod(0o666)
        kept.put("linear", VALUE)
    finally:
        os.umask(before)
    assert {path.name: oct(path.stat().st_mode & 0o777) for path in kept.path.parent.iterdir()} == {
        "secrets.json": "0o600",
        "secrets.lock": "0o600",
    }


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff", b"[]", b'{"version":1,"secrets":{"a":"hunter2"}}'])
def test_a_damaged_one_is_told_and_kept_aside_by_the_next_who_writes(kept: Vault, damage: bytes) -> None:
    kept.path.write_bytes(damage)
    for read in (kept.all, lambda: kept.look_up("a"), lambda: kept.remove("a")):
        with pytest.raises(VaultDamaged, match="is damaged") as told:
            read()
        assert "hunter2" not in str(told.value)
    assert kept.path.read_bytes() == damage, "reading changes nothing"
    asides = []
    for _ in range(2):
        done = kept.put("linear", VALUE)
        assert done.aside is not None and done.aside.read_bytes() == damage
        assert list(kept.all()) == ["linear"]
        asides.append(done.aside.name)
        kept.path.write_bytes(damage)
    assert asides == ["secrets.json.damaged-19700101T001640Z", "secrets.json.damaged-19700101T001640Z-2"]


def test_one_of_a_newer_mooring_is_left_alone(kept: Vault) -> None:
    data = json.dumps({"version": vault.VERSION + 1, "secrets": []})
    kept.path.write_text(data)
    for use in (kept.all, lambda: kept.put("linear", VALUE)):
        with pytest.raises(UserError, match="newer Mooring"):
            use()
    assert kept.path.read_text() == data


def test_one_that_cannot_be_used_is_told(kept: Vault) -> None:
    kept.path.mkdir()
    for use in (kept.all, lambda: kept.put("linear", VALUE)):
        with pytest.raises(UserError, match="cannot be used: Is a directory"):
            use()
    with pytest.raises(UserError, match="No such file"):
        Vault(kept.path / "nowhere" / "secrets.json").put("linear", VALUE)


def test_there_is_room_for_so_much_and_no_more(kept: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vault, "MAX_FILE_BYTES", 500)
    kept.put("linear", VALUE)
    with pytest.raises(UserError, match="no room"):
        kept.put("another", "x" * 500)
    assert list(kept.all()) == ["linear"]
    monkeypatch.setattr(vault, "MAX_FILE_BYTES", 50)
    with pytest.raises(VaultDamaged):
        kept.all()


def test_writers_wait_for_each_other_but_not_for_ever(kept: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vault, "LOCK_S", 0.05)
    kept.put("linear", VALUE)
    with kept.path.with_suffix(".lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(Unavailable, match="another command"):
            kept.put("linear", "other")
        assert kept.look_up("linear") == VALUE, "readers do not wait"
    kept.put("linear", "other")


# The keyring


def test_a_secret_in_the_keyring_stays_there(kept: Vault, entries: Path) -> None:
    assert kept.put("linear", VALUE, in_keyring=True).place == "keyring"
    assert kept.look_up("linear") == VALUE and VALUE not in kept.path.read_text()
    assert kept.put("linear", "changed").place == "keyring"
    assert json.loads(entries.read_text()) == {"mooring/linear": "changed"}
    assert resolved(resolver(kept), "{secret:linear}/{keyring:linear}") == "changed/changed"
    assert kept.remove("linear") and json.loads(entries.read_text()) == {}


def test_a_secret_moves_from_the_file_to_the_keyring(kept: Vault, entries: Path) -> None:
    kept.put("linear", VALUE)
    kept.put("linear", VALUE, in_keyring=True)
    assert VALUE in entries.read_text() and VALUE not in kept.path.read_text()
    entries.unlink()
    assert kept.remove("linear"), "also if somebody has removed it from the keyring"


def test_a_keyring_that_is_not_to_be_had_is_told(
    kept: Vault, entries: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.put("linear", VALUE, in_keyring=True)
    with pytest.raises(UserError, match=r"no entry nobody of the service mooring \(needed for TOKEN\)"):
        resolved(resolver(kept), "keyring:nobody")
    monkeypatch.delenv("MOORING_TEST_KEYRING")
    with pytest.raises(UserError, match="refuses: KeyringLocked") as locked:
        kept.look_up("linear")
    assert "hunter2" not in str(locked.value)
    keyring.set_keyring(keyring.backends.fail.Keyring())  # type: ignore[no-untyped-call]
    with pytest.raises(UserError, match="has no keyring"):
        system_keyring.look_up("linear")
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(UserError, match="not installed") as missing:
        kept.put("other", VALUE, in_keyring=True)
    assert "-m pip install 'keyring>=25,<26'" in missing.value.hint
    assert list(kept.all()) == ["linear"], "what could not be kept is not named"


# From references to values


def test_references_lead_to_their_values(kept: Vault, tmp_path: Path) -> None:
    kept.put("linear", VALUE)
    file = tmp_path / "token"
    file.write_bytes(b"x\ny\r\n")
    referring = {"ONE": "secret:linear", "TWO": f"{{env:A}} {{file:{file}}}"}
    found = resolver(kept, A="{secret:linear}").resolve(referring)
    assert found.variables == {"ONE": VALUE, "TWO": "{secret:linear} x\ny"}
    assert found.values[Reference("secret", "linear")] == VALUE
    assert VALUE not in repr(found) + repr([found])


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b"x", "x"),
        (b"x\n", "x"),
        (b"x\n\n", "x\n"),
        (b"x\r\n", "x"),
        (b"x\r", "x\r"),
        (b" x ", " x "),
        (b"", ""),
    ],
)
def test_a_file_is_its_content_but_for_the_last_line_end(
    kept: Vault, tmp_path: Path, content: bytes, value: str
) -> None:
    (tmp_path / "token").write_bytes(content)
    assert resolved(resolver(kept), f"file:{tmp_path}/token") == value


def test_what_leads_nowhere_is_named_with_the_variable_and_a_remedy(kept: Vault, tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"hunter2\xe9")
    longest = "x" * vault.MAX_VALUE_BYTES
    (tmp_path / "long").write_text(longest + "\r\n")
    assert resolved(resolver(kept), f"file:{tmp_path}/long") == longest
    (tmp_path / "long").write_text(longest + "x")
    os.mkfifo(tmp_path / "pipe")
    for reference, words, remedy in (
        ("secret:nobody", "there is no secret named nobody", "mooring secret set nobody"),
        ("env:NOBODY", "the variable NOBODY is not set in the environment", "set NOBODY"),
        (f"file:{tmp_path}/none", f"the file {tmp_path}/none cannot be used: No such file", "literal:"),
        (f"file:{tmp_path}/latin", "it is not UTF-8 text", "literal:"),
        (f"file:{tmp_path}/long", "it has more than 65,536 bytes", "literal:"),
        (f"file:{tmp_path}/pipe", "it is not a plain file", "literal:"),
        (f"file:{tmp_path}", "it is not a plain file", "literal:"),
    ):
        with pytest.raises(MooringError) as told:
            resolved(resolver(kept), reference)
        assert words in told.value.message and "(needed for TOKEN)" in told.value.message
        assert remedy in told.value.hint and "hunter2" not in told.value.message
