"""Which variables a child gets, and who wins."""

from pathlib import Path

import pytest

from mooring.errors import UserError
from mooring.runtimes.environment import build_environment, marker, parse_env_file, read_env_file

OURS = {"HOME": "/home/me", "PATH": "/bin", "TERM": "() { :; }", "TOKEN": "hush", "LANG": "C"}


def test_the_few_that_the_sdks_give() -> None:
    assert build_environment(OURS) == {"HOME": "/home/me", "PATH": "/bin"}


def test_all_of_ours() -> None:
    assert build_environment(OURS, inherit_env=True) == OURS


def test_a_container_gets_what_was_asked_for_alone() -> None:
    assert build_environment(OURS, unasked=()) == {}
    asked = build_environment(OURS, unasked=(), pass_env=["TOKEN"], env_file={"A": "1"}, env={"B": "2"})
    assert asked == {"TOKEN": "hush", "A": "1", "B": "2"}


def test_by_name() -> None:
    assert build_environment(OURS, pass_env=["TOKEN"])["TOKEN"] == "hush"


def test_by_name_but_not_set() -> None:
    with pytest.raises(UserError, match="NOT_THERE") as raised:
        build_environment(OURS, pass_env=["NOT_THERE"])
    assert raised.value.code == "env_not_set"


def test_the_last_of_equal_names_wins() -> None:
    def built(**options: dict[str, str]) -> str:
        return build_environment(OURS, pass_env=["LANG"], **options)["LANG"]  # type: ignore[arg-type]

    assert built() == "C"
    assert built(env_file={"LANG": "de"}) == "de"
    assert built(env_file={"LANG": "de"}, env={"LANG": "fr"}) == "fr"


@pytest.mark.parametrize("name", ["", "A=B", "A\0"])
def test_names_that_cannot_be(name: str) -> None:
    with pytest.raises(UserError) as raised:
        build_environment({}, env={name: "1"})
    assert raised.value.code == "bad_environment"


def test_the_marker() -> None:
    assert marker("0a1b", "files", 3) == "MOORING_INSTANCE=0a1b:files:3"


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=1", "1"),
        ("  export A = 1  ", "1"),
        ("A=", ""),
        ("A=a b", "a b"),
        ("A=a=b", "a=b"),
        ("A=a#b", "a#b"),
        ("A=a # comment", "a"),
        ("A=a\t# comment", "a"),
        ("A='a # b' # comment", "a # b"),
        ("A='\\n'", "\\n"),
        ('A="a\\n\\"b\\" \\$c \\x"', 'a\n"b" $c \\x'),
        ('A=""', ""),
        ("A=1\r", "1"),
    ],
)
def test_lines_of_a_file(line: str, value: str) -> None:
    assert parse_env_file(f"# comment\n\n{line}\nB=2", "f") == {"A": value, "B": "2"}


@pytest.mark.parametrize("line", ["A", "=1", "two words=1", "A='open", 'A="open\\"', "A='1' 2"])
def test_malformed_lines_are_named_and_not_shown(line: str) -> None:
    with pytest.raises(UserError) as raised:
        parse_env_file(f"OK=1\n{line}\n", "some.env")
    assert raised.value.code == "env_file_invalid"
    assert raised.value.message.startswith("some.env:2: ")
    assert "open" not in raised.value.message


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "env"
    with pytest.raises(UserError, match="No such file") as raised:
        read_env_file(path)
    assert raised.value.code == "env_file_unreadable"
    path.write_bytes(b"A=\xff")
    with pytest.raises(UserError, match="UTF-8"):
        read_env_file(path)
    path.write_text("A=ä")
    assert read_env_file(path) == {"A": "ä"}


def test_a_file_without_end_is_not_read_to_its_end() -> None:
    with pytest.raises(UserError, match="/dev/zero is over 1048576 characters") as raised:
        read_env_file(Path("/dev/zero"))
    assert raised.value.code == "env_file_invalid"
