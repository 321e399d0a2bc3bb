"""One file replaced by another version of it, with a note of how far that got. See docs/adr/0013.

    note WRITING → temporary file, whole and on the disk → note EXCHANGING → is the file still what was seen?
    → the two change places → what came out is looked at → temporary file and note removed

What came out is dropped only if it is the version that was seen and nobody has it open for writing: then
nobody can change it any more. Anything else is newer than what we put there, and the two change places again;
what comes out then is looked at in the same way. What is neither known nor put back is kept aside.

The note says what is in the temporary file before the next exchange, by its inode: so whoever comes after us
knows whether it has happened. Whoever fails goes the same way as whoever comes after one who was killed:
`recover`. Whoever calls any of this holds the lock of the file.

A file that cannot be moved is written in place: through one descriptor, which has the very file that was
seen, and only in a folder in which nobody but us and root decides what is in its place.
"""

import contextlib
import errno
import os
import stat
import sys
import time
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

import msgspec

from mooring.clients import disk, exchanging
from mooring.clients.backups import Backups, key_of
from mooring.clients.looking import GONE, Seen, fingerprint, fingerprint_of, look
from mooring.errors import UserError

__all__ = ["MOST_EXCHANGES", "BeingWritten", "Replacing"]

MOST_EXCHANGES = 8
"""One after the other, with a program that writes whenever two versions have changed places."""
WRITING_S = 1.0
"""For a program that has the file open for writing."""
LOOK_AGAIN_S = 0.02
"""How long after an exchange what came out is looked at, where the system does not tell who is writing it."""

_NOT_MOVED = {errno.EBUSY, errno.EXDEV, errno.EPERM, errno.EACCES}
"""The file is a mount of its own, or in a folder in which only its owner may move it."""
_IN_PLACE = (
    os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
)
_NOT_THERE = {errno.ENOENT, errno.ELOOP, errno.EISDIR, errno.ENXIO}
"""Something else is in the place of the file: nothing, a link, a folder, a pipe."""


class BeingWritten(Exception):
    """Somebody has the file open for writing, and keeps it."""


class _Phase(StrEnum):
    WRITING = "writing"
    EXCHANGING = "exchanging"
    IN_PLACE = "in place"


