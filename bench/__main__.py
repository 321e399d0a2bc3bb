"""`python -m bench`: measure Mooring beside others, print what was found."""

import argparse
import resource
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from bench import claims, compare, document, machine, peers, report
from bench.installed import mooring_program
from bench.measuring import Group, Plan, measure
from bench.programs import FOLDER, SOURCES, build
from bench.progress import Lines
from bench.results import MINIMAL, MOORING, PEERS, PIPE, TARGETS, Kind, Results, record, recorded, to_json
from bench.rows import GROUPS
from tests.parts import Part

QUICK_TARGETS = (MOORING, MINIMAL, PIPE)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"only {', '.join(QUICK_TARGETS)}; ≤ 2 minutes")
    parser.add_argument(
        "--only", nargs="+", metavar="ROW", help="only these rows and what is measured with them"
    )
    parser.add_argument("--targets", nargs="+", choices=TARGETS, help="only these")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there too")
    parser.add_argument("--record", action="store_true", help="keep the run as the one to compare with")
    arguments = parser.parse_args()
    if unknown := set(arguments.only or ()) - {id for group in GROUPS for id in group.ids}:
        parser.error(f"no such row: {', '.join(sorted(unknown))}")
    if arguments.record and (arguments.only or arguments.targets):
        parser.error("only a whole run can be recorded")
    return arguments


def _chosen(arguments: argparse.Namespace) -> list[Group]:
    if arguments.only:
        return [group for group in GROUPS if set(group.ids) & set(arguments.only)]
    return [group for group in GROUPS if group.quick_windows or not arguments.quick]


def _set_up(targets: tuple[str, ...], lines: Lines) -> None:
    """Everything that is needed. A peer that cannot be had is a dash with that reason."""
    FOLDER.mkdir(exist_ok=True)
    for source in sorted(SOURCES.glob("*.c")):
        build(source.stem)
    mooring_program()
    if set(targets) & set(PEERS):
        with ThreadPoolExecutor(max_workers=3) as pool:
            list(pool.map(lambda part: _install(part, lines), peers.missing()))


def _install(part: Part, lines: Lines) -> None:
    lines.say(f"installing {part.name} …")
    try:
        part.renew()
    except Exception as error:
        lines.say(f"{part.name} cannot be had ({part.hint}): {error}")


def _commit() -> str:
    def git(*words: str) -> str:
        argv = ["git", "-C", str(Path(__file__).parent), *words]
        return subprocess.run(argv, capture_output=True, text=True, check=False).stdout.strip()

    return git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain", "-uno") else "")


def _run(plan: Plan, groups: list[Group], lines: Lines) -> Results:
    rows = [row for group in groups for row in measure(group, plan, lines)]
    date = datetime.now(UTC).isoformat(timespec="seconds")
    return Results(date, machine.describe(peers.versions(plan.targets)), _commit(), list(plan.targets), rows)


def _report(results: Results, kind: Kind, *, whole: bool) -> None:
    print(file=sys.stdout)
    report.print_table(results, sys.stdout)
    if kind == "full" and whole:
        report.print_claims(claims.judge(results), sys.stdout)
    if (last := recorded(kind)) is not None:
        ids = {row.id for row in results.rows}
        last = msgspec.structs.replace(last, rows=[row for row in last.rows if row.id in ids])
        changes = compare.compare(last, results)
        report.print_changes(changes, compare.other_machine(last, results), sys.stdout)


def main() -> None:
    """Set up, measure, report."""
    arguments = _arguments()
    kind: Kind = "quick" if arguments.quick else "full"
    targets = tuple(arguments.targets or (QUICK_TARGETS if arguments.quick else TARGETS))
    lines = Lines(sys.stderr)
    # A thousand sessions are some five thousand descriptors, and what is started inherits the limit.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    # Whatever ends us ends what we started: by way of an exception.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))

    _set_up(targets, lines)
    results = _run(Plan(targets, arguments.quick), _chosen(arguments), lines)
    _report(results, kind, whole=not (arguments.only or arguments.targets))
    if arguments.json:
        arguments.json.write_bytes(to_json(results))
    if arguments.record:
        record(results, kind)
        if kind == "full":
            document.write(results)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
