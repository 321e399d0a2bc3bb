"""What stands on stderr beside a result, and who is asked."""

import asyncio
import os
import pty
import sys
import tty
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mooring.cli.trying.elicitation import Elicitation
from mooring.cli.trying.sideline import MAX_ANSWER_BYTES, Sideline
from tests.support import within


@contextmanager
def terminal() -> Iterator[int]:
    """Our stdin and stderr are a terminal, which passes on whatever is typed; yields its other end."""
    controller, ours = pty.openpty()
    tty.setraw(ours)
    with (
        pytest.MonkeyPatch.context() as patch,
        os.fdopen(ours) as stdin,
        os.fdopen(ours, "w", closefd=False) as stderr,
    ):
        patch.setattr(sys, "stdin", stdin)
        patch.setattr(sys, "stderr", stderr)
        yield controller
    os.close(controller)


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
        assert os.read(keyboard, 4096).decode().replace("\x1b[31m", "").replace("\x1b[0m", "") == (
            f"\r\x1b[2K{bar}\r\x1b[2Ka\\x1b[2Jb\n{bar}\r\x1b[2Kerror: c\n{bar}\r\x1b[2K"
        )


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
