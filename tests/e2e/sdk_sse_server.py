"""A server of the Python SDK 1, run by that SDK's Python: `sdk_sse_server.py PORT [streamable-http]`.

On HTTP+SSE, unless told otherwise.
"""

import asyncio
import sys

from mcp.server.fastmcp import Context, FastMCP

server = FastMCP("sdk", host="127.0.0.1", port=int(sys.argv[1]))


def add(a: int, b: int) -> int:
    return a + b


async def hang() -> str:
    print("hanging", file=sys.stderr, flush=True)
    await asyncio.sleep(3600)
    return "never"


async def count_to(number: int, ctx: Context) -> str:
    for n in range(number):
        await ctx.report_progress(n + 1, number)
        await ctx.info(f"at {n + 1}")
    return "done"


for tool in (add, hang, count_to):
    server.add_tool(tool)
server.run(transport="streamable-http" if "streamable-http" in sys.argv else "sse")
