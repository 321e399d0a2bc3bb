"""The official suite, and the real SDK clients, at one address behind which there are three replicas."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests import parts
from tests.e2e.client import CLIENTS, connected
from tests.e2e.conformance import examine
from tests.e2e.mooring import DEMO, LINUX_ONLY
from tests.e2e.replicas.balancer import running_balancer
from tests.e2e.replicas.fleet import Fleet, running_fleet
from tests.e2e.serving import FIXTURE
from tests.e2e.test_conformance import REQUIRED
from tests.replicas.stores import Server

pytestmark = [LINUX_ONLY, pytest.mark.e2e, pytest.mark.timeout(1200)]

WAYS = [(kind, None) for kind in CLIENTS] + [(kind, "auto") for kind in CLIENTS if kind.endswith("-2")]
"""Those of the newer SDKs speak 2026-07-28 where they may."""


@asynccontextmanager
async def balanced(
    store: Server, server: Sequence[str | Path], folder: Path
) -> AsyncIterator[tuple[str, Fleet]]:
    async with (
        running_fleet(3, store, server) as fleet,
        running_balancer(folder / "balancer", fleet.addresses) as balancer,
    ):
        await balancer.sees(0, 1, 2)
        yield balancer.url, fleet


@pytest.mark.parametrize("revision", REQUIRED)
async def test_every_required_scenario_passes(revision: str, store: Server, tmp_path: Path) -> None:
    parts.require("npm", "node", "sdk-2")
    async with balanced(store, [parts.python_of("sdk-2"), FIXTURE], tmp_path) as (url, _):
        report = await examine(url, revision, tmp_path / "suite")
    print(report.table())
    assert report.passed == len(report.required) == REQUIRED[revision], report.table()
    assert report.exit_status == 0


@pytest.mark.parametrize(("kind", "mode"), WAYS)
async def test_everything_crosses(kind: str, mode: str | None, store: Server, tmp_path: Path) -> None:
    async with balanced(store, DEMO, tmp_path) as (url, _), connected(kind, url, mode=mode) as (client, _):
        assert {"echo", "add", "sleep"} <= set(await client.do("list_tools"))
        for n in range(6):  # by each replica, more than once
            assert await client.text("add", a=n, b=3) == str(n + 3)
        number = await client.start(
            "call", tool="sleep", arguments={"seconds": 0.3, "steps": 3}, progress=True
        )
        assert not (await client.answer(number)).get("isError")
        for step in (1, 2):
            await client.event("progress", call=number, progress=step, total=3)
        for _ in range(3):
            seen = client.seen
            assert "forty-two" in await client.text("ask", message="How many?")
            await client.event("asked", since=seen, method="elicitation/create")
        assert "a model's words" in await client.text("sample", prompt="Say something")
        assert "file:///harbour" in await client.text("roots")
