"""Tokens of a relay: their text, what they allow, their file, and what a running relay knows of it."""

import fcntl
import hashlib
import json
import logging
import os
import re
import threading
import traceback
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.cli import values
from mooring.errors import MooringError, Unavailable, UserError, exit_status
from mooring.relay import token_book, token_file
from mooring.relay.state_folder import find_state, make_state, tokens_path
from mooring.relay.token_book import NOBODYS, TokenBook
from mooring.relay.token_file import TokenFile, TokenRecord, TokensDamaged, Wanted, read_tokens
from mooring.relay.tokens import (
    ANY,
    NAME_PATTERN,
    RESERVED_AGENTS,
    Grant,
    digest,
    id_in,
    is_name,
    mint,
    parse_agent,
    parse_calls,
    parse_servers,
)

NOW = 1_800_000_000.0


class Wall:
    """A clock that stands still."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
def kept(tmp_path: Path, wall: Wall) -> TokenFile:
    return TokenFile(tmp_path / "tokens.json", wall)


def made(kept: TokenFile, name: str = "laptop", **more: object) -> bytes:
    wanted = Wanted(name=name, **({"servers": ("time",)} | more))  # type: ignore[arg-type]
    [created] = kept.create(wanted)
    return created.text.encode()


def book(kept: TokenFile, wall: Wall) -> TokenBook:
    return TokenBook.load(kept.path, wall)


def grant(name: str = "laptop", servers: str = "", calls: str = "") -> Grant:
    return Grant(
        id="a" * 12,
        name=name,
        servers=frozenset(parse_servers(servers) if servers else ()),
        calls=frozenset(parse_calls(calls) if calls else ()),
    )


# The text


def test_a_token_has_its_shape_and_no_two_are_alike() -> None:
    several = [mint() for _ in range(200)]
    for one in several:
        assert re.fullmatch("mrt_[a-z2-7]{12}_[A-Za-z0-9_-]{43}", one.text)
        assert id_in(one.text.encode()) == one.id
        assert one.text not in repr(one) and one.text not in repr([one])
    assert len({one.id for one in several}) == len({one.text[17:] for one in several}) == 200


@pytest.mark.parametrize("change", ["", "x", " ", "\n", "\0", "é"])
def test_nothing_else_is_taken_for_one(change: str) -> None:
    text = mint().text
    for other in (text[:-1] + change, text + change, change + text, text.upper(), text.replace("_", change)):
        if other != text and not re.fullmatch("mrt_[a-z2-7]{12}_[A-Za-z0-9_-]{43}", other):
            assert id_in(other.encode()) is None


# What they allow


def test_names_are_those_of_the_project() -> None:
    assert NAME_PATTERN.replace("(?:", "(") == values._NAME.pattern


@pytest.mark.parametrize("name", sorted(RESERVED_AGENTS))
def test_names_of_the_relays_own_addresses_are_reserved(name: str) -> None:
    assert {"v1", "healthz", "readyz", "metrics", "api", "static", "well-known"} <= RESERVED_AGENTS
    for refused in (
        lambda: parse_agent(name),
        lambda: parse_calls(f"{name}/time"),
        lambda: Wanted(name=name),
    ):
        with pytest.raises(ValueError, match="own URLs"):
            refused()


@pytest.mark.parametrize("name", ["", ".a", "A", "a.", "-a", "a-", "a b", "a/b", "*", "a\n", "é", "a" * 41])
def test_what_is_no_name_is_nobodys(name: str) -> None:
    assert not is_name(name)
    with pytest.raises(ValueError, match="cannot be a name"):
        parse_agent(name)
    everything = grant(servers=ANY, calls=ANY)
    assert not everything.may_connect(name)
    assert not everything.may_call(name, "time") and not everything.may_call("laptop", name)
    assert not everything.may_call(name, name)


def test_lists_are_read_as_people_write_them() -> None:
    assert parse_servers("time, notes,time") == ("time", "notes")
    assert parse_calls("laptop/time, phone/*,*") == ("laptop/time", "phone/*", "*")
    for text in ("", "time,", "time notes", "laptop/time", "**", "t*", "*,.a"):
        with pytest.raises(ValueError, match="is no server"):
            parse_servers(text)
    for text in ("", "laptop", "laptop/", "/time", "*/time", "*/*", "laptop/time/mcp", "laptop/**", "a/b,"):
        with pytest.raises(ValueError, match="cannot be called"):
            parse_calls(text)


def test_an_agent_offers_what_it_may_and_calls_its_own() -> None:
    laptop = grant(servers="time,notes")
    assert laptop.may_connect("time") and laptop.may_connect("notes") and not laptop.may_connect("git")
    assert laptop.may_call("laptop", "time") and not laptop.may_call("laptop", "git")
    assert not laptop.may_call("desktop", "time")
    phone = grant("phone", calls="laptop/time,desktop/*")
    assert not phone.may_connect("time") and not phone.may_call("phone", "time")
    assert phone.may_call("laptop", "time") and not phone.may_call("laptop", "notes")
    assert phone.may_call("desktop", "anything") and not phone.may_call("desk", "time")


NAMES = st.sampled_from(["a", "b", "a-b", "time", "notes", "ab"])
SERVERS = st.frozensets(NAMES | st.just(ANY), max_size=3)
CALLS = st.frozensets(st.just(ANY) | st.tuples(NAMES, NAMES | st.just(ANY)).map("/".join), max_size=3)


@given(NAMES, SERVERS, CALLS, NAMES, NAMES)
def test_a_grant_allows_what_one_of_its_words_says_and_nothing_else(
    name: str, servers: frozenset[str], calls: frozenset[str], agent: str, server: str
) -> None:
    one = Grant(id="a" * 12, name=name, servers=servers, calls=calls)
    assert one.may_connect(server) == any(word in ("*", server) for word in servers)
    words = {("*", "*") if word == "*" else tuple(word.split("/")) for word in calls}
    words |= {(name, word) for word in servers}
    expected = any(a in ("*", agent) and s in ("*", server) for a, s in words)
    assert one.may_call(agent, server) == expected


@given(SERVERS, CALLS, st.text(max_size=12), st.text(max_size=12))
def test_whatever_is_asked_for_only_names_are_granted(
    servers: frozenset[str], calls: frozenset[str], agent: str, server: str
) -> None:
    one = Grant(id="a" * 12, name="a", servers=servers, calls=calls)
    if one.may_connect(server):
        assert is_name(server)
    if one.may_call(agent, server):
        assert is_name(agent) and is_name(server)


# The file


def test_a_token_is_found_until_it_is_revoked(kept: TokenFile, wall: Wall) -> None:
    assert book(kept, wall).find(mint().text.encode()) is None and kept.all() == []
    laptop, phone = made(kept), made(kept, "phone", servers=(), calls=("laptop/*",))
    known = book(kept, wall)
    found = known.find(laptop)
    assert found == Grant(
        id=laptop[4:16].decode(), name="laptop", servers=frozenset({"time"}), calls=frozenset()
    )
    assert known.find(laptop) is found, "made once"
    assert (other := known.find(phone)) is not None and other.name == "phone" and len(known) == 2
    assert [record.name for record in kept.all()] == ["laptop", "phone"]
    assert kept.revoke("laptop") and not kept.revoke("laptop")
    assert [record.name for record in kept.all()] == ["phone"]
    assert laptop[4:16].decode() not in kept.path.read_text()


def test_a_wrong_secret_of_a_known_id_is_no_token(kept: TokenFile, wall: Wall) -> None:
    text = made(kept)
    known = book(kept, wall)
    for at in range(len(text)):
        wrong = bytearray(text)
        wrong[at] = ord("b") if text[at] != ord("b") else ord("c")
        assert known.find(bytes(wrong)) is None
    for presented in (b"", text[:-1], text + b"a", b"Bearer " + text, text * 1000):
        assert known.find(presented) is None


def test_an_unknown_id_is_compared_like_a_known_one(
    kept: TokenFile, wall: Wall, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, stranger = made(kept), mint().text.encode()
    wrong = text[:-3] + b"aaa"
    known, compared = book(kept, wall), []

    def compare(one: str, other: str) -> bool:
        compared.append((one, other))
        return one == other

    monkeypatch.setattr("mooring.relay.token_book.hmac.compare_digest", compare)
    assert known.find(stranger) is None and known.find(wrong) is None
    assert compared == [(digest(stranger), NOBODYS), (digest(wrong), kept.all()[0].sha256)]


def test_only_hashes_are_kept_for_the_user_alone(kept: TokenFile) -> None:
    before = os.umask(0)
    try:
        text = made(kept)
        kept.path.chmod(0o666)
        made(kept, "phone")
    finally:
        os.umask(before)
    content = kept.path.read_text()
    assert hashlib.sha256(text).hexdigest() in content and text[17:].decode() not in content
    assert {path.name: oct(path.stat().st_mode & 0o777) for path in kept.path.parent.iterdir()} == {
        "tokens.json": "0o600",
        "tokens.lock": "0o600",
    }


def test_no_repr_error_or_log_tells_a_token(
    kept: TokenFile, wall: Wall, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    [created] = kept.create(Wanted(name="laptop", servers=("time",)))
    known = book(kept, wall)
    found = known.find(created.text.encode())
    told = [repr(what) for what in (created, [created], found, known, kept, kept.all(), known.__dict__)]
    with pytest.raises(UserError) as refused:
        kept.create(Wanted(name="laptop", servers=("time",)))
    told += [repr(refused.value), str(refused.value), refused.value.hint, caplog.text]
    assert not any(created.text[17:] in text for text in told)
    assert not any(created.record.sha256 in text for text in told)


def test_a_name_belongs_to_one_token(kept: TokenFile) -> None:
    made(kept)
    with pytest.raises(UserError, match="already") as refused:
        kept.create(Wanted(name="phone", calls=(ANY,)), Wanted(name="laptop", calls=(ANY,)))
    assert "mooring relay token revoke laptop" in refused.value.hint and exit_status(refused.value) == 2
    with pytest.raises(UserError, match="already"):
        kept.create(Wanted(name="twin", calls=(ANY,)), Wanted(name="twin", calls=(ANY,)))
    assert [record.name for record in kept.all()] == ["laptop"], "all or none"
    several = kept.create(*(Wanted(name=f"agent-{n}", servers=("time",)) for n in range(3)))
    assert len({one.text for one in several}) == 3 and len(kept.all()) == 4


def test_any_stands_for_all_the_others(kept: TokenFile) -> None:
    kept.create(Wanted(name="laptop", servers=("time", ANY), calls=("phone/*", ANY)))
    assert [(record.servers, record.calls) for record in kept.all()] == [((ANY,), (ANY,))]


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"servers": ("a/b",)},
        {"calls": ("a",)},
        {"calls": (ANY,), "lifetime_s": 0},
        {"calls": (ANY,), "lifetime_s": -1.0},
        {"calls": (ANY,), "lifetime_s": float("nan")},
        {"calls": (ANY,), "lifetime_s": float("inf")},
    ],
)
def test_what_cannot_be_a_token_is_refused(wanted: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"no use|no server|cannot be called|for some time"):
        Wanted(name="laptop", **wanted)  # type: ignore[arg-type]


def test_one_that_expires_is_good_until_then(kept: TokenFile, wall: Wall) -> None:
    text = made(kept, lifetime_s=60)
    known = book(kept, wall)
    found = known.find(text)
    assert found is not None and found.expires == NOW + 60 and known.is_good(found)
    wall.now = NOW + 59.9
    assert known.find(text) is found and known.is_good(found)
    wall.now = NOW + 60
    assert known.find(text) is None and not known.is_good(found)
    with pytest.raises(UserError, match="already"):
        made(kept)


DAMAGE = [
    b"",
    b"{",
    b"\xff",
    b"[]",
    b'{"version":1}',
    b'{"version":1,"tokens":[{"name":"hunter2"}]}',
    b'{"version":"hunter2","tokens":[]}',
]
RECORD = {"id": "a" * 12, "name": "laptop", "sha256": "0" * 64, "servers": ["time"], "created": 1.0}
BAD_RECORDS: list[dict[str, object]] = [
    {"id": "hunter2"},
    {"id": "a" * 12 + "\n"},
    {"name": "Hunter2"},
    {"name": "hunter2\n"},
    {"sha256": "hunter2"},
    {"sha256": "0" * 64 + "\n"},
    {"servers": ["hunter2/x"]},
    {"servers": "hunter2"},
    {"calls": ["hunter2"]},
    {"calls": ["*/hunter2"]},
    {"created": "hunter2"},
    {"created": -1},
    {"expires": 1e300},
]


def content(*records: dict[str, object], **more: object) -> bytes:
    return json.dumps({"version": 1, "tokens": records, **more}).encode()


DAMAGE += [content(RECORD | bad) for bad in BAD_RECORDS]
DAMAGE += [content(RECORD, RECORD | {"id": "b" * 12}), content(RECORD, RECORD | {"name": "phone"})]


def test_the_damage_below_is_damage_to_something_good(kept: TokenFile) -> None:
    kept.path.write_bytes(content(RECORD, RECORD | {"id": "b" * 12, "name": "phone", "calls": ["a/*", "*"]}))
    assert [record.name for record in kept.all()] == ["laptop", "phone"]


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_one_is_told_and_left_as_it_is(kept: TokenFile, wall: Wall, damage: bytes) -> None:
    kept.path.write_bytes(damage)
    for use in (kept.all, lambda: made(kept), lambda: kept.revoke("laptop"), lambda: book(kept, wall)):
        with pytest.raises(TokensDamaged, match="is damaged") as told:
            use()
        shown = [repr(told.value), told.value.hint, *traceback.format_exception(told.value)]
        assert not any("unter2" in text for text in shown)
    assert kept.path.read_bytes() == damage


@pytest.mark.parametrize(
    "data",
    [
        json.dumps({"version": 2, "tokens": {}}).encode(),
        content(RECORD, quota={"hunter2": 1}),
        content(RECORD | {"hunter2": 1}),
    ],
)
def test_one_of_a_newer_mooring_is_left_alone(kept: TokenFile, data: bytes) -> None:
    kept.path.write_bytes(data)
    for use in (kept.all, lambda: made(kept, "phone"), lambda: kept.revoke("laptop")):
        with pytest.raises(UserError, match="newer Mooring") as told:
            use()
        shown = [repr(told.value), told.value.hint, *traceback.format_exception(told.value)]
        assert not any("hunter2" in text for text in shown)
    assert kept.path.read_bytes() == data


def test_one_that_cannot_be_used_is_told(kept: TokenFile, wall: Wall) -> None:
    kept.path.mkdir()
    for use in (kept.all, lambda: made(kept), lambda: book(kept, wall)):
        with pytest.raises(UserError, match="cannot be used: Is a directory"):
            use()
    with pytest.raises(UserError, match="No such file"):
        made(TokenFile(kept.path / "nowhere" / "tokens.json"))


def test_a_write_that_fails_leaves_what_was_there(kept: TokenFile, wall: Wall) -> None:
    text = made(kept)
    before = kept.path.read_bytes()
    beside = kept.path.with_name("tokens.json.new")
    beside.mkdir()
    with pytest.raises(UserError, match="cannot be used"):
        made(kept, "phone")
    assert kept.path.read_bytes() == before and book(kept, wall).find(text)
    beside.rmdir()
    beside.write_text("of somebody who was killed")
    made(kept, "phone")
    assert len(kept.all()) == 2 and not beside.exists()


def test_there_is_room_for_so_many_and_no_more(kept: TokenFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_file, "MAX_FILE_BYTES", 500)
    made(kept)
    with pytest.raises(UserError, match="no room"):
        kept.create(*(Wanted(name=f"agent-{n}", servers=("time",)) for n in range(3)))
    assert len(kept.all()) == 1
    monkeypatch.setattr(token_file, "MAX_FILE_BYTES", 50)
    with pytest.raises(TokensDamaged):
        kept.all()


def test_writers_wait_for_each_other_but_not_for_ever(
    kept: TokenFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_file, "LOCK_S", 0.05)
    made(kept)
    with kept.path.with_suffix(".lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for use in (lambda: made(kept, "phone"), lambda: kept.revoke("laptop")):
            with pytest.raises(Unavailable, match="another command"):
                use()
        assert len(kept.all()) == 1, "readers do not wait"
    made(kept, "phone")


def test_many_writers_at_once_lose_nothing_and_readers_see_whole_files(kept: TokenFile) -> None:
    done, refused, seen = threading.Event(), [], []

    def write(number: int) -> None:
        for n in range(5):
            made(kept, f"agent-{number}-{n}")
        try:
            made(kept, "wanted-by-all")
        except UserError as error:
            refused.append(error.code)

    def read() -> None:
        while not done.is_set():
            seen.append(len(kept.all()))

    reader = threading.Thread(target=read)
    writers = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    reader.start()
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    done.set()
    reader.join()
    assert len(kept.all()) == 6 * 5 + 1 and refused == ["token_exists"] * 5
    assert seen and seen == sorted(seen)


# What a running relay knows of it


def test_it_is_known_which_agents_could_come(kept: TokenFile, wall: Wall) -> None:
    made(kept, lifetime_s=60)
    made(kept, "phone", servers=(), calls=("laptop/*",))
    known = book(kept, wall)
    assert known.may_come("laptop", "time") and not known.may_come("laptop", "notes")
    assert not known.may_come("phone", "time") and not known.may_come("desktop", "time")
    wall.now += 60
    assert not known.may_come("laptop", "time")
    wall.now -= 60
    kept.revoke("laptop")
    known.reload()
    assert not known.may_come("laptop", "time")


def test_a_running_relay_notices_what_is_made_and_revoked(kept: TokenFile, wall: Wall) -> None:
    known = book(kept, wall)
    assert not known.changed()
    laptop = made(kept)
    assert known.changed() and known.find(laptop) is None
    assert known.reload() == {} and not known.changed()
    found = known.find(laptop)
    assert found is not None and known.is_good(found)
    made(kept, "phone")
    assert known.changed() and known.reload() == {} and known.is_good(found)
    kept.revoke("laptop")
    assert known.is_good(found), "until it is read"
    assert known.changed() and known.reload() == {found.id: "laptop"}
    assert known.find(laptop) is None and not known.is_good(found)
    again = made(kept)
    assert known.reload() == {} and known.find(laptop) is None and not known.is_good(found)
    assert (new := known.find(again)) is not None and new.id != found.id


def test_each_of_many_quick_changes_is_noticed(kept: TokenFile, wall: Wall) -> None:
    known = book(kept, wall)
    for _ in range(50):
        # The same size each time, and inode numbers come again.
        text = made(kept)
        assert known.changed()
        known.reload()
        assert (found := known.find(text)) is not None
        kept.revoke("laptop")
        assert known.changed() and known.reload() == {found.id: "laptop"}


def test_a_file_that_is_removed_makes_no_token_good(kept: TokenFile, wall: Wall) -> None:
    text = made(kept)
    known = book(kept, wall)
    found = known.find(text)
    assert found is not None
    kept.path.unlink()
    assert known.changed() and known.reload() == {found.id: "laptop"} and not known.changed()
    assert known.find(text) is None and len(known) == 0


def test_a_token_that_was_changed_in_the_file_is_not_the_same(kept: TokenFile, wall: Wall) -> None:
    text = made(kept)
    known = book(kept, wall)
    found = known.find(text)
    assert found is not None
    kept.path.write_text(kept.path.read_text().replace('"time"', '"notes"'))
    assert known.changed() and known.reload() == {found.id: "laptop"} and not known.is_good(found)
    assert (new := known.find(text)) is not None and new.may_connect("notes") and not new.may_connect("time")


def test_a_folder_that_cannot_be_looked_into_is_told_once(tmp_path: Path, wall: Wall) -> None:
    folder = tmp_path / "relay"
    folder.mkdir()
    kept = TokenFile(folder / "tokens.json", wall)
    text = made(kept)
    known = book(kept, wall)
    folder.rename(tmp_path / "aside")
    folder.write_text("no folder")
    assert known.changed()
    with pytest.raises(UserError, match="Not a directory"):
        known.reload()
    assert not known.changed() and known.find(text)


@pytest.mark.parametrize("damage", [b"{", content(RECORD | {"hunter2": 1}), None])
def test_a_file_that_cannot_be_read_is_told_once_and_changes_nothing(
    kept: TokenFile, wall: Wall, damage: bytes | None
) -> None:
    text = made(kept)
    known = book(kept, wall)
    good = kept.path.read_bytes()
    kept.path.unlink()
    if damage is None:
        kept.path.mkdir()
    else:
        kept.path.write_bytes(damage)
    assert known.changed()
    with pytest.raises(MooringError):
        known.reload()
    assert not known.changed() and (found := known.find(text)) is not None and known.is_good(found)
    if damage is None:
        kept.path.rmdir()
    kept.path.write_bytes(good)
    assert known.changed() and known.reload() == {} and known.find(text) == found


def test_what_is_read_in_a_thread_is_never_seen_in_part(kept: TokenFile, wall: Wall) -> None:
    texts = [
        one.text.encode() for one in kept.create(*(Wanted(name=f"a{n}", calls=(ANY,)) for n in range(50)))
    ]
    known, done = book(kept, wall), threading.Event()

    def reload() -> None:
        while not done.is_set():
            known.reload()

    reloading = threading.Thread(target=reload)
    reloading.start()
    try:
        assert all(known.find(text) is not None for _ in range(100) for text in texts)
    finally:
        done.set()
        reloading.join()


# The folder


def test_the_folder_is_the_given_one_or_the_environments_or_the_usual_one(tmp_path: Path) -> None:
    environment = {"MOORING_RELAY_STATE": str(tmp_path / "named"), "XDG_STATE_HOME": str(tmp_path / "xdg")}
    assert find_state("given", environment) == Path.cwd() / "given"
    assert find_state(None, environment) == tmp_path / "named"
    assert find_state(None, environment | {"MOORING_RELAY_STATE": ""}) == tmp_path / "xdg" / "mooring-relay"
    assert find_state(None, {}) == Path.home() / ".local" / "state" / "mooring-relay"
    assert find_state("~/relay", {}) == Path.home() / "relay"
    assert tokens_path(tmp_path).name == "tokens.json"


def test_the_folder_is_closed_to_others(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "relay"
    make_state(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o755)
    make_state(folder)
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_cannot_be_ours_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be used") as told:
        make_state(tmp_path / "file" / "relay")
    assert "--state" in told.value.hint
    folder = tmp_path / "relay"
    folder.mkdir(mode=0o755)
    monkeypatch.setattr(os, "getuid", lambda: folder.stat().st_uid + 1)
    with pytest.raises(UserError, match="belongs to somebody else"):
        make_state(folder)
    assert folder.stat().st_mode & 0o777 == 0o755, "what is not ours is not changed"


# Found before the file is read again


def test_one_that_was_just_made_is_found_and_what_has_gone_is_still_told(kept: TokenFile, wall: Wall) -> None:
    old = made(kept, "old")
    known = book(kept, wall)
    kept.revoke("old")
    new = made(kept, "new")
    assert known.find(new) is None
    found = known.find_new(new)
    assert found is not None and found.name == "new" and known.is_good(found)
    assert known.may_come("new", "time")
    assert known.changed() and known.reload() == {id_in(old): "old"}, "who has had it is told so all the same"
    assert known.find(new) is not None and known.find(old) is None and not known.changed()


def test_for_what_is_no_token_a_file_is_read_once(
    kept: TokenFile, wall: Wall, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(kept, "old")
    known = book(kept, wall)
    reads: list[Path] = []

    def noted(path: Path) -> list[TokenRecord]:
        reads.append(path)
        return read_tokens(path)

    monkeypatch.setattr(token_book, "read_tokens", noted)
    guesses = [mint().text.encode() for _ in range(5)]
    assert [known.find_new(guess) for guess in (*guesses, b"nonsense")] == [None] * 6 and not reads
    new = made(kept, "new")
    assert [known.find_new(guess) for guess in guesses] == [None] * 5 and len(reads) == 1
    assert known.find(new) is not None
    kept.path.write_bytes(b"{ damaged")
    assert [known.find_new(guess) for guess in guesses] == [None] * 5 and len(reads) == 2
    assert known.find(new) is not None, "those from before stay good"


def test_nobody_waits_for_a_large_file(kept: TokenFile, wall: Wall, monkeypatch: pytest.MonkeyPatch) -> None:
    known = book(kept, wall)
    new = made(kept, "new")
    monkeypatch.setattr(token_book, "MAX_NEW_BYTES", kept.path.stat().st_size - 1)
    assert known.find_new(new) is None
    monkeypatch.setattr(token_book, "MAX_NEW_BYTES", kept.path.stat().st_size)
    assert known.find_new(new) is not None
