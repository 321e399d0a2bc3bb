"""An MCP server that writes down what it executes. Standard library only.

    x/mark  params: {"mark": text, "delay_s": number}   writes the mark down, and answers after the delay
    x/ask   params: {"mark": text}                      asks the client for its roots, then writes and answers

The ledger is the file that its argument names; one line `PID MARK` for each call, in one write.
"""

import json
import os
import sys
import threading
from typing import Any

LEDGER = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
LOCK = threading.Lock()
asked: dict[str, int | str] = {}


def say(**message: Any) -> None:
    with LOCK:
        os.write(1, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def mark(id: int | str, text: str, delay_s: float = 0.0) -> None:
    os.write(LEDGER, f"{os.getpid()} {text}\n".encode())
    answer = {"mark": text, "pid": os.getpid()}
    threading.Timer(delay_s, lambda: say(id=id, result=answer)).start() if delay_s else say(
        id=id, result=answer
    )


def take(message: dict[str, Any]) -> None:
    id, params = message.get("id"), message.get("params", {})
    match message.get("method"):
        case None:
            if (waiting := asked.pop(str(id), None)) is not None:
                mark(waiting, str(id))
        case "initialize":
            info = {"name": "ledger", "version": "1"}
            result = {"protocolVersion": params["protocolVersion"], "capabilities": {}, "serverInfo": info}
            say(id=id, result=result)
        case "x/mark":
            mark(message["id"], params["mark"], params.get("delay_s", 0.0))
        case "x/ask":
            asked[params["mark"]] = message["id"]
            say(id=params["mark"], method="roots/list")
        case _ if id is not None:
            say(id=id, result={})


for line in sys.stdin.buffer:
    take(json.loads(line))
