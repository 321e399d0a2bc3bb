"""Bringing an image, and telling how far that is.

The progress is read as a value (pure); Docker and Podman tell it in different words, of which only the layers
and their bytes are used.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from mooring.errors import MooringError
from mooring.runtimes.containers.engine import Engine
from mooring.runtimes.containers.failures import (
    Refusal,
    Silence,
    image_missing,
    pull_failed,
    wrong_architecture,
)
from mooring.runtimes.containers.spec import ContainerSpec, image_name

__all__ = ["Progress", "Pull", "ensure_image", "failure"]

_DONE = ("pull complete", "already exists", "download complete")
_MISSING = (
    "not found",
    "manifest unknown",
    "does not exist",
    "name unknown",
    "access denied",
    "unauthorized",
    "authentication required",
    "denied:",
)
LAYERS = 1000
"""Of which is told; an image has at most 127."""


class Progress(NamedTuple):
    """How far a pull has come."""

    image: str
    layers: int
    layers_done: int
    bytes: int
    """Of those layers whose size is known."""
    bytes_total: int


class Pull:
    """Feed it the lines that the engine sends."""

    def __init__(self, spec: ContainerSpec) -> None:
        self._spec = spec
        self._layers: dict[str, tuple[int, int, bool]] = {}

    def feed(self, line: bytes) -> Progress | None:
        """How far it is now; None: no news. Raises what went wrong."""
        try:
            said: Any = msgspec.json.decode(line)
        except msgspec.DecodeError:
            return None
        if not isinstance(said, dict):
            return None
        if isinstance(error := said.get("error"), str):
            raise failure(self._spec, error)
        layer, status, detail = said.get("id"), said.get("status"), said.get("progressDetail")
        if not isinstance(layer, str) or not isinstance(status, str):
            return None
        if layer not in self._layers and len(self._layers) >= LAYERS:
            return None
        current, total, _ = self._layers.get(layer, (0, 0, False))
        if isinstance(detail, dict) and status.lower() == "downloading":
            current, total = _number(detail.get("current")), _number(detail.get("total")) or total
        is_done = status.lower().startswith(_DONE)
        self._layers[layer] = (total if is_done else current, total, is_done)
        return self.progress

    @property
    def progress(self) -> Progress:
        """How far it is."""
        layers = self._layers.values()
        return Progress(
            self._spec.image,
            len(layers),
            sum(is_done for _, _, is_done in layers),
            sum(current for current, _, _ in layers),
            sum(total for _, total, _ in layers),
        )


def _number(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def failure(spec: ContainerSpec, words: str) -> MooringError:
    """What the words of an engine mean that could not bring an image."""
    words = " ".join(words.split())[:500]
    said = words.lower()
    if "no matching manifest" in said or "no image found in manifest list" in said:
        return wrong_architecture(spec.name, spec.image, words)
    if any(sign in said for sign in _MISSING):
        return image_missing(spec.name, spec.image, words)
    return pull_failed(spec.name, spec.image, words)


async def ensure_image(
    engine: Engine, spec: ContainerSpec, on_progress: Callable[[Progress], None], *, afresh: bool
) -> None:
    """Have the image. `afresh`: also look whether there is a newer one, if that was asked for."""
    wanted = image_name(spec.image)
    is_there = await engine.image(spec.image) is not None
    if is_there and not (afresh and spec.pull == "always"):
        return
    if wanted is None or spec.pull == "never":
        why = (
            "it is not to be pulled (--pull never)"
            if spec.pull == "never"
            else "by its id it cannot be pulled"
        )
        raise image_missing(spec.name, spec.image, why)
    pull = Pull(spec)
    try:
        async with engine.pull(*wanted) as lines:
            async for line in lines:
                if (progress := pull.feed(line)) is not None:
                    on_progress(progress)
    except Refusal as refusal:
        raise failure(spec, refusal.words) from refusal
    except Silence as silence:
        # The engine was there, and has begun: it is the registry that it waits for.
        why = f"nothing was heard of it for {silence.seconds:g} s"
        raise pull_failed(spec.name, spec.image, why) from silence
    if await engine.image(spec.image) is None:
        raise image_missing(spec.name, spec.image, "although the engine says that it was pulled")
