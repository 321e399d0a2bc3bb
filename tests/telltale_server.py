"""A server that tells its TOKEN to whoever listens: on stderr, between messages, in every error.

    python telltale_server.py [quit | PATH]

With `quit` it only complains, and exits with status 1. With a PATH it is a good server while that exists.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

TOKEN = os.environ["TOKEN"]


def main() -> None:
    print(f"the key is {TOKEN}", file=sys.stderr, flush=True)
    if "quit" in sys.argv:
        sys.exit(1)
    print(f"junk with {TOKEN}", flush=True)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            print(
                json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer(message["method"])}), flush=True
            )


def answer(method: str) -> dict[str, Any]:
    if not sys.argv[1:] or not Path(sys.argv[1]).exists():
        return {"error": {"code": -32000, "message": f"the key {TOKEN} is wrong"}}
    if method != "initialize":
        return {"result": {}}
    about = {"name": "telltale", "version": "1"}
    return {"result": {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": about}}


if __name__ == "__main__":
    main()
