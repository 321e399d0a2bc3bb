"""Which servers need which secrets, as the store has them: also when no daemon runs."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from mooring.secrets.references import Reference
from mooring.store.peek import read_definitions
from mooring.workloads.definition import ServerOptions, load_options

__all__ = ["servers_by_reference", "servers_elsewhere"]


def servers_by_reference(state: Path) -> dict[Reference, list[str]]:
    """Names of servers, by what they refer to. Raises StoreError."""
    found: dict[Reference, list[str]] = {}
    for name, options in _readable(state):
        for reference in options.references:
            found.setdefault(reference, []).append(name)
    return found


def servers_elsewhere(state: Path) -> frozenset[str]:
    """Those that have no process here. Raises StoreError."""
    return frozenset(name for name, options in _readable(state) if options.remote is not None)


def _readable(state: Path) -> Iterator[tuple[str, ServerOptions]]:
    for name, definition in read_definitions(state).items():
        try:
            yield name, load_options(definition)
        except msgspec.DecodeError:
            continue  # the daemon tells of it; it can start nothing of that
