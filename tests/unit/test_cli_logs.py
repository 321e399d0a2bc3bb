"""What logs look like, and that nobody waits for them."""

import io
import json
import logging
import os
import sys
import threading
import time

import pytest

from mooring.cli.terminal import output
from mooring.cli.terminal.background import BackgroundHandler
from mooring.cli.terminal.output import JsonFormat, TextFormat
from mooring.cli.terminal.words import colourful, debugging, printable
from tests.support import PATIENCE_S

MOMENT = 1_794_918_896.789  # 2026-11-17 12:34:56.789 UTC


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def record(
    message: str, *args: object, level: int = logging.INFO, name: str = "mooring.session", **extra: object
) -> logging.LogRecord:
    made = logging.LogRecord(name, level, __file__, 1, message, args, extra.pop("exc_info", None))  # type: ignore[arg-type]
    made.created = MOMENT
    vars(made).update(extra)
    return made


def failure() -> logging.LogRecord:
    try:
        raise ValueError("bad\x1b[2J")
    except ValueError:
        return record("it broke", level=logging.ERROR, exc_info=sys.exc_info())


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (record("session %s opened", "ab12", event="session_opened"), "12:34:56 session ab12 opened"),
        (record("slow", level=logging.WARNING), "12:34:56 warning: slow"),
        (record("gone", level=logging.ERROR), "12:34:56 error: gone"),
        (record("detail", level=logging.DEBUG), "12:34:56 debug: detail"),
        (record("hello", name="mooring.server", server="time", pid=7), "12:34:56 time │ hello"),
        (record("", name="mooring.server", server="time", pid=7), "12:34:56 time │ "),
        (
            record("x\x1b]0;evil\x07\r\n\ty\x9b\u202e", name="mooring.server", server="t"),
            "12:34:56 t │ x\\x1b]0;evil\\x07\\r\\n\ty\\x9b\\u202e",
        ),
        (record("two\nlines"), "12:34:56 two\\nlines"),
        (failure(), "12:34:56 error: it broke: ValueError: bad\\x1b[2J"),
    ],
)
def test_text(made: logging.LogRecord, text: str) -> None:
    assert TextFormat().format(made) == text


def test_text_with_colours() -> None:
    look = TextFormat(colour=True)
    assert look.format(record("hi")) == "\x1b[2m12:34:56\x1b[0m hi"
    assert look.format(record("hi", level=logging.ERROR)) == "\x1b[2m12:34:56\x1b[0m \x1b[31merror:\x1b[0m hi"
    line = look.format(record("hi", name="mooring.server", server="time"))
    assert line == "\x1b[2m12:34:56\x1b[0m \x1b[2mtime │\x1b[0m hi"


def test_text_with_tracebacks() -> None:
    lines = TextFormat(tracebacks=True).format(failure()).split("\n")
    assert lines[:2] == ["12:34:56 error: it broke", "Traceback (most recent call last):"]
    assert lines[-1] == "ValueError: bad\\x1b[2J"


def test_json() -> None:
    made = record("session %s opened", "é\x1b", event="session_opened", session="ab12", pid=7, exit=None)
    line = JsonFormat().format(made)
    assert line == (
        '{"ts": "2026-11-17T12:34:56.789Z", "level": "info", "logger": "mooring.session", '
        '"event": "session_opened", "message": "session \\u00e9\\u001b opened", '
        '"session": "ab12", "pid": 7, "exit": null}'
    )


