"""Who starts programs at login, and how each is asked: systemd on Linux, launchd on macOS.

Every command is bounded, gets its arguments as words, and what it says goes into the error if it fails.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from mooring.cli.service.files import LABEL, TARGET, UNIT, Service, launchd_agent, systemd_unit
from mooring.errors import Unavailable, UserError

__all__ = ["Launchd", "Manager", "Systemd", "find_manager"]

PATIENCE_S = 60.0
"""For a command of the manager; to stop the service takes as long as its calls do, within its bound."""

NO_SYSTEMD = (
    "the user's systemd must run: log in on the machine itself, not by su or sudo; "
    "in a container there is none, run mooring serve (docs/operations.md)"
)


class Manager(Protocol):
    """Who has the service."""

    name: str
    file: Path

    @property
    def files(self) -> tuple[Path, ...]:
        """All that it finds at login: the file, and what says that it is to be started."""
        ...

    def content(self, service: Service) -> bytes:
        """What the file must say."""
        ...

    def enable(self) -> None:
        """From now on it is started at login. The file is there."""
        ...

    def start(self) -> None:
        """Now, too; returns when the daemon answers, or does not start."""
        ...

    def disable(self) -> None:
        """No more, and it is stopped."""
        ...

    def forget(self) -> None:
        """The file is gone."""
        ...

    def is_enabled(self) -> bool:
        """Is it started at login?"""
        ...

    def is_running(self) -> bool:
        """Is the daemon run by it, now?"""
        ...

    @property
    def advice(self) -> str:
        """What else people want to know."""
        ...


class Systemd:
    """The instance of systemd that every user has."""

    name = "systemd"
    advice = "it ends when you log out, unless you allow it to stay: loginctl enable-linger"

    def __init__(self, environment: Mapping[str, str]) -> None:
        home = environment.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
        self.file = Path(home) / "systemd" / "user" / UNIT

    @property
    def files(self) -> tuple[Path, ...]:
        """See `Manager`."""
        return self.file.parent / f"{TARGET}.wants" / UNIT, self.file

    def content(self, service: Service) -> bytes:
        """See `Manager`."""
        return systemd_unit(service).encode()

    def enable(self) -> None:
        """See `Manager`."""
        _done("systemctl", "--user", "daemon-reload")
        _done("systemctl", "--user", "enable", UNIT)

    def start(self) -> None:
        """See `Manager`."""
        _done("systemctl", "--user", "start", UNIT)

    def disable(self) -> None:
        """See `Manager`."""
        _done("systemctl", "--user", "disable", "--now", UNIT)

    def forget(self) -> None:
        """See `Manager`."""
        _done("systemctl", "--user", "daemon-reload")

    def is_enabled(self) -> bool:
        """See `Manager`."""
        return _run("systemctl", "--user", "is-enabled", "--quiet", UNIT).returncode == 0

    def is_running(self) -> bool:
        """See `Manager`."""
        return _run("systemctl", "--user", "is-active", "--quiet", UNIT).returncode == 0


class Launchd:
    """The agents of a user on macOS."""

    name = "launchd"
    advice = "it ends when you log out"

    def __init__(self) -> None:
        self.file = Path.home() / "Library" / "LaunchAgents" / f"{LABEL}.plist"
        self._domain = f"gui/{os.getuid()}"
        self._service = f"{self._domain}/{LABEL}"

    @property
    def files(self) -> tuple[Path, ...]:
        """See `Manager`."""
        return (self.file,)

    def content(self, service: Service) -> bytes:
        """See `Manager`."""
        return launchd_agent(service)

    def enable(self) -> None:
        """See `Manager`. What is loaded already would be kept as it was."""
        _run("launchctl", "bootout", self._service)
        _done("launchctl", "enable", self._service)

    def start(self) -> None:
        """See `Manager`."""
        _done("launchctl", "bootstrap", self._domain, str(self.file))

    def disable(self) -> None:
        """See `Manager`."""
        _run("launchctl", "bootout", self._service)

    def forget(self) -> None:
        """See `Manager`: it looks at its files at login."""

    def is_enabled(self) -> bool:
        """See `Manager`: what is there is loaded at login."""
        return self.file.exists()

    def is_running(self) -> bool:
        """See `Manager`."""
        told = _run("launchctl", "print", self._service)
        return told.returncode == 0 and "state = running" in told.stdout


def find_manager(environment: Mapping[str, str], platform: str = sys.platform) -> Manager:
    """The one of this system. Raises UserError if there is none."""
    if platform == "darwin":
        return Launchd()
    if shutil.which("systemctl") is None:
        raise UserError(
            "there is no systemd here that could start Mooring at login",
            code="no_service_manager",
            hint="have whatever starts your programs run: mooring serve",
        )
    return Systemd(environment)


def _run(*words: str) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(
            words,
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=PATIENCE_S,
        )
    except FileNotFoundError:
        raise UserError(
            f"there is no {words[0]}", code="no_service_manager", hint="have mooring serve run at login"
        ) from None
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{words[0]} does not answer", code="service_failed", hint="try again") from None


def _done(*words: str) -> None:
    told = _run(*words)
    if told.returncode != 0:
        why = " ".join((told.stderr or told.stdout).split()) or f"exit status {told.returncode}"
        raise Unavailable(
            f"{' '.join(words)} failed: {why}",
            code="service_failed",
            hint=NO_SYSTEMD if words[0] == "systemctl" else "log in on the machine itself",
        )
