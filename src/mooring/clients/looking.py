"""What is at a path that belongs to another program: looked at, never touched.

Links are followed by ourselves, one by one, so that a cycle is an error in words, and a link that leads
nowhere leads to the place where its file would be. A file is read whole and up to a bound; whatever is no
regular file is never opened, because opening a pipe or a device may do something.
"""

import errno
import hashlib
import logging
import os
import stat
from pathlib import Path
from typing import NamedTuple

from mooring.errors import UserError

__all__ = [
    "GONE",
    "MAX_FILE_BYTES",
    "MOST_LINKS",
    "Seen",
    "check_size",
    "check_writable",
    "fingerprint",
    "fingerprint_of",
    "look",
    "real_path",
    "unreadable",
    "unusable",
]

logger = logging.getLogger(__name__)

MAX_FILE_BYTES = 32 * 1024 * 1024
"""No client has settings of that size; a file that has is something else."""
MOST_LINKS = 40
"""One after the other, as many as Linux follows."""
GONE = ""
"""The fingerprint of no file."""

_FLAGS = (
    os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
)
_ROOM = "make room on its disk, and on that of Mooring's own files, and try again"
_CAUSES = {
    errno.ENOSPC: ("disk_full", _ROOM),
    errno.EDQUOT: ("disk_full", _ROOM),
    errno.EFBIG: ("disk_full", "files of that size are not allowed to this process"),
    errno.EROFS: ("file_read_only", "its disk can only be read"),
    errno.EACCES: ("no_permission", "make it readable and writable for you, and its folders too"),
    errno.EPERM: ("no_permission", "make it readable and writable for you, and its folders too"),
    errno.ENOTDIR: ("not_a_file", "something that is no folder is in the place of one of its folders"),
}


class Seen(NamedTuple):
    """A file at one moment."""

    data: bytes
    status: os.stat_result


def real_path(path: Path) -> Path:
    """Where the file is, or would be, when all links are followed. Raises UserError."""
    path = Path.cwd() / path
    at, parts, links = Path(path.anchor), [*reversed(path.parts[1:])], 0
    while parts:
        part = parts.pop()
        if part == "..":
            at = at.parent
            continue
        try:
            target = (at / part).readlink()
        except OSError as error:
            if error.errno in (errno.EACCES, errno.ELOOP, errno.ENAMETOOLONG, errno.EIO):
                raise unusable(path, error) from None
            at = at / part  # no link, or nothing
            continue
        links += 1
        if links > MOST_LINKS:
            raise UserError(
                f"{path} cannot be found: its links lead in a circle",
                code="link_cycle",
                hint="remove or correct the link",
            )
        if target.anchor:
            at = Path(target.anchor)
        parts += reversed(target.parts[1:] if target.anchor else target.parts)
    return at


def look(path: Path) -> Seen | None:
    """The file at a real path; None: there is none. Raises UserError."""
    try:
        _check_regular(path, path.lstat())
        descriptor = os.open(path, _FLAGS)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unusable(path, error) from None
    try:
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            _check_regular(path, status)
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise unusable(path, error) from None
    check_size(path, data)
    return Seen(data, status)


def fingerprint(data: bytes | None) -> str:
    """By which a version is known again."""
    return GONE if data is None else hashlib.sha256(data).hexdigest()


def fingerprint_of(path: Path) -> str:
    """The same of whatever is at a path, however large, and whatever it is. Raises OSError."""
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            return f"other {status.st_ino}"
        with os.fdopen(os.open(path, _FLAGS), "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return GONE


def check_size(path: Path, data: bytes) -> None:
    """Raises UserError."""
    if len(data) > MAX_FILE_BYTES:
        raise UserError(
            f"{path} is too large: more than {MAX_FILE_BYTES:,} bytes",
            code="file_too_large",
            hint="see whether it is a file of settings at all",
        )


def check_writable(path: Path, status: os.stat_result) -> None:
    """Raises UserError. Replacing a file needs no right to write it: so its owner's wish is heeded here."""
    follows_effective = os.access in os.supports_effective_ids
    if not status.st_mode & stat.S_IWUSR or not os.access(path, os.W_OK, effective_ids=follows_effective):
        raise UserError(
            f"{path} is read-only",
            code="file_read_only",
            hint=f"allow writing, if it is meant to be: chmod u+w {path}",
        )


def unusable(path: Path, error: OSError) -> UserError:
    """The error in words."""
    code, hint = _CAUSES.get(error.errno or 0, ("file_unusable", "see what is there"))
    return UserError(f"{path} cannot be used: {error.strerror or error}", code=code, hint=hint)


def unreadable(path: Path, error: Exception) -> UserError:
    """Something about this one file that nobody has thought of: its own trouble, and nobody else's."""
    logger.debug("%s cannot be dealt with", path, exc_info=error, extra={"event": "client_file_unreadable"})
    return UserError(
        f"{path} cannot be dealt with: there is something unexpected in it ({type(error).__name__})",
        code="file_unreadable",
        hint="see what is special about the file, and report this: it is an error of Mooring",
    )


def _check_regular(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        what = "a folder" if stat.S_ISDIR(status.st_mode) else "no regular file"
        raise UserError(f"{path} is {what}", code="not_a_file", hint="move it out of the way and try again")
