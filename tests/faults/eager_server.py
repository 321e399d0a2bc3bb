"""An MCP server that acts on a message before it has read its line end, and writes down what it did.

eager_server.py LEDGER        reads byte by byte; every request that is complete is executed at
                              its last brace: noted in LEDGER, but for pings; `x/die` is followed by death
eager_server.py LEDGER --lines  reads lines; dies of one over 64 KiB, as asyncio's streams do
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def messages_by_byte() -> Iterator[dict[str, Any]]:
    text = b""
    while byte := os.read(0, 1):
        text += byte
        try:
            message = json.loads(text)
        except ValueError:
            continue
        text = b""
        yield message


def messages_by_line() -> Iterator[dict[str, Any]]:
    text = b""
    while chunk := os.read(0, 4096):
        text += chunk
        if len(text) > 65536:
            os._exit(9)
        *lines, text = text.split(b"\n")
        for line in lines:
            yield json.loads(line)


def main() -> None:
    ledger = Path(sys.argv[1])
    for message in messages_by_line() if "--lines" in sys.argv else messages_by_byte():
        if "id" not in message:
            continue
        result: dict[str, Any] = {"pid": os.getpid()}
        if message["method"] == "initialize":
            result = {
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {},
                "serverInfo": {"name": "eager", "version": "1"},
            }
        elif message["method"] != "ping":
            with ledger.open("a") as book:
                book.write(f"{message['method']}\n")
        if message["method"] == "x/die":
            os._exit(7)
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)


if __name__ == "__main__":
    main()
