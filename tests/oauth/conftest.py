"""One real authorization server, and one MCP server that it protects, for each test."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import keyring
import keyring.backends.fail
import pytest

from tests.keyring_in_file import KeyringInFile
from tests.oauth.authority import Authority, running_authority
from tests.oauth.resource import Protected


@pytest.fixture
async def authority() -> AsyncIterator[Authority]:
    async with running_authority() as authority:
        yield authority


@pytest.fixture
async def protected(authority: Authority) -> AsyncIterator[Protected]:
    async with Protected(authority).serving() as protected:
        yield protected


@pytest.fixture(autouse=True)
def no_keyring() -> Iterator[None]:
    """Whatever this machine has, it is not the tests'."""
    before = keyring.get_keyring()
    keyring.set_keyring(keyring.backends.fail.Keyring())  # type: ignore[no-untyped-call]
    yield
    keyring.set_keyring(before)


@pytest.fixture
def entries(no_keyring: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the keyring of the system is, for this test; locked without MOORING_TEST_KEYRING."""
    path = tmp_path / "keyring.json"
    monkeypatch.setenv("MOORING_TEST_KEYRING", str(path))
    keyring.set_keyring(KeyringInFile())  # type: ignore[no-untyped-call]
    return path
