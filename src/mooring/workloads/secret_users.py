"""Which servers need which secrets, as the store has them: also when no daemon runs."""

from pathlib import Path

import msgspec

from mooring.secrets.references import Reference
from mooring.store.peek import read_definitions
from mooring.workloads.definition import load_options

__all__ = ["servers_by_reference"]


def servers_by_reference(state: Path) -> dict[Reference, list[str]]:
    """Names of servers, by what they refer to. Raises StoreError."""
    found: dict[Reference, list[str]] = {}
    for name, definition in read_definitions(state).items():
        try:
            references = load_options(definition).references
        except msgspec.DecodeError:
            continue  # the daemon tells of it; it can start nothing of that
        for reference in references:
            found.setdefault(reference, []).append(name)
    return found
