"""What the benchmark ran on: enough to judge the figures, nothing that tells whose machine it was.

    describe({"fastmcp": pypi_version(python, "fastmcp"), "npm-mcp-proxy": npm_version(folder, "mcp-proxy")})

gives the `machine` of a `Results`. No host name, no path, no address.
"""

import os
import platform
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import msgspec

import mooring

__all__ = ["UNKNOWN", "cpu_model", "describe", "npm_version", "pypi_version", "sentence"]

UNKNOWN = "unknown"


def describe(peers: Mapping[str, str]) -> dict[str, str]:
    """The machine, what runs Mooring on it, and the versions of what it is compared with."""
    return {
        "cores": str(len(os.sched_getaffinity(0))),
        "cpu": cpu_model(_text(Path("/proc/cpuinfo"))),
        "memory": f"{_memory_bytes() / 1e9:.1f} GB",
        "kernel": f"{platform.system()} {_release_number(platform.release())}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "mooring": mooring.__version__,
        **peers,
    }


def sentence(machine: Mapping[str, str]) -> str:
    """The machine in one line, for a caption."""
    known = {name: machine.get(name, UNKNOWN) for name in ("cores", "cpu", "memory", "kernel", "python")}
    return "{cores} cores of {cpu}, {memory} of memory, {kernel}, {python}".format_map(known)


def pypi_version(python: Path, package: str) -> str:
    """The version of a package in the environment of that interpreter."""
    question = f"import importlib.metadata as m; print(m.version({package!r}))"
    answer = subprocess.run([python, "-c", question], capture_output=True, text=True, check=False, timeout=30)
    return answer.stdout.strip() or UNKNOWN


def npm_version(folder: Path, package: str) -> str:
    """The version of a package in the `node_modules` of that folder."""
    manifest = _text(folder / "node_modules" / package / "package.json")
    return str(msgspec.json.decode(manifest).get("version", UNKNOWN)) if manifest else UNKNOWN


def cpu_model(cpuinfo: str) -> str:
    """The model's name out of `/proc/cpuinfo`; where there is none (ARM, say), the architecture."""
    found = re.search(r"^model name\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    return found[1].strip() if found else platform.machine()


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _release_number(release: str) -> str:
    # What follows the number (6.8.0-45-generic, 6.8.0-acme) names whoever built the kernel.
    found = re.match(r"\d+(\.\d+)*", release)
    return found[0] if found else UNKNOWN


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
