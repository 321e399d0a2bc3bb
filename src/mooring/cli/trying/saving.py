"""Images, sounds and other bytes go into files, and over none that is there."""

import base64
import binascii
import re
from itertools import count
from mimetypes import guess_extension
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from mooring.cli.trying.contents import Data
from mooring.errors import UserError

__all__ = ["NotBytes", "decoded", "file_name", "save"]

MAX_NAME_CHARACTERS = 80
"""Of a file's name, as a server proposes it."""
_EXTENSIONS = {"audio/wav": ".wav", "audio/wave": ".wav", "audio/vnd.wave": ".wav"}
"""Which not every Python knows."""
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")


class NotBytes(Exception):
    """What should be base64 is not."""


def decoded(data: Data) -> bytes:
    """Its bytes. Raises NotBytes."""
    try:
        return base64.b64decode(data.base64, validate=True)
    except (binascii.Error, ValueError):
        raise NotBytes from None


def file_name(data: Data, prefix: str) -> str:
    """What to call it: after what it came from, then as its uri does. No path, nothing hidden.

    Never as the server likes: some names mean something in the folder where it is saved (`mooring.toml`).
    """
    try:
        last = PurePosixPath(unquote(urlsplit(data.uri).path)).name
    except ValueError:
        last = ""
    last = _UNFIT.sub("-", last).strip("-.")
    name = _UNFIT.sub("-", f"{prefix}-{last or data.what}").strip("-.")
    mime_type = data.mime_type.partition(";")[0].strip().lower()
    extension = _EXTENSIONS.get(mime_type) or guess_extension(mime_type)
    stem = name[:MAX_NAME_CHARACTERS]
    return stem if "." in stem else stem + (extension or ".bin")


def save(content: bytes, folder: Path, name: str) -> Path:
    """Write it into a new file of that name, or of the next one that is free. Raises UserError."""
    stem, dot, extension = name.rpartition(".")
    for n in count(1):
        path = folder / (name if n == 1 else f"{stem}-{n}{dot}{extension}")
        try:
            with path.open("xb") as file:
                file.write(content)
        except FileExistsError:
            continue
        except OSError as error:
            raise UserError(
                f"cannot save {path}: {error.strerror}",
                code="cannot_save",
                hint="--save DIR names a directory that can be written; --json prints the bytes as base64",
            ) from None
        return path
    raise AssertionError("unreachable")  # pragma: no cover
