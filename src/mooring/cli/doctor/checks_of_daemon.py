"""What `mooring doctor` looks at around the daemon: whether it answers, its version, port and servers."""

import fcntl
import os
import socket
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from mooring import __version__
from mooring.api.client import ApiClient, NotRunning
from mooring.cli.doctor.findings import Finding, Level
from mooring.cli.servers.telling import state_in_words
from mooring.cli.servers.waiting import HINDERED
from mooring.errors import MooringError
from mooring.host.harbouring import containers_left
from mooring.host.neighbours import advice
from mooring.host.ownership import holder
from mooring.host.places import Places
from mooring.http.port_owner import port_owner
from mooring.runtimes.leftovers import find_leftovers
from mooring.runtimes.roll import Roll, boot_id

__all__ = ["Daemon", "check_daemon", "check_leftovers", "check_port", "check_servers", "find_daemon"]

PATIENCE_S = 5.0


class Daemon(NamedTuple):
    """The daemon, as it is found once for all checks."""

    about: dict[str, Any] | None
    """What it says of itself; None: nobody says anything."""
    is_there: bool
    """It answers, or should and does not."""


def find_daemon(places: Places) -> Daemon:
    """Ask; blocks for PATIENCE_S at most."""
    try:
        return Daemon(ApiClient(places.socket).ask("GET", "/daemon", timeout_s=PATIENCE_S), is_there=True)
    except NotRunning:
        return Daemon(None, is_there=_is_locked(places))
    except MooringError:
        return Daemon(None, is_there=True)


def check_daemon(places: Places, daemon: Daemon) -> Iterator[Finding]:
    """Does it run and answer, and is it of this version?"""
    about = daemon.about
    if about is None and daemon.is_there:
        yield _silent(places)
    elif about is None:
        yield Finding(
            "daemon",
            Level.NOTE,
            "it does not run",
            "mooring daemon start brings back your servers; mooring service install does so at every login",
        )
    elif about["version"] != __version__:
        yield Finding(
            "daemon",
            Level.PROBLEM,
            f"it runs version {about['version']}, this command is {__version__}",
            "mooring daemon restart: this version takes over, and nothing is lost",
        )
    else:
        yield Finding("daemon", Level.OK, f"it runs as pid {about['pid']}, version {about['version']}")


def _silent(places: Places) -> Finding:
    pid = holder(places.lock).get("pid", "unknown")
    return Finding(
        "daemon",
        Level.PROBLEM,
        f"it runs (pid {pid}) and does not answer",
        f"if it was suspended: kill -CONT {pid}; if it hangs: kill -9 {pid}, then mooring daemon start, "
        f"which brings everything back. {places.log} may say why",
    )


def _is_locked(places: Places) -> bool:
    try:
        descriptor = os.open(places.lock, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def check_port(places: Places, daemon: Daemon, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Is the port that it has the wanted one; or, while it does not run, can it be had?"""
    if daemon.about is not None:
        yield _port_of(daemon.about["port"], places.port, asked="MOORING_PORT" in environment)
    if daemon.is_there:
        return
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", places.port))
            probe.listen(1)
        except OSError as error:
            owner = port_owner(places.port)
            yield Finding(
                "port",
                Level.PROBLEM,
                f"port {places.port} cannot be had: {f'{owner} listens there' if owner else error.strerror}",
                advice(places.port),
            )
            return
    yield Finding("port", Level.OK, f"port {places.port} is free" if places.port else "any port will do")


def _port_of(port: int, wanted: int, *, asked: bool) -> Finding:
    if asked and wanted not in (0, port):
        return Finding(
            "port",
            Level.NOTE,
            f"the daemon listens on port {port}, MOORING_PORT says {wanted}",
            "MOORING_PORT counts when the daemon is started: mooring daemon stop && mooring daemon start",
        )
    return Finding("port", Level.OK, f"the daemon listens on 127.0.0.1:{port}")


def check_servers(places: Places, daemon: Daemon) -> Iterator[Finding]:
    """Those that do not work."""
    if daemon.about is None:
        return
    servers = ApiClient(places.socket).ask("GET", "/servers", timeout_s=PATIENCE_S)
    troubled = [server for server in servers if _is_troubled(server)]
    for server in troubled:
        remedy = server["hint"] or f"mooring logs {server['name']} has what it said"
        yield Finding("servers", Level.PROBLEM, f"{server['name']} is {state_in_words(server)}", remedy)
    if not troubled:
        yield Finding("servers", Level.OK, f"{len(servers)} known, none in trouble")


def _is_troubled(server: dict[str, Any]) -> bool:
    return server["state"] in ("failed", "backoff") or server["reason"] in HINDERED


def check_leftovers(places: Places, daemon: Daemon) -> Iterator[Finding]:
    """Processes and containers of a daemon that was killed. While one runs they are its own."""
    if daemon.is_there:
        return
    left = find_leftovers(Roll(places.roll, boot_id()))
    for leftover in left:
        pids = ", ".join(map(str, leftover.pids))
        yield Finding(
            "leftovers",
            Level.PROBLEM,
            f"a daemon that was killed has left processes of {leftover.name}: pid {pids}",
            "the next daemon ends them: mooring daemon start",
        )
    containers, silent = containers_left(places)
    for where in silent:
        text = f"the container engine at {where} does not answer: what may be left there cannot be seen"
        yield Finding("leftovers", Level.NOTE, text, "start it, and look again")
    for container in containers:
        yield Finding(
            "leftovers",
            Level.PROBLEM,
            f"a daemon that was killed has left container {container.id[:12]} of {container.name}",
            "the next daemon removes it: mooring daemon start",
        )
    if not left and not containers and not silent:
        yield Finding("leftovers", Level.OK, "no process and no container is left of an earlier daemon")
