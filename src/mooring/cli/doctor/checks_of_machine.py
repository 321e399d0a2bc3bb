"""What `mooring doctor` looks at that needs no daemon: files, disk, clock, programs, limits."""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from mooring import __version__
from mooring.cli.doctor.findings import Finding, Level
from mooring.host.places import Places
from mooring.secrets.vault import Vault
from mooring.store.database import DAMAGED, FILE_NAME
from mooring.store.peek import look_for_damage
from mooring.store.schema import NEWEST

__all__ = [
    "check_clock",
    "check_commands",
    "check_desktop_path",
    "check_disk",
    "check_files",
    "check_limits",
    "check_programs",
    "check_secrets",
    "check_state",
]

LITTLE_BYTES = 100 * 1024 * 1024
TOO_LITTLE_BYTES = 10 * 1024 * 1024
CLOCK_SLACK_S = 120.0
FEW_DESCRIPTORS = 1024
PATIENCE_S = 3.0
"""For a program that is asked something."""
USUAL_PATH = "/usr/local/bin:/usr/bin:/bin"
"""What programs get that are started from a desktop, if nothing else is known."""
LAUNCHERS = {
    "uvx": "servers from PyPI (--from uvx:…) need it: pip install uv",
    "npx": "servers from npm (--from npx:…) need it, it comes with Node.js: https://nodejs.org",
    "node": "servers written in JavaScript need it: https://nodejs.org",
}


def check_files(places: Places) -> Iterator[Finding]:
    """The state directory: there, ours, nobody else's to read, and can be written."""
    state = places.state
    elsewhere = "set MOORING_STATE_DIR to another directory"
    if not state.exists():
        if why := _cannot_be_made(state):
            text = f"{state} is not there and cannot be made: {why}"
            yield Finding("files", Level.PROBLEM, text, f"make it yourself, or {elsewhere}")
        else:
            yield Finding("files", Level.OK, f"{state} is made when it is needed")
        return
    if not state.is_dir():
        yield Finding("files", Level.PROBLEM, f"{state} is no directory", f"move it away, or {elsewhere}")
        return
    about = state.stat()
    if about.st_uid != os.getuid():
        yield Finding(
            "files",
            Level.PROBLEM,
            f"{state} belongs to somebody else",
            "set MOORING_STATE_DIR to a directory that is yours",
        )
    elif not os.access(state, os.R_OK | os.W_OK | os.X_OK) or os.statvfs(state).f_flag & os.ST_RDONLY:
        yield Finding(
            "files",
            Level.PROBLEM,
            f"{state} cannot be written",
            f"chmod u+rwx {state}; or {elsewhere}",
        )
    elif open_to_others := [path for path in (state, *sorted(state.iterdir())) if _mode(path) & 0o077]:
        names = ", ".join(map(str, open_to_others))
        deed = "change" if any(_mode(path) & 0o022 for path in open_to_others) else "read"
        text = f"others can {deed} what is yours: {names}"
        yield Finding("files", Level.PROBLEM, text, f"chmod -R go= {state}")
    else:
        yield Finding("files", Level.OK, f"{state} is yours alone")


def _cannot_be_made(directory: Path) -> str:
    """Why; empty if it can. Only who tries knows: not every file system says what it takes."""
    nearest = next(parent for parent in directory.parents if parent.exists())
    try:
        Path(tempfile.mkdtemp(prefix=".mooring-", dir=nearest)).rmdir()
    except OSError as error:
        return f"{nearest} takes no directory ({error.strerror})"
    return ""


def _mode(path: Path) -> int:
    return 0 if path.is_symlink() else path.stat().st_mode


def check_state(places: Places) -> Iterator[Finding]:
    """The database: readable, whole, of a version that we know. Reading never writes."""
    path = places.state / FILE_NAME
    for aside in sorted(places.state.glob(f"{DAMAGED}*")):
        if not aside.name.endswith(("-wal", "-shm")):
            yield Finding(
                "state",
                Level.NOTE,
                f"a damaged state was put aside: {aside.name}",
                f"add the servers that are missing with mooring run, then remove it: rm {aside}*",
            )
    if not path.exists():
        yield Finding("state", Level.OK, "nothing is written down yet")
        return
    version, problem = look_for_damage(places.state)
    if problem:
        yield Finding(
            "state",
            Level.PROBLEM,
            f"{path} is damaged: {problem}",
            "mooring daemon stop && mooring daemon start: it is kept aside and a new one begun; "
            "then add your servers again with mooring run",
        )
    elif version > NEWEST:
        yield Finding(
            "state",
            Level.PROBLEM,
            f"{path} was written by a newer Mooring than this one ({__version__})",
            "upgrade Mooring, or set MOORING_STATE_DIR to another directory",
        )
    else:
        yield Finding("state", Level.OK, f"{path.name} is whole")


