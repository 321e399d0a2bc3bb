"""Errors and hints, as they are laid out."""

import pytest

from mooring.cli.terminal.words import laid_out

HINT = "mooring logs demo tells more; to change it: mooring run demo --replace -- COMMAND, or mooring rm demo"


def test_in_a_pipe_everything_is_one_line() -> None:
    assert laid_out("hint", HINT, None) == [f"hint: {HINT}"]


@pytest.mark.parametrize("width", [20, 40, 60, 80, 200])
def test_a_hint_is_broken_between_its_parts_only(width: int) -> None:
    lines = laid_out("hint", HINT, width)
    assert " ".join(line.strip() for line in lines) == f"hint: {HINT}"
    assert "mooring run demo --replace -- COMMAND" in "\n".join(lines), "it can be copied"
    assert all(len(line) <= width or "; " not in line for line in lines)
    assert all(line[:6] in ("hint: ", " " * 6) for line in lines)


def test_an_error_is_broken_between_words() -> None:
    assert laid_out("error", "one two-three /a/path/longer/than/all four", 16) == [
        "error: one",
        "       two-three",
        "       /a/path/longer/than/all",
        "       four",
    ]
