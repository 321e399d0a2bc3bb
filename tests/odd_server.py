"""MCP servers over stdio that do one thing as few others do: `python odd_server.py KIND`.

    dies-at-discover  a handshake server that exits when its first message is not `initialize`
    silent            a handshake server that says nothing at all before its `initialize`
    strict            2026-07-28 alone; whatever has no envelope is refused with --code
    later             a revision that is not known here, and no other
    dual              both eras; the envelope of a message decides, whatever its method
    marked            a handshake server, of whose tool `sql`, on the second page, `region` is a header
    late-list         the same with one page, which it gives when it is told to (`x/list`)
    asking            a handshake server that asks for an elicitation whatever is called; tells what it heard
    changing-its-mind the same; but it takes the question back and answers
    url               a handshake server of which every call needs a page to be visited
    vendor            a handshake server that tells of each call by a notification of its own
    scripted          2026-07-28; a call says its answer: `result`, `ask` (questions) or `raw` (lines)

`--late FILE`: its first three processes, counted there, say nothing at all. `x/heard` answers with every
message that reached the process.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Json = dict[str, Any]

META = "io.modelcontextprotocol/"
LATER = "2027-05-05"
INTRODUCTION: Json = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {"listChanged": True}, "logging": {}},
    "serverInfo": {"name": "odd", "version": "1"},
}
DISCOVERY: Json = {
    "resultType": "complete",
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}, "logging": {}},
    "ttlMs": 0,
    "cacheScope": "private",
}
QUESTION: Json = {"message": "who?", "requestedSchema": {"type": "object", "properties": {}}}
PAGE: Json = {"mode": "url", "url": "https://example.com/", "elicitationId": "e1", "message": "go there"}
REGION: Json = {"type": "string", "x-mcp-header": "Region"}
MARKED: Json = {"name": "sql", "inputSchema": {"type": "object", "properties": {"region": REGION}}}
PLAIN: Json = {"name": "plain", "inputSchema": {"type": "object"}}


def say(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def fail(id: Any, code: int, message: str, **data: Any) -> None:
    say(id=id, error={"code": code, "message": message, **({"data": data} if data else {})})


class Odd:
    """What it has heard; each kind of server is a method that takes a request."""

    def __init__(self, code: int) -> None:
        self.code = code
        self.heard: list[Json] = []
        self.introduced = False
        self.listings: list[Any] = []
        """Those of `late-list` that wait."""

    def take(self, message: Json, serve: Callable[[Any, str, Json], None]) -> None:
        self.heard.append(message)
        if "method" not in message:
            self.hear_answer(message)
        elif "id" in message:
            serve(message["id"], message["method"], message.get("params") or {})

    def text(self, id: Any, value: Any, **more: Any) -> None:
        say(id=id, result={"content": [{"type": "text", "text": json.dumps(value)}], **more})

    def is_enveloped(self, params: Json) -> bool:
        return META + "protocolVersion" in (params.get("_meta") or {})

    def handshake(self, id: Any, method: str, params: Json) -> bool:
        """What all servers of that era answer alike; true if it was that."""
        if method == "initialize" and "protocolVersion" not in params:
            fail(id, -32602, "no protocolVersion")
            return True
        results: Json = {"initialize": INTRODUCTION, "ping": {}, "logging/setLevel": {}}
        results["x/heard"] = {"heard": self.heard}
        if method == "server/discover":
            fail(id, -32601, "what?")
        elif method in results:
            say(id=id, result=results[method])
        self.introduced = self.introduced or method == "initialize"
        return method == "server/discover" or method in results

    # Eras

    def dies_at_discover(self, id: Any, method: str, params: Json) -> None:
        if not self.introduced and method != "initialize":
            os._exit(1)
        if not self.handshake(id, method, params):
            self.text(id, "ok")

    def silent(self, id: Any, method: str, params: Json) -> None:
        if (self.introduced or method == "initialize") and not self.handshake(id, method, params):
            self.text(id, "ok")

    def strict(self, id: Any, method: str, params: Json) -> None:
        if not self.is_enveloped(params):
            fail(id, self.code, "there is no envelope; this server speaks 2026-07-28")
        elif method == "server/discover":
            say(id=id, result=DISCOVERY)
        else:
            self.text(id, "ok", resultType="complete")

    def later(self, id: Any, method: str, params: Json) -> None:
        fail(id, -32022, "Unsupported protocol version", supported=[LATER], requested="?")

    def dual(self, id: Any, method: str, params: Json) -> None:
        if not self.is_enveloped(params):
            if not self.handshake(id, method, params):
                self.text(id, "handshake")
        elif method == "server/discover":
            say(id=id, result=DISCOVERY)
        elif method == "initialize":
            fail(id, -32601, "Method not found")
        else:
            self.text(id, "modern", resultType="complete")

    # Handshake servers

    def marked(self, id: Any, method: str, params: Json) -> None:
        if self.handshake(id, method, params):
            return
        if method != "tools/list":
            self.text(id, {"ran_in": (params.get("arguments") or {}).get("region")})
        elif "cursor" in params:
            say(id=id, result={"tools": [MARKED]})
        else:
            say(id=id, result={"tools": [PLAIN], "nextCursor": "more"})

    def late_list(self, id: Any, method: str, params: Json) -> None:
        if self.handshake(id, method, params):
            return
        if method == "x/list":
            for listing in self.listings:
                say(id=listing, result={"tools": [MARKED]})
        if method == "tools/list":
            self.listings.append(id)
        else:
            self.text(id, "ok")

    def asking(self, id: Any, method: str, params: Json) -> None:
        if not self.handshake(id, method, params):
            say(id=f"about {id}", method="elicitation/create", params=QUESTION)

    def hear_answer(self, message: Json) -> None:
        about = int(str(message["id"]).removeprefix("about "))
        self.text(about, {"heard": message.get("result", message.get("error"))}, tools=[])

    def changing_its_mind(self, id: Any, method: str, params: Json) -> None:
        if self.handshake(id, method, params):
            return
        say(id=f"about {id}", method="elicitation/create", params=QUESTION)
        say(method="notifications/cancelled", params={"requestId": f"about {id}"})
        time.sleep(0.2)  # longer than questions are gathered
        self.text(id, "never mind")

    def url(self, id: Any, method: str, params: Json) -> None:
        if not self.handshake(id, method, params):
            fail(id, -32042, "a page must be visited", elicitations=[PAGE])

    def vendor(self, id: Any, method: str, params: Json) -> None:
        if not self.handshake(id, method, params):
            say(method="notifications/vendor/called", params={"method": method})
            self.text(id, "ok")

    # A server of 2026-07-28

    def scripted(self, id: Any, method: str, params: Json) -> None:
        script = params.get("arguments") or {}
        if not self.is_enveloped(params):
            fail(id, -32022 if method == "initialize" else -32602, "there is no envelope")
        elif method == "server/discover":
            say(id=id, result=DISCOVERY)
        elif method == "x/heard":
            say(id=id, result={"resultType": "complete", "heard": self.heard})
        elif "ask" in script and "inputResponses" not in params:
            say(id=id, result={"resultType": "input_required", "inputRequests": script["ask"]})
        elif "result" in script:
            say(id=id, result=script["result"])
        elif "raw" in script:
            print(script["raw"].replace("ID", str(id)), flush=True)
        else:
            self.text(id, {"params": params}, resultType="complete")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind")
    parser.add_argument("--code", type=int, default=-32022)
    parser.add_argument("--late", type=Path)
    args = parser.parse_args()
    if args.late is not None:
        with args.late.open("a") as started:
            started.write(".")
        if args.late.stat().st_size <= 3:
            sys.stdin.read()
    server = Odd(args.code)
    serve = getattr(server, args.kind.replace("-", "_"))
    for line in sys.stdin:
        server.take(json.loads(line), serve)


if __name__ == "__main__":
    main()
