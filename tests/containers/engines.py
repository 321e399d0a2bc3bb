"""A real Docker engine and a real Podman service, each in a folder of its own, ended by pid.

They are started for the whole run of the tests, once one asks for them, and belong to it alone: their state
is under a temporary folder, and no engine that the machine may have is touched. They are nobody's children:
a test may start one again without leaving a child.
"""

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.containers.images import base_image, foreign_image
from tests.support import alive, children

START_S = 30.0
HALF_KNOWN = re.compile(r'from store "([0-9a-f]{64})": container not known')
DETACHED = 'log=$1; shift; "$@" >>"$log" 2>&1 </dev/null & echo $!'
CONTAINERS_CONF = """
[containers]
default_ulimits = ["nofile=16384:16384", "nproc=16384:16384"]
[engine]
init_path = "{init}"
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[network]
network_backend = "netavark"
"""
REGISTRIES_CONF = """
[[registry]]
location = "127.0.0.1"
insecure = true
"""


class RealEngine:
    """An engine that can be stopped and started. `lacks` says why it cannot be had here."""

    kind = ""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "engine.sock"
        self.pid = 0

    @classmethod
    def lacks(cls) -> str:
        """Empty: nothing."""
        if sys.platform != "linux" or os.geteuid() != 0:
            return "needs Linux and root, to start an engine of its own"
        return ""

    def command(self) -> tuple[list[str], dict[str, str]]:
        raise NotImplementedError

    def start(self) -> None:
        """Wait until it answers."""
        arguments, environment = self.command()
        started = subprocess.run(
            ["setsid", "sh", "-c", DETACHED, "sh", str(self.folder / "log"), *arguments],
            env={**os.environ, **environment},
            cwd=self.folder,  # where Podman leaves a file when a container is out of memory
            stdout=subprocess.PIPE,
            check=True,
        )
        self.pid = int(started.stdout)
        deadline = time.monotonic() + START_S
        while not self.answers():
            assert alive(self.pid), (self.folder / "log").read_text()[-2000:]
            assert time.monotonic() < deadline, (self.folder / "log").read_text()[-2000:]
            time.sleep(0.02)

    def set_up(self) -> None:
        """Start it, and give it the images."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.start()
        for image in (base_image(), foreign_image()):
            status, said = self.ask("POST", "/images/load", image, "application/x-tar")
            assert status == 200, said

    def stop(self, signum: int = signal.SIGTERM) -> None:
        """End it, by its pid, and wait for that."""
        pid, self.pid = self.pid, 0
        if not pid:
            return
        deadline = time.monotonic() + START_S
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signum)
        while alive(pid):
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)

    def tear_down(self) -> None:
        """Nothing is left of it."""
        if self.pid and self.answers():
            _, there = self.ask("GET", "/containers/json?all=1")
            for container in there if isinstance(there, list) else []:
                self.ask("DELETE", f"/containers/{container['Id']}?force=1&v=1")
        self.stop()
        for pid in self._left():
            for ended in (*children(pid), pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(ended, signal.SIGKILL)
        for line in reversed(Path("/proc/mounts").read_text().splitlines()):
            where = line.split()[1]
            if where.startswith(str(self.folder)):
                subprocess.run(["umount", "-l", where], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _left(self) -> list[int]:
        """Processes that look after a container for an engine that is no more: they name its folder."""
        found = []
        for folder in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if folder.name.isdecimal() and int(folder.name) != os.getpid():
                    words = (folder / "cmdline").read_bytes().split(b"\0")
                    if words[0].endswith((b"containerd-shim-runc-v2", b"conmon", b"containerd")) and any(
                        word.startswith(bytes(self.folder)) for word in words
                    ):
                        found.append(int(folder.name))
        return found

    def answers(self) -> bool:
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self.ask("GET", "/version")[0] == 200
        return False

    def ask(
        self, method: str, path: str, body: bytes | None = None, kind: str = "application/json"
    ) -> tuple[int, Any]:
        """As another tool would, and not by our own client."""
        connection = http.client.HTTPConnection("engine", timeout=60)
        connection.sock = socket.socket(socket.AF_UNIX)
        try:
            connection.sock.settimeout(60)
            connection.sock.connect(str(self.socket))
            connection.request(method, f"/v1.41{path}", body, {"Content-Type": kind})
            answer = connection.getresponse()
            said = answer.read()
        finally:
            connection.close()
        try:
            return answer.status, json.loads(said)
        except ValueError:
            return answer.status, said.decode("utf-8", "replace")

    def do(self, method: str, path: str) -> None:
        """The same, if it must work."""
        status, said = self.ask(method, path)
        assert status < 400, said

    def containers(self, label: str = "") -> list[str]:
        """Ids, of all states."""
        status, said = self.listed(label)
        assert status == 200, said
        return [container["Id"] for container in said]

    def listed(self, label: str) -> tuple[int, Any]:
        filters = f"&filters={quote(json.dumps({'label': [label]}))}" if label else ""
        return self.ask("GET", f"/containers/json?all=1{filters}")

    def volumes(self) -> list[str]:
        status, said = self.ask("GET", "/volumes")
        assert status == 200, said
        return [volume["Name"] for volume in said["Volumes"] or []]

    def state(self, container: str) -> dict[str, Any]:
        """Of a container that is there."""
        status, said = self.ask("GET", f"/containers/{container}/json")
        assert status == 200, said
        found: dict[str, Any] = said["State"]
        return found


class RealDocker(RealEngine):
    kind = "docker"

    @classmethod
    def lacks(cls) -> str:
        if shutil.which("dockerd") is None:
            return "no dockerd: apt-get install --no-install-recommends docker.io"
        return super().lacks()

    def command(self) -> tuple[list[str], dict[str, str]]:
        folder = self.folder
        # After a kill they are there, with numbers of processes that perhaps nobody has reaped yet.
        for name in ("pid", "exec/containerd/containerd.pid"):
            (folder / name).unlink(missing_ok=True)
        arguments = ["--data-root", f"{folder}/root", "--exec-root", f"{folder}/exec"]
        arguments += ["--pidfile", f"{folder}/pid", "-H", f"unix://{self.socket}"]
        return ["dockerd", *arguments, "--iptables=false", "--ip6tables=false", "--bridge=none"], {}


class RealPodman(RealEngine):
    kind = "podman"

    @classmethod
    def lacks(cls) -> str:
        if missing := [name for name in ("podman", "runc") if shutil.which(name) is None]:
            return f"no {' and no '.join(missing)}: apt-get install podman runc netavark"
        return super().lacks()

    def command(self) -> tuple[list[str], dict[str, str]]:
        folder = self.folder
        init = shutil.which("catatonit") or shutil.which("tini-static") or ""
        (folder / "containers.conf").write_text(CONTAINERS_CONF.format(init=init))
        (folder / "registries.conf").write_text(REGISTRIES_CONF)
        arguments = ["--root", f"{folder}/root", "--runroot", f"{folder}/run"]
        arguments += ["system", "service", "--time", "0", f"unix://{self.socket}"]
        environment = {
            "CONTAINERS_CONF": f"{folder}/containers.conf",
            "CONTAINERS_REGISTRIES_CONF": f"{folder}/registries.conf",
        }
        return ["podman", *arguments], environment

    def listed(self, label: str) -> tuple[int, Any]:
        status, said = super().listed(label)
        # Of one that was made and removed at once it may keep one half, and then lists none at all.
        if status == 500 and (half := HALF_KNOWN.search(said["message"])) is not None:
            self.do("DELETE", f"/containers/{half[1]}?force=1&v=1")
            return super().listed(label)
        return status, said


ENGINES: dict[str, type[RealEngine]] = {"docker": RealDocker, "podman": RealPodman}