class _Note(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is under way with one file."""

    path: bytes
    phase: _Phase
    backup: str | None = None
    inode: int | None = None
    """Of what is in the temporary file before the exchange; None: nothing is, the file is moved there."""
    is_theirs: bool = False
    """That is a version of the other program, to be put back."""
    expected: str = GONE
    """The fingerprint of what should come out."""
    put: str = GONE
    """The fingerprint of what is put in its place."""
    ours: str = GONE
    """The fingerprint of what we wrote."""
    before: bytes = b""
    after: bytes = b""
    """Of a file that is written in place, all of it."""


class Replacing:
    """Of the file at one real path, with the note about it in our folder."""

    def __init__(self, path: Path, note: Path, backups: Backups) -> None:
        self._path = path
        self._note_path = note
        self._backups = backups
        # Of this folder of ours alone: somebody with another one has another lock.
        self._temporary = path.with_name(f".mooring-{key_of(note)[-16:]}")

    @staticmethod
    def path_of(note: Path) -> Path:
        """Which file a note is about. Raises OSError; one that cannot be read is removed."""
        try:
            return Path(os.fsdecode(msgspec.msgpack.decode(note.read_bytes(), type=_Note).path))
        except msgspec.DecodeError:
            note.unlink(missing_ok=True)
            raise FileNotFoundError(note) from None

    def look(self) -> Seen | None:
        """The file, when nobody is writing it. Raises BeingWritten, UserError."""
        if self._still_has_writer(self._path):
            raise BeingWritten
        return look(self._path)

    def replace(self, seen: Seen | None, after: bytes | None, backup: str | None) -> bool:
        """Put `after` in the place of what was seen. False: that is no longer there; what is there stands.

        What is replaced becomes the backup of that number, if there is to be one. Raises UserError, OSError;
        then what was there stands too.
        """
        note = _Note(
            path=os.fsencode(self._path),
            phase=_Phase.WRITING,
            backup=backup,
            ours=fingerprint(after),
            put=fingerprint(after),
            expected=fingerprint(None if seen is None else seen.data),
        )
        made: list[Path] = []
        try:
            self._write_note(note)
            if seen is not None and backup is not None:
                self._backups.keep(self._path, backup, seen.data)
            if seen is not None and after is not None and not _may_replace(self._path, seen.status):
                return self._write_in_place(note, seen, after)
            made = disk.make_folders(self._path.parent)
            return self._replace(note, seen, after)
        except BaseException:
            with contextlib.suppress(OSError, UserError):  # then the next operation does it
                self.recover()
                if backup is not None and fingerprint_of(self._path) == note.expected:
                    self._backups.drop(self._path, backup)
            disk.remove_folders(made)
            raise

    def recover(self) -> None:
        """Finish or undo what is under way by the note, if there is one. Raises OSError, UserError."""
        note = self._read_note()
        if note is None:
            self._keep_unknown()
        elif note.phase is _Phase.WRITING:
            self._abandon(note)
        elif note.phase is _Phase.IN_PLACE:
            self._finish_in_place(note)
        else:
            self._finish(note)

    # As a replacement

    def _replace(self, note: _Note, seen: Seen | None, after: bytes | None) -> bool:
        note = msgspec.structs.replace(note, phase=_Phase.EXCHANGING)
        if after is not None:
            self._write_temporary(seen, after)
            note = msgspec.structs.replace(note, inode=self._inode())
        self._write_note(note)
        try:
            if fingerprint_of(self._path) == note.expected and self._exchange_first(seen, after):
                return self._finish(note)
        except OSError as error:
            if seen is None or after is None or error.errno not in _NOT_MOVED:
                raise
            self._clear()
            return self._write_in_place(note, seen, after)
        self._abandon(note)
        return False

    def _write_temporary(self, seen: Seen | None, after: bytes) -> None:
        disk.write_new(self._temporary, after, None if seen is None else seen.status)
        if seen is not None:
            disk.take_attributes(self._path, self._temporary)

    def _exchange_first(self, seen: Seen | None, after: bytes | None) -> bool:
        """False: it has not happened, because the file is not there any more, or is there now."""
        try:
            if after is None:
                exchanging.move_to_free_name(self._path, self._temporary)
            elif seen is None:
                exchanging.move_to_free_name(self._temporary, self._path)
            else:
                self._exchange_or_replace()
        except (FileNotFoundError, FileExistsError):
            return False
        return True

    def _exchange_or_replace(self) -> None:
        try:
            exchanging.exchange(self._path, self._temporary)
        except OSError as error:
            if not exchanging.unavailable(error):
                raise
            self._temporary.replace(self._path)

    def _finish(self, note: _Note) -> bool:
        """What came out is dropped or put back. False: ours does not stand, or was never put there."""
        if self._has_not_begun(note):
            self._abandon(note)
            return False
        is_ours = self._settle(note)
        disk.sync_folder(self._path.parent)
        if not is_ours and note.backup is not None:
            self._backups.drop(self._path, note.backup)
        self._clear()
        return is_ours

    def _has_not_begun(self, note: _Note) -> bool:
        inode = self._inode()
        if note.inode is None:  # the file is to be moved away
            return inode is None and fingerprint_of(self._path) == note.expected
        return inode == note.inode and not note.is_theirs

    def _settle(self, note: _Note) -> bool:
        """Until what is in the temporary file may be dropped. True: what we wrote is in place."""
        for _ in range(MOST_EXCHANGES):
            inode = self._inode()
            if inode is None:
                return not note.is_theirs
            if inode != note.inode:
                came_out = self._came_out(note)
                if came_out == note.expected:
                    if note.is_theirs and came_out != note.ours:
                        self._keep()
                    return not note.is_theirs
                came_out = fingerprint_of(self._temporary)
                note = msgspec.structs.replace(
                    note, inode=inode, is_theirs=True, expected=note.put, put=came_out
                )
                with contextlib.suppress(OSError):  # putting it back matters more
                    self._write_note(note)
            # What is in the temporary file is theirs, and belongs where `expected` is.
            there = fingerprint_of(self._path)
            if there != note.expected:
                break  # and that is newer still
            with contextlib.suppress(FileNotFoundError, FileExistsError):
                if there == GONE:
                    exchanging.move_to_free_name(self._temporary, self._path)
                else:
                    exchanging.exchange(self._path, self._temporary)
        self._keep()
        return False

    def _came_out(self, note: _Note) -> str | None:
        """Its fingerprint; None: somebody is still writing it."""
        if note.is_theirs:  # what they wrote is back in place already, and there is time
            has_writer = self._still_has_writer(self._temporary)
        else:
            has_writer = self._has_writer(self._temporary)
        if has_writer is None:
            time.sleep(LOOK_AGAIN_S)
        return None if has_writer else fingerprint_of(self._temporary)

    # In place

    def _write_in_place(self, note: _Note, seen: Seen, after: bytes) -> bool:
        _check_folder(self._path)
        note = msgspec.structs.replace(note, phase=_Phase.IN_PLACE, before=seen.data, after=after)
        self._write_note(note, is_synced=True)
        with _opened(self._path, seen) as descriptor:
            if descriptor is None:
                self._abandon(note)
                return False
            try:
                _overwrite(descriptor, after)
            except OSError:
                _overwrite(descriptor, seen.data)
                raise
        self._clear()
        return True

    def _finish_in_place(self, note: _Note) -> None:
        """Half of ours is finished; anything else is somebody's own version."""
        seen = look(self._path)
        if seen is not None and seen.data == note.before:
            self._abandon(note)
            return
        if seen is not None and seen.data != note.after and _is_between(seen.data, note.before, note.after):
            _check_folder(self._path)
            with _opened(self._path, seen) as descriptor:
                if descriptor is not None:
                    _overwrite(descriptor, note.after)
        self._clear()

    # Notes, and what is beside the file

    def _still_has_writer(self, path: Path) -> bool | None:
        give_up_at = time.monotonic() + WRITING_S
        while (has_writer := self._has_writer(path)) and time.monotonic() < give_up_at:
            time.sleep(LOOK_AGAIN_S)
        return has_writer

    def _has_writer(self, path: Path) -> bool | None:
        try:
            if not stat.S_ISREG(path.lstat().st_mode):
                return None
            # Not waiting: it may have become a pipe since.
            flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
            descriptor = os.open(path, flags)
        except OSError:
            return None
        try:
            return exchanging.has_writer(descriptor)
        finally:
            os.close(descriptor)

    def _inode(self) -> int | None:
        try:
            return self._temporary.lstat().st_ino
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _keep(self) -> None:
        """What is in the temporary file, which nobody may have seen."""
        with contextlib.suppress(UserError):  # no regular file: nothing that was written
            seen = look(self._temporary)
            if seen is not None and seen.data:
                aside = self._backups.aside
                aside.keep(self._path, aside.next_number(self._path), seen.data)
                aside.prune(self._path)

    def _keep_unknown(self) -> None:
        """A temporary file without a note: the system has crashed, and that may be anything."""
        if self._inode() is not None:
            self._keep()
            self._clear()

    def _abandon(self, note: _Note) -> None:
        """Nothing has happened."""
        if note.backup is not None:
            self._backups.drop(self._path, note.backup)
        self._clear()

    def _clear(self) -> None:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            self._temporary.unlink()
        self._note_path.unlink(missing_ok=True)

    def _write_note(self, note: _Note, *, is_synced: bool = False) -> None:
        disk.write_over(self._note_path, msgspec.msgpack.encode(note), is_synced=is_synced)

    def _read_note(self) -> _Note | None:
        try:
            return msgspec.msgpack.decode(self._note_path.read_bytes(), type=_Note)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError:
            self._note_path.unlink(missing_ok=True)
            return None


def _may_replace(path: Path, status: os.stat_result) -> bool:
    """Whether another file may be put in its place, with the same owner."""
    if sys.platform == "win32":
        return True
    follows_effective = os.access in os.supports_effective_ids
    if not os.access(path.parent, os.W_OK | os.X_OK, effective_ids=follows_effective):
        return False
    user, groups = os.geteuid(), {os.getegid(), *os.getgroups()}
    return user == 0 or (status.st_uid == user and status.st_gid in groups)


def _check_folder(path: Path) -> None:
    """Raises UserError: somebody else can put another file in the place of this one at any moment."""
    if sys.platform != "win32" and path.parent.stat().st_uid not in (0, os.geteuid()):
        raise UserError(
            f"{path} cannot be replaced, and is not written in place: its folder belongs to somebody else",
            code="folder_of_others",
            hint="let its owner make the change, or have the folder",
        )


@contextlib.contextmanager
def _opened(path: Path, seen: Seen) -> Iterator[int | None]:
    """The file for reading and writing, if it is the very one that was seen, as it was seen; else None."""
    try:
        descriptor = os.open(path, _IN_PLACE)
    except OSError as error:
        if error.errno not in _NOT_THERE:
            raise
        yield None
        return
    try:
        yield descriptor if _is_seen(descriptor, seen) else None
    finally:
        os.close(descriptor)


def _is_seen(descriptor: int, seen: Seen) -> bool:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or not os.path.samestat(status, seen.status):
        return False
    with os.fdopen(descriptor, "rb", closefd=False) as file:
        return file.read(len(seen.data) + 1) == seen.data


def _overwrite(descriptor: int, data: bytes) -> None:
    """From its beginning; what is behind is cut off last."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    written = 0
    while written < len(data):
        written += os.write(descriptor, data[written:])
    os.ftruncate(descriptor, len(data))
    os.fsync(descriptor)


def _is_between(data: bytes, before: bytes, after: bytes) -> bool:
    """Begins like the version after, goes on like the one before: whoever wrote it was killed."""
    pairs = enumerate(zip(data, after, strict=False))
    same = next((at for at, (one, other) in pairs if one != other), min(len(data), len(after)))
    return data[same:] == before[same:]
