"""What we ask of an engine, one method for each request of its API. Docker's, which Podman speaks too.

Nothing is decided here. A definite not-found of a container is None, or no error where it should go anyway;
everything else that is not an answer to the question is raised: it is never taken for a removal.
"""

import contextlib
import http.client
import platform
import socket
from collections.abc import AsyncIterator
from enum import StrEnum
from typing import Any, Self, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Struct

from mooring.errors import Unavailable
from mooring.runtimes.containers.endpoints import DOCKER, PODMAN, Endpoint
from mooring.runtimes.containers.exchange import (
    Lines,
    Reply,
    Upgraded,
    exchange,
    open_lines,
    target,
    upgrade,
)
from mooring.runtimes.containers.failures import REFUSED, Refusal, engine_unreachable
from mooring.runtimes.containers.states import Seen
from mooring.runtimes.containers.wards import Wards

__all__ = ["Engine", "Image", "Listed", "Removal"]

ANSWER_S = 30.0
"""For an answer of the engine. It makes a container in half a second, on a machine that has far too much
to do in several."""
LOOK_S = 10.0
"""For an answer that takes it no work."""
SILENCE_S = 120.0
"""Without a word of a pull: a registry that stalls would hold it for ever. To unpack a layer takes less."""
BLOCKING_S = 2.0
"""Where everything else waits meanwhile."""
API = (1, 47)
"""The newest whose answers are known to us; an older engine is asked in its own."""
ALREADY = 304
CONFLICT = 409
_SAME_ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}
_T = TypeVar("_T")


class Removal(StrEnum):
    """Whose doing it is that a container is gone."""

    OURS = "ours"
    MISSING = "missing"
    """It was not there when we came."""
    OTHERS = "others"
    """Somebody is at it already."""


class Image(Struct, rename="pascal"):
    """An image that the engine has."""

    id: str = ""
    architecture: str = ""
    os: str = ""


class _Created(Struct, rename="pascal"):
    id: str


class Listed(Struct, rename="pascal"):
    """One of a list of containers."""

    id: str
    labels: dict[str, str] | None = None
    state: str = ""


