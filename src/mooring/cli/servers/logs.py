"""`mooring logs`: what a server said, and what became of it."""

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

import click

from mooring.cli.names import KNOWN_NAME
from mooring.cli.values import Parsed, parse_count, parse_duration
from mooring.errors import UserError

__all__ = ["logs"]

FOLLOW_S = 0.2
EXAMPLES = """\
\b
Examples:
  mooring logs time
  mooring logs -f --since 10m time
  mooring logs -f -n 20 time
"""


@click.command(short_help="Show what a server said, and what became of it.", epilog=EXAMPLES)
@click.argument("name", type=KNOWN_NAME)
@click.option("-n", "--tail", type=Parsed("n", parse_count), metavar="N", help="Only the last N lines.")
@click.option("-f", "--follow", is_flag=True, help="Go on as more is written, until Ctrl-C.")
@click.option(
    "--since", type=Parsed("time", parse_duration), help="Only what was written so long ago, or later."
)
def logs(name: str, tail: int | None, follow: bool, since: float | None) -> None:
    """Show the log of a server: its stderr, its restarts, its sessions. Times are UTC."""
    from mooring.host.places import find_places  # noqa: PLC0415

    path = find_places(os.environ).logs / f"{name}.log"
    if not path.exists():
        raise UserError(
            f"there is no log of a server named {name}", code="unknown_server", hint="mooring ls lists all"
        )
    oldest = "" if since is None else datetime.fromtimestamp(time.time() - since, UTC).isoformat()
    earlier = [
        line
        for older in sorted(path.parent.glob(f"{name}.log.*"), reverse=True)
        for line in older.read_text(encoding="utf-8", errors="replace").splitlines()
    ]
    try:
        for lines in _lines_of(path, follow=follow):
            shown = [line for line in (*earlier, *lines) if line >= oldest]
            shown = shown if tail is None else _last(shown, tail)
            click.echo("".join(f"{line}\n" for line in shown), nl=False)
            earlier, tail = [], None  # all that is added later is new
    except KeyboardInterrupt:
        if not follow:  # otherwise that is how one stops looking
            raise


def _last(lines: list[str], number: int) -> list[str]:
    return lines[-number:] if number else []


def _lines_of(path: Path, *, follow: bool) -> Iterator[list[str]]:
    """What is in the file, and then what is added; also when it is put aside and begun anew."""
    file: TextIO = path.open(encoding="utf-8", errors="replace")
    try:
        yield [line.rstrip("\n") for line in file.readlines()]
        while True:
            if lines := file.readlines():
                yield [line.rstrip("\n") for line in lines]
            elif not follow:
                return
            elif (anew := _begun_anew(path, file)) is not None:
                # What was added to the old one after we looked, and before it was put aside.
                yield [line.rstrip("\n") for line in file.readlines()]
                file.close()
                file = anew
            else:
                time.sleep(FOLLOW_S)
    finally:
        file.close()


def _begun_anew(path: Path, file: TextIO) -> TextIO | None:
    """The file that is there now, if it is another one."""
    try:
        if path.stat().st_ino == os.fstat(file.fileno()).st_ino:
            return None
        return path.open(encoding="utf-8", errors="replace")
    except FileNotFoundError:  # between the two
        return None
