"""Errors and hints, as they are laid out."""

import pytest

from mooring.cli.terminal.words import laid_out, printable

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


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\tb é 日本 👩‍💻", "a\tb é 日本 👩‍💻"),
        ("a\n\r\x1b[2J\x7f\x9b", r"a\n\r\x1b[2J\x7f\x9b"),
        ("\ud800\udfff", r"\ud800\udfff"),
        ("x\U000e0041\U000e007f", r"x\U000e0041\U000e007f"),
        ("\xad\u3164\u115f\u202e\u200b", r"\xad\u3164\u115f\u202e\u200b"),
    ],
)
def test_nothing_that_is_printed_pretends_to_be_something_else(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert printable(text).encode()
