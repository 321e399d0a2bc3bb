"""The proxies that Mooring is compared with: their pins, installed under `.bench/`.

Pins, one readable place each, with the whole tree in the lock beside it:

- `npm/package.json`, renewed there with `npm install --package-lock-only --ignore-scripts`
- `python/NAME.in`, renewed with `uv pip compile --universal --python-version 3.11 --no-header --no-annotate
  --no-emit-index-url --override overrides.txt NAME.in -o NAME.lock`
"""

from collections.abc import Iterable
from pathlib import Path

from bench.machine import npm_version, pypi_version
from bench.measuring import Unable
from bench.programs import FOLDER
from tests.parts import ALL, Part, node, npm_part, python_part

__all__ = ["HTTP_CLIENTS", "missing", "npm_program", "python_program", "versions"]

PINS = Path(__file__).parent
PYPI = {"pypi-mcp-proxy": "mcp-proxy", "fastmcp": "fastmcp"}
"""Target -> package, each with an environment of its own."""
NPM = {"supergateway": "supergateway", "npm-mcp-proxy": "mcp-proxy"}

_PYTHON_PARTS = {package: python_part(package, PINS, FOLDER) for package in PYPI.values()}
_NPM_PART = npm_part(PINS, FOLDER)
HTTP_CLIENTS = python_part("http-clients", PINS, FOLDER)
"""What Mooring's HTTP client is compared with (`bench.http_clients`), in one environment."""


def missing() -> list[Part]:
    """What is not installed yet; Node is shared with the tests."""
    parts = [part for part in (*_PYTHON_PARTS.values(), _NPM_PART) if not part.installed()]
    return parts if node().exists() else [ALL["node"], *parts]


def python_program(package: str) -> str:
    """The program of the package's own name."""
    return str(_place(_PYTHON_PARTS[package]) / "bin" / package)


def npm_program(package: str) -> list[str]:
    """argv of the program of the package's own name."""
    return [str(node()), str((_place(_NPM_PART) / "node_modules/.bin" / package).resolve())]


def versions(targets: Iterable[str]) -> dict[str, str]:
    """The versions of these targets, as far as they are here."""
    found = {}
    for target in targets:
        if target in NPM and _NPM_PART.installed():
            found[target] = npm_version(_NPM_PART.place, NPM[target])
        if target in PYPI and (part := _PYTHON_PARTS[PYPI[target]]).installed():
            found[target] = pypi_version(part.place / "bin/python", PYPI[target])
    return found


def _place(part: Part) -> Path:
    if not part.installed():
        raise Unable(f"not installed: {part.hint}")
    return part.place
