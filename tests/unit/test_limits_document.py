"""docs/limits.md is true: its numbers are the code's, its tests exist, and no bound is missing."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from mooring.cli.running.run import run
from mooring.http.client_limits import ClientLimits
from mooring.http.limits import Limits
from mooring.proxy.policy import SessionPolicy
from mooring.relay.meters import BytePolicy
from mooring.relay.policy import AgentPolicy, RelayPolicy
from mooring.remote.policy import RemotePolicy
from mooring.replicas.policy import ReplicaPolicy
from mooring.runtimes.stopping import StopPatience
from mooring.supervise.restart import RestartPolicy
from mooring.workloads.definition import ServerOptions

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/mooring"
PAGE = (ROOT / "docs/limits.md").read_text()
UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "s": 1, "min": 60}
POLICIES = (
    Limits(),
    ClientLimits(),
    SessionPolicy(),
    RemotePolicy(),
    StopPatience(),
    RestartPolicy(),
    RelayPolicy(),
    AgentPolicy(),
    BytePolicy(),
    ReplicaPolicy(),
    ServerOptions(name="x", argv=("x",)),
)
NO_BOUNDS = {"retry_ms", "drain_retry_ms", "jitter", "margin", "renewals", "shared"}
"""Numbers of policies that bound nothing."""
NAME = re.compile(r"`((?:\w+\.)+\w+)`")
CONSTANT = re.compile(r"^((?:MAX|MOST|LEAST|REMEMBERED)_?[A-Z_]*(?<!_DIGITS)) = ", re.MULTILINE)


class Row(NamedTuple):
    """One bound, as the page has it."""

    what: str
    bound: str
    name: str
    options: list[str]
    test: str


def rows() -> Iterator[Row]:
    for line in PAGE.partition("## The bounds")[2].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and cells[0] not in ("what", "---"):
            what, bound, names, _, test = cells
            [name] = NAME.findall(names)
            yield Row(what, bound, name, re.findall(r"`(--[a-z-]+)`", names), test.strip("`"))


ROWS = list(rows())


def number(text: str) -> float | None:
    if text == "none":
        return None
    match = re.fullmatch(r"([0-9,.]+)(?: (\w+))?", text)
    assert match, text
    return float(match[1].replace(",", "")) * UNITS[match[2] or ""]


def value(name: str) -> Any:
    """What the code has under that name: a constant, a default of a policy, the size of a cache."""
    parts = name.split(".")
    policy = next((policy for policy in POLICIES if type(policy).__name__ == parts[-2]), None)
    if policy is not None:
        assert type(policy).__module__ == ".".join(["mooring", *parts[:-2]])
        return getattr(policy, parts[-1])
    found = getattr(import_module(".".join(["mooring", *parts[:-1]])), parts[-1])
    return found.cache_parameters()["maxsize"] if hasattr(found, "cache_parameters") else found


@cache
def functions_of(file: str) -> set[str]:
    tree = ast.parse((ROOT / "tests" / file).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_bounds_are_as_the_page_says() -> None:
    assert len(ROWS) > 80
    wrong = [row for row in ROWS if number(row.bound) != value(row.name)]
    assert not wrong


def test_the_tests_that_reach_them_exist() -> None:
    for row in ROWS:
        file, _, test = row.test.partition("::")
        assert test.startswith("test_") and test in functions_of(file), row


def test_options_have_the_defaults_that_the_page_says() -> None:
    for row in ROWS:
        for option in row.options:
            [parameter] = [parameter for parameter in run.params if option in parameter.opts]
            assert parameter.type.convert(parameter.default, None, None) == value(row.name), row


def test_no_bound_of_a_policy_is_missing() -> None:
    told = {tuple(row.name.split(".")[-2:]) for row in ROWS}
    for policy in POLICIES[:-1]:
        for field in type(policy).__annotations__:
            # bool is an int to isinstance, and bounds nothing.
            is_bound = type(getattr(policy, field)) in (int, float) and field not in NO_BOUNDS
            assert not is_bound or (type(policy).__name__, field) in told, field


def test_no_constant_that_is_a_bound_is_missing() -> None:
    told = {row.name for row in ROWS}
    for file in SOURCE.rglob("*.py"):
        module = ".".join(file.relative_to(SOURCE).with_suffix("").parts)
        for constant in CONSTANT.findall(file.read_text()):
            assert f"{module}.{constant}" in told or module.startswith("demo"), f"{module}.{constant}"
