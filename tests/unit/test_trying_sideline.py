"""What stands on stderr beside a result, and who is asked."""

import asyncio
import os
import pty
import re
import sys
import tty
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mooring.cli.trying import sideline as sideline_module
from mooring.cli.trying.elicitation import Elicitation
from mooring.cli.trying.sideline import MAX_ANSWER_BYTES, Sideline
from tests.support import within


@contextmanager
def terminal() -> Iterator[int]:
    """Our stdin and stderr are a terminal, which passes on whatever is typed; yields its other end."""
    controller, ours = pty.openpty()
    tty.setraw(ours)
    try:
        with (
            pytest.MonkeyPatch.context() as patch,
            os.fdopen(ours) as stdin,
            os.fdopen(ours, "w", closefd=False) as stderr,
        ):
            patch.setattr(sys, "stdin", stdin)
            patch.setattr(sys, "stderr", stderr)
            yield controller
    finally:
        os.close(controller)


async def shown_on(keyboard: int, length: int) -> str:
    """What the terminal was sent, without colours, once it is that long: it may come in pieces."""
    seen = ""
    while len(seen) < length:
        async with within():
            seen += (await asyncio.to_thread(os.read, keyboard, 4096)).decode()
            seen = seen.replace("\x1b[31m", "").replace("\x1b[0m", "")
    return seen


async def test_a_line_without_end_is_no_answer() -> None:
    with terminal() as keyboard:
        sideline = Sideline(verbose=False)
        assert sideline.has_somebody
        answering = asyncio.create_task(sideline.ask("? "))
        async with within():
            for _ in range(MAX_ANSWER_BYTES // 1024 + 1):
                await asyncio.to_thread(os.write, keyboard, b"x" * 1024)
            assert await answering is None
        answering = asyncio.create_task(sideline.ask("? "))
        async with within():
            os.write(keyboard, "hé\r\n".encode())
            assert await answering == "hé"


async def test_lines_take_the_place_of_the_bar_and_it_comes_back_below() -> None:
    with terminal() as keyboard:
        sideline = Sideline(verbose=False)
        sideline.progress({"progress": 1, "total": 2})
        sideline.say("a\x1b[2Jb")
        sideline.log("error", "c")
        sideline.clear()
        bar = "[############------------]  50% 1/2"
        wanted = f"\r\x1b[2K{bar}\r\x1b[2Ka\\x1b[2Jb\n{bar}\r\x1b[2Kerror: c\n{bar}\r\x1b[2K"
        assert await shown_on(keyboard, len(wanted)) == wanted


async def test_who_is_waited_for_is_told_until_there_is_more_to_see(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sideline_module, "WAIT_S", 0.01)
    monkeypatch.setenv("NO_COLOR", "1")
    with terminal() as keyboard:
        sideline = Sideline(verbose=False)
        seen = ""

        async def shows(text: str) -> None:
            nonlocal seen
            while not re.sub(r"\d+ s", "N s", seen).endswith(text):
                seen += (await asyncio.to_thread(os.read, keyboard, 4096)).decode()

        async with within():
            async with sideline.waiting_for("de\x1bmo"):
                await shows("\r\x1b[2Kwaiting for de\\x1bmo … N s")
                sideline.progress({"progress": 1})
                await shows("\r\x1b[2K… 1")
                await asyncio.sleep(0.05)
                answering = asyncio.create_task(sideline.ask("? "))
                await shows("… 1\r\x1b[2K? ")
                await asyncio.sleep(0.05)
                os.write(keyboard, b"x\n")
                await answering
                await shows("… 1\r\x1b[2K? \r\x1b[2Kwaiting for de\\x1bmo … N s")
            await shows("\r\x1b[2K")


async def test_off_a_terminal_nothing_is_waited_for_aloud(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sideline_module, "WAIT_S", 0.01)
    async with Sideline(verbose=False).waiting_for("demo"):
        await asyncio.sleep(0.05)
    assert capsys.readouterr().err == ""


async def test_who_asks_nothing_in_particular(capsys: pytest.CaptureFixture[str]) -> None:
    assert await Elicitation(Sideline(verbose=False), "x").answer({"message": " "}) == {"action": "decline"}
    assert capsys.readouterr().err.startswith("x asks you something\n")


async def test_of_two_questions_the_second_waits_for_the_first() -> None:
    with terminal() as keyboard:
        elicitation = Elicitation(Sideline(verbose=False), "x")
        asked = [asyncio.create_task(elicitation.answer({"message": text})) for text in ("one", "two")]
        async with within():
            seen = ""
            while "[yes]: " not in seen:
                seen += (await asyncio.to_thread(os.read, keyboard, 4096)).decode()
            assert "two" not in seen
            os.write(keyboard, b"d\n")
            assert await asked[0] == {"action": "decline"}
            os.write(keyboard, b"c\n")
            assert await asked[1] == {"action": "cancel"}


def test_a_level_is_a_servers_word_too(capsys: pytest.CaptureFixture[str]) -> None:
    Sideline(verbose=True).log("error\x1b]0;title\x07", "text")
    assert capsys.readouterr().err == "error\\x1b]0;title\\x07: text\n"
