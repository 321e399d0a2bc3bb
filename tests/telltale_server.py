"""A server that tells its TOKEN to whoever listens: on stderr, between messages, in every error.

    python telltale_server.py [quit]

With `quit` it only complains, and exits with status 1.
"""

import json
import os
import sys

TOKEN = os.environ["TOKEN"]


def main() -> None:
    print(f"the key is {TOKEN}", file=sys.stderr, flush=True)
    if "quit" in sys.argv:
        sys.exit(1)
    print(f"junk with {TOKEN}", flush=True)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            error = {"code": -32000, "message": f"the key {TOKEN} is wrong"}
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)


if __name__ == "__main__":
    main()
