"""The container to run, and what the engine is told to make of it. Pure, but for looking at folders.

Safe unless asked otherwise: no new privileges, no capabilities, bounds for memory and processes, an init
process that reaps and passes signals on, no restart by the engine (we are the supervisor), never removed by
itself (its end must be seen), nothing of what is said written to the engine's log.

All errors here are `UserError`s, asking again does not help:

    bad_image          no name of an image
    bad_volume         a volume that is none, or whose folder is not there
    bad_limit          of memory, processors or processes
    bad_command        an argument that no command line can hold
    bad_environment    a variable that no environment can hold
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple

from mooring.errors import UserError
from mooring.runtimes.containers.endpoints import AUTO
from mooring.runtimes.containers.labels import Owned, labels_of
from mooring.runtimes.environment import check_variables

__all__ = [
    "ContainerOptions",
    "ContainerSpec",
    "ImageName",
    "Network",
    "Pull",
    "Volume",
    "check_spec",
    "creation",
    "image_name",
]

Network = Literal["none", "bridge", "host"]
Pull = Literal["missing", "always", "never"]
Relabel = Literal["", "z", "Z"]

MEMORY_BYTES = 2 * 1024**3
"""Unless asked otherwise. A browser that a server drives takes one; a leak is ended before the machine is."""
MEMORY_FLOOR_BYTES = 6 * 1024**2
"""Docker refuses less."""
PIDS = 1024
"""Threads too. A browser has some hundreds."""
_IMAGE = re.compile(
    r"(?P<repository>[a-zA-Z0-9][\w.-]*(?::\d+)?(?:/[\w.-]+)*)(?::(?P<tag>[\w][\w.-]{0,127}))?(?:@(?P<digest>[a-z0-9]+:[0-9a-fA-F]{32,}))?"
)
_IMAGE_ID = re.compile(r"sha256:[0-9a-f]{64}|[0-9a-f]{64}")


class Volume(NamedTuple):
    """A folder of this machine, or a volume of the engine, in the container."""

    source: str
    target: str
    read_only: bool = False
    relabel: Relabel = ""
    """z or Z: where SELinux rules, the folder is labelled for containers; with Z for this one alone."""

    @classmethod
    def parse(cls, text: str) -> "Volume":
        """As on a command line: SOURCE:TARGET[:OPTIONS], of ro or rw, and z or Z. Raises UserError."""
        source, _, rest = text.partition(":")
        target, _, options = rest.partition(":")
        asked = options.split(",") if options else []
        access, labels = len({"ro", "rw"}.intersection(asked)), len({"z", "Z"}.intersection(asked))
        is_clear = access <= 1 and labels <= 1 and access + labels == len(asked)
        if not source or not target.startswith("/") or not is_clear:
            raise UserError(
                f"{text!r} is no volume",
                code="bad_volume",
                hint="write it as SOURCE:/TARGET or SOURCE:/TARGET:ro",
            )
        return cls(source, target, "ro" in asked, "z" if "z" in asked else "Z" if "Z" in asked else "")

    def __str__(self) -> str:
        options = ",".join(filter(None, ("ro" if self.read_only else "", self.relabel)))
        return f"{self.source}:{self.target}" + (f":{options}" if options else "")


class ImageName(NamedTuple):
    """Where an image is had, and which of those that are there."""

    repository: str
    tag: str
    """Or a digest. An engine that is told none of them brings all there are."""


@dataclass(frozen=True, kw_only=True)
class ContainerOptions:
    """What can be asked of a container, beside what runs in it."""

    image: str
    volumes: tuple[Volume, ...] = ()
    network: Network = "bridge"
    memory_bytes: int = MEMORY_BYTES
    cpus: float | None = None
    pids: int = PIDS
    user: str | None = None
    read_only: bool = False
    """Its own file system; `/tmp` can be written, and is gone with it."""
    pull: Pull = "missing"
    engine: str = AUTO
    """auto, docker, podman, or a socket."""


@dataclass(frozen=True, kw_only=True)
class ContainerSpec(ContainerOptions):
    """A container to run."""

    name: str
    """Of the workload."""
    args: tuple[str, ...] = ()
    """Instead of those that the image has; after its entry point."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """In addition to those that the image has."""
    generation: int = 0
    published: int | None = None
    """A port of its own that this machine alone can reach, at whichever of its own the engine chooses."""

    def __post_init__(self) -> None:
        if not self.name.isprintable():
            raise ValueError("the name of a workload is printable")

    @classmethod
    def of(
        cls, options: ContainerOptions, name: str, args: tuple[str, ...], env: Mapping[str, str]
    ) -> "ContainerSpec":
        """That program in a container as it was asked for."""
        asked = {one.name: getattr(options, one.name) for one in fields(ContainerOptions)}
        return cls(**asked, name=name, args=args, env=env)


def image_name(image: str) -> ImageName | None:
    """What to pull; None: it is the id of one, which can only be there. Raises UserError."""
    if _IMAGE_ID.fullmatch(image):
        return None
    match = _IMAGE.fullmatch(image)
    if match is None or {".", ".."} & set(match["repository"].split("/")):
        raise UserError(
            f"{image!r} is no name of an image", code="bad_image", hint="for example ghcr.io/OWNER/NAME:TAG"
        )
    return ImageName(match["repository"], match["digest"] or match["tag"] or "latest")


def check_spec(spec: ContainerSpec) -> None:
    """Raise a `UserError` for what no engine could make."""
    image_name(spec.image)
    if any("\0" in argument for argument in spec.args):
        raise UserError(
            f"{spec.name}: an argument contains a NUL byte",
            code="bad_command",
            hint="arguments are text without NUL",
        )
    check_variables(spec.env)
    for volume in spec.volumes:
        _check_volume(spec, volume)
    if spec.memory_bytes < MEMORY_FLOOR_BYTES:
        raise UserError(
            f"{spec.name}: {spec.memory_bytes} bytes of memory are too few for a container",
            code="bad_limit",
            hint="at least 6 MiB; most servers need 64 MiB or more",
        )
    if spec.cpus is not None and not (math.isfinite(spec.cpus) and spec.cpus >= 0.01):
        raise UserError(
            f"{spec.name}: {spec.cpus} processors cannot be had", code="bad_limit", hint="at least 0.01"
        )
    if spec.pids < 1:
        raise UserError(f"{spec.name}: a container has a process", code="bad_limit", hint="at least 1")


def _check_volume(spec: ContainerSpec, volume: Volume) -> None:
    """An engine makes a folder that is not there, as root: nobody wants that."""
    if ":" in volume.source or ":" in volume.target:
        raise UserError(
            f"{spec.name}: {volume} is no volume", code="bad_volume", hint="no colon in a folder's name"
        )
    if volume.source.startswith(("/", ".", "~")) and not Path(volume.source).is_absolute():
        raise UserError(
            f"{spec.name}: {volume.source} is not the full name of a folder",
            code="bad_volume",
            hint="begin it with /; a name without / is a volume of the engine",
        )
    if volume.source.startswith("/") and not _exists(Path(volume.source)):
        raise UserError(
            f"{spec.name}: {volume.source} does not exist",
            code="bad_volume",
            hint="create it, or choose another",
        )


def _exists(path: Path) -> bool:
    try:
        path.stat()  # (`exists` of newer Pythons does not tell what is hidden from what is not there)
    except PermissionError:
        return True  # not for us to see; the engine may
    except OSError:
        return False
    return True


def creation(spec: ContainerSpec, owned: Owned, *, init: bool = True) -> dict[str, Any]:
    """The body of the request that creates it.

    `init` False: the engine has no init process to put in.
    """
    host: dict[str, Any] = {
        "AutoRemove": False,
        "Binds": [str(volume) for volume in spec.volumes],
        "CapDrop": ["ALL"],
        "Init": init,
        # Every message would be written to a file that grows without bound.
        "LogConfig": {"Type": "none", "Config": {}},
        "Memory": spec.memory_bytes,
        "MemorySwap": spec.memory_bytes,  # both together: none of it may be swap
        "NetworkMode": spec.network,
        "PidsLimit": spec.pids,
        "Privileged": False,
        "ReadonlyRootfs": spec.read_only,
        "RestartPolicy": {"Name": "no"},
        "SecurityOpt": ["no-new-privileges"],
    }
    if spec.cpus is not None:
        host["NanoCpus"] = round(spec.cpus * 1e9)
    if spec.read_only:
        host["Tmpfs"] = {"/tmp": "rw,noexec,nosuid,nodev,size=64m"}  # noqa: S108 - in the container
    body: dict[str, Any] = {
        "Image": spec.image,
        "Env": [f"{name}={value}" for name, value in spec.env.items()],
        "Labels": labels_of(owned),
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "OpenStdin": True,
        # Its stdin ends with what is attached to it: see adr/0015.
        "StdinOnce": True,
        "Tty": False,
        "HostConfig": host,
    }
    if spec.published is not None:
        port = f"{spec.published}/tcp"
        body["ExposedPorts"] = {port: {}}
        host["PortBindings"] = {port: [{"HostIp": "127.0.0.1", "HostPort": ""}]}
    if spec.args:
        body["Cmd"] = list(spec.args)
    if spec.user is not None:
        body["User"] = spec.user
    return body
