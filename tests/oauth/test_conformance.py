"""The client scenarios about authorization of MCP's own conformance suite, all that a revision requires."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import parts
from tests.e2e.program import Program

REVISIONS = ("2025-11-25", "2026-07-28")


def required() -> list[Any]:
    """What the lists of the suite have under `client:`; nothing where it is not installed."""
    found = []
    for revision in REVISIONS:
        path = parts.node_modules() / f"@modelcontextprotocol/conformance/requirements/{revision}.yaml"
        if not path.exists():
            continue
        for line in path.read_text().partition("\nclient:\n")[2].splitlines():
            if not line.startswith("  - "):
                break
            name = line.removeprefix("  - ").strip()
            if name.startswith("auth/"):
                marks = [pytest.mark.slow] if revision != REVISIONS[-1] else []
                found.append(pytest.param(revision, name, marks=marks))
    return found


@pytest.mark.e2e
@pytest.mark.parametrize(("revision", "scenario"), required() or [(REVISIONS[-1], "auth/metadata-default")])
async def test_the_suite_is_content(revision: str, scenario: str, tmp_path: Path) -> None:
    parts.require("npm", "node")
    client = f"{sys.executable} -m tests.oauth.conformance_client {tmp_path}"
    argv = [*parts.npm_command("conformance"), "client", "--command", client, "--scenario", scenario]
    argv += ["--spec-version", revision]
    environment = {**parts.node_environment(), "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"}
    async with Program(argv, environment=environment) as suite:
        assert await asyncio.wait_for(suite.process.wait(), 90) == 0
