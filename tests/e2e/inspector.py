"""The Inspector's command line."""

import json
from pathlib import Path
from typing import Any

from tests import parts
from tests.e2e.program import Json, Program
from tests.support import within

__all__ = ["list_and_call"]


async def _inspect(url: str, *words: str, home: Path) -> Any:
    """One run, which writes into its home."""
    parts.require("npm", "node")
    argv = [*parts.npm_command("mcp-inspector"), "--cli", url, "--format", "json", *words]
    async with Program(argv, environment={**parts.node_environment(), "HOME": str(home)}) as inspector:
        async with within(60):
            status = await inspector.process.wait()
        await inspector.ended()
    assert status == 0, inspector.told()
    (said,) = inspector.messages  # On one line of stdout; advice goes to stderr.
    return said


async def list_and_call(
    url: str, tool: str, arguments: Json, *, home: Path, transport: str = "http", era: str = "legacy"
) -> str:
    """Two runs; what the call gave, as JSON."""
    way = ("--transport", transport, "--protocol-era", era)
    tools = await _inspect(url, *way, "--method", "tools/list", home=home)
    assert tool in json.dumps(tools)
    call = ("--method", "tools/call", "--tool-name", tool, "--tool-args-json", json.dumps(arguments))
    return json.dumps(await _inspect(url, *way, *call, home=home))
