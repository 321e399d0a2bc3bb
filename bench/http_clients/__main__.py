"""`python -m bench.http_clients`: each client in turn, several rounds, the best of each; a table."""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from bench import machine, peers, processes
from bench.installed import mooring_python

WORKER = Path(__file__).with_name("worker.py")
PATIENCE_S = 120.0
Found = dict[str, Any]


class Row(NamedTuple):
    """One line of the table."""

    id: str
    title: str
    best: Any
    """`max` or `min`, over the rounds."""


ROWS = (
    Row("rate", "plain, 32 at once, calls/s", max),
    Row("rate_tls", "TLS, 32 at once, calls/s", max),
    Row("cpu", "CPU of a call, plain, µs", min),
    Row("cpu_tls", "CPU of a call, TLS, µs", min),
    Row("lone", "a lone call, plain, p50, µs", min),
    Row("lone_tls", "a lone call, TLS, p50, µs", min),
    Row("event", "an event on an open stream, p50, µs", min),
    Row("event_p99", "the same, p99, µs", min),
    Row("memory", "memory that importing and using it takes, MiB", min),
)


def pythons() -> dict[str, str]:
    """Client → the interpreter that has it."""
    part = peers.HTTP_CLIENTS
    if not part.installed():
        part.renew()
    python = str(part.place / "bin/python")
    return {"mooring": mooring_python(), "aiohttp": python, "pyreqwest": python}


def measure(rounds: int) -> dict[str, list[Found]]:
    found: dict[str, list[Found]] = {}
    with tempfile.TemporaryDirectory() as folder:
        ca_file = f"{folder}/ca.pem"
        argv = [sys.executable, "-m", "bench.http_clients.server", ca_file]
        server = subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True)
        try:
            assert server.stdout is not None
            ports = server.stdout.readline().decode()
            for number in range(rounds):
                for client, python in pythons().items():
                    print(f"round {number + 1} of {rounds}: {client}", file=sys.stderr)
                    worker = [python, str(WORKER), client, ports, ca_file]
                    said = subprocess.run(worker, stdout=subprocess.PIPE, check=True, timeout=PATIENCE_S)
                    found.setdefault(client, []).append(json.loads(said.stdout))
        finally:
            processes.end(server)
    return found


def table(found: dict[str, list[Found]]) -> str:
    """As Markdown, for docs/adr/0016-http-client.md."""
    clients = list(found)
    lines = [f"| | {' | '.join(clients)} |", "|---" * (len(clients) + 1) + "|"]
    for row in ROWS:
        values = (row.best(one[row.id] for one in found[client]) for client in clients)
        lines.append(f"| {row.title} | {' | '.join(f'{value:,.0f}' for value in values)} |")
    for what in found[clients[0]][0]["resets"]:
        told = (found[client][0]["resets"][what] for client in clients)
        lines.append(f"| a reset {what} | {' | '.join(told)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(prog="python -m bench.http_clients", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    found = measure(parser.parse_args().rounds)
    versions = {name: machine.pypi_version(Path(pythons()[name]), name) for name in ("aiohttp", "pyreqwest")}
    print(machine.sentence(machine.describe({})))
    print(", ".join(f"{name} {version}" for name, version in versions.items()))
    print(table(found))


if __name__ == "__main__":
    main()
