"""`--image`: from what was given to the container that a server is to run in.

A container has the program, the folder and the variables of its image. What would put those of this machine
in their place is refused; what is relative becomes absolute, because the daemon is elsewhere.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from mooring.cli.running.conflicts import as_options, conflict
from mooring.cli.values import ENGINES, is_kept_by_engine
from mooring.errors import UserError
from mooring.runtimes.containers.endpoints import as_named
from mooring.runtimes.containers.spec import ContainerOptions, Volume

__all__ = ["ONLY_OF_IMAGES", "engine_at", "path_at", "plan_container", "volume_at"]

ONLY_OF_IMAGES = frozenset({"volume", "network", "memory", "cpus", "user", "read_only", "pull", "engine"})
"""Options that mean nothing to a process."""


def plan_container(
    given: Mapping[str, Any], chosen: Collection[str], ours: Mapping[str, str]
) -> ContainerOptions | None:
    """None: it is to be a process. Raises UserError; for the parameters see `plan.plan_foreground`."""
    if given["image"] is None:
        _check_process(chosen)
        return None
    _check_image(given)
    here = Path.cwd()
    return ContainerOptions(
        image=given["image"],
        volumes=tuple(volume_at(here, volume) for volume in given["volume"]),
        network=given["network"],
        memory_bytes=given["memory"],
        cpus=given["cpus"],
        user=given["user"],
        read_only=given["read_only"],
        pull=given["pull"],
        # The daemon has not the variables that name an engine in this terminal.
        engine=as_named(engine_at(here, given["engine"]), ours, Path.home()),
    )


def _check_process(chosen: Collection[str]) -> None:
    if wrong := sorted(ONLY_OF_IMAGES & set(chosen)):
        raise UserError(
            f"{as_options(wrong)}: works only with --image", code="image_only", hint="add --image IMAGE"
        )


def _check_image(given: Mapping[str, Any]) -> None:
    if given["source"]:
        raise conflict("--image takes the place of --from", "give one or the other")
    if given["inherit_env"]:
        raise conflict(
            "--inherit-env does not go with --image: a container has the environment of its image",
            "name what it needs of yours: --pass-env NAME, or --env K=V",
        )
    if given["cwd"]:
        raise conflict(
            "--cwd does not go with --image: a container begins in the folder of its image",
            "leave it out; --volume DIR:/TARGET shows it a folder of yours",
        )


def volume_at(folder: Path, volume: Volume) -> Volume:
    """With a source that is absolute, or the name of a volume of the engine. Raises UserError.

    `folder`: where a relative source begins.
    """
    return volume if is_kept_by_engine(volume) else volume._replace(source=path_at(folder, volume.source))


def engine_at(folder: Path, engine: str) -> str:
    """The engine, with a socket that is absolute. Raises UserError."""
    path = engine.removeprefix("unix://")
    return engine if engine in ENGINES or "://" in path else path_at(folder, path)


def path_at(folder: Path, path: str) -> str:
    """The path, from that folder on if it is relative; `~` is somebody's home. Raises UserError."""
    try:
        return str(folder / Path(path).expanduser())
    except RuntimeError:
        raise UserError(
            f"{path}: whose home that is, is not known", code="no_home", hint="write the full name: /…"
        ) from None
