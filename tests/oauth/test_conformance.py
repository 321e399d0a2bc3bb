"""The client scenarios about authorization of MCP's own conformance suite, all that a revision requires."""

import sys
from pathlib import Path
from typing import Any

import pytest

from tests import parts
from tests.e2e.conformance import client_scenarios, examine_client

REVISIONS = ("2025-11-25", "2026-07-28")


def required() -> list[Any]:
    """Those of the newest revision; of the others in the slow tests."""
    return [
        pytest.param(revision, name, marks=[pytest.mark.slow] if revision != REVISIONS[-1] else [])
        for revision in REVISIONS
        for name in client_scenarios(revision)
        if name.startswith("auth/")
    ]


@pytest.mark.e2e
@pytest.mark.parametrize(("revision", "scenario"), required() or [(REVISIONS[-1], "auth/metadata-default")])
async def test_the_suite_is_content(revision: str, scenario: str, tmp_path: Path) -> None:
    parts.require("npm", "node")
    client = f"{sys.executable} -m tests.oauth.conformance_client {tmp_path}"
    assert await examine_client(client, scenario, revision) == 0
