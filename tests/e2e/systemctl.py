#!/usr/bin/env python3
"""As much of `systemctl --user` as `mooring service` needs, where no systemd runs: it acts on the unit.

`start` runs ExecStart with the unit's environment and returns when that has said READY=1; `disable --now`
ends it by SIGTERM and waits. What it knows is in the directory that XDG_RUNTIME_DIR names.
"""

import os
import select
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

CONFIG = Path(os.environ["XDG_CONFIG_HOME"]) / "systemd" / "user"
RUNTIME = Path(os.environ["XDG_RUNTIME_DIR"])
PATIENCE_S = 60.0


def main(words: list[str]) -> int:
    assert words.pop(0) == "--user"
    (RUNTIME / "asked").open("a").write(" ".join(words) + "\n")
    verb, unit = words[0], words[-1]
    enabled, pid = RUNTIME / f"{unit}.enabled", RUNTIME / f"{unit}.pid"
    wanted = CONFIG / "default.target.wants" / unit
    if (RUNTIME / "broken").exists():
        print("Failed to connect to bus: No medium found", file=sys.stderr)
        return 1
    if verb == "enable":
        (CONFIG / unit).read_text()
        enabled.touch()
        wanted.parent.mkdir(exist_ok=True)
        wanted.unlink(missing_ok=True)
        wanted.symlink_to(CONFIG / unit)
    elif verb == "disable":
        enabled.unlink(missing_ok=True)
        wanted.unlink(missing_ok=True)
        stop(pid)
    elif verb == "start" and not runs(pid):
        start(CONFIG / unit, pid)
    elif verb == "is-enabled":
        return 0 if enabled.exists() else 1
    elif verb == "is-active":
        return 0 if runs(pid) else 3
    return 0


def start(unit: Path, pid: Path) -> None:
    lines = [line.partition("=") for line in unit.read_text().splitlines()]
    [command] = [shlex.split(value) for name, _, value in lines if name == "ExecStart"]
    variables = [shlex.split(value)[0].partition("=") for name, _, value in lines if name == "Environment"]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        address = RUNTIME / "notify"
        address.unlink(missing_ok=True)
        told.bind(str(address))
        environment = {name: value for name, _, value in variables}
        environment |= {"HOME": os.environ["HOME"], "NOTIFY_SOCKET": str(address)}
        with (RUNTIME / "journal").open("ab") as journal:
            process = subprocess.Popen(
                command,
                env=environment,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=journal,
                stderr=journal,
                start_new_session=True,
            )
        pid.write_text(str(process.pid))
        ready, _, _ = select.select([told], [], [], PATIENCE_S)
        assert ready and b"READY=1" in told.recv(4096)


def runs(pid: Path) -> bool:
    try:
        stat = Path(f"/proc/{int(pid.read_text())}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"  # ended, and not reaped yet


def stop(pid: Path) -> None:
    if not runs(pid):
        return
    descriptor = os.pidfd_open(int(pid.read_text()))
    signal.pidfd_send_signal(descriptor, signal.SIGTERM)
    assert select.select([descriptor], [], [], PATIENCE_S)[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