def check_secrets(places: Places) -> Iterator[Finding]:
    """What `mooring secret` keeps: whole, of a version that we know."""
    if not places.state.is_dir():
        return
    for aside in sorted(places.state.glob(f"{places.secrets.name}.damaged-*")):
        yield Finding(
            "secrets",
            Level.NOTE,
            f"damaged secrets were put aside: {aside.name}",
            f"set again what is missing with mooring secret set NAME, then remove it: rm {aside}",
        )
    kept = Vault(places.secrets).all()  # whose errors say what to do
    yield Finding("secrets", Level.OK, f"{len(kept)} kept")


def check_disk(places: Places) -> Iterator[Finding]:
    """Room for logs and state."""
    where = next(path for path in (places.state, *places.state.parents) if path.exists())
    about = os.statvfs(where)
    free = about.f_bavail * about.f_frsize
    text = f"{free / 1e6:,.0f} MB are free where {where} is"
    remedy = "make room there, or set MOORING_STATE_DIR to another disk"
    if free < TOO_LITTLE_BYTES or (about.f_files and not about.f_favail):
        what = text if free < TOO_LITTLE_BYTES else f"no file can be added where {where} is"
        yield Finding("disk", Level.PROBLEM, what, remedy)
    elif free < LITTLE_BYTES:
        yield Finding("disk", Level.NOTE, text, remedy)
    else:
        yield Finding("disk", Level.OK, text)


def check_clock(places: Places, now: float | None = None) -> Iterator[Finding]:
    """A clock that was set back makes events and sessions seem to come from the future."""
    moment = time.time() if now is None else now
    newest = max((path.stat().st_mtime for path in _dated(places)), default=0.0)
    if newest > moment + CLOCK_SLACK_S:
        ahead = (newest - moment) / 60
        yield Finding(
            "clock",
            Level.PROBLEM,
            f"the clock is behind: Mooring's files were written {ahead:,.0f} minutes from now",
            "set the clock (timedatectl set-ntp true); if it is right, that corrects itself with time",
        )
    else:
        yield Finding("clock", Level.OK, "the clock is not behind Mooring's files")


def _dated(places: Places) -> Iterator[Path]:
    yield Path(__file__)
    yield from (path for path in (places.state / FILE_NAME, places.lock, places.log) if path.exists())


def check_programs(environment: Mapping[str, str]) -> Iterator[Finding]:
    """What servers are usually started with."""
    path = environment.get("PATH", "")
    missing = [name for name in LAUNCHERS if shutil.which(name, path=path) is None]
    for name in missing:
        yield Finding("programs", Level.NOTE, f"{name} is not on your PATH", LAUNCHERS[name])
    if not missing:
        yield Finding("programs", Level.OK, f"{', '.join(LAUNCHERS)} are on your PATH")


def check_commands(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Is `mooring` on the PATH this one?"""
    ours = Path(sys.executable).parent
    found = shutil.which("mooring", path=environment.get("PATH", ""))
    if found is None:
        yield Finding(
            "command",
            Level.NOTE,
            "mooring is not on your PATH",
            f'export PATH="{ours}:$PATH"',
        )
    elif Path(found).parent.resolve() != ours.resolve():
        yield Finding(
            "command",
            Level.NOTE,
            f"the mooring on your PATH ({found}) is not of this installation ({ours})",
            "remove one of the two, or put the right one first on your PATH",
        )
    else:
        yield Finding("command", Level.OK, f"{found}, version {__version__}")


def check_desktop_path(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Clients that are started from a desktop see another PATH than a terminal does."""
    path = _desktop_path()
    hidden = [
        name
        for name in ("mooring", *LAUNCHERS)
        if shutil.which(name, path=environment.get("PATH", "")) and not shutil.which(name, path=path)
    ]
    if not hidden:
        yield Finding("desktop", Level.OK, "programs started from a desktop find what your terminal finds")
        return
    example = shutil.which(hidden[0], path=environment.get("PATH", ""))
    yield Finding(
        "desktop",
        Level.NOTE,
        f"clients started from a desktop do not find {', '.join(hidden)}: their PATH is {path}",
        f"give such clients a URL, or in their configuration the full path: {example}. "
        "Servers of the daemon have the PATH of the terminal that ran them",
    )


def _desktop_path() -> str:
    """As systemd has it, which starts desktops; macOS gives all of them the same."""
    if sys.platform == "darwin":
        return "/usr/bin:/bin:/usr/sbin:/sbin"
    try:
        told = subprocess.run(
            ["systemctl", "--user", "show-environment"],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=PATIENCE_S,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        told = ""
    found = [line.removeprefix("PATH=") for line in told.splitlines() if line.startswith("PATH=")]
    return found[0] if found else USUAL_PATH


def check_limits() -> Iterator[Finding]:
    """Open files: each session with a process needs a few."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < FEW_DESCRIPTORS:
        yield Finding(
            "limits",
            Level.NOTE,
            f"at most {hard} files may be open: that is for about {hard // 10} sessions",
            "raise the hard limit: ulimit -Hn, or LimitNOFILE= of a service",
        )
    else:
        yield Finding("limits", Level.OK, "enough files may be open")
