"""The file in which `mooring secret` keeps values: one for each state directory, the user's alone.

Invariants:
- It is whole at every moment: written beside its place, then put there in one step. Who is killed in between
  leaves the one before, and at most `secrets.json.new`, which the next writer removes.
- One writer at a time, by a lock on `secrets.lock`; readers need none.
- Reading changes nothing. One that is damaged is an error to readers; the next `put` keeps it under another
  name and begins a new one. One of a newer Mooring is left alone.
- No error repeats anything of what is in it.

A secret that is in the system's keyring is in the file with its name only, because keyrings cannot be listed.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from mooring.errors import MooringError, Unavailable, UserError
from mooring.secrets import system_keyring
from mooring.secrets.whole_files import waiting_lock, write_whole

__all__ = ["MAX_VALUE_BYTES", "Kept", "Vault", "VaultDamaged"]

MAX_VALUE_BYTES = 64 * 1024
"""Of one secret; the system takes no variable of more than twice that."""
MAX_FILE_BYTES = 4 * 1024 * 1024
LOCK_S = 5.0
"""For another command that is writing."""
VERSION = 1
FILE, KEYRING = "file", "keyring"


class Kept(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One secret. Nothing tells its value by accident."""

    since: float
    """When it was set, in seconds since 1970."""
    value: str | None = None
    """None: it is in the keyring."""

    @property
    def place(self) -> str:
        """Where the value is: `file` or `keyring`."""
        return KEYRING if self.value is None else FILE

    def __repr__(self) -> str:
        return f"<Kept in {self.place} since {self.since:.0f}>"


class _Contents(msgspec.Struct):
    version: int
    secrets: dict[str, Kept]

    def __repr__(self) -> str:
        return f"<{len(self.secrets)} secrets>"


class VaultDamaged(MooringError):
    """The file cannot be read as what it should be."""


class Put(NamedTuple):
    """What became of a `put`."""

    place: str
    aside: Path | None
    """The damaged file in whose place another was begun, if it was so."""


class Vault:
    """See the module. Every method waits for a disk, and those that write for other writers too."""

    def __init__(self, path: Path, wall: Callable[[], float] = time.time) -> None:
        self.path = path
        self._wall = wall

    def all(self) -> dict[str, Kept]:
        """By name. Raises VaultDamaged, UserError."""
        return dict(sorted(self._read().secrets.items()))

    def look_up(self, name: str) -> str | None:
        """The value, if there is one. Raises VaultDamaged, UserError."""
        kept = self._read().secrets.get(name)
        if kept is None:
            return None
        return kept.value if kept.value is not None else system_keyring.look_up(name)

    def put(self, name: str, value: str, *, in_keyring: bool = False) -> Put:
        """Have a secret of that value. One that is in the keyring stays there."""
        with self._writing():
            aside = None
            try:
                contents = self._read()
            except VaultDamaged:
                aside, contents = self._set_aside(), _Contents(VERSION, {})
            known = contents.secrets.get(name)
            place = KEYRING if in_keyring or (known is not None and known.place == KEYRING) else FILE
            if place == KEYRING:
                system_keyring.put(name, value)  # first: the file must not name what is not there
            contents.secrets[name] = Kept(since=self._wall(), value=value if place == FILE else None)
            self._write(contents)
        return Put(place, aside)

    def remove(self, name: str) -> bool:
        """Have it no more. False: there was none. Raises VaultDamaged, UserError."""
        with self._writing():
            contents = self._read()
            kept = contents.secrets.get(name)
            if kept is None:
                return False
            if kept.place == KEYRING:
                system_keyring.forget(name)  # first: whoever is killed in between can do it again
            del contents.secrets[name]
            self._write(contents)
        return True

    def _read(self) -> _Contents:
        try:
            with self.path.open("rb") as file:
                data = file.read(MAX_FILE_BYTES + 1)
        except FileNotFoundError:
            return _Contents(VERSION, {})
        except OSError as error:
            raise self._unusable(error) from None
        try:
            version = msgspec.json.decode(data, type=_Version).version
            if version > VERSION:
                raise UserError(
                    f"{self.path} was written by a newer Mooring",
                    code="secrets_too_new",
                    hint="upgrade Mooring, or set MOORING_STATE_DIR to another directory",
                )
            return msgspec.json.decode(data, type=_Contents)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise VaultDamaged(
                f"{self.path} is damaged",
                code="secrets_damaged",
                hint="put back a good copy; or mooring secret set NAME: it is kept aside, a new one begun",
            ) from None

    def _write(self, contents: _Contents) -> None:
        data = msgspec.json.format(msgspec.json.encode(contents), indent=1) + b"\n"
        if len(data) > MAX_FILE_BYTES:
            raise UserError(
                f"there is no room for more secrets: {self.path} may have {MAX_FILE_BYTES:,} bytes",
                code="too_many_secrets",
                hint="remove some: mooring secret rm NAME",
            )
        try:
            write_whole(self.path, data)
        except OSError as error:
            raise self._unusable(error) from None

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """One at a time."""
        with ExitStack() as stack:
            try:
                is_alone = stack.enter_context(waiting_lock(self.path.with_suffix(".lock"), LOCK_S))
            except OSError as error:
                raise self._unusable(error) from None
            if not is_alone:
                raise Unavailable(
                    "another command is writing secrets, and does not finish",
                    code="secrets_busy",
                    hint="try again",
                )
            yield

    def _set_aside(self) -> Path:
        stamp = datetime.fromtimestamp(self._wall(), UTC).strftime("%Y%m%dT%H%M%SZ")
        names = (
            f"{self.path.name}.damaged-{stamp}{more}" for more in ("", *(f"-{n}" for n in range(2, 100)))
        )
        aside = next(aside for name in names if not (aside := self.path.with_name(name)).exists())
        try:
            self.path.replace(aside)
        except OSError as error:
            raise self._unusable(error) from None
        return aside

    def _unusable(self, error: OSError) -> UserError:
        return UserError(
            f"{self.path} cannot be used: {error.strerror}",
            code="secrets_unusable",
            hint="make it readable and writable for you, and see whether its disk has room",
        )


class _Version(msgspec.Struct):
    version: int
