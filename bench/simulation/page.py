"""Findings for people: Markdown whose tables are also read on a terminal."""

from collections.abc import Iterable, Iterator, Sequence
from textwrap import fill

from bench.figures import NOTHING, figure
from bench.simulation.findings import Findings, Incidents, Load, Pulse, Size
from bench.simulation.fleet import Fleet
from bench.simulation.resources import FULL, Full, Resource
from bench.simulation.steady import Waiting

__all__ = ["render", "table"]

_WIDTH = 120
_CONNECTIONS = (Resource.REPLICA_CONNECTIONS, Resource.PAIR_CONNECTIONS, Resource.REDIS_CONNECTIONS)


def render(found: Findings) -> str:
    """All of it."""
    parts = (_clients, _sizes, _loads, _remedies, _pulses, _incidents)
    return "\n".join(line for part in parts for line in [*part(found), ""])


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Columns of one width; figures to the right, and words in the last column to the left."""
    lines = [list(head), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for number, cells in enumerate(lines):
        padded = [cell.rjust(width) for cell, width in zip(cells[:-1], widths, strict=False)]
        yield f"| {' | '.join([*padded, cells[-1].ljust(widths[-1])])} |"
        if not number:
            yield f"|{'|'.join('-' * (width + 1) + ':' for width in widths[:-1])}|{'-' * (widths[-1] + 2)}|"


def _clients(found: Findings) -> Iterator[str]:
    fleet = found.fleet
    yield _paragraph(
        f"Each session has a call every {1 / fleet.calls_per_second_per_session:,.0f} s and lives for "
        f"{_span(fleet.session_life_s)}; {_percent(fleet.event_share)} of calls are answered with events, "
        f"{_percent(fleet.stream_share)} of clients listen on a stream. {_balancer(fleet)} "
        f"The lease is {fleet.lease_s:g} s. Redis has {_nodes(fleet)}{fleet.redis_gb:g} GB, each replica "
        f"{fleet.replica_gb:g} GB for Mooring itself. What passing a call on costs is taken from where it is "
        "dearest: as a rule the row of three replicas, of whose calls few share a message between two."
    )


def _balancer(fleet: Fleet) -> str:
    where = "one and the same replica" if fleet.hashed else "any replica"
    if not fleet.affinity:
        return f"The balancer brings calls to {where}."
    return f"The balancer brings {_percent(fleet.affinity)} of calls to the owner, the rest to {where}."


def _nodes(fleet: Fleet) -> str:
    return f"{fleet.redis_nodes} nodes of " if fleet.redis_nodes > 1 else ""


def _sizes(found: Findings) -> Iterator[str]:
    yield "### How full it is"
    yield ""
    yield _paragraph(
        f"Of what one core, the memory and the connections allow. Full is {_percent(FULL)}; a core that is "
        "busier lets everybody wait. *Looked for*: of the calls that are passed on, those for which Redis is "
        "asked who the owner is. *A call*: what it takes in milliseconds, p50 / p99, without its server."
    )
    yield ""
    head = ("replicas", "sessions", "calls/s", "looked for", "replica CPU", "Redis CPU", "Redis memory")
    yield from table((*head, "connections", "a call", "full first, as calls grow"), map(_size, found.sizes))


def _size(size: Size) -> list[str]:
    fleet, shares = size.fleet, {use.resource: use.share for use in size.uses}
    return [
        str(fleet.replicas),
        f"{fleet.sessions:,}",
        f"{fleet.calls_per_s:,.0f}",
        _percent(size.missed_share),
        _marked(shares[Resource.REPLICA_CPU]),
        _marked(shares[Resource.REDIS_CPU]),
        _marked(shares[Resource.REDIS_MEMORY]),
        _marked(max(shares[one] for one in _CONNECTIONS)),
        _both(size.steady.call) if size.steady else NOTHING,
        _first(size),
    ]


def _first(size: Size) -> str:
    full = sorted((use for use in size.uses if use.share >= FULL), key=lambda use: use.share, reverse=True)
    if full:
        return f"already: {', '.join(use.resource for use in full)}"
    return f"{_named(size.first)}, at {_rounded(size.first.at)} calls/s"


def _loads(found: Findings) -> Iterator[str]:
    yield "### How long one waits"
    yield ""
    yield _paragraph(
        f"{found.fleet.replicas} replicas with {found.fleet.sessions:,} sessions, as calls grow to what the "
        "cores can do. Milliseconds, p50 / p99: what each piece of work waits for the core of a replica or "
        "of Redis, and what a call takes in all, without its server. The last line is rather too low: a "
        "second is too short for such queues to grow to their length."
    )
    yield ""
    head = ("calls/s", "replica CPU", "Redis CPU", "wait for a replica", "wait for Redis", "a call")
    yield from table(head, map(_load, found.loads))


def _load(load: Load) -> list[str]:
    seen = load.steady
    return [
        f"{load.fleet.calls_per_s:,.0f}",
        _marked(seen.replica_share),
        _marked(seen.redis_share),
        _both(seen.replica_wait),
        _both(seen.redis_wait),
        _both(seen.call),
    ]


def _remedies(found: Findings) -> Iterator[str]:
    yield "### What helps"
    yield ""
    yield f"{found.fleet.replicas} replicas, as sessions grow in number: how many, when something is full."
    yield ""
    rows = [[one.name, _rounded(one.first.at), _named(one.first), one.then] for one in found.remedies]
    yield from table(("what is done", "sessions", "then full", "what to do then"), rows)


def _pulses(found: Findings) -> Iterator[str]:
    yield "### Heartbeats"
    yield ""
    yield _paragraph(
        "What replicas ask of Redis although nobody calls. Each looks at the leases of all, so it grows "
        "with the square of their number. *In trouble*: while Redis does not answer in time they look at "
        "each attempt; with too many replicas it never does, because of that alone."
    )
    yield ""
    head = ("replicas", "lease", "commands/s", "Redis CPU", "in trouble", "trouble ends by itself up to")
    yield from table(head, map(_pulse, found.pulses))


def _pulse(one: Pulse) -> list[str]:
    beats = one.heartbeats
    return [
        str(one.fleet.replicas),
        f"{one.fleet.lease_s:g} s",
        f"{beats.commands_per_s:,.0f}",
        _marked(beats.redis_share),
        _marked(beats.troubled_share),
        f"{_rounded(beats.most_replicas)} replicas",
    ]


def _incidents(found: Findings) -> Iterator[str]:
    yield "### When replicas end"
    yield ""
    yield "One is killed: calls for its sessions wait until its lease has run out, and look again meanwhile."
    yield ""
    head = ("replicas", "sessions", "calls that wait", "refused", "replica CPU", "Redis CPU")
    yield from table((*head, "served after the lease"), map(_killed, found.incidents))
    yield ""
    yield "All are restarted in turn, and nobody knows any more where sessions are:"
    yield ""
    head = ("replicas", "sessions", "takes", "longest farewell", "takeovers/s", "replica CPU")
    yield from table((*head, "Redis CPU", "most at one"), map(_rolled, found.incidents))


def _killed(one: Incidents) -> list[str]:
    killed = one.killed
    return [
        str(one.fleet.replicas),
        f"{one.fleet.sessions:,}",
        f"{killed.waiting:,.0f}",
        f"{killed.refused:,.0f}",
        _marked(killed.replica_share),
        _marked(killed.redis_share),
        f"{figure(killed.delay_s, 's')} s",
    ]


def _rolled(one: Incidents) -> list[str]:
    rolled = one.rolled
    return [
        str(one.fleet.replicas),
        f"{one.fleet.sessions:,}",
        _span(rolled.took_s),
        f"{figure(rolled.letting_go_s, 's')} s",
        f"{rolled.takeovers_per_s:,.0f}",
        _marked(rolled.replica_share),
        _marked(rolled.redis_share),
        f"{rolled.most_held:,.0f} sessions",
    ]


def _named(full: Full) -> str:
    return f"{full.resource} ({full.reason})"


def _both(waiting: Waiting) -> str:
    return f"{waiting.p50_ms:.2f} / {waiting.p99_ms:.2f}"


def _percent(share: float) -> str:
    return f"{share:,.0%}".replace("%", " %")


def _marked(share: float) -> str:
    """What is full stands out."""
    return f"**{_percent(share)}**" if share >= FULL else _percent(share)


def _rounded(value: float) -> str:
    """Two digits: a model has no more."""
    return f"{float(f'{value:.1e}'):,.0f}"


def _span(seconds: float) -> str:
    return f"{seconds / 60:,.0f} min" if seconds >= 60 else f"{seconds:.0f} s"


def _paragraph(text: str) -> str:
    return fill(text, _WIDTH)
