"""The file by which the system starts the daemon at login: a systemd user unit, or a launchd agent.

Pure. The daemon gets the few variables that say where it is; servers have theirs from `mooring run`.
"""

import plistlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

__all__ = ["LABEL", "TARGET", "UNIT", "Service", "is_ours", "launchd_agent", "service_for", "systemd_unit"]

UNIT = "mooring.service"
TARGET = "default.target"
LABEL = "dev.mooring.daemon"
PASSED_ON = ("MOORING_STATE_DIR", "MOORING_PORT", "XDG_STATE_HOME")
SIGNATURE = "# Written by `mooring service install`"
STOP_S = 40
"""For the daemon to end: its drain time-out, and time to stop servers that do not want to."""


class Service(NamedTuple):
    """What is to be run."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    log: Path
    """Where launchd puts what the daemon says; systemd has a journal."""


def service_for(python: str, environment: Mapping[str, str], log: Path) -> Service:
    """The daemon of this very installation, with the places that are in force now."""
    passed_on = {name: environment[name] for name in PASSED_ON if environment.get(name)}
    return Service((python, "-m", "mooring", "serve", "--detached"), passed_on, log)


def systemd_unit(service: Service) -> str:
    """A user unit. Raises ValueError if there is a line break in what it must say."""
    command = " ".join(_word(argument.replace("$", "$$")) for argument in service.argv)
    variables = "".join(f"Environment={_word(f'{k}={v}')}\n" for k, v in service.environment.items())
    return f"""\
{SIGNATURE}; `mooring service uninstall` removes it.
[Unit]
Description=Mooring, which keeps MCP servers reachable
StartLimitIntervalSec=60
StartLimitBurst=5

[Service]
Type=notify
ExecStart={command}
{variables}Restart=on-failure
RestartSec=1
# Only the daemon is told to end: it lets calls finish, then stops its servers itself.
KillMode=mixed
TimeoutStopSec={STOP_S}
UMask=0077

[Install]
WantedBy={TARGET}
"""


def _word(text: str) -> str:
    """As systemd reads it: nothing in it means anything."""
    if "\n" in text or "\r" in text:
        raise ValueError(f"a unit cannot hold a line break: {text!r}")
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


def is_ours(content: bytes) -> bool:
    """Does a file say that Mooring has written it?"""
    return content.startswith(SIGNATURE.encode()) or f"<string>{LABEL}</string>".encode() in content


def launchd_agent(service: Service) -> bytes:
    """A property list for launchd."""
    return plistlib.dumps(
        {
            "Label": LABEL,
            "ProgramArguments": list(service.argv),
            "EnvironmentVariables": dict(service.environment),
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "ExitTimeOut": STOP_S,
            # Only the daemon is told to end: it stops its servers itself.
            "AbandonProcessGroup": True,
            "ProcessType": "Background",
            "StandardOutPath": str(service.log),
            "StandardErrorPath": str(service.log),
        }
    )
