"""One file is read and changed: where it really is, what stays as it was, and what is refused."""

import fcntl
import os
import signal
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.clients import disk, exchanging, files, looking
from mooring.clients.backups import key_of
from mooring.clients.files import Changed, Files
from mooring.clients.looking import MAX_FILE_BYTES, MOST_LINKS
from mooring.errors import UserError


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state" / "clients"


@pytest.fixture
def ours(state: Path) -> Files:
    return Files(state)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def more(data: bytes | None) -> bytes:
    return (data or b"") + b"more"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def everything(folder: Path) -> dict[str, object]:
    """What there is, with all that a change could change."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(status.st_mode) else None
        found[str(path.relative_to(folder))] = (status.st_ino, status.st_mtime_ns, status.st_mode, content)
    return found


def check_refused(ours: Files, home: Path, path: Path, code: str, *, read_too: bool = True) -> str:
    before = everything(home)
    with pytest.raises(UserError) as refused:
        ours.change(path, more)
    assert refused.value.code == code and refused.value.hint
    assert str(path) in refused.value.message
    assert everything(home) == before
    if read_too:
        with pytest.raises(UserError) as refused:
            ours.read(path)
        assert refused.value.code == code
    return refused.value.message


# Where it really is


def test_a_file_is_changed_and_what_was_replaced_can_be_had(ours: Files, home: Path) -> None:
    path = home / "mcp.json"
    path.write_bytes(b"old ")
    assert ours.read(path) == b"old "
    changed = ours.change(path, more)
    assert changed == Changed(path, b"old ", b"old more", changed.backup)
    assert changed.backup is not None
    assert (path.read_bytes(), ours.backup(path, changed.backup)) == (b"old more", b"old ")
    assert [one.name for one in home.iterdir()] == ["mcp.json"], "nothing is left beside it"


@pytest.mark.parametrize("link", ["relative", "absolute", "chain", "folder", "up"])
def test_a_link_stays_a_link_and_its_file_is_changed(ours: Files, home: Path, link: str) -> None:
    real = home / "dotfiles" / "cursor" / "mcp.json"
    real.parent.mkdir(parents=True)
    real.write_bytes(b"old ")
    path = home / ".cursor" / "mcp.json"
    links = [path]
    if link == "folder":
        (home / ".cursor").symlink_to("dotfiles/cursor", target_is_directory=True)
        links = [home / ".cursor"]
    else:
        path.parent.mkdir()
    if link == "relative":
        path.symlink_to("../dotfiles/cursor/mcp.json")
    elif link == "absolute":
        path.symlink_to(real)
    elif link == "chain":
        path.symlink_to("first")
        links += [path.with_name("first"), home / "second"]
        links[1].symlink_to(home / "second")
        links[2].symlink_to("dotfiles/cursor/mcp.json")
    elif link == "up":
        # The folder above a link is that of its target.
        links = [home / ".cursor" / "here"]
        links[0].symlink_to(real.parent)
        path = home / ".cursor" / "here" / ".." / "cursor" / "mcp.json"
    targets = [one.readlink() for one in links]
    assert ours.change(path, more).path == real
    assert (real.read_bytes(), path.read_bytes(), ours.read(path)) == (b"old more",) * 3
    assert [one.readlink() for one in links] == targets
    assert [one.name for one in real.parent.iterdir()] == ["mcp.json"]


def test_a_link_that_leads_nowhere_leads_to_a_new_file(ours: Files, home: Path) -> None:
    path = home / "mcp.json"
    path.symlink_to("dotfiles/of mine/mcp.json")
    assert ours.read(path) is None
    changed = ours.change(path, more)
    assert changed == Changed(home / "dotfiles/of mine/mcp.json", None, b"more", None)
    assert path.is_symlink() and path.read_bytes() == b"more"
    assert mode(changed.path) == 0o600
    # And back: the link leads nowhere again.
    assert ours.change(path, lambda _: None).after is None
    assert path.is_symlink() and not path.exists()


def test_links_in_a_circle_are_refused(ours: Files, home: Path) -> None:
    (home / "itself").symlink_to("itself")
    (home / "one").symlink_to("other")
    (home / "other").symlink_to(home / "one")
    (home / "folder").symlink_to("folder/inside")
    for path in (home / "itself", home / "one", home / "folder" / "mcp.json"):
        assert "circle" in check_refused(ours, home, path, "link_cycle")


def test_as_many_links_are_followed_as_linux_follows(ours: Files, home: Path) -> None:
    (home / "0").write_bytes(b"old ")
    for number in range(1, MOST_LINKS + 2):
        (home / str(number)).symlink_to(str(number - 1))
    assert ours.change(home / str(MOST_LINKS), more).path == home / "0"
    check_refused(ours, home, home / str(MOST_LINKS + 1), "link_cycle")


def test_a_relative_path_is_one_of_the_working_directory(
    ours: Files, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    assert ours.change(Path("mcp.json"), more).path == home / "mcp.json"


def test_names_that_are_no_text_are_names(ours: Files, home: Path) -> None:
    path = home / os.fsdecode(b"caf\xe9 \xf0\x9f\x98\x80") / os.fsdecode(b"\xff.json")
    assert ours.change(path, more).path == path
    changed = ours.change(path, more)
    assert changed.backup is not None and ours.backup(path, changed.backup) == b"more"


# What stays as it was


@pytest.mark.parametrize("bits", [0o644, 0o600, 0o640, 0o755, 0o666])
def test_the_mode_stays(ours: Files, home: Path, bits: int) -> None:
    path = home / "mcp.json"
    path.write_bytes(b"old ")
    path.chmod(bits)
    ours.change(path, more)
    assert mode(path) == bits


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_the_owner_stays_where_we_may_give_files_away(ours: Files, home: Path) -> None:
    path = home / "mcp.json"
    path.write_bytes(b"old ")
    os.chown(path, 12345, 23456)
    path.chmod(0o640)
    ours.change(path, more)
    assert (path.stat().st_uid, path.stat().st_gid, mode(path)) == (12345, 23456, 0o640)


@pytest.mark.skipif(sys.platform != "linux", reason="attributes as Linux has them")
def test_attributes_stay(ours: Files, home: Path) -> None:
    path = home / "mcp.json"
    path.write_bytes(b"old ")
    try:
        os.setxattr(path, "user.note", b"mine")
    except OSError:
        pytest.skip("no attributes on this file system")
    ours.change(path, more)
    assert os.getxattr(path, "user.note") == b"mine"


def test_what_is_new_is_for_the_user_alone(ours: Files, home: Path, state: Path, no_umask: None) -> None:
    path = home / "Library" / "Application Support" / "mcp.json"
    ours.change(path, more)
    ours.change(path, more)
    assert (mode(path), mode(path.parent), mode(path.parent.parent)) == (0o600, 0o700, 0o700)
    kept = [state, *state.rglob("*")]
    assert len(kept) == 1 + 3 + 3, "three folders; a lock, a folder of backups, a backup"
    assert all(mode(one) == (0o700 if one.is_dir() else 0o600) for one in kept)


@pytest.mark.parametrize(
    "data",
    [b"", b"\xef\xbb\xbf{\r\n}\r\n", b"\r\n", b"no final newline", b"\0\xff\xfe", bytes(range(256)) * 20_480],
    ids=["empty", "BOM and CRLF", "blank", "text", "binary", "5 MiB"],
)
def test_bytes_are_bytes(ours: Files, home: Path, data: bytes) -> None:
    path = home / "mcp.json"
    path.write_bytes(data)
    changed = ours.change(path, more)
    assert (changed.before, path.read_bytes()) == (data, data + b"more")
    assert changed.backup is not None and ours.backup(path, changed.backup) == data
    ours.change(path, lambda _: data)
    assert path.read_bytes() == data


def test_nothing_is_written_when_nothing_changes(ours: Files, home: Path) -> None:
    path, missing = home / "mcp.json", home / "folder" / "missing.json"
    path.write_bytes(b"old ")
    before = everything(home)
    assert ours.change(path, lambda data: data) == Changed(path, b"old ", b"old ", None)
    assert ours.change(missing, lambda data: data) == Changed(missing, None, None, None)
    assert everything(home) == before


def test_an_edit_that_raises_leaves_everything_as_it_was(ours: Files, home: Path, state: Path) -> None:
    path = home / "mcp.json"
    path.write_bytes(b"old ")
    before = everything(home)

    def refuse(_: bytes | None) -> bytes:
        raise UserError("line 1, column 2: no", code="edit_refused")

    for place in (path, home / "folder" / "missing.json"):
        with pytest.raises(UserError, match="line 1, column 2"):
            ours.change(place, refuse)
    assert everything(home) == before
    assert not list((state / "backups").iterdir())


def test_a_file_is_gone_when_the_edit_says_so(ours: Files, home: Path) -> None:
    path = home / "mcp.json"
    path.write_bytes(b"old ")
    changed = ours.change(path, lambda _: None)
    assert changed == Changed(path, b"old ", None, changed.backup)
    assert changed.backup is not None and ours.backup(path, changed.backup) == b"old "
    assert not list(home.iterdir())
    assert ours.change(path, lambda _: b"again").before is None


# What is refused


def test_what_is_no_file_is_refused(ours: Files, home: Path) -> None:
    (home / "folder").mkdir()
    os.mkfifo(home / "pipe")
    (home / "device").symlink_to("/dev/null")
    (home / "file").write_bytes(b"")
    assert "a folder" in check_refused(ours, home, home / "folder", "not_a_file")
    assert "no regular file" in check_refused(ours, home, home / "pipe", "not_a_file")
    check_refused(ours, home, home / "file" / "mcp.json", "not_a_file")
    with pytest.raises(UserError, match="/dev/null is no regular file"):
        ours.change(home / "device", more)


@pytest.mark.parametrize("bits", [0o444, 0o400, 0o555])
def test_a_file_whose_owner_took_away_the_right_to_write_is_refused(
    ours: Files, home: Path, state: Path, bits: int
) -> None:
    path = home / "mcp.json"
    path.write_bytes(b"old ")
    path.chmod(bits)
    check_refused(ours, home, path, "file_read_only", read_too=False)
    assert ours.read(path) == b"old "
    with pytest.raises(UserError, match="read-only"):
        ours.change(path, lambda _: None)
    assert path.exists() and not list((state / "backups").iterdir())
    assert ours.change(path, lambda data: data).backup is None, "nothing to write, nothing to refuse"


def test_a_file_that_is_too_large_is_refused(ours: Files, home: Path) -> None:
    path = home / "mcp.json"
    with path.open("wb") as file:
        file.truncate(MAX_FILE_BYTES)
    assert len(ours.read(path) or b"") == MAX_FILE_BYTES
    with pytest.raises(UserError, match="too large"):
        ours.change(path, more)
    with path.open("ab") as file:
        file.write(b"x")
    inode = path.stat().st_ino
    for act in (ours.read, lambda path: ours.change(path, more)):
        with pytest.raises(UserError) as refused:
            act(path)
        assert refused.value.code == "file_too_large"
    assert (path.stat().st_ino, path.stat().st_size) == (inode, MAX_FILE_BYTES + 1)


def test_a_name_that_is_too_long_is_refused(ours: Files, home: Path) -> None:
    check_refused(ours, home, home / ("x" * 300), "file_unusable")


def test_a_folder_of_ours_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").write_bytes(b"")
    with pytest.raises(UserError, match="cannot be used"):
        Files(tmp_path / "state" / "clients")


# Locks


def test_a_lock_that_is_not_given_back_is_waited_for_and_not_for_ever(
    ours: Files, home: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LOCK_S", 0.05)
    path, other = home / "mcp.json", home / "other.json"
    (home / "link.json").symlink_to(path)
    with disk.locked(state / "locks" / f"{key_of(path)}.lock", 0):
        for way in (path, home / "link.json"):
            with pytest.raises(UserError, match="another Mooring") as refused:
                ours.change(way, more)
            assert refused.value.code == "file_busy"
        assert ours.change(other, more).after == b"more", "another file has another lock"
        assert ours.read(path) is None, "readers need none"
    assert ours.change(path, more).after == b"more"


def test_files_of_one_name_have_locks_and_backups_of_their_own() -> None:
    names = {key_of(Path(path)) for path in ("/a/mcp.json", "/b/mcp.json", "/a/mcp_json", "/a/" + "x" * 200)}
    assert len(names) == 4 and all(len(name) < 100 for name in names)


# The system


def test_two_files_change_places_or_the_system_says_that_it_cannot(home: Path) -> None:
    one, other = home / "one", home / "other"
    one.write_bytes(b"one")
    other.write_bytes(b"other")
    exchanging.exchange(one, other)
    assert (one.read_bytes(), other.read_bytes()) == (b"other", b"one")
    with pytest.raises(FileExistsError):
        exchanging.move_to_free_name(one, other)
    with pytest.raises(FileNotFoundError):
        exchanging.exchange(home / "missing", other)
    assert (one.read_bytes(), other.read_bytes()) == (b"other", b"one")


@pytest.mark.skipif(sys.platform != "linux", reason="leases as Linux has them")
def test_who_is_writing_a_file_is_seen(home: Path) -> None:
    path = home / "mcp.json"
    path.write_bytes(b"old ")
    with path.open("rb") as reader:
        assert exchanging.has_writer(reader.fileno()) is False
        with path.open("r+b"):
            assert exchanging.has_writer(reader.fileno()) is True
        assert exchanging.has_writer(reader.fileno()) is False
    with path.open("r+b") as writer:
        assert exchanging.has_writer(writer.fileno()) is not False, (
            "of a writer's own descriptor nothing is told"
        )


@pytest.mark.skipif(sys.platform != "linux", reason="leases as Linux has them")
def test_whoever_opens_a_file_while_we_ask_who_is_writing_it_does_us_no_harm(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = home / "mcp.json"
    path.write_bytes(b"old ")
    call, heard = fcntl.fcntl, []

    def opened_meanwhile(descriptor: int, command: int, argument: int) -> int:
        if (command, argument) == (fcntl.F_SETLEASE, fcntl.F_UNLCK):
            with pytest.raises(BlockingIOError):
                os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        return call(descriptor, command, argument)

    monkeypatch.setattr(fcntl, "fcntl", opened_meanwhile)
    # Whoever does not handle the first of them is ended by it; the other is ignored.
    before = {number: signal.getsignal(number) for number in (signal.SIGIO, signal.SIGURG)}
    try:
        for number in before:
            signal.signal(number, lambda number, _frame: heard.append(number))
        with path.open("rb") as reader:
            assert exchanging.has_writer(reader.fileno()) is False
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert heard == [signal.SIGURG]
    path.write_bytes(b"and nobody has to wait")


@pytest.mark.skipif(sys.platform != "linux", reason="inotify")
def test_whoever_watches_the_folder_hears_last_that_the_file_is_there(ours: Files, home: Path) -> None:
    import ctypes
    import struct

    library = ctypes.CDLL(None, use_errno=True)
    path = home / "mcp.json"
    path.write_bytes(b"old ")
    moved_from, moved_to, deleted = 0x40, 0x80, 0x200
    descriptor = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        assert library.inotify_add_watch(descriptor, os.fsencode(home), moved_from | moved_to | deleted) > 0
        ours.change(path, more)
        data = os.read(descriptor, 65536)
    finally:
        os.close(descriptor)
    heard = []
    while data:
        _, mask, _, length = struct.unpack_from("iIII", data)
        name = data[16 : 16 + length].rstrip(b"\0").decode()
        if name == "mcp.json":
            heard.append(mask)
        data = data[16 + length :]
    assert heard == [moved_from, moved_to]


def test_where_links_are_followed_to_does_not_touch_anything(home: Path) -> None:
    path = home / "missing" / "folder" / "mcp.json"
    assert looking.real_path(path) == path
    assert looking.fingerprint_of(path) == looking.GONE == looking.fingerprint(None)
    assert not list(home.iterdir())
