"""Starting programs, and making sure that all of them end.

What `start` raises tells a caller whether another attempt is worth it:

- `UserError`, with the codes of `check`: it cannot start until somebody changes something.
- `ServerFailed`, code `cannot_start`: the system refuses to run this program. The same.
- `Unavailable`, code `no_resources`: out of descriptors, memory or processes. Later it may work.
- `Unavailable`, code `shutting_down`: the runtime is closed.

Whatever it raises, and wherever it is cancelled: no child and no descriptor is left.
"""

import asyncio
import logging
import time
from collections.abc import Callable

from mooring.errors import Unavailable
from mooring.runtimes.exits import Exit
from mooring.runtimes.household import Household
from mooring.runtimes.passing import PassedProcess
from mooring.runtimes.pipes import Descriptor, open_pipe
from mooring.runtimes.process import ProcessInstance
from mooring.runtimes.proctable import Session
from mooring.runtimes.program import ProcessSpec, check_program
from mooring.runtimes.spawning import abandon, spawn, step
from mooring.runtimes.stopping import StopPatience
from mooring.wire.budget import Budget

__all__ = ["ProcessRuntime"]

logger = logging.getLogger(__name__)

DEFAULT_MAX_LINE_BYTES = 64 * 1024 * 1024
MOST_LEFTOVERS = 64
"""Ended programs whose pipes something else holds open: a browser that was detached on purpose, say."""


