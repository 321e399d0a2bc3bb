"""stderr, beside the result: how far the server is, what it says for people, and questions to the user.

One line at the bottom may be a progress bar, or say who is waited for while there is none: whatever else is
written takes its place, and it comes back below. Only on a terminal is there such a line, and somebody to be
asked.
"""

import asyncio
import contextlib
import logging
import math
import os
import sys
import termios
import time
from collections.abc import AsyncIterator, Iterator
from shutil import get_terminal_size
from typing import Any

from mooring.cli.terminal.words import DIM, RED, YELLOW, colourful, painted, printable
from mooring.cli.trying.schemas import Json, is_of
from mooring.wire.verdicts import FOR_PEOPLE

__all__ = ["LogsAside", "Sideline", "bar"]

CLEAR_LINE = "\r\x1b[2K"
DRAW_EVERY_S = 0.05
"""A server may tell of its progress a thousand times a second; no eye follows that."""
WAIT_S = 1.0
"""Before it is said who is waited for, and how long already; and between two times."""
BAR_WIDTH = 24
MAX_ANSWER_BYTES = 64 * 1024
"""Of one line that is typed, or pasted; kernels pass on 4 KiB at most."""
_COLOURS = {"debug": DIM, "warning": YELLOW}


def bar(note: Json, width: int) -> str:
    """`[######------] 50 % 5/10 words`; without a total only the number, without a number only words."""
    done, total, message = _finite(note.get("progress")), _finite(note.get("total")), note.get("message")
    parts: list[str] = []
    if done is not None and total is not None and total > 0:
        part = min(max(done / total, 0.0), 1.0)
        full = int(part * BAR_WIDTH)
        parts.append(f"[{'#' * full}{'-' * (BAR_WIDTH - full)}] {part:4.0%} {done:g}/{total:g}")
    elif done is not None:
        parts.append(f"… {done:g}")
    if isinstance(message, str):
        parts.append(printable(message))
    return " ".join(parts)[: max(width - 1, 0)]


def _finite(value: Any) -> float | None:
    """A number that can be shown."""
    try:
        number = float(value) if is_of(value, "number") else math.nan
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


class Sideline:
    """The only one that writes to stderr while a server is visited."""

    def __init__(self, *, verbose: bool) -> None:
        self._terminal = sys.stderr.isatty()
        self._verbose = verbose
        self._colour = colourful(sys.stderr, os.environ)
        self._bar = ""
        self._drawn_at = 0.0
        self._is_taken = False
        """There is something better to see than who is waited for."""
        self.has_somebody = self._terminal and sys.stdin.isatty()
        """Can anybody be asked?"""

    def say(self, text: str) -> None:
        """A line; control characters in it are made visible."""
        self._write_line(printable(text))

    def log(self, level: str, text: str) -> None:
        """A line of a level; `info` is not named."""
        if level in ("info", "notice"):
            self.say(text)
            return
        colour = _COLOURS.get(level, RED) if self._colour else ""
        self._write_line(f"{painted(f'{printable(level)}:', colour)} {printable(text)}")

    def progress(self, note: Json) -> None:
        """How far it is."""
        if not self._terminal:
            if self._verbose:
                self.say(f"progress: {bar(note, 200)}")
            return
        now = time.monotonic()
        if not self._is_taken or now - self._drawn_at >= DRAW_EVERY_S:
            self._drawn_at = now
            self._is_taken = True
            self._draw(bar(note, get_terminal_size().columns))

    @contextlib.asynccontextmanager
    async def waiting_for(self, server: str) -> AsyncIterator[None]:
        """Say so while the block takes long and nothing else is to be seen; at its end nothing is left."""
        task = asyncio.create_task(self._tell_waiting(server), name="waiting") if self._terminal else None
        try:
            yield
        finally:
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            self.clear()

    async def _tell_waiting(self, server: str) -> None:
        since = time.monotonic()
        while True:
            await asyncio.sleep(WAIT_S)
            if not self._is_taken:
                text = f"waiting for {printable(server)} … {time.monotonic() - since:.0f} s"
                text = text[: max(get_terminal_size().columns - 1, 0)]
                self._draw(painted(text, DIM if self._colour else ""))

    def _draw(self, line: str) -> None:
        self._bar = line
        self._write(f"{CLEAR_LINE}{line}")

    def clear(self) -> None:
        """Nothing is under way any more."""
        self._is_taken = False
        if self._bar:
            self._bar = ""
            self._write(CLEAR_LINE)

    def _write_line(self, line: str) -> None:
        if self._bar:
            self._write(f"{CLEAR_LINE}{line}\n{self._bar}")
        else:
            self._write(f"{line}\n")

    @staticmethod
    def _write(text: str) -> None:
        sys.stderr.write(text.encode("utf-8", "backslashreplace").decode())
        sys.stderr.flush()

    def forget_typed(self) -> None:
        """What was typed before a question was seen is no answer to it."""
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)

    async def ask(self, prompt: str) -> str | None:
        """A line that is typed; None at the end of input (Ctrl-D)."""
        self.clear()
        self._is_taken = True
        try:
            return await self._typed(prompt)
        finally:
            self._is_taken = False

    async def _typed(self, prompt: str) -> str | None:
        self._write(printable(prompt))
        loop = asyncio.get_running_loop()
        stdin = sys.stdin.fileno()
        typed = bytearray()
        while not typed.endswith(b"\n"):
            ready = asyncio.Event()
            loop.add_reader(stdin, ready.set)
            try:
                await ready.wait()
            finally:
                loop.remove_reader(stdin)
            piece = os.read(stdin, 4096)
            typed += piece
            if not piece or len(typed) > MAX_ANSWER_BYTES:
                self._write("\n")
                return None
        return typed.decode("utf-8", "replace").rstrip("\r\n")


class LogsAside(logging.Handler):
    """What our own parts log while a server is visited, as lines on the sideline."""

    def __init__(self, sideline: Sideline) -> None:
        super().__init__()
        self._sideline = sideline

    def emit(self, record: logging.LogRecord) -> None:
        """A line; but for what is told as the error of the command."""
        if getattr(record, "event", None) not in FOR_PEOPLE:
            self._sideline.log(record.levelname.lower(), record.getMessage())

    @contextlib.contextmanager
    def listening(self, level: int) -> Iterator[None]:
        """From that level on, for the time of the block."""
        logger = logging.getLogger("mooring")
        before = logger.level
        logger.setLevel(level)
        logger.addHandler(self)
        try:
            yield
        finally:
            logger.removeHandler(self)
            logger.setLevel(before)
