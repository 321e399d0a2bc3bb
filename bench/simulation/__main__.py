"""`python -m bench.simulation`: how far replicas go with the costs that the benchmark measured.

Without a size: fleets of 3 to 100 replicas with 10,000 to a million sessions. The costs are those of the
recorded full run, or of another one that `python -m bench --json FILE` wrote. Exit status 2 if that run lacks
rows that are needed.
"""

import argparse
import sys
from pathlib import Path

import msgspec

from bench.results import Results, WrongShape, from_json, recorded
from bench.simulation.costs import ROWS, Costs, MissingRows, costs_of
from bench.simulation.findings import SEED, explore, sizes_of
from bench.simulation.fleet import Fleet
from bench.simulation.page import render


def main(argv: list[str] | None = None) -> int:
    """The exit status."""
    parser = _parser()
    given = parser.parse_args(argv)
    try:
        costs = _costs(given.results)
    except (OSError, WrongShape) as error:
        print(f"{given.results}: {error}", file=sys.stderr)
        return 2
    except MissingRows as missing:
        print(_in_words(missing), file=sys.stderr)
        return 2
    fleet = _fleet(given)
    replicas = {"replicas": [given.replicas]} if given.replicas else {}
    sessions = {"sessions": [given.sessions]} if given.sessions else {}
    found = explore(fleet, sizes_of(fleet, **replicas, **sessions), costs, given.seed)
    print(msgspec.json.encode(found).decode() if given.json else render(found))
    return 0


def _costs(file: Path | None) -> Costs:
    run = recorded("full") if file is None else from_json(file.read_bytes())
    return costs_of(run or Results("", {}, "", [], []))


def _in_words(missing: MissingRows) -> str:
    return (
        f"The run lacks {len(missing.ids)} rows that the simulation needs: {', '.join(missing.ids)}.\n"
        f"To have them: python -m bench --only {' '.join(ROWS)} --json FILE, "
        "then python -m bench.simulation --results FILE"
    )


def _fleet(given: argparse.Namespace) -> Fleet:
    chosen = {name: getattr(given, name) for name in Fleet.__struct_fields__ if hasattr(given, name)}
    return Fleet(**{name: value for name, value in chosen.items() if value is not None})


def _parser() -> argparse.ArgumentParser:
    usual = Fleet()
    parser = argparse.ArgumentParser(
        prog="python -m bench.simulation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--replicas", type=_positive, metavar="N", help="of one size only (3, 10, 30, 100)")
    add("--sessions", type=_positive, metavar="N", help="of one size only (10,000 … 1,000,000)")
    add(
        "--calls-per-second-per-session",
        type=_more_than_nothing,
        metavar="X",
        help=f"({usual.calls_per_second_per_session:g})",
    )
    add("--affinity", type=_share, metavar="F", help="share of calls brought to the owner on purpose (0)")
    add("--hashed", action="store_true", help="each session comes to one replica, mostly not its owner")
    add(
        "--event-share",
        type=_share,
        metavar="F",
        help=f"share of calls answered with events ({usual.event_share:g})",
    )
    add(
        "--stream-share",
        type=_share,
        metavar="F",
        help=f"share of clients that listen on a stream ({usual.stream_share:g})",
    )
    add(
        "--lease",
        dest="lease_s",
        type=_more_than_nothing,
        metavar="S",
        help=f"seconds, as in mooring run ({usual.lease_s:g})",
    )
    add(
        "--session-life",
        dest="session_life_s",
        type=_more_than_nothing,
        metavar="S",
        help=f"seconds from its begin to its end ({usual.session_life_s:g})",
    )
    add("--redis-nodes", type=_positive, metavar="N", help="of a Redis Cluster (1)")
    add("--results", type=Path, metavar="FILE", help="the run to carry on from (the recorded full run)")
    add("--seed", type=int, default=SEED, metavar="N", help=f"of what is drawn by chance ({SEED})")
    add("--json", action="store_true", help="for programs")
    return parser


def _positive(text: str) -> int:
    if (value := int(text)) < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return value


def _more_than_nothing(text: str) -> float:
    if not 0 < (value := float(text)) < float("inf"):
        raise argparse.ArgumentTypeError("more than 0")
    return value


def _share(text: str) -> float:
    if not 0 <= (value := float(text)) <= 1:
        raise argparse.ArgumentTypeError("from 0 to 1")
    return value


if __name__ == "__main__":
    sys.exit(main())
