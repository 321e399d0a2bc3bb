"""An MCP server of the handshake era that tells all it knows of each call, to be heard by its client alone.

One tool; its arguments say what is told before the answer, each time with the client's `secret`:

    secret, n   who calls, and which of its calls this is
    notes       so many notes of progress
    log         a log message; "late": only when something else is read
    news        secret://… was updated
    change      the list of tools has changed
    ask         a question, which nobody may be asked
    hold        no answer, ever

Calls that are read together are answered in a random order.
"""

import json
import os
import random
from typing import Any

READ_BYTES = 1 << 18
PROGRESS = (
    '{"jsonrpc":"2.0","method":"notifications/progress",'
    '"params":{"progressToken":%s,"progress":%d,"message":"%s %d"}}\n'
)
LOG = (
    '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","logger":"%s","data":"%d"}}\n'
)
UPDATED = '{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"secret://%s"}}\n'
CHANGED = '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n'
QUESTION = '{"jsonrpc":"2.0","id":"%s","method":"sampling/createMessage","params":{"for":"%s"}}\n'
TOLD = '{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"%s %d %d"}]}}\n'
CAPABILITIES = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True},
    "logging": {},
}
late: list[str] = []


def main() -> None:
    rest = b""
    while chunk := os.read(0, READ_BYTES):
        *lines, rest = (rest + chunk).split(b"\n")
        overdue, late[:] = late[:], []
        said = [answer(json.loads(line)) for line in lines]
        random.shuffle(said)
        write("".join(overdue + said).encode())


def answer(message: dict[str, Any]) -> str:
    method, params = message.get("method"), message.get("params") or {}
    if "id" not in message or method is None:
        return ""
    if method == "tools/call":
        return tell(message["id"], params)
    if method == "initialize":
        info = {"name": "gossip", "version": "1"}
        version = params["protocolVersion"]
        return result(
            message["id"], {"protocolVersion": version, "capabilities": CAPABILITIES, "serverInfo": info}
        )
    if method in ("ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"):
        return result(message["id"], {})
    error = {"code": -32601, "message": "what?"}
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}) + "\n"


def result(id: Any, members: dict[str, Any]) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": id, "result": members}) + "\n"


def tell(id: int, params: dict[str, Any]) -> str:
    told = params["arguments"]
    secret, n = told["secret"], told["n"]
    token = params.get("_meta", {}).get("progressToken")
    said = []
    if token is not None:
        said += [PROGRESS % (json.dumps(token), k, secret, n) for k in range(told.get("notes", 0))]
    if told.get("log"):
        (late if told["log"] == "late" else said).append(LOG % (secret, n))
    if told.get("news"):
        said.append(UPDATED % secret)
    if told.get("change"):
        said.append(CHANGED)
    if told.get("ask"):
        said.append(QUESTION % (secret, secret))
    if not told.get("hold"):
        said.append(TOLD % (id, secret, n, os.getpid()))
    return "".join(said)


def write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


main()
