"""From references to values. Every look may wait: for a disk, or for a keyring that asks its user.

All errors are `UserError`s that say which variable needs what, what is wrong with it and what to do; none
repeats a value.
"""

import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from mooring.errors import MooringError, UserError
from mooring.secrets import system_keyring
from mooring.secrets.references import Reference, parse
from mooring.secrets.vault import MAX_VALUE_BYTES, Vault

__all__ = ["NOTHING", "Resolved", "Resolver", "read_value"]


@dataclass(frozen=True)
class Resolved:
    """Never shown by accident: tasks and handles of the event loop print what they carry."""

    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Complete values, by variable."""
    values: Mapping[Reference, str] = field(default_factory=dict, repr=False)
    """What each reference led to."""


NOTHING = Resolved()


class Resolver:
    """Looks where the references say, each time anew."""

    def __init__(self, vault: Vault, environment: Mapping[str, str], *, whose: str, remedy: str) -> None:
        """`environment` is what `env:` means: `whose` it is, and the `remedy` if a variable is not there."""
        self._vault = vault
        self._environment = environment
        self._whose = whose
        self._remedy = remedy

    def resolve(self, referring: Mapping[str, str]) -> Resolved:
        """The values of variables that have references in them, by the grammar. Raises UserError."""
        values: dict[Reference, str] = {}
        variables: dict[str, str] = {}
        for variable, text in referring.items():
            template = parse(text)
            for reference in template.references:
                if reference not in values:
                    values[reference] = self._value(variable, reference)
            variables[variable] = template.fill(values.__getitem__)
        return Resolved(variables, values)

    def _value(self, variable: str, reference: Reference) -> str:
        try:
            match reference.scheme:
                case "env":
                    return self._of_environment(reference.name)
                case "file":
                    return _of_file(Path(reference.name))
                case "keyring":
                    return _of_keyring(reference.name)
            return self._of_vault(reference.name)
        except MooringError as error:
            what = f"{error.message} (needed for {variable})"
            raise UserError(what, code=error.code, hint=error.hint) from None

    def _of_environment(self, name: str) -> str:
        value = self._environment.get(name)
        if value is None:
            raise UserError(
                f"the variable {name} is not set in {self._whose}",
                code="env_not_set",
                hint=self._remedy.format(name=name),
            )
        return value

    def _of_vault(self, name: str) -> str:
        value = self._vault.look_up(name)
        if value is None:
            raise UserError(
                f"there is no secret named {name}",
                code="secret_missing",
                hint=f"mooring secret set {name}; mooring secret ls lists those that there are",
            )
        return value


def _of_keyring(name: str) -> str:
    value = system_keyring.look_up(name)
    if value is None:
        raise UserError(
            f"the keyring has no entry {name} of the service {system_keyring.SERVICE}",
            code="secret_missing",
            hint=f"mooring secret set --keyring {name}, or: keyring set {system_keyring.SERVICE} {name}",
        )
    return value


def _of_file(path: Path) -> str:
    """All of it but the line end at its end, which editors add."""

    def unusable(why: str) -> UserError:
        return UserError(
            f"the file {path} cannot be used: {why}",
            code="file_unreadable",
            hint="put the value into it; if no file is meant, write literal: before the whole value",
        )

    try:
        # Not waited for: a pipe that nobody writes to would never open.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise unusable(str(error.strerror)) from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise unusable("it is not a plain file")
        with open(descriptor, "rb", closefd=False) as file:
            return read_value(file, unusable)
    except OSError as error:
        raise unusable(str(error.strerror)) from None
    finally:
        os.close(descriptor)


def read_value(source: BinaryIO, refuse: Callable[[str], UserError]) -> str:
    """A value from a file or a pipe: without one line end at the end, which `echo` adds too."""
    data = source.read(MAX_VALUE_BYTES + len(b"\r\n") + 1)
    data = data.removesuffix(b"\r\n" if data.endswith(b"\r\n") else b"\n")
    if len(data) > MAX_VALUE_BYTES:
        raise refuse(f"it has more than {MAX_VALUE_BYTES:,} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise refuse("it is not UTF-8 text") from None
