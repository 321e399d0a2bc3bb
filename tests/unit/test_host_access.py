"""Token files: what is wrong with them is told exactly, and nothing of what is in them."""

from pathlib import Path

import pytest

from mooring.errors import UserError
from mooring.host.access import read_tokens

TOKEN = "s" * 16
NEW_TOKEN = "make one with: openssl rand -base64 24"


def refused(path: Path, content: bytes) -> UserError:
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(UserError) as caught:
        read_tokens(path)
    error = caught.value
    assert "sss" not in error.message + error.hint and "hush" not in error.message + error.hint
    return error


@pytest.mark.parametrize(
    ("content", "told", "hint"),
    [
        ("hush!!", "t, line 1: the token has 6 characters; it needs 16 or more", f"{NEW_TOKEN} > t"),
        ("# mine\n\nhush", "t, line 3: the token has 4 characters; it needs 16 or more", f"{NEW_TOKEN} > t"),
        (f"a {TOKEN}\nb hush", "t, line 2: the token has 4 characters; it needs 16 or more", NEW_TOKEN),
        (
            f"a {TOKEN} hush",
            "t, line 1: there are 3 words",
            "write TOKEN or NAME TOKEN; a comment begins with #",
        ),
        (
            f"hush {TOKEN}\n\nhush {TOKEN}",
            "t, line 3: the same name as on line 1",
            "a name of its own: NAME TOKEN",
        ),
        (f"{TOKEN}\n{TOKEN}", "t, line 2: the same name as on line 1 (without one", "NAME TOKEN"),
        (f"{TOKEN}\ntoken {TOKEN}", "t, line 2: the same name as on line 1 (without one it is 'token')", ""),
        ("", "the token file t holds no token", f"{NEW_TOKEN} > t"),
        ("# only words\n", "the token file t holds no token", f"{NEW_TOKEN} > t"),
        (f"é{TOKEN}", "the token file t has characters that are not ASCII", NEW_TOKEN),
    ],
)
def test_what_is_wrong_with_a_token_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, told: str, hint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    error = refused(Path("t"), content.encode())
    assert error.message.startswith(told)
    assert error.hint.endswith(hint)


def test_a_path_in_a_hint_can_be_pasted(tmp_path: Path) -> None:
    path = tmp_path / "my tokens"
    assert refused(path, b"").hint == f"{NEW_TOKEN} > '{path}'"


def test_a_token_file_that_is_a_directory(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        read_tokens(tmp_path)
    assert caught.value.message == f"the token file {tmp_path} cannot be read: Is a directory"
    assert caught.value.hint


def test_a_token_file_without_end_is_not_read_to_its_end() -> None:
    with pytest.raises(UserError, match="/dev/zero is over 65536 characters") as caught:
        read_tokens(Path("/dev/zero"))
    assert caught.value.code == "token_file_invalid"
