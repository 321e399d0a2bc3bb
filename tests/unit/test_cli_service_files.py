"""The file of the service: what it says, and that nothing in it is taken for something else."""

import plistlib
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.cli.service.files import LABEL, Service, launchd_agent, service_for, systemd_unit

SERVICE = service_for(
    "/opt/my python/bin/python3",
    {"MOORING_PORT": "4680", "MOORING_STATE_DIR": "", "PATH": "/bin", "TOKEN": "canary"},
    Path("/home/u/log"),
)

GOLDEN = """\
# Written by `mooring service install`; `mooring service uninstall` removes it.
[Unit]
Description=Mooring, which keeps MCP servers reachable
StartLimitIntervalSec=60
StartLimitBurst=5

[Service]
Type=notify
ExecStart="/opt/my python/bin/python3" "-m" "mooring" "serve" "--detached"
Environment="MOORING_PORT=4680"
Restart=on-failure
RestartSec=1
# Only the daemon is told to end: it lets calls finish, then stops its servers itself.
KillMode=mixed
TimeoutStopSec=40
UMask=0077

[Install]
WantedBy=default.target
"""


def test_a_unit() -> None:
    assert systemd_unit(SERVICE) == GOLDEN


def test_an_agent() -> None:
    agent = plistlib.loads(launchd_agent(SERVICE))
    assert agent["Label"] == LABEL
    assert agent["ProgramArguments"] == list(SERVICE.argv)
    assert agent["EnvironmentVariables"] == {"MOORING_PORT": "4680"}
    assert agent["KeepAlive"] == {"SuccessfulExit": False}, "one that was stopped stays so"


WORDS = st.text(st.characters(exclude_characters="\n\r\0", exclude_categories=["Cs"]), max_size=20)


@given(WORDS, WORDS)
def test_any_word_stays_one_word(argument: str, value: str) -> None:
    lines = systemd_unit(Service(("/p", argument), {"NAME": value}, Path("/l"))).split("\n")
    [command] = [line.removeprefix("ExecStart=") for line in lines if line.startswith("ExecStart=")]
    [variable] = [line.removeprefix("Environment=") for line in lines if line.startswith("Environment=")]
    # What systemd makes of quotes and backslashes is what a shell does within double quotes.
    read = [word.replace("%%", "%") for word in shlex.split(command)]
    assert [word.replace("$$", "$") for word in read] == ["/p", argument]
    assert [word.replace("%%", "%") for word in shlex.split(variable)] == [f"NAME={value}"]


def test_a_line_break_is_refused() -> None:
    with pytest.raises(ValueError, match="line break"):
        systemd_unit(SERVICE._replace(environment={"MOORING_STATE_DIR": "/a\nExecStart=/bin/evil"}))


def check_unit(unit: Path, text: str) -> None:
    """As systemd does, if there is one."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd here")
    unit.write_text(text)
    told = subprocess.run(
        ["systemd-analyze", "verify", "--user", "--recursive-errors=no", str(unit)],
        capture_output=True,
        text=True,
        check=False,
        env={"XDG_RUNTIME_DIR": str(unit.parent), "HOME": str(unit.parent), "PATH": "/usr/bin:/bin"},
    )
    assert told.returncode == 0, told.stderr
    assert unit.name not in told.stderr, "nor has it anything to remark"


def test_systemd_takes_it(tmp_path: Path) -> None:
    environment = {"MOORING_STATE_DIR": '/tmp/a b"c%d$e\\f'}
    unit = systemd_unit(service_for(sys.executable, environment, tmp_path / "log"))
    check_unit(tmp_path / "mooring.service", unit)
