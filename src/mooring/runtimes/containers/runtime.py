"""Running containers, and making sure that all of them end. The counterpart of `ProcessRuntime`, by shape.

What `start` raises tells a caller whether another attempt is worth it:

- `UserError`, with the codes of `spec` and `failures`: it cannot start until somebody changes something.
- `ServerFailed`, code `engine_refused`: the engine refuses to run this container. The same.
- `Unavailable`, codes `engine_unreachable`, `pull_failed`: later it may work.
- `Unavailable`, code `shutting_down`: the runtime is closed.

Whatever it raises, and wherever it is cancelled: no container and no descriptor is left.
"""

import asyncio
import contextlib
import logging
import secrets
import socket
import time
from collections.abc import Callable
from typing import Any

from mooring.errors import MooringError, Unavailable, UserError
from mooring.runtimes.containers.engine import Engine
from mooring.runtimes.containers.exits import ContainerExit
from mooring.runtimes.containers.failures import Refusal, container_vanished, wrong_architecture
from mooring.runtimes.containers.harbour import Harbour
from mooring.runtimes.containers.instance import ContainerInstance
from mooring.runtimes.containers.labels import Owned
from mooring.runtimes.containers.leftovers import Debt
from mooring.runtimes.containers.passing import PassedContainer
from mooring.runtimes.containers.pulling import Progress, ensure_image
from mooring.runtimes.containers.remains import Remains
from mooring.runtimes.containers.spec import ContainerSpec, check_spec, creation
from mooring.runtimes.containers.watch import Watch
from mooring.runtimes.stopping import StopPatience
from mooring.wire.budget import Budget

__all__ = ["ContainerRuntime"]

log = logging.getLogger("mooring.containers")

DEFAULT_LINE_BYTES = 64 * 1024 * 1024
_NO_INIT = ("docker-init", "container-init", "catatonit")
"""What an engine says of an init process that it does not have, or that the image has no place for."""
TROUBLE = 500
AGAIN_S = 0.5
_FOREIGN = "exec format error"
_INITS = ("[fatal tini", "catatonit")
"""How lines begin, or what is in them, by which an init process says that it cannot run the program."""


