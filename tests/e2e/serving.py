"""The fixture server on its own HTTP transport: the control, without Mooring in between."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests import parts
from tests.e2e.program import ROOT, Program
from tests.support import within

__all__ = ["FIXTURE", "fixture_over_http"]

FIXTURE = ROOT / "tests/e2e/fixture_server.py"


@asynccontextmanager
async def fixture_over_http() -> AsyncIterator[str]:
    """Its URL, while it serves."""
    parts.require("sdk-2")
    argv: list[str | Path] = [parts.python_of("sdk-2"), FIXTURE, "--http", "0"]
    async with Program(argv, environment=parts.node_environment()) as server:
        async with within(60):
            url = await server.word(lambda line: line.startswith("http://"))
        yield url
