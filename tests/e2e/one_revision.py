"""A server that speaks one revision only: a filter on the stdio of a real one that speaks them all.

    python one_revision.py REVISION COMMAND…

Of a handshake revision: `initialize` asks the real server for that revision, whatever the client wanted,
and `server/discover` or an envelope is unknown, as it was to servers of that time. Of 2026-07-28: there is
no `initialize`.
"""

import json
import subprocess
import sys
import threading
from typing import Any

MODERN = "2026-07-28"
ENVELOPE = "io.modelcontextprotocol/protocolVersion"


def main() -> int:
    revision, *command = sys.argv[1:]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None and child.stdout is not None
    lock = threading.Lock()

    def say(line: bytes) -> None:
        with lock:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()

    def pass_on() -> None:
        for line in child.stdout or ():
            say(line)

    threading.Thread(target=pass_on, daemon=True).start()
    for line in sys.stdin.buffer:
        message = json.loads(line)
        refusal = refuse(message, revision)
        if refusal is not None:
            if "id" in message:
                answer = {"jsonrpc": "2.0", "id": message["id"], "error": refusal}
                say(json.dumps(answer).encode() + b"\n")
            continue
        if message.get("method") == "initialize":
            message["params"]["protocolVersion"] = revision
            child.stdin.write(json.dumps(message).encode() + b"\n")
        else:
            child.stdin.write(line)
        child.stdin.flush()
    child.stdin.close()
    return child.wait()


def refuse(message: dict[str, Any], revision: str) -> dict[str, Any] | None:
    method = message.get("method")
    if method is None:
        return None
    is_enveloped = ENVELOPE in ((message.get("params") or {}).get("_meta") or {})
    if revision == MODERN:
        if method == "initialize":
            data = {"supported": [MODERN], "requested": message["params"].get("protocolVersion")}
            return {"code": -32022, "message": "Unsupported protocol version", "data": data}
        return None
    if method == "server/discover":
        return {"code": -32601, "message": "Method not found"}
    if is_enveloped:
        return {"code": -32600, "message": "Invalid request"}
    return None


if __name__ == "__main__":
    sys.exit(main())
