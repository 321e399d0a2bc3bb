"""What a client's file looks like before an entry, with it, and without it again.

Each client has a folder in `tests/unit/golden_clients`, with files as that client has them:

    before.*    written by hand: a file as people have it
    after.*     the same with our entry
    removed.*   without it again, where that is not `before` to the byte
    new.*       where there was no file

`paths.txt` beside them has every path of every client on every platform.

    python -m tests.clients_golden --write

makes all of it but `before`. What it made is to be read before it is kept: the tests only say that nothing
has changed since.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import NamedTuple

from mooring.clients.client import Client
from mooring.clients.detecting import candidates
from mooring.clients.entries import Target, entry_for
from mooring.clients.machine import Machine, Platform
from mooring.clients.table import load_table

__all__ = ["FOLDER", "HOMES", "PATHS", "TARGET", "Golden", "all_paths", "goldens"]

FOLDER = Path(__file__).parent / "unit/golden_clients"
PATHS = FOLDER / "paths.txt"
HOMES = {
    Platform.LINUX: Path("/home/ada"),
    Platform.MACOS: Path("/Users/ada"),
    Platform.WINDOWS: Path("C:/Users/ada"),
}
TARGET = Target("time", "http://127.0.0.1:4670/time/mcp", ("/home/ada/.local/bin/mooring", "stdio", "time"))


class Golden(NamedTuple):
    """The folder of one client."""

    client: Client
    folder: Path

    def file(self, stem: str) -> Path | None:
        """The file of that name, if there is one."""
        found = sorted(self.folder.glob(f"{stem}.*"))
        return found[0] if found else None

    def made(self) -> dict[str, bytes]:
        """What the files are by the code of now, by their stems."""
        editor, section = self.client.editor, self.client.section
        entry = entry_for(self.client, TARGET)
        result = {"new": editor.put(b"", section, TARGET.name, entry)}
        if file := self.file("before"):
            before = file.read_bytes()
            result["after"] = editor.put(before, section, TARGET.name, entry)
            removed = editor.remove(result["after"], section, TARGET.name)
            result |= {} if removed == before else {"removed": removed}
        return result


def goldens() -> list[Golden]:
    """Of every client, whether there is a folder or not."""
    return [Golden(client, FOLDER / client.id) for client in load_table().values()]


def all_paths() -> str:
    """Every path, one on a line: of which client, where, and what it is to it."""
    lines = (
        f"{client.id} {where} {path.as_posix()}\n"
        for client in load_table().values()
        for where, path in _paths(client)
    )
    return "".join(lines)


def _paths(client: Client) -> Iterator[tuple[str, PurePath]]:
    for platform, home in HOMES.items():
        machine = Machine(platform, home, {})
        yield from ((platform, path) for path in candidates(client, machine))
        old = machine.paths([place.file for place in client.legacy])
        yield from ((f"{platform} old", path) for path in old)
    machine = Machine(Platform.LINUX, HOMES[Platform.LINUX], {})
    project = client.project.files if client.project else ()
    yield from (("project", path) for path in machine.paths(project, Path("/project")))


def _ending(golden: Golden) -> str:
    if before := golden.file("before"):
        return before.suffix
    machine = Machine(Platform.MACOS, HOMES[Platform.MACOS], {})
    named = [path.suffix for path in candidates(golden.client, machine)]
    return named[0] if named else f".{golden.client.format}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.clients_golden", description=__doc__)
    parser.add_argument("--write", action="store_true", help="make all files but `before` anew")
    if not parser.parse_args().write:
        print(all_paths(), end="")
        return
    PATHS.write_text(all_paths())
    for golden in goldens():
        golden.folder.mkdir(exist_ok=True)
        for stem in ("new", "after", "removed"):
            if file := golden.file(stem):
                file.unlink()
        for stem, data in golden.made().items():
            (golden.folder / f"{stem}{_ending(golden)}").write_bytes(data)


if __name__ == "__main__":
    main()
