"""Run the official conformance suite against a URL, and read what it found."""

import asyncio
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests import parts
from tests.e2e.program import Program

__all__ = ["Report", "Scenario", "client_scenarios", "examine", "examine_client", "examine_suite"]

SCENARIO_TIMEOUT_MS = 120_000
"""Four times the suite's own: a Python server takes seconds to start on a busy machine."""


@dataclass(frozen=True)
class Scenario:
    """What the suite found in one scenario."""

    name: str
    checks: tuple[tuple[str, str, str], ...]
    """Of each check its id, its status and its error message."""

    @property
    def passed(self) -> bool:
        """As the suite counts, no failure; and at least one success, so that silence is none."""
        statuses = {status for _, status, _ in self.checks}
        return "SUCCESS" in statuses and "FAILURE" not in statuses

    @property
    def passing(self) -> set[tuple[str, str]]:
        """The checks that succeeded whenever they were made, with the name of the scenario."""
        succeeded = {id for id, status, _ in self.checks if status == "SUCCESS"}
        return {
            (self.name, id) for id in succeeded - {id for id, status, _ in self.checks if status != "SUCCESS"}
        }

    def row(self) -> str:
        counts = Counter(status for _, status, _ in self.checks)
        said = ", ".join(f"{number} {status.lower()}" for status, number in sorted(counts.items()))
        lines = [f"{'ok  ' if self.passed else 'FAIL'} {self.name:<48} {said or 'never ran'}"]
        lines += [f"       {id}: {error}" for id, status, error in self.checks if status == "FAILURE"]
        return "\n".join(lines)


@dataclass(frozen=True)
class Report:
    """One run of the suite: the scenarios that a revision requires, and those that are only run."""

    exit_status: int
    required: tuple[Scenario, ...]
    others: tuple[Scenario, ...]

    @property
    def passed(self) -> int:
        return sum(scenario.passed for scenario in self.required)

    @property
    def failed(self) -> list[str]:
        return [scenario.name for scenario in self.required if not scenario.passed]

    def table(self) -> str:
        rows = [scenario.row() for scenario in self.required]
        rows += [f"{scenario.row()} (not required)" for scenario in self.others]
        head = f"{self.passed} of {len(self.required)} required scenarios; exit status {self.exit_status}"
        return "\n".join([head, *rows])


def client_scenarios(revision: str) -> list[str]:
    """What that revision requires of clients; nothing where the suite is not installed."""
    return _required(revision, "client") if parts.node_modules().is_dir() else []


async def examine_client(command: str, scenario: str, revision: str) -> int:
    """One scenario of a client, which is run as `command URL`; the suite's exit status."""
    argv = [*parts.npm_command("conformance"), "client", "--command", command, "--scenario", scenario]
    argv += ["--spec-version", revision]
    environment = {**parts.node_environment(), "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"}
    async with Program(argv, environment=environment) as suite:
        return await asyncio.wait_for(suite.process.wait(), SCENARIO_TIMEOUT_MS / 1000)


def _required(revision: str, leg: str = "server") -> list[str]:
    """The names under `server:` in the suite's own list; its YAML is plain enough to be read as lines."""
    path = parts.node_modules() / f"@modelcontextprotocol/conformance/requirements/{revision}.yaml"
    section = path.read_text().split(f"\n{leg}:\n", 1)[1]
    names: list[str] = []
    for line in section.splitlines():
        if not line.startswith("  - "):
            break
        names.append(line.removeprefix("  - ").strip())
    return names


def _found(output: Path) -> dict[str, Scenario]:
    """Results lie in `server-SCENARIO-2026-11-15T19-51-00-107Z/checks.json`, the rest being the time."""
    found: dict[str, Scenario] = {}
    for path in output.glob("server-*/checks.json"):
        name = path.parent.name.removeprefix("server-").rsplit("-", 6)[0]
        checks = tuple(
            (check["id"], check["status"], check.get("errorMessage") or "")
            for check in json.loads(path.read_text())
        )
        found[name] = Scenario(name, checks)
    return found


async def _run(url: str, output: Path, *words: str) -> int:
    parts.require("npm", "node")
    argv = [*parts.npm_command("conformance"), "server", "--url", url, *words]
    argv += ["--timeout", str(SCENARIO_TIMEOUT_MS), "--output-dir", str(output)]
    async with Program(argv, environment=parts.node_environment()) as suite:
        status = await asyncio.wait_for(suite.process.wait(), 900)
        await suite.ended()
    return status


async def examine(url: str, revision: str, output: Path) -> Report:
    """Every server scenario that `revision` requires, against the server at `url`."""
    status = await _run(url, output, "--requirements", revision)
    found = await asyncio.to_thread(_found, output)
    required = _required(revision)
    return Report(
        status,
        tuple(found.pop(name, Scenario(name, ())) for name in required),
        tuple(found.values()),
    )


async def examine_suite(url: str, suite: str, output: Path) -> dict[str, Scenario]:
    """The server scenarios of one of the suite's own selections, such as `all`, required or not."""
    await _run(url, output, "--suite", suite)
    return await asyncio.to_thread(_found, output)