def test_json_of_anything_else() -> None:
    made = json.loads(JsonFormat().format(record("plain", path=os.path)))
    assert made["event"] is None
    assert made["path"] == str(os.path)
    told = JsonFormat().format(failure())
    assert "\n" not in told
    assert json.loads(told)["exception"].endswith("ValueError: bad\x1b[2J")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("日本\t🛟", "日本\t🛟"),
        ("👩\u200d👧", "👩\u200d👧"),
        ("\x00\x7f", "\\x00\\x7f"),
        ("a\u200eb\u202ec\u200bd", "a\\u200eb\\u202ec\\u200bd"),
    ],
)
def test_printable(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_what_the_environment_says() -> None:
    assert debugging({"MOORING_DEBUG": "1"})
    assert not any(debugging(environ) for environ in ({}, {"MOORING_DEBUG": ""}, {"MOORING_DEBUG": "0"}))

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    assert colourful(Terminal(), {})
    assert not colourful(io.StringIO(), {})
    assert not colourful(Terminal(), {"NO_COLOR": "1"})
    assert not colourful(Terminal(), {"TERM": "dumb"})


class Pipe:
    """A stderr, and whoever reads it."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()

    def read_all(self) -> bytes:
        os.close(self.writer)
        data = b""
        while chunk := os.read(self.reader, 1 << 20):
            data += chunk
        os.close(self.reader)
        return data


def test_everything_is_written_by_the_time_it_is_closed() -> None:
    pipe = Pipe()
    handler = BackgroundHandler(pipe.writer)
    handler.setFormatter(logging.Formatter("%(message)s"))
    handler.start()
    for number in range(1000):
        handler.emit(record("%d \ud800", number))
    handler.close()
    assert pipe.read_all().decode().splitlines() == [f"{number} \\ud800" for number in range(1000)]


@pytest.mark.parametrize("blocking", [True, False])
def test_a_reader_that_stops_costs_lines_but_nobody_waits(blocking: bool) -> None:
    pipe = Pipe()
    os.set_blocking(pipe.writer, blocking)
    handler = BackgroundHandler(pipe.writer, limit_bytes=50_000, patience_s=PATIENCE_S)
    handler.setFormatter(TextFormat())
    handler.start()
    for _ in range(10_000):
        handler.emit(record("x" * 90))  # a pipe holds 64 KiB: without a reader, this would never end
    read: list[bytes] = []
    reading = threading.Thread(target=lambda: read.append(_read_until_told(pipe.reader)))
    reading.start()
    handler.close()
    os.close(pipe.writer)
    reading.join()
    os.close(pipe.reader)
    lines = read[0].decode().splitlines()
    told = [line for line in lines if "log lines were dropped" in line]
    dropped = sum(int(line.split("warning: ")[1].split()[0]) for line in told)
    assert dropped > 0
    assert len(lines) - len(told) + dropped == 10_000


def _read_until_told(descriptor: int) -> bytes:
    data = b""
    while chunk := os.read(descriptor, 1 << 20):
        data += chunk
    return data


def test_closing_does_not_wait_for_ever() -> None:
    pipe = Pipe()
    handler = BackgroundHandler(pipe.writer, patience_s=0.01)
    handler.setFormatter(TextFormat())
    handler.start()
    for _ in range(2000):
        handler.emit(record("x" * 90))
    handler.close()
    os.close(pipe.reader)  # lets the thread end, with EPIPE
    handler._thread.join(PATIENCE_S)
    os.close(pipe.writer)


def test_a_record_that_cannot_be_formatted_hurts_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    pipe = Pipe()
    handler = BackgroundHandler(pipe.writer)
    handler.start()
    handler.emit(record("%d", "not a number"))
    handler.emit(record("fine"))
    handler.close()
    assert pipe.read_all() == b"fine\n"


def test_levels(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    ours, other = logging.getLogger("mooring.test"), logging.getLogger("elsewhere")

    def said(level: str) -> list[str]:
        with output.logs_on_stderr("text", level):
            for logger in (ours, other):
                logger.debug("debug of %s", logger.name)
                logger.info("info of %s", logger.name)
                logger.error("error of %s", logger.name)
        return [line.split(" ", 1)[1] for line in capfd.readouterr().err.splitlines()]

    monkeypatch.setattr(sys, "stderr", sys.__stderr__)
    monkeypatch.delenv("MOORING_DEBUG", raising=False)
    assert said("info") == [
        "info of mooring.test",
        "error: error of mooring.test",
        "error: error of elsewhere",
    ]
    assert said("error") == ["error: error of mooring.test", "error: error of elsewhere"]
    monkeypatch.setenv("MOORING_DEBUG", "1")
    assert said("error")[0] == "debug: debug of mooring.test"
    assert logging.getLogger("mooring").level == logging.NOTSET


def test_a_disk_that_was_full_is_written_to_again() -> None:
    pipe = Pipe()
    stderr = os.open("/dev/full", os.O_WRONLY)
    handler = BackgroundHandler(stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    handler.start()
    handler.emit(record("no room for this"))
    give_up_at = time.monotonic() + PATIENCE_S
    while handler._waiting_bytes and time.monotonic() < give_up_at:
        time.sleep(0.001)
    os.dup2(pipe.writer, stderr)
    handler.emit(record("room again"))
    handler.close()
    os.close(stderr)
    assert pipe.read_all() == b"room again\n"
