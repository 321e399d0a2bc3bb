"""Instances of a server that we start and then speak to over HTTP: sessions with one program for all.

The program is a process or a container, of a maker of its own. It is started when the first instance is
wanted, and runs until the workload ends; if it ends before, the next instance that is wanted starts another.

Invariants:
- There is one program at a time that sessions are begun with; one that is replaced ends while its successor
  begins, unless both would listen on the same port.
- An exit takes every session with it, and is told of once.
- A program that has never listened ends with the last who waited for that.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from typing import cast

from msgspec import structs

from mooring.errors import ServerFailed, Unavailable
from mooring.proxy.ports import Discarded, ExitLike
from mooring.runtimes.exits import Exit
from mooring.runtimes.text import MAX_TEXT_BYTES
from mooring.wire.mirrored import MarkedTools
from mooring.workloads.definition import ServerOptions
from mooring.workloads.makers import Ears, Instance, Maker, Passed
from mooring.workloads.served_instance import ServedInstance
from mooring.workloads.served_program import Program

__all__ = ["ServedMaker"]

log = logging.getLogger("mooring.workload")


class ServedMaker:
    """See the module, and `makers.Maker`."""

    def __init__(
        self,
        definition: ServerOptions,
        ears: Ears,
        make_programs: Callable[[ServerOptions, Ears], Maker],
    ) -> None:
        """`make_programs`: makes the maker of programs, which is told of them by these ears."""
        if definition.served is None:
            raise ValueError("it does not speak HTTP")
        self._name = definition.name
        self._options = definition.served
        self._policy = definition.sessions
        self._tools = MarkedTools()
        """What any of its programs has said of its tools."""
        self._ears = ears
        is_of_host = definition.container is not None and definition.container.network == "host"
        self._fixed_port = definition.served.container_port if is_of_host else None
        # What a program writes is for people, and no message.
        lines = structs.replace(definition.sessions, max_message_bytes=MAX_TEXT_BYTES)
        self._programs = make_programs(
            replace(definition, sessions=lines),
            ears._replace(
                on_gone=lambda instance, exit: None,
                on_paused=self._on_paused,
                on_excused=self._on_excused,
            ),
        )
        self._current: Program | None = None
        self._all: set[Program] = set()
        self._starting = asyncio.Lock()
        self._last_end: tuple[int, list[int]] = (0, [])
        """The program that ended last, and its sessions: what excuses that may be learnt later."""
        self._excused_early = 0
        """The program that was excused before its sessions had heard of its end."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._made = 0
        self._closing: asyncio.Task[None] | None = None

    @property
    def instances(self) -> tuple[ServedInstance, ...]:
        """See `Maker`."""
        every = (session for program in self._all for session in program.sessions.values())
        return tuple(sorted(every, key=lambda session: session.n))

    @property
    def programs(self) -> tuple[Instance, ...]:
        """See `Maker`."""
        return tuple(self._programs.instances)

    # Beginning

    async def check(self, variables: Mapping[str, str]) -> None:
        """See `Maker`."""
        await self._programs.check(variables)

    async def start(self, variables: Mapping[str, str]) -> ServedInstance:
        """See `Maker`. Whether the program listens is seen by whoever speaks to it."""
        async with self._starting:
            program = self._running() or await self._meet(*await self._start_program(variables))
        return self._begin(program)

    @property
    def may_return(self) -> bool:
        """See `Maker`: the container may."""
        return self._programs.may_return

    async def regain(self, variables: Mapping[str, str]) -> ServedInstance | None:
        """See `Maker`: a session with the container that others have restarted."""
        async with self._starting:
            program = self._running()
            if program is None:
                instance = await self._programs.regain(variables)
                program = await self._meet(instance, self._fixed_port) if instance is not None else None
        return self._begin(program) if program is not None else None

    def _running(self) -> Program | None:
        if self._closing is not None:
            raise Unavailable(f"{self._name}: Mooring is shutting down", code="shutting_down")
        return self._current

    async def _start_program(self, variables: Mapping[str, str]) -> tuple[Instance, int | None]:
        """A program, and its port if that is known."""
        if self._fixed_port is not None and self._tasks:
            await asyncio.wait(self._tasks)  # the one before may still have the port
        if not self._options.port_env:
            return await self._programs.start(variables), self._fixed_port
        port = _free_port()
        return await self._programs.start({**variables, self._options.port_env: str(port)}), port

    async def _meet(self, instance: Instance, port: int | None) -> Program:
        self._running()  # (it is ended with all others if we are closing)
        port = port or instance.published_port
        if port is None:
            await instance.stop()
            text = f"{self._name}: the engine has not published port {self._options.container_port}"
            raise ServerFailed(
                text, code="cannot_start", hint="does its network have a way in? See --network"
            )
        program = Program(
            instance,
            port,
            self._options,
            self._policy,
            self._tools,
            on_stdout=self._ears.on_stderr,
            on_gone=self._on_gone,
            on_deaf=self._on_deaf,
        )
        self._all.add(program)
        self._current = program
        log.debug("%s: %s is to listen on port %d", self._name, instance.title, port)
        return program

    def _begin(self, program: Program) -> ServedInstance:
        self._made += 1
        session = ServedInstance(
            self._made, program.instance, on_ended=lambda: self._on_session_ended(program, session.n)
        )
        session.on_trouble = self._ears.on_trouble
        program.add(session)
        return session

    # Ending

    def replace(self, instance: Instance, reason: str) -> None:
        """See `Maker`."""
        program = next((one for one in self._all if one.sessions.get(instance.n) is instance), None)
        if program is not None:
            others = [session for session in program.in_use if session is not instance]
            self._discard(program, others, None, Discarded(reason))

    def _on_deaf(self, program: Program) -> None:
        """It runs, and has not listened for a while."""
        exit = _ListensNoMore(None, None)
        self._discard(program, program.in_use, exit, exit)

    def _discard(
        self, program: Program, lost: list[ServedInstance], exit: Exit | None, told: ExitLike
    ) -> None:
        """End it, in the background; `told`: what its sessions hear at once."""
        if program.is_discarded:
            return
        program.is_discarded = True
        self._drop(program)
        self._ears.on_program_gone(lost, exit)
        loop = asyncio.get_running_loop()
        for session in lost:
            # Not at once: first it is decided what follows.
            loop.call_soon(session.lose, told)
        self._spawn(self._end(program), f"ending {program.instance.title}")

    def _on_gone(self, program: Program, exit: ExitLike) -> None:
        """It has exited."""
        self._drop(program)
        if not program.is_discarded and self._closing is None:
            program.is_discarded = True
            # (All that makers make ends with one.)
            self._spawn(
                self._bury(program, cast("Exit", exit)), f"after the exit of {program.instance.title}"
            )

    async def _bury(self, program: Program, exit: Exit) -> None:
        await program.hear_last_words()
        lost = program.in_use
        if lost:
            self._last_end = (program.instance.n, [session.n for session in lost])
            self._ears.on_program_gone(lost, exit)
            if self._excused_early == program.instance.n:
                self._on_excused(program.instance.n)
        else:
            text = "%s (%s) ended by itself while nobody used it: %s; the next call starts it again"
            about = {"event": "server_exited", "server": self._name, "pid": program.instance.process}
            log.warning(text, self._name, program.instance.title, exit, extra=about)
        for session in lost:
            session.lose(exit)
        await self._close_program(program)

    async def _end(self, program: Program) -> None:
        outcome = await program.instance.stop()
        if outcome.survivors:
            text, about = "%s: %s could not be ended", {"event": "survivors", "server": self._name}
            log.error(text, self._name, program.instance.title, extra=about)
        await self._close_program(program)

    async def _close_program(self, program: Program) -> None:
        """First its sessions, in which somebody may still take leave."""
        await asyncio.gather(*(session.stop() for session in program.sessions.values()))
        await program.aclose()
        self._all.discard(program)

    def _on_session_ended(self, program: Program, n: int) -> None:
        del program.sessions[n]
        if not program.is_open and not program.sessions and self._closing is None:
            self._discard(program, [], None, Discarded("it does not listen"))

    def _drop(self, program: Program) -> None:
        if self._current is program:
            self._current = None

    def hurry(self) -> None:
        """See `Maker`."""
        for instance in self.instances:
            instance.hurry()
        self._programs.hurry()

    async def aclose(self) -> None:
        """See `Maker`."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(), name=f"{self._name}: end its program")
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        """First the sessions: whoever is told of their end can still act on it."""
        await asyncio.gather(*(instance.stop() for instance in self.instances))
        await self._programs.aclose()
        if self._tasks:
            await asyncio.wait(self._tasks)
        for program in tuple(self._all):
            await self._close_program(program)

    # What programs do

    def _on_paused(self, instance: Instance, paused: bool) -> None:
        """The container is paused, or goes on: all its sessions are."""
        for program in self._all:
            if program.instance is instance:
                for session in program.in_use:
                    self._ears.on_paused(session, paused)

    def _on_excused(self, n: int) -> None:
        """That this program has exited was the doing of others."""
        program, sessions = self._last_end
        if program != n:
            self._excused_early = n  # what its sessions still hear is not over
            return
        for session in sessions:
            self._ears.on_excused(session)

    # Another Mooring

    def adopt(self, passed: Passed) -> Instance:
        """Never: sessions are opened anew by whoever takes them over, with a program of its own."""
        raise TypeError("sessions over HTTP are not passed on")

    def part_with(self, instance: Instance) -> None:
        """Never, for the same reason."""

    def _spawn(self, work: Coroutine[None, None, None], name: str) -> None:
        task = asyncio.create_task(work, name=f"{self._name}: {name}")
        self._tasks.add(task)
        task.add_done_callback(self._on_task)

    def _on_task(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s failed", task.get_name(), exc_info=error, extra={"event": "bug"})


class _ListensNoMore(Exit):
    """Of a program that runs on, and is given up."""

    def __str__(self) -> str:
        return "it does not listen any more"


def _free_port() -> int:
    """One that nobody listens on now. Should somebody take it first, the program exits, and gets another."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])
