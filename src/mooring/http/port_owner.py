"""Who holds a TCP port? Read from Linux's /proc; elsewhere, and where we may not look, nobody knows."""

import os
from pathlib import Path

__all__ = ["port_owner"]

LISTENING = "0A"
PROC = Path("/proc")


def port_owner(port: int, proc: Path = PROC) -> str:
    """The program that listens on `port`, as `pid 123 (node)`; empty if that cannot be seen."""
    inodes = {inode for table in ("tcp", "tcp6") for inode in _listening_inodes(proc / "net" / table, port)}
    if not inodes:
        return ""
    wanted = {f"socket:[{inode}]" for inode in inodes}
    for process in proc.iterdir():
        if process.name.isdigit() and _holds_one_of(process / "fd", wanted):
            if int(process.name) == os.getpid():
                return "this process itself"
            return f"pid {process.name} ({_program(process)})"
    return ""


def _listening_inodes(table: Path, port: int) -> list[str]:
    """Inodes of sockets that listen on `port`; columns: number, local, remote, state, …, inode."""
    try:
        lines = table.read_text().splitlines()[1:]
    except OSError:
        return []
    rows = [line.split() for line in lines]
    return [row[9] for row in rows if row[3] == LISTENING and int(row[1].rpartition(":")[2], 16) == port]


def _holds_one_of(descriptors: Path, wanted: set[str]) -> bool:
    try:
        names = list(descriptors.iterdir())
    except OSError:
        return False
    for name in names:
        try:
            if os.readlink(name) in wanted:  # noqa: PTH115 - `socket:[1]` is not a path
                return True
        except OSError:
            continue
    return False


def _program(process: Path) -> str:
    try:
        return (process / "comm").read_text().strip()
    except OSError:
        return "unknown"