class ContainerRuntime:
    """Containers of one workload. Whoever made the harbour closes it afterwards."""

    def __init__(
        self,
        *,
        harbour: Harbour,
        on_stderr: Callable[[int, str], None],
        on_gone: Callable[[ContainerInstance, ContainerExit], None] = lambda instance, exit: None,
        on_removed: Callable[[str], None] = lambda container: None,
        on_paused: Callable[[ContainerInstance, bool], None] = lambda instance, paused: None,
        on_progress: Callable[[Progress], None] = lambda progress: None,
        on_engine: Callable[[MooringError | None], None] = lambda trouble: None,
        on_decided: Callable[[], None] = lambda: None,
        on_excused: Callable[[int], None] = lambda n: None,
        max_line_bytes: int = DEFAULT_LINE_BYTES,
        unfinished: Budget | None = None,
        patience: StopPatience | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`on_removed`: somebody else has removed a container of ours, whose id this is; before `on_gone`.

        `on_engine`: the engine does not answer any more, for this reason; or (None) answers again.
        `on_decided`: what others have ended they have started again, or not in time.
        `on_excused`: that this instance ended was the doing of others, as is known only now.
        """
        self.harbour = harbour
        self._on_stderr = on_stderr
        self._on_gone = on_gone
        self._on_paused = on_paused
        self._on_progress = on_progress
        self._on_engine = on_engine
        self._max_line_bytes = max_line_bytes
        self._unfinished = unfinished or Budget(4 * max_line_bytes)
        self._patience = patience or StopPatience()
        self._clock = clock
        self._started = 0
        self._instances: set[ContainerInstance] = set()
        self._remains = Remains(
            lambda id: None if harbour.excuses(id) else on_removed(id), on_decided, on_excused
        )
        self._closing: asyncio.Task[None] | None = None
        self._arriving: set[asyncio.Task[None]] = set()
        self._pulling = asyncio.Lock()
        self._has_init = True
        self._foreign: dict[str, UserError | None] = {}
        self._is_image_due = True
        """Nothing was started yet: if a newer image is always wanted, now is the time to look for it."""

    @property
    def instances(self) -> tuple[ContainerInstance, ...]:
        """Those that are not reaped, in the order of their start."""
        alive = (instance for instance in self._instances if not instance.reaped)
        return tuple(sorted(alive, key=lambda instance: instance.n))

    async def check(self, spec: ContainerSpec) -> None:
        """Is there anything that only somebody's help can change? Raises UserError."""
        check_spec(spec)
        with contextlib.suppress(Unavailable):
            await self.harbour.engine()

    @property
    def may_return(self) -> bool:
        """A container that ended is being started again by others, or may be: `regain` has it."""
        return self._remains.may_return

    async def regain(self, spec: ContainerSpec) -> ContainerInstance | None:
        """Go on with a container that others have started again, without starting it. None: there is none.

        Waits for one that may be, for a moment. Raises as `start` does.
        """
        self._check_open(spec)
        # First: who claims one has to go on with it.
        watch, engine = await self.harbour.watching(), await self.harbour.engine()
        container = await self._remains.claim(spec)
        if container is None:
            return None
        try:
            return await self._begin(spec, engine, watch, container, is_new=False)
        except Refusal as refusal:
            log.info("%s: %s", spec.name, refusal.message)
            return None

    async def start(self, spec: ContainerSpec) -> ContainerInstance:
        """Run a container.

        1. Check what can be checked beforehand; have the engine, and hear what happens in it.
        2. Create it; if there is no image for it, bring that first.
        3. Attach to it, so that nothing of what it says is missed.
        4. Start it, and learn which life of it that is.
        """
        # 1
        self._check_open(spec)
        check_spec(spec)
        watch = await self.harbour.watching()
        watch.attend(self._on_engine)
        engine = await self.harbour.engine()
        if self._is_image_due and spec.pull == "always":
            await self._ensure_image(engine, spec, afresh=True)
        self._is_image_due = False
        self._check_open(spec)
        init = self._has_init
        try:
            return await self._start_new(spec, engine, watch)
        except Refusal as refusal:
            if init and any(word in refusal.words for word in _NO_INIT):
                self._has_init = False
                about = {"event": "no_init"}
                log.info("%s: without an init process: %s", spec.name, refusal.words, extra=about)
            elif isinstance(error := _reason(spec, refusal), UserError) or refusal.status < TROUBLE:
                raise error from refusal
            else:  # it may have been in trouble for a moment
                await asyncio.sleep(AGAIN_S)
        try:
            return await self._start_new(spec, engine, watch)
        except Refusal as refusal:
            raise _reason(spec, refusal) from refusal

    def adopt(self, spec: ContainerSpec, passed: PassedContainer) -> ContainerInstance:
        """Go on with a container that another had; its descriptor is ours from now on.

        It can be spoken to at once. It is heard as soon as a receiver is attached: now, or it is a spare.
        """
        instance = self._new_instance(spec)
        instance.greet(passed)
        self._instances.add(instance)
        if instance.is_paused:
            self._on_paused(instance, True)
        self.harbour.adopt(passed.about.id)
        task = asyncio.create_task(self._arrive(instance, passed), name=f"adopting {passed.about.id[:12]}")
        self._arriving.add(task)
        task.add_done_callback(self._arriving.discard)
        return instance

    def part_with(self, instance: ContainerInstance) -> None:
        """Another has adopted it."""
        instance.leave()
        self._instances.discard(instance)
        self.harbour.part_with(instance.id)

    def hurry(self) -> None:
        """No more patience with any of them: stops go to SIGKILL at once."""
        for instance in self._instances:
            instance.hurry()

    async def aclose(self) -> None:
        """Stop all, and remove what is left. Idempotent; cancelling the wait does not cut it short."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(), name="close the container runtime")
            self._closing.add_done_callback(self._on_closed)
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        if self._arriving:
            await asyncio.wait(self._arriving)
        ends = await asyncio.gather(*(each.aclose() for each in self._instances), return_exceptions=True)
        for error in ends:
            if isinstance(error, Exception):
                log.error("an instance could not be closed", exc_info=error)
        self.harbour.owe(await self._remains.aclose())
        if self.harbour.watch is not None:
            self.harbour.watch.leave(self._on_engine)

    def _on_closed(self, closing: "asyncio.Task[None]") -> None:
        """Here and not in `_close`: a task that is cancelled before its first step runs nothing of it."""
        if closing.cancelled():
            for instance in tuple(self._instances):
                instance.end_now()

    def _check_open(self, spec: ContainerSpec) -> None:
        if self._closing is not None:
            raise Unavailable(f"{spec.name}: not started, Mooring is shutting down", code="shutting_down")

    async def _start_new(self, spec: ContainerSpec, engine: Engine, watch: Watch) -> ContainerInstance:
        # Its name is ours to choose, so that it can be removed though we never hear its id.
        name = f"mooring-{spec.name}-{secrets.token_hex(6)}"
        body = creation(spec, Owned(self.harbour.owner, spec.name, spec.generation), init=self._has_init)
        # 2
        try:
            container = await self._create(spec, engine, watch, name, body)
        except Refusal as refusal:
            if not refusal.is_no_such_image:
                raise
            await self._ensure_image(engine, spec, afresh=False)
            container = await self._create(spec, engine, watch, name, body)
        return await self._begin(spec, engine, watch, container, is_new=True)

    async def _create(
        self, spec: ContainerSpec, engine: Engine, watch: Watch, name: str, body: dict[str, Any]
    ) -> str:
        creating = asyncio.create_task(engine.create(name, body), name=f"create {name}")
        try:
            return await asyncio.shield(creating)
        except Refusal:
            raise
        except BaseException:
            # The engine goes on with it, whoever waits for the answer.
            self._remains.dispose(name, spec, engine, watch, after=creating)
            raise

    async def _begin(
        self, spec: ContainerSpec, engine: Engine, watch: Watch, container: str, *, is_new: bool
    ) -> ContainerInstance:
        instance = self._new_instance(spec)
        instance.expect(engine, watch, container)
        try:
            # 3
            upgraded = await engine.attach(container)
            instance.channel.connect(upgraded)
            # 4
            if is_new:
                await engine.start(container)
            seen = await engine.inspect(container)
            instance.if_not_executed = await self._foreignness(engine, spec)
            if seen is None:
                raise Refusal("starting the container", 404, f"no such container: {container}")
            self._check_open(spec)
        except BaseException as error:
            instance.never_began()
            self._remains.dispose(container, spec, engine, watch)
            if is_new and isinstance(error, Refusal) and error.is_no_such_container:
                raise container_vanished(spec.name) from error
            raise
        self._instances.add(instance)
        instance.begin(seen, self._clock())
        return instance

    async def _foreignness(self, engine: Engine, spec: ContainerSpec) -> UserError | None:
        """What to say if its program cannot be executed. Asked once: many engines emulate, then it can be."""
        if spec.image not in self._foreign:
            try:
                image = await engine.image(spec.image)
            except MooringError as error:
                log.debug("%s: for which machines its image is: %s", spec.name, error.message)
                return None  # it runs: that is worth more than words for what may never happen
            theirs = image.architecture if image is not None else ""
            is_foreign = theirs not in ("", engine.architecture)
            why = f"it is for {theirs}, and the engine runs on {engine.architecture}"
            self._foreign[spec.image] = wrong_architecture(spec.name, spec.image, why) if is_foreign else None
        return self._foreign[spec.image]

    async def _arrive(self, instance: ContainerInstance, passed: PassedContainer) -> None:
        """Its connection is given to the loop, and what happens to it is heard."""
        connection = socket.socket(fileno=passed.descriptors[0])
        connection.setblocking(False)
        loop = asyncio.get_running_loop()
        connect = (
            loop.create_unix_connection if connection.family == socket.AF_UNIX else loop.create_connection
        )
        try:
            watch = await instance.unless_hurried(self.harbour.watching())
            watch.attend(self._on_engine)
            engine = await self.harbour.engine()
            if instance.exit is not None:
                connection.close()
                return  # its stop has waited long enough, and has left it to others
            instance.expect(engine, watch, passed.about.id)
            self.harbour.adopt(passed.about.id)  # now that there is an engine, its guardian is told
            instance.channel.hold()
            transport, _ = await connect(lambda: instance.channel, sock=connection)
        except Exception as error:  # whatever it is: somebody may wait for it, to stop it
            connection.close()
            log.warning("%s: a container could not be taken over: %s", instance.name, error)
            instance.lose()
            return
        instance.channel.arrive(transport)
        instance.channel.go_on()
        instance.look()

    def _new_instance(self, spec: ContainerSpec) -> ContainerInstance:
        self._started += 1
        instance = ContainerInstance(
            name=spec.name,
            n=self._started,
            max_line_bytes=self._max_line_bytes,
            unfinished=self._unfinished,
            patience=self._patience,
            on_stderr=self._on_stderr,
            on_gone=self._on_gone,
            on_paused=self._on_paused,
            on_left=lambda instance: self._take_remains(instance, spec),
            on_closed=self._instances.discard,
        )
        instance.why_not = lambda text: _not_executed(spec, text)
        return instance

    def _take_remains(self, instance: ContainerInstance, spec: ContainerSpec) -> None:
        engine, watch = self.harbour.known, self.harbour.watch
        if engine is not None and watch is not None:
            self._remains.take(instance, spec, engine, watch)
        else:  # another had it, and the engine was not to be met
            self.harbour.owe([Debt(instance.id)])

    async def _ensure_image(self, engine: Engine, spec: ContainerSpec, *, afresh: bool) -> None:
        async with self._pulling:
            await ensure_image(engine, spec, self._on_progress, afresh=afresh)


def _foreign(spec: ContainerSpec, text: str) -> UserError | None:
    if _FOREIGN not in text.lower():
        return None
    return wrong_architecture(spec.name, spec.image, "its program is for another architecture")


def _not_executed(spec: ContainerSpec, text: str) -> UserError | None:
    """What a line of stderr says of that; whatever else is written there is the program's own."""
    if not any(sign in text.lower() for sign in _INITS):
        return None
    if (error := _foreign(spec, text)) is not None:
        return error
    return _no_such_program(spec, text) if "no such file" in text.lower() else None


def _no_such_program(spec: ContainerSpec, words: str) -> UserError:
    return UserError(
        f"{spec.name}: the image {spec.image} has no such program: {words}",
        code="program_not_found",
        hint="what stands after -- are arguments of the image's own program",
    )


def _reason(spec: ContainerSpec, refusal: Refusal) -> MooringError:
    """What a refusal means, where that is known."""
    if (error := _foreign(spec, refusal.words)) is not None:
        return error
    words = refusal.words.lower()
    if "executable file not found" in words or ("exec:" in words and "no such file" in words):
        return _no_such_program(spec, refusal.words)
    return refusal
