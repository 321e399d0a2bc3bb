"""A command on a terminal: what a person sees who types it."""

import os
import pty
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.e2e.test_daemon_command import MOORING

__all__ = ["on_terminal"]


def on_terminal(
    environment: Mapping[str, str],
    *words: str,
    answer: bytes = b"",
    columns: int = 80,
    folder: Path | None = None,
) -> tuple[int, str]:
    """Its exit status, and all that it wrote. `answer` is typed at once."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [MOORING, *words],
        cwd=folder,
        env={**environment, "COLUMNS": str(columns), "LINES": "40", "TERM": "xterm"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ) as command:
        os.close(theirs)
        os.write(ours, answer)
        seen = b""
        try:
            while piece := os.read(ours, 65536):
                seen += piece
        except OSError:  # that is how the end of a terminal is told
            pass
        finally:
            os.close(ours)
    return command.returncode, seen.decode().replace("\r\n", "\n")