class ProcessRuntime:
    """Child processes of this process. Without a household to belong to it has its own."""

    def __init__(
        self,
        *,
        on_stderr: Callable[[int, str], None],
        on_gone: Callable[[ProcessInstance, Exit], None] = lambda instance, exit: None,
        max_line_bytes: int = DEFAULT_MAX_LINE_BYTES,
        unfinished: Budget | None = None,
        patience: StopPatience | None = None,
        clock: Callable[[], float] = time.monotonic,
        owner: str | None = None,
        household: Household | None = None,
        are_spoken_to: bool = True,
    ) -> None:
        """`are_spoken_to`: see `ProcessInstance`."""
        self.household = household or Household(clock, owner=owner)
        self._owns_household = household is None
        self._on_stderr = on_stderr
        self._on_gone = on_gone
        self._max_line_bytes = max_line_bytes
        self._unfinished = unfinished or Budget(4 * max_line_bytes)
        self._patience = patience or StopPatience()
        self._clock = clock
        self._are_spoken_to = are_spoken_to
        self._started = 0
        self._instances: set[ProcessInstance] = set()
        self._closing: asyncio.Task[None] | None = None
        self._arriving: set[asyncio.Task[None]] = set()

    @property
    def instances(self) -> tuple[ProcessInstance, ...]:
        """Those that are not reaped, in the order of their start."""
        alive = (instance for instance in self._instances if not instance.reaped)
        return tuple(sorted(alive, key=lambda instance: instance.n))

    @property
    def guardian_pid(self) -> int | None:
        """The process that ends our children should we be killed; None: there is none."""
        return self.household.guardian.pid

    def check(self, spec: ProcessSpec) -> None:
        """Raise a `UserError` if the program cannot be run as asked."""
        check_program(spec)

    async def start(self, spec: ProcessSpec) -> ProcessInstance:
        """Run a program.

        1. Check what can be checked beforehand.
        2. Have a guardian, so that it can be told at once.
        3. Open the pipes and give our ends to the loop: the only wait, while no process exists.
        4. Start the process, in a session of its own; it is written down before, where there is a roll.
        5. Watch for its exit, and tell the guardian.
        """
        # 1
        self._check_open(spec)
        check_program(spec)
        self._let_go_of_leftovers()
        # 2
        self.household.guardian.ensure()
        marker = self.household.expect(spec.name)
        instance = self._new_instance(spec, marker)
        ours: list[Descriptor] = []
        stdio: list[Descriptor] = []
        try:
            # 3
            with step(spec, "opening the pipes"):
                await _open_pipes(instance, ours, stdio)
            self._check_open(spec)
            # 4
            session = spawn(spec, marker, stdio)
            # 5
            self._adopt(spec, instance, session)
        except BaseException:
            self.household.let_go(marker)
            instance.close_pipes()
            for descriptor in (*ours, *stdio):
                descriptor.close()
            raise
        return instance

    def adopt(self, spec: ProcessSpec, passed: PassedProcess) -> ProcessInstance:
        """Go on with a process that another had started; its descriptors are ours from now on.

        It can be spoken to at once. It is heard as soon as a receiver is attached: now, or it is a spare.
        """
        instance = self._new_instance(spec, passed.about.marker)
        session = instance.greet(passed)
        self._instances.add(instance)
        self.household.take_over(session)
        task = asyncio.create_task(instance.arrive(passed), name=f"adopting {passed.about.pid}")
        self._arriving.add(task)
        task.add_done_callback(self._arriving.discard)
        return instance

    def part_with(self, instance: ProcessInstance) -> None:
        """Another has adopted it."""
        instance.leave()
        self._instances.discard(instance)
        self.household.pass_on(instance.pid)

    def hurry(self) -> None:
        """No more patience with any of them: stops go to SIGKILL at once."""
        for instance in self._instances:
            instance.hurry()

    async def aclose(self) -> None:
        """Stop all, and our own guardian. Idempotent; cancelling the wait does not cut it short."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(), name="close the process runtime")
            self._closing.add_done_callback(self._on_closed)
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        if self._arriving:
            await asyncio.wait(self._arriving)
        ends = await asyncio.gather(*(each.aclose() for each in self._instances), return_exceptions=True)
        for error in ends:
            if isinstance(error, Exception):
                logger.error("an instance could not be closed", exc_info=error)
        # Last: until here it would have to end what we did not.
        if self._owns_household:
            await self.household.aclose()

    def _on_closed(self, closing: "asyncio.Task[None]") -> None:
        """Here and not in `_close`: a task that is cancelled before its first step runs nothing of it."""
        if closing.cancelled():
            for instance in tuple(self._instances):
                instance.end_now()
            if self._owns_household:
                self.household.guardian.end_now()

    def _check_open(self, spec: ProcessSpec) -> None:
        if self._closing is not None:
            raise Unavailable(f"{spec.name}: not started, Mooring is shutting down", code="shutting_down")

    def _new_instance(self, spec: ProcessSpec, marker: str) -> ProcessInstance:
        self._started += 1
        return ProcessInstance(
            name=spec.name,
            n=self._started,
            max_line_bytes=self._max_line_bytes,
            unfinished=self._unfinished,
            patience=self._patience,
            lookout=self.household.lookout,
            on_stderr=self._on_stderr,
            on_gone=self._on_gone,
            on_reaped=lambda instance: self.household.let_go(marker, instance.pid),
            on_closed=self._instances.discard,
            is_spoken_to=self._are_spoken_to,
        )

    def _let_go_of_leftovers(self) -> None:
        """Of the oldest we hear no more: its descriptors are worth more than what it may still say."""
        leftovers = [instance for instance in self._instances if instance.is_leftover]
        for instance in sorted(leftovers, key=lambda instance: instance.n)[:-MOST_LEFTOVERS]:
            logger.info("%r: something it left behind is no longer listened to", instance)
            instance.let_go()

    def _adopt(self, spec: ProcessSpec, instance: ProcessInstance, session: Session) -> None:
        try:
            with step(spec, "watching for its exit"):
                instance.begin(session, self._clock())
        except BaseException:
            abandon(session)
            raise
        self._instances.add(instance)
        self.household.take_in(session)


async def _open_pipes(instance: ProcessInstance, ours: list[Descriptor], stdio: list[Descriptor]) -> None:
    """Fill both lists as descriptors come to exist, so that whoever gave them can close them."""
    child_end, our_end = open_pipe()
    stdio.append(child_end)
    ours.append(our_end)
    instance.stdin.connect(our_end)
    for pipe in (instance.stdout.pipe, instance.stderr.pipe):
        our_end, child_end = open_pipe()
        stdio.append(child_end)
        ours.append(our_end)
        await pipe.connect(our_end)
    instance.stdout.pause_until_heard()