class Engine:
    """An engine that was there when it was asked: made by `meet`."""

    def __init__(self, endpoint: Endpoint, kind: str, version: str, api: str, architecture: str) -> None:
        self.endpoint = endpoint
        self.kind = kind
        """docker or podman."""
        self.version = version
        self.architecture = architecture
        self.wards = Wards()
        """Who is told of what is made here, and of what is gone."""
        self._prefix = f"/v{api}" if api else ""

    def __repr__(self) -> str:
        return f"<Engine {self.kind} {self.version} at {self.endpoint}>"

    @classmethod
    async def meet(cls, endpoint: Endpoint, timeout_s: float = LOOK_S) -> Self:
        """Ask who it is. Raises if it does not answer as an engine does."""
        reply = await exchange(endpoint, "GET", "/version", timeout_s=timeout_s)
        said = reply.decode()
        if reply.status >= REFUSED or not isinstance(said, dict) or "ApiVersion" not in said:
            raise engine_unreachable(str(endpoint), "what answers is no container engine")
        parts = [part.get("Name", "") for part in said.get("Components") or [] if isinstance(part, dict)]
        kind = PODMAN if any("podman" in name.lower() for name in parts) else DOCKER
        architecture = str(said.get("Arch") or platform.machine())
        return cls(
            endpoint,
            kind,
            str(said.get("Version", "")),
            _api(str(said["ApiVersion"]), str(said.get("MinAPIVersion", ""))),
            _SAME_ARCHITECTURE.get(architecture, architecture),
        )

    # Images

    async def image(self, name: str) -> Image | None:
        """None: the engine has none of that name."""
        try:
            reply = await self._ask(f"looking for the image {name}", "GET", f"/images/{quote(name)}/json")
        except Refusal as refusal:
            if refusal.is_no_such_image:
                return None
            raise
        return self._decoded(reply, Image, f"looking for the image {name}")

    def pull(self, repository: str, tag: str) -> "contextlib.AbstractAsyncContextManager[Lines]":
        """Its progress, as lines of JSON."""
        path = target(self._prefix + "/images/create", fromImage=repository, tag=tag)
        doing = f"pulling {repository}"
        return open_lines(self.endpoint, doing, "POST", path, timeout_s=SILENCE_S, silence_s=SILENCE_S)

    # Containers

    async def create(self, name: str, body: dict[str, Any]) -> str:
        """The id of a new container."""
        path = target("/containers/create", name=name)
        self.wards.expect(name)
        try:
            reply = await self._ask("creating the container", "POST", path, msgspec.json.encode(body))
        except Refusal:
            self.wards.let_go(name)
            raise
        container = self._decoded(reply, _Created, "creating the container").id
        self.wards.name(container, name)
        return container

    async def attach(self, container: str) -> Upgraded:
        """A connection to its stdin, and from its stdout and stderr."""
        path = target(f"/containers/{container}/attach", stream=1, stdin=1, stdout=1, stderr=1)
        doing = "attaching to the container"
        return await upgrade(self.endpoint, doing, self._prefix + path, timeout_s=ANSWER_S)

    async def start(self, container: str) -> None:
        """Run it."""
        await self._ask("starting the container", "POST", f"/containers/{container}/start")

    async def inspect(self, container: str) -> Seen | None:
        """None: there definitely is no such container."""
        try:
            reply = await self._ask(
                "looking at the container", "GET", f"/containers/{container}/json", timeout_s=LOOK_S
            )
        except Refusal as refusal:
            if refusal.is_no_such_container:
                self.wards.let_go(container)
                return None
            raise
        return self._decoded(reply, Seen, "looking at the container")

    async def kill(self, container: str, signal: str) -> None:
        """Send its first process a signal; that it does not run is fine."""
        await self._do("signalling the container", target(f"/containers/{container}/kill", signal=signal))

    async def unpause(self, container: str) -> None:
        """Let it go on; that it does is fine."""
        await self._do("unpausing the container", f"/containers/{container}/unpause")

    async def remove(self, container: str, *, may_come: bool = False) -> Removal:
        """End and remove it, with its own volumes; that it is gone, or being removed, is fine.

        `may_come`: the engine is perhaps still making it. Then that it is gone is no reason to forget it.
        """
        how = await self._remove(container)
        if not may_come:
            self.wards.let_go(container)
        return how

    async def _remove(self, container: str) -> Removal:
        path = target(f"/containers/{container}", force=1, v=1)
        try:
            await self._ask("removing the container", "DELETE", path)
        except Refusal as refusal:
            if refusal.is_no_such_container:
                return Removal.MISSING
            if refusal.status == CONFLICT and "already in progress" in refusal.words:
                return Removal.OTHERS
            raise
        return Removal.OURS

    def remove_now(self, container: str) -> bool:
        """The same without giving the loop a turn: for when there is no time left. Was it done?"""
        connection = http.client.HTTPConnection("engine", timeout=BLOCKING_S)
        try:
            connection.sock = self._blocking_socket()
            connection.request("DELETE", self._prefix + target(f"/containers/{container}", force=1, v=1))
            return connection.getresponse().status in (200, 204, 404, 409)
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    async def containers(self, filters: dict[str, list[str]]) -> list[Listed]:
        """All containers that the filters admit, whatever their state. That it refuses is `Unavailable`."""
        words = msgspec.json.encode(filters).decode()
        path = target("/containers/json", all=1, filters=words)
        try:
            reply = await self._ask("listing containers", "GET", path)
        except Refusal as refusal:
            raise self._unusable(refusal.message) from refusal
        return self._decoded(reply, list[Listed], "listing containers")

    @contextlib.asynccontextmanager
    async def events(self, filters: dict[str, list[str]]) -> AsyncIterator[Lines]:
        """What happens to containers that the filters admit, as lines of JSON, from now on.

        That it refuses is `Unavailable`.
        """
        words = msgspec.json.encode({**filters, "type": ["container"]}).decode()
        path = target(self._prefix + "/events", filters=words)
        doing = "following what happens to containers"
        async with contextlib.AsyncExitStack() as stack:
            opening = open_lines(self.endpoint, doing, "GET", path, timeout_s=LOOK_S)
            try:
                lines = await stack.enter_async_context(opening)
            except Refusal as refusal:
                raise self._unusable(refusal.message) from refusal
            yield lines

    async def _do(self, doing: str, path: str) -> None:
        """Something that may be the case already, or be done to what is gone."""
        try:
            await self._ask(doing, "POST", path)
        except Refusal as refusal:
            words = refusal.words.lower()
            is_so = any(text in words for text in ("is not running", "not paused", "can only kill running"))
            if not refusal.is_no_such_container and not is_so:
                raise

    async def _ask(
        self, doing: str, method: str, path: str, body: bytes | None = None, *, timeout_s: float = ANSWER_S
    ) -> Reply:
        reply = await exchange(self.endpoint, method, self._prefix + path, body, timeout_s=timeout_s)
        if reply.status >= REFUSED:
            raise Refusal(doing, reply.status, reply.words)
        return reply

    def _decoded(self, reply: Reply, kind: type[_T], doing: str) -> _T:
        """What the answer says. One that cannot be read says nothing of the server: `Unavailable`."""
        try:
            return msgspec.json.decode(reply.body, type=kind)
        except (msgspec.DecodeError, RecursionError) as error:
            raise self._unusable(f"{doing}: its answer cannot be read ({error})") from error

    def _unusable(self, why: str) -> Unavailable:
        """It answers, but not as an engine in order does, whichever the server: later it may."""
        return engine_unreachable(str(self.endpoint), why)

    def _blocking_socket(self) -> socket.socket:
        if not self.endpoint.path:
            return socket.create_connection((self.endpoint.host, self.endpoint.port), BLOCKING_S)
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.settimeout(BLOCKING_S)
            connection.connect(self.endpoint.path)
        except OSError:
            connection.close()
            raise
        return connection


def _api(newest: str, oldest: str) -> str:
    """Which version of the API to speak; empty: that of which it tells nothing we can read."""
    try:
        newest_known = min(_numbers(newest), API)
        spoken = max(newest_known, _numbers(oldest)) if oldest else newest_known
    except ValueError:
        return ""
    return ".".join(map(str, spoken))


def _numbers(version: str) -> tuple[int, int]:
    major, _, minor = version.partition(".")
    return int(major), int(minor)
