"""The official suite: direct (the control) and through Mooring, which must not lose a scenario."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from tests import parts
from tests.e2e.conformance import client_scenarios, examine, examine_client, examine_suite
from tests.e2e.mooring import COMMAND, LINUX_ONLY, running_mooring
from tests.e2e.serving import FIXTURE, fixture_over_http

pytestmark = [LINUX_ONLY, pytest.mark.e2e, pytest.mark.timeout(1200)]

REQUIRED = {"2025-11-25": 30, "2026-07-28": 37}
ONE_REVISION = Path(__file__).parent / "one_revision.py"
NEEDS_MODERN_TOOLS = {
    f"input-required-result-{name}"
    for name in (
        "basic-elicitation",
        "basic-sampling",
        "basic-list-roots",
        "request-state",
        "multiple-input-requests",
        "multi-round",
        "non-tool-request",
        "result-type",
        "tampered-state",
        "capability-check",
    )
}
"""Scenarios for tools that answer `input_required` themselves, which a handshake server cannot."""

NOT_THROUGH_MOORING = {
    # An answer that comes alone is sent as plain JSON, and the check is about streams.
    ("server-sse-multiple-streams", "server-sse-streams-functional"),
    # Nobody ends a stream in the middle of a call; the fixture's own transport does, to be resumed.
    ("server-sse-polling", "server-sse-disconnect-resume"),
}
"""Checks that become mere information: what they look at may happen, but need not."""


@asynccontextmanager
async def through_mooring() -> AsyncIterator[str]:
    """The fixture on stdio, behind the product command."""
    async with running_mooring(server=[parts.python_of("sdk-2"), FIXTURE]) as mooring:
        yield mooring.url


@asynccontextmanager
async def through_mooring_over_http() -> AsyncIterator[str]:
    """The fixture on its own HTTP transport, and the product command in front of it."""
    async with fixture_over_http() as url, running_mooring(server=url) as mooring:
        yield mooring.url


@asynccontextmanager
async def before_a_handshake_server() -> AsyncIterator[str]:
    """The same, of the handshake era only."""
    python = parts.python_of("sdk-2")
    async with running_mooring(server=[python, ONE_REVISION, "2025-11-25", python, FIXTURE]) as mooring:
        yield mooring.url


@pytest.mark.parametrize(
    ("serving", "revision"),
    [
        pytest.param(fixture_over_http, "2025-11-25", id="direct-2025-11-25"),
        pytest.param(fixture_over_http, "2026-07-28", id="direct-2026-07-28"),
        pytest.param(through_mooring, "2025-11-25", id="mooring-2025-11-25"),
        pytest.param(through_mooring, "2026-07-28", id="mooring-2026-07-28"),
        pytest.param(through_mooring_over_http, "2025-11-25", id="mooring-url-2025-11-25"),
        pytest.param(through_mooring_over_http, "2026-07-28", id="mooring-url-2026-07-28"),
    ],
)
async def test_every_required_scenario_passes(
    serving: Callable[[], AbstractAsyncContextManager[str]], revision: str, tmp_path: Path
) -> None:
    parts.require("npm", "node", "sdk-2")
    async with serving() as url:
        report = await examine(url, revision, tmp_path / "suite")
    print(report.table())
    assert report.passed == len(report.required) == REQUIRED[revision], report.table()
    assert report.exit_status == 0


@pytest.mark.parametrize(
    ("revision", "scenario"),
    [
        (revision, scenario)
        for revision in REQUIRED
        for scenario in client_scenarios(revision)
        # Who logs in is Mooring, and not the client before it: see tests/oauth.
        if not scenario.startswith("auth/")
    ],
)
async def test_a_client_behind_mooring_is_one_that_the_suite_wants(revision: str, scenario: str) -> None:
    parts.require("npm", "node", "sdk-2")
    program = Path(__file__).with_name("conformance_client.py")
    command = f"{parts.python_of('sdk-2')} {program} {COMMAND}"
    assert await examine_client(command, scenario, revision) == 0


async def test_a_handshake_server_passes_all_that_needs_no_modern_tools(tmp_path: Path) -> None:
    parts.require("npm", "node", "sdk-2")
    async with before_a_handshake_server() as url:
        old = await examine(url, "2025-11-25", tmp_path / "old")
        new = await examine(url, "2026-07-28", tmp_path / "new")
    assert old.passed == len(old.required) == REQUIRED["2025-11-25"], old.table()
    # One check of `server-stateless` waits 0.6 s for an instance that is started for its call.
    assert NEEDS_MODERN_TOOLS <= set(new.failed) <= NEEDS_MODERN_TOOLS | {"server-stateless"}, new.table()


@pytest.mark.parametrize("suite", ["pending", pytest.param("all", marks=pytest.mark.slow)])
@pytest.mark.parametrize("serving", [through_mooring, through_mooring_over_http])
async def test_nothing_that_passes_directly_is_lost(
    suite: str, serving: Callable[[], AbstractAsyncContextManager[str]], tmp_path: Path
) -> None:
    """Required or not; `pending` has nearly all that no revision requires."""
    parts.require("npm", "node", "sdk-2")
    async with fixture_over_http() as url:
        direct = await examine_suite(url, suite, tmp_path / "direct")
    async with serving() as url:
        through = await examine_suite(url, suite, tmp_path / "through")
    assert direct["http-custom-header-server-validation"].passed
    for name, scenario in direct.items():
        lost = scenario.passing - through[name].passing - NOT_THROUGH_MOORING
        assert not lost, through[name].row()
        assert through[name].passed >= scenario.passed, through[name].row()
