"""Who we are to a server."""

from pathlib import Path

import pytest

from mooring.errors import UserError
from mooring.host.credentials import MAX_TOKEN_FILE_CHARACTERS, StoredCredentials, headers_from


def test_headers_come_from_variables() -> None:
    headers = headers_from({"X-Key": "KEY", "Authorization": "AUTH"}, {"KEY": " k ", "AUTH": "Bearer x"})
    assert headers == [(b"X-Key", b"k"), (b"Authorization", b"Bearer x")]


@pytest.mark.parametrize(
    ("name", "value"),
    [("Host", "v"), ("mcp-session-id", "v"), ("a b", "v"), ("", "v"), ("X", ""), ("X", "é"), ("X", "a\nb")],
)
def test_headers_that_cannot_be_set(name: str, value: str) -> None:
    with pytest.raises(UserError) as refused:
        headers_from({name: "VARIABLE"}, {"VARIABLE": value})
    assert refused.value.code == "bad_header"
    assert not value or value not in refused.value.message.replace("VARIABLE", "").replace("--header-env", "")


@pytest.mark.parametrize("text", ["tok", "tok\n", "# mine\n\nname tok\n"])
async def test_a_token_file(tmp_path: Path, text: str) -> None:
    file = tmp_path / "token"
    file.write_text(text)
    credentials = StoredCredentials([(b"X", b"y")], file)
    assert credentials.headers == [(b"X", b"y"), (b"Authorization", b"Bearer tok")]
    assert not await credentials.renew()
    file.write_text("other")
    assert await credentials.renew()
    assert credentials.headers[-1] == (b"Authorization", b"Bearer other")
    file.unlink()
    assert not await credentials.renew()


async def test_no_token_file() -> None:
    credentials = StoredCredentials([], None)
    assert credentials.headers == [] and not await credentials.renew()


@pytest.mark.parametrize(
    "text", ["", "# none\n", "a\nb\n", "a b c\n", "tök\n", "x" + "\n" * MAX_TOKEN_FILE_CHARACTERS]
)
def test_a_token_file_that_cannot_be_used(tmp_path: Path, text: str) -> None:
    file = tmp_path / "token"
    file.write_text(text)
    with pytest.raises(UserError) as refused:
        StoredCredentials([], file)
    assert refused.value.code == "token_file_invalid"
    with pytest.raises(UserError) as refused:
        StoredCredentials([], tmp_path / "none")
    assert refused.value.code == "token_file_unreadable"
