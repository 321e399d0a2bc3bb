"""A client for the conformance suite, with Mooring between it and the suite's server: `python … MOORING URL`.

Runs in the part `sdk-2`, whose client it is. It calls what there is to call, as its schema says, and answers
what it is asked with the defaults.
"""

import asyncio
import json
import os
import sys
import warnings
from typing import Any

from mcp import Client, types
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from pydantic import ValidationError

warnings.simplefilter("ignore", MCPDeprecationWarning)

REVISION = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "")
CONTEXT = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
EXAMPLES = {"string": "text", "number": 5, "integer": 5, "boolean": True, "array": [], "object": {}}


def example(schema: dict[str, Any]) -> dict[str, Any]:
    """Arguments that fit."""
    properties = schema.get("properties") or {}
    return {
        name: one.get("default", EXAMPLES.get(str(one.get("type")), "text"))
        for name, one in properties.items()
        if isinstance(one, dict)
    }


async def elicit(_context: Any, params: Any) -> Any:
    schema = getattr(params, "requested_schema", None) or {}
    return types.ElicitResult(action="accept", content=example(dict(schema)))


async def visit(url: str) -> None:
    mode = REVISION if REVISION >= "2026" else "legacy"
    async with Client(url, mode=mode, elicitation_callback=elicit) as client:
        tools = (await client.list_tools()).tools
        calls = [(one["name"], one.get("arguments") or {}) for one in CONTEXT.get("toolCalls", [])]
        for name, arguments in calls or [(tool.name, example(tool.input_schema)) for tool in tools]:
            try:
                await client.call_tool(name, arguments)
            except (MCPError, ValidationError) as error:  # (the SDK misses what a server may leave out)
                print(f"{name}: {error}", file=sys.stderr)


async def main(mooring: str, url: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *(mooring, "run", "--foreground", "suite", "--port", "0", "--url", url, "--log-format", "json"),
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(60):
            while True:
                said = json.loads(await process.stderr.readline())
                if said.get("event") == "listening":
                    break
            await visit(said["url"])
    finally:
        process.terminate()
        await process.communicate()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
