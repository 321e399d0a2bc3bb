"""An MCP server over stdio that does what a test tells it, to the byte.

It speaks just enough: `initialize` is answered, everything that arrives is remembered to the
byte. Methods for tests, all requests:

    x/emit   params: {"lines": [base64, …], "answer": bool, "exit": int | null}
             writes the lines as they are (with LF, unless "raw": true), then answers or exits
    x/heard  the lines that arrived so far, base64
    x/pid    its pid
    x/hold   no answer, ever
    x/stall  stops reading its stdin for good (a call after this is never read)

Options: --capabilities JSON, --version REVISION, --refuse (initialize fails), --mute (never
answers initialize), --die-at-initialize, --state FILE (counts starts: {"starts": n} in its
serverInfo.version), --deaf-to METHOD (never answers it),
--without METHOD (says that there is none),
--version-after N:REVISION (another revision from start N on).
"""

import argparse
import base64
import json
import os
import sys
import time
from pathlib import Path
from typing import Any


def main() -> None:
    options = _options()
    starts = _count_start(options.state)
    heard: list[bytes] = []
    while line := sys.stdin.buffer.readline():
        line = line.removesuffix(b"\n")
        heard.append(line)
        message = json.loads(line)
        method, id = message.get("method"), message.get("id")
        if id is None or method is None:
            continue
        if method == options.deaf_to:
            continue
        if method == options.without:
            _write({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no such method"}})
        elif method == "initialize":
            _initialize(options, starts, message)
        elif method == "x/emit":
            _emit(message)
        elif method == "x/heard":
            _answer(id, {"lines": [base64.b64encode(item).decode() for item in heard]})
        elif method == "x/pid":
            _answer(id, {"pid": os.getpid(), "starts": starts})
        elif method == "x/stall":
            _answer(id, {})
            time.sleep(3600)
        elif method != "x/hold":
            _answer(id, {"method": method})


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--capabilities", type=json.loads, default={"tools": {"listChanged": True}, "logging": {}}
    )
    parser.add_argument("--version")
    parser.add_argument("--version-after", default="")
    parser.add_argument("--refuse", action="store_true")
    parser.add_argument("--mute", action="store_true")
    parser.add_argument("--die-at-initialize", action="store_true")
    parser.add_argument("--state", type=Path)
    parser.add_argument("--deaf-to")
    parser.add_argument("--without")
    return parser.parse_args()


def _count_start(state: Path | None) -> int:
    if state is None:
        return 0
    # One byte for each: two that start at the same moment count as two.
    with state.open("ab") as file:
        file.write(b".")
        file.flush()
        return file.tell()


def _initialize(options: argparse.Namespace, starts: int, message: dict[str, Any]) -> None:
    if options.die_at_initialize:
        os._exit(7)
    if options.mute:
        return
    if options.refuse:
        _write({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32602, "message": "no thanks"}})
        return
    version = options.version or message["params"]["protocolVersion"]
    after, _, other = options.version_after.partition(":")
    if after and starts >= int(after):
        version = other
    info = {"name": "scripted", "version": str(starts)}
    result = {"protocolVersion": version, "capabilities": options.capabilities, "serverInfo": info}
    _answer(message["id"], result)


def _emit(message: dict[str, Any]) -> None:
    params = message["params"]
    for line in params.get("lines", []):
        sys.stdout.buffer.write(base64.b64decode(line) + (b"" if params.get("raw") else b"\n"))
    sys.stdout.buffer.flush()
    if params.get("exit") is not None:
        os._exit(params["exit"])
    if params.get("answer", True):
        _answer(message["id"], {"emitted": len(params.get("lines", []))})


def _answer(id: Any, result: dict[str, Any]) -> None:
    _write({"jsonrpc": "2.0", "id": id, "result": result})


def _write(message: dict[str, Any]) -> None:
    sys.stdout.buffer.write(json.dumps(message).encode() + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
