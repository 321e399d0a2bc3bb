"""A backend of the real `keyring` package that any process can use: PYTHON_KEYRING_BACKEND names it.

Its entries are in the file that MOORING_TEST_KEYRING names; without that variable it is locked.
"""

import json
import os
from pathlib import Path

from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked, PasswordDeleteError

NAME = f"{__name__}.KeyringInFile"


class KeyringInFile(KeyringBackend):
    priority = 1.0

    @property
    def _path(self) -> Path:
        where = os.environ.get("MOORING_TEST_KEYRING")
        if where is None:
            raise KeyringLocked("hunter2 is not to be had")
        return Path(where)

    def _entries(self) -> dict[str, str]:
        entries: dict[str, str] = json.loads(self._path.read_text()) if self._path.exists() else {}
        return entries

    def get_password(self, service: str, username: str) -> str | None:
        return self._entries().get(f"{service}/{username}")

    def set_password(self, service: str, username: str, password: str) -> None:
        self._path.write_text(json.dumps({**self._entries(), f"{service}/{username}": password}))

    def delete_password(self, service: str, username: str) -> None:
        entries = self._entries()
        if entries.pop(f"{service}/{username}", None) is None:
            raise PasswordDeleteError("not there")
        self._path.write_text(json.dumps(entries))
