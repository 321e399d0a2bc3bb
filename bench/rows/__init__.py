"""What is measured, one module for each kind. Each has its `GROUPS`; none knows how results are shown."""

from bench.measuring import Group
from bench.rows import (
    calls,
    containers,
    daemons,
    editing,
    failing,
    instructions,
    memory,
    relay,
    remote,
    replicas,
    scaling,
    sizes,
    starting,
    ways,
)

__all__ = ["GROUPS"]

GROUPS: tuple[Group, ...] = (
    *calls.GROUPS,
    *starting.GROUPS,
    *memory.GROUPS,
    *sizes.GROUPS,
    *failing.GROUPS,
    *scaling.GROUPS,
    *ways.GROUPS,
    *instructions.GROUPS,
    *daemons.GROUPS,
    *editing.GROUPS,
    *containers.GROUPS,
    *remote.GROUPS,
    *relay.GROUPS,
    *replicas.GROUPS,
)
