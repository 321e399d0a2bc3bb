"""Where an engine may be found, in the order in which that is tried. Nothing is opened here.

1. What was asked for by name: a socket.
2. DOCKER_HOST, or CONTAINER_HOST for Podman: whoever sets it means it, and nothing else is tried.
3. The context that `docker` would use, if it is not the usual one. The same.
4. The usual sockets: Docker's, its rootless and desktop ones, Colima, Rancher Desktop, then Podman's.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from mooring.errors import UserError
from mooring.runtimes.containers.failures import engine_unsupported

__all__ = ["AUTO", "DOCKER", "PODMAN", "Endpoint", "as_named", "candidates", "parse_endpoint"]

AUTO, DOCKER, PODMAN = "auto", "docker", "podman"


class Endpoint(NamedTuple):
    """Where an engine listens."""

    path: str
    """Of its socket; empty: at `host` and `port`."""
    source: str
    """Who says so, in words."""
    host: str = ""
    port: int = 0

    def __str__(self) -> str:
        return self.path or f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    @property
    def url(self) -> str:
        """As `parse_endpoint` reads it."""
        return f"unix://{self.path}" if self.path else f"tcp://{self}"


def parse_endpoint(text: str, source: str) -> Endpoint:
    """A path or a URL. Raises UserError."""
    if "://" not in text:
        return Endpoint(str(Path(text).expanduser()), source)
    if (path := text.removeprefix("unix://")) != text and path.strip("/"):
        return Endpoint(path, source)  # all of it: a path may have a # or ? in it
    parts = urlsplit(text)
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if parts.scheme in ("tcp", "http") and host and port:
        return Endpoint("", source, host, port)
    raise engine_unsupported(text, source)


def candidates(
    wanted: str, environment: Mapping[str, str], home: Path, *, runtime_dir: Path | None = None
) -> list[Endpoint]:
    """What to try, the first first. `wanted`: auto, docker, podman, or a socket. Raises UserError."""
    # 1
    if wanted not in (AUTO, DOCKER, PODMAN):
        return [parse_endpoint(wanted, "--engine")]
    # 2
    if (named := _named(wanted, environment)) is not None:
        return [named]
    # 3
    if wanted != PODMAN and (context := _context(environment, home)) is not None:
        return [context]
    # 4
    found: list[Endpoint] = []
    runtime = environment.get("XDG_RUNTIME_DIR") or (str(runtime_dir) if runtime_dir else "")
    if wanted != PODMAN:
        found += _docker(runtime, home)
    if wanted != DOCKER:
        found += _podman(runtime, environment, home)
    return found


def as_named(wanted: str, environment: Mapping[str, str], home: Path) -> str:
    """`wanted`, or the engine that variables of whoever asks name instead: others may not have them.

    Raises UserError if that cannot be used.
    """
    if wanted not in (AUTO, DOCKER, PODMAN):
        endpoint = parse_endpoint(wanted, "--engine")
        return endpoint._replace(path=str(Path(endpoint.path).absolute())).url if endpoint.path else wanted
    named = _named(wanted, environment)
    if named is None and wanted != PODMAN and environment.get("DOCKER_CONTEXT"):
        named = _context(environment, home)
    return wanted if named is None else named.url


def _named(wanted: str, environment: Mapping[str, str]) -> Endpoint | None:
    for variable, kind in (("DOCKER_HOST", DOCKER), ("CONTAINER_HOST", PODMAN)):
        if wanted in (AUTO, kind) and (host := environment.get(variable)):
            _refuse_tls(host, environment, variable)
            return parse_endpoint(host, variable)
    return None


def _refuse_tls(host: str, environment: Mapping[str, str], source: str) -> None:
    if environment.get("DOCKER_TLS_VERIFY") and not host.startswith("unix:"):
        raise engine_unsupported(f"{host} (by TLS)", source)


def _docker(runtime: str, home: Path) -> list[Endpoint]:
    found = [Endpoint("/var/run/docker.sock", "Docker")]
    if runtime:
        found.append(Endpoint(f"{runtime}/docker.sock", "Docker, rootless"))
    return [
        *found,
        Endpoint(str(home / ".docker/run/docker.sock"), "Docker Desktop"),
        Endpoint(str(home / ".docker/desktop/docker.sock"), "Docker Desktop"),
        Endpoint(str(home / ".orbstack/run/docker.sock"), "OrbStack"),
        Endpoint(str(home / ".colima/default/docker.sock"), "Colima"),
        Endpoint(str(home / ".config/colima/default/docker.sock"), "Colima"),
        Endpoint(str(home / ".rd/docker.sock"), "Rancher Desktop"),
    ]


def _podman(runtime: str, environment: Mapping[str, str], home: Path) -> list[Endpoint]:
    found = [Endpoint(f"{runtime}/podman/podman.sock", "Podman, rootless")] if runtime else []
    found.append(Endpoint("/run/podman/podman.sock", "Podman"))
    if temporary := environment.get("TMPDIR"):
        machine = Path(temporary) / "podman/podman-machine-default-api.sock"
        found.append(Endpoint(str(machine), "Podman machine"))
    machine = home / ".local/share/containers/podman/machine/podman.sock"
    return [*found, Endpoint(str(machine), "Podman machine")]


def _context(environment: Mapping[str, str], home: Path) -> Endpoint | None:
    """That which `docker context use` has chosen; None: the usual one."""
    folder = Path(environment.get("DOCKER_CONFIG") or home / ".docker")
    name = environment.get("DOCKER_CONTEXT") or _read(folder / "config.json").get("currentContext")
    if not isinstance(name, str) or name in ("", "default"):
        return None
    meta = folder / "contexts/meta" / hashlib.sha256(name.encode()).hexdigest() / "meta.json"
    try:
        endpoint = _read(meta)["Endpoints"]["docker"]
        host = endpoint["Host"]
    except (KeyError, TypeError):
        endpoint, host = {}, None
    if not isinstance(host, str) or not host:
        raise UserError(
            f"the Docker context {name!r} does not say where its engine is",
            code="no_engine",
            hint="choose another: docker context use default; or name the socket: --engine SOCKET",
        )
    source = f"the Docker context {name!r}"
    if not host.startswith("unix:") and (endpoint.get("SkipTLSVerify") or _has_tls(folder, meta.parent.name)):
        raise engine_unsupported(f"{host} (by TLS)", source)
    return parse_endpoint(host, source)


def _has_tls(folder: Path, context: str) -> bool:
    """Are there a certificate, a key or an authority for the engine of a context? Then `docker` uses them."""
    return any((folder / "contexts/tls" / context / "docker").glob("*.pem"))


def _read(path: Path) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(path.read_bytes())
    except (OSError, msgspec.DecodeError):
        return {}
    return found if isinstance(found, dict) else {}
