"""Logs: what they look like, and how they reach stderr without anybody waiting for it.

Records carry what programs want to know in `extra`: an `event`, and its fields. Lines that
a server writes to its stderr come on the logger `mooring.server`, with `server` and `pid`.
"""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from time import localtime, strftime

from mooring.cli.terminal.background import BackgroundHandler
from mooring.cli.terminal.words import DIM, RED, YELLOW, colourful, debugging, painted, printable
from mooring.errors import MooringError, exit_status

__all__ = ["JsonFormat", "TextFormat", "log_failure", "logs_on_stderr"]

SERVER_LOGGER = "mooring.server"
_OF_EVERY_RECORD = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}
_COLOURS = {"debug": DIM, "warning": YELLOW, "error": RED, "critical": RED}


class TextFormat(logging.Formatter):
    """For people: the time, the level if it is not info, the message."""

    def __init__(self, *, colour: bool = False, tracebacks: bool = False) -> None:
        super().__init__()
        self._colour = colour
        self._tracebacks = tracebacks

    def format(self, record: logging.LogRecord) -> str:
        """One line, and the traceback if these are wanted."""
        time = self._paint(strftime("%H:%M:%S", localtime(record.created)), DIM)
        message = printable(record.getMessage())
        if record.name == SERVER_LOGGER:
            prefix = printable(str(getattr(record, "server", "server")))
            return f"{time} {self._paint(f'{prefix} │', DIM)} {message}"
        level = record.levelname.lower()
        colour = _COLOURS.get(level, "")
        line = (
            f"{time} {message}" if level == "info" else f"{time} {self._paint(f'{level}:', colour)} {message}"
        )
        if not record.exc_info or record.exc_info[1] is None:
            return line
        if self._tracebacks:
            # Ours to lay out, but what an exception says may come from outside.
            trace = self.formatException(record.exc_info).split("\n")
            return "\n".join([line, *map(printable, trace)])
        error = record.exc_info[1]
        return f"{line}: {printable(f'{type(error).__name__}: {error}')}"

    def _paint(self, text: str, colour: str) -> str:
        return painted(text, colour if self._colour else "")


class JsonFormat(logging.Formatter):
    """For programs: one object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Always ts, level, logger, event, message; then the fields of `extra`, then `exception`."""
        moment = datetime.fromtimestamp(record.created, UTC)
        line = {
            "ts": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": getattr(record, "event", None),
            "message": record.getMessage(),
        }
        for name, value in vars(record).items():
            if name not in _OF_EVERY_RECORD and name not in line:
                line[name] = value
        if record.exc_info and record.exc_info[1] is not None:
            line["exception"] = self.formatException(record.exc_info)
        import json  # noqa: PLC0415 - for those who want it

        # ASCII, so that nothing in it means anything to a terminal.
        return json.dumps(line, default=str)


@contextmanager
def logs_on_stderr(style: str, level: str) -> Iterator[logging.Logger]:
    """Log to stderr as `text` or `json` from here on; when left, everything is written.

    Everything of ours from `level` on, and warnings of others. MOORING_DEBUG=1 outranks `level`.
    """
    debug = debugging(os.environ)
    handler = BackgroundHandler(sys.stderr.fileno())
    handler.setFormatter(
        JsonFormat()
        if style == "json"
        else TextFormat(colour=colourful(sys.stderr, os.environ), tracebacks=debug)
    )
    root, ours = logging.getLogger(), logging.getLogger("mooring")
    level_before = ours.level
    ours.setLevel(logging.DEBUG if debug else level.upper())
    root.addHandler(handler)
    handler.start()
    try:
        yield ours
    finally:
        root.removeHandler(handler)
        ours.setLevel(level_before)
        handler.close()


def log_failure(log: logging.Logger, error: Exception) -> int:
    """Tell what ended the command as a record, where programs read along; the exit status."""
    if isinstance(error, MooringError):
        log.error(error.message, extra={"event": "failed", "code": error.code, "hint": error.hint})
        return exit_status(error)
    log.critical("%s", error, exc_info=error, extra={"event": "failed", "code": "bug", "hint": ""})
    return 1
