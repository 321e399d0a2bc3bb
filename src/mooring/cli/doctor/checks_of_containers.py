"""What `mooring doctor` looks at for servers that run from images: does their engine answer?"""

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from mooring.cli.doctor.findings import Finding, Level
from mooring.errors import MooringError
from mooring.host.harbouring import engine_environment
from mooring.host.places import Places
from mooring.store.database import StoreError
from mooring.store.peek import read_definitions
from mooring.workloads.definition import load_options

__all__ = ["check_engines"]


def check_engines(places: Places, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Those that servers ask for. Whoever has no such servers needs no engine."""
    for wanted, names in sorted(_wanted(places).items()):
        yield asyncio.run(_look(wanted, names, environment))


async def _look(wanted: str, names: list[str], environment: Mapping[str, str]) -> Finding:
    from mooring.runtimes.containers.harbour import find_engine, places_to_look  # noqa: PLC0415 - only here

    who = ", ".join(names)
    try:
        looked_at = places_to_look(wanted, engine_environment(environment), Path.home())
        engine = await find_engine(wanted, looked_at)
    except MooringError as error:
        return Finding("engine", Level.PROBLEM, f"{who}: {error.message}", error.hint)
    text = f"{engine.kind} {engine.version} answers at {engine.endpoint}, for {who}"
    return Finding("engine", Level.OK, text)


def _wanted(places: Places) -> dict[str, list[str]]:
    """Which engine is asked for, by whom."""
    found: dict[str, list[str]] = {}
    with contextlib.suppress(StoreError):  # which is another check's
        for name, definition in read_definitions(places.state).items():
            with contextlib.suppress(msgspec.DecodeError):
                if (container := load_options(definition).container) is not None:
                    found.setdefault(container.engine, []).append(name)
    return found
