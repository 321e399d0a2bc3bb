"""The real clients, servers and suites that tests use, installed under `.parts/`.

Owns the pins (beside this file), where each part lies, and whether it is there. `python -m tests.parts`
installs what is missing; afterwards tests run offline.

Does not know the tests: a test says `require("sdk-2", "npm")` and then uses the paths below.

Pins, one readable place each:

- `node-version`: Node for the conformance suite and the Inspector, unless the machine's own is new enough
- `npm/package.json`, `typescript-2/package.json` and `oauth-servers/package.json`, with the whole tree in
  `package-lock.json`, renewed there with `npm install --package-lock-only --ignore-scripts`
- `python/NAME.in`, with the whole tree in `NAME.lock`, renewed with `uv pip compile --universal
  --python-version 3.11 --no-header --no-annotate --no-emit-index-url NAME.in -o NAME.lock`
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

__all__ = [
    "PARTS",
    "Part",
    "node",
    "node_environment",
    "node_modules",
    "npm_command",
    "npm_part",
    "python_of",
    "python_part",
    "require",
    "script_of",
    "wheels_of",
    "wheels_part",
]

PINS = Path(__file__).parent
PARTS = (PINS.parents[1] / ".parts").resolve()
"""Resolved, since work trees may share one by a link, and what is installed depends on where it lies."""
NODE_NEEDED = (22, 19)
"""The Inspector's floor; the conformance suite needs 22."""


@dataclass(frozen=True)
class Part:
    """One thing to install: where it goes, and what its content follows from."""

    name: str
    pins: tuple[Path, ...]
    install: Callable[[Path], None]
    hint: str
    """What to do when it cannot be had."""
    folder: Path = PARTS

    @property
    def place(self) -> Path:
        return self.folder / self.name

    @property
    def _stamp(self) -> Path:
        return self.place / ".installed"

    def fingerprint(self) -> str:
        """Changes with the pins, and with what a virtual environment cannot be moved across."""
        digest = hashlib.sha256(f"{sys.version_info[:2]} {sys.base_prefix} {self.place}".encode())
        for path in self.pins:
            digest.update(path.read_bytes())
        return digest.hexdigest()

    def installed(self) -> bool:
        return self._stamp.is_file() and self._stamp.read_text() == self.fingerprint()

    def renew(self) -> None:
        """Install from nothing. The stamp comes last: an interrupted install is redone."""
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir(parents=True)
        self.install(self.place)
        self._stamp.write_text(self.fingerprint())


def _run(argv: list[str], *, cwd: Path | None = None) -> None:
    done = subprocess.run(
        argv, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=1800
    )
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-30:])
        raise RuntimeError(f"{' '.join(argv[:4])} … ended with status {done.returncode}:\n{tail}")


def _npm(*words: str) -> list[str]:
    npm = shutil.which("npm")
    if npm is None:
        raise RuntimeError("npm is not on this machine")
    # Install scripts are not needed by any of these packages, so none is run.
    return [npm, *words, "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]


def _install_node(place: Path) -> None:
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine())
    if sys.platform != "linux" or machine is None:
        raise RuntimeError(f"no Node package for {sys.platform} on {platform.machine()}")
    version = (PINS / "node-version").read_text().strip()
    _run(_npm("install", "--no-save", "--prefix", str(place), f"node-linux-{machine}@{version}"))
    binary = place / f"node_modules/node-linux-{machine}/bin/node"
    (place / "bin").mkdir()
    (place / "bin/node").symlink_to(binary)
    _run([str(place / "bin/node"), "--version"])


_NPM_HINT = "needs the npm registry and npm (Debian: apt-get install npm)"


def npm_part(pins: Path = PINS, folder: Path = PARTS, name: str = "npm") -> Part:
    """The packages of `NAME/package.json`."""
    files = (pins / name / "package.json", pins / name / "package-lock.json")

    def install(place: Path) -> None:
        for path in files:
            shutil.copy(path, place)
        # Not `npm ci`: it refuses a lock without the optional packages of other platforms.
        _run(_npm("install", "--no-save"), cwd=place)

    return Part(name, files, install, _NPM_HINT, folder)


def python_part(name: str, pins: Path = PINS, folder: Path = PARTS) -> Part:
    """A virtual environment with what `python/NAME.lock` says."""
    files = (pins / f"python/{name}.in", pins / f"python/{name}.lock")
    hint = "needs the Python package index and Python's venv module (Debian: apt-get install python3-venv)"

    def install(place: Path) -> None:
        _run([sys.executable, "-m", "venv", str(place)])
        pip = [str(place / "bin/python"), "-m", "pip", "--disable-pip-version-check", "--quiet"]
        # The lock is the whole tree, so nothing is left to be resolved.
        _run([*pip, "install", "--no-deps", "--requirement", str(files[1])])

    return Part(name, files, install, hint, folder)


def wheels_part(name: str, pins: Path = PINS, folder: Path = PARTS) -> Part:
    """The wheels of `python/NAME.lock`, as they are: for whoever installs them elsewhere."""
    files = (pins / f"python/{name}.in", pins / f"python/{name}.lock")

    def install(place: Path) -> None:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "download"]
        _run([*pip, "--no-deps", "--only-binary=:all:", "--dest", str(place), "--requirement", str(files[1])])

    return Part(name, files, install, "needs the Python package index", folder)


ALL = {
    part.name: part
    for part in (
        npm_part(),
        npm_part(name="typescript-2"),
        npm_part(name="oauth-servers"),
        Part("node", (PINS / "node-version",), _install_node, _NPM_HINT),
        python_part("sdk-2"),
        python_part("sdk-1"),
        python_part("servers"),
        wheels_part("image"),
    )
}


@cache
def _own_node() -> Path | None:
    """The machine's Node, if it is new enough."""
    node = shutil.which("node")
    if node is None:
        return None
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    version = tuple(int(word) for word in said.strip().lstrip("v").split(".")[:2] if word.isdigit())
    return Path(node) if version >= NODE_NEEDED else None


def wanted() -> list[Part]:
    """What this machine needs; Node only where its own is too old."""
    return [part for part in ALL.values() if part.name != "node" or _own_node() is None]


def require(*names: str) -> None:
    """Skip the calling test where a part is missing, with what to do about it; in CI, fail."""
    missing = [part for part in wanted() if part.name in names and not part.installed()]
    if missing:
        reason = "; ".join(f"part {part.name!r} is missing: {part.hint}" for part in missing)
        reason += "; then `make parts`"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)


def python_of(name: str) -> Path:
    """The interpreter of a Python part."""
    return script_of(name, "python")


def script_of(name: str, script: str) -> Path:
    """A program that a Python part installed."""
    return ALL[name].place / "bin" / script


def wheels_of(name: str) -> list[Path]:
    """What a part of wheels has."""
    return sorted(ALL[name].place.glob("*.whl"))


def node_modules(name: str = "npm") -> Path:
    """The packages of an npm part."""
    return ALL[name].place / "node_modules"


def node() -> Path:
    """The machine's Node if it is new enough, or the one of the part."""
    return _own_node() or ALL["node"].place / "bin/node"


def node_environment() -> dict[str, str]:
    """This environment, with the right Node first on the path."""
    return {**os.environ, "PATH": f"{node().parent}{os.pathsep}{os.environ['PATH']}"}


def npm_command(script: str) -> list[str]:
    """argv of a program from an npm package, whatever the path says."""
    return [str(node()), str((node_modules() / ".bin" / script).resolve())]
