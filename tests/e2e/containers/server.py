"""An MCP server over stdio for containers: it does what is hard on whoever supervises it.

    x/variable  params: {"name": text}     the value of that variable
    x/eat       params: {"bytes": number}  takes so much memory, then answers
    x/hang      answers, and says and reads nothing any more
    x/hold      never answers

`--stubborn`: it heeds neither SIGTERM nor the end of its input. Standard library only.
"""

import json
import os
import signal
import sys
import time
from typing import Any

NEWEST = "2025-11-25"


def say(**message: Any) -> None:
    os.write(1, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def take(message: dict[str, Any]) -> None:
    id, params = message.get("id"), message.get("params", {})
    if id is None:
        return
    match message["method"]:
        case "initialize":
            info = {"name": "hard", "version": "1"}
            say(id=id, result={"protocolVersion": NEWEST, "capabilities": {}, "serverInfo": info})
        case "x/variable":
            say(id=id, result={"value": os.environ.get(params["name"])})
        case "x/eat":
            taken = bytearray(params["bytes"])
            taken[:: os.sysconf("SC_PAGE_SIZE")] = b"x" * len(taken[:: os.sysconf("SC_PAGE_SIZE")])
            say(id=id, result={"bytes": len(taken)})
        case "x/hang":
            say(id=id, result={})
            time.sleep(3600)
        case "x/hold":
            sys.stderr.write("held\n")
            sys.stderr.flush()
        case _:
            say(id=id, result={})


stubborn = "--stubborn" in sys.argv
if stubborn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
for line in sys.stdin.buffer:
    take(json.loads(line))
while stubborn:
    time.sleep(3600)
