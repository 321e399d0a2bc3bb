"""An MCP server over stdio with what is worth trying from a terminal: `python trial_server.py RECORD`.

Every message that reaches it goes to the file RECORD, a line each. Its tools, two to a page:

    picture    an image
    links      a link to a resource, a resource with text, and one with bytes
    nasty      text, and a progress message, with control characters
    form       asks for a form with a field of every kind, and tells what it heard
    page       asks for a page to be visited, and tells what it heard
    sample     asks for a sample, which nobody has declared
    work       tells of its progress, and never ends
    fails      a result that is an error
    rejects    a JSON-RPC error with data
    huge       a number of so many digits that nobody reads it

Its list of resources never ends.
"""

import json
import sys
from pathlib import Path
from typing import Any

Json = dict[str, Any]

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
NASTY = "before\x1b[2J\x1b]0;title\x07\x9b31m\u202eafter"
TOOLS = ("picture", "links", "nasty", "form", "page", "sample", "work", "fails", "rejects", "huge")
FORM: Json = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Name", "description": "Yours, or any other", "minLength": 2},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "colour": {
            "type": "string",
            "oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}],
        },
        "news": {"type": "boolean", "title": "Send news", "default": False},
        "more": {"type": "string"},
    },
    "required": ["name", "age", "colour"],
}
QUESTIONS: dict[str, tuple[str, Json]] = {
    "form": ("elicitation/create", {"message": "Who are you?", "requestedSchema": FORM}),
    "page": (
        "elicitation/create",
        {"mode": "url", "message": "Log in", "url": "https://example.com/\x1b[2J", "elicitationId": "e"},
    ),
    "sample": ("sampling/createMessage", {"messages": [], "maxTokens": 1}),
}


def say(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def result(id: Any, *content: Json, **more: Any) -> None:
    say(id=id, result={"content": list(content), **more})


def text(words: str) -> Json:
    return {"type": "text", "text": words}


class Server:
    def __init__(self, record: Path) -> None:
        self._record = record
        self._asked: dict[str, Any] = {}

    def hear(self, line: str) -> None:
        with self._record.open("a") as record:
            record.write(line)
        message = json.loads(line)
        if "method" not in message:
            heard = message.get("result", message.get("error"))
            result(self._asked.pop(message["id"]), text(json.dumps(heard)))
        elif "id" in message:
            method = message["method"].replace("/", "_")
            getattr(self, method)(message["id"], message.get("params", {}))

    def initialize(self, id: Any, params: Json) -> None:
        say(
            id=id,
            result={
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}, "resources": {}},
                "serverInfo": {"name": "trial", "version": "1"},
            },
        )

    def ping(self, id: Any, _params: Json) -> None:
        say(id=id, result={})

    def tools_list(self, id: Any, params: Json) -> None:
        start = int(params.get("cursor", 0))
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS[start : start + 2]]
        more = {"nextCursor": str(start + 2)} if start + 2 < len(TOOLS) else {}
        say(id=id, result={"tools": tools, **more})

    def resources_list(self, id: Any, params: Json) -> None:
        number = int(params.get("cursor", 0))
        items = [{"uri": f"x://{number}", "name": "one"}]
        say(id=id, result={"resources": items, "nextCursor": str(number + 1)})

    def resources_templates_list(self, id: Any, _params: Json) -> None:
        say(id=id, error={"code": -32601, "message": "no templates"})

    def resources_read(self, id: Any, params: Json) -> None:
        say(id=id, result={"contents": [{"uri": params["uri"], "mimeType": "image/png", "blob": PIXEL}]})

    def tools_call(self, id: Any, params: Json) -> None:
        name, token = params["name"], params["_meta"]["progressToken"]
        if name in QUESTIONS:
            self._asked[f"q{id}"] = id
            method, asked = QUESTIONS[name]
            say(id=f"q{id}", method=method, params=asked)
        elif name == "picture":
            result(id, text("here"), {"type": "image", "data": PIXEL, "mimeType": "image/png"})
        elif name == "links":
            link = {"type": "resource_link", "uri": "x://1", "name": "one", "description": "the first"}
            inside = {"type": "resource", "resource": {"uri": "x://t", "text": "inside"}}
            result(id, link, inside, {"type": "resource", "resource": {"uri": "x://b/blob", "blob": "AAEC"}})
        elif name == "nasty":
            note = {"progressToken": token, "progress": 1, "total": 2, "message": NASTY}
            say(method="notifications/progress", params=note)
            say(method="notifications/message", params={"level": "error", "logger": NASTY, "data": NASTY})
            result(id, text(NASTY), structuredContent={NASTY: NASTY})
        elif name == "work":
            for n in (1, 2):
                note = {"progressToken": token, "progress": n, "total": 4, "message": f"part {n}"}
                say(method="notifications/progress", params=note)
        elif name == "fails":
            result(id, text("it went wrong"), isError=True)
        elif name == "huge":
            digits = "9" * 5000
            line = f'{{"jsonrpc":"2.0","id":{id},"result":{{"structuredContent":{{"it":{digits}}}}}}}'
            print(line, flush=True)
        else:
            say(id=id, error={"code": -32005, "message": "not\x1b[2J today", "data": {"why": "a whim"}})


if __name__ == "__main__":
    server = Server(Path(sys.argv[1]))
    for given in sys.stdin:
        server.hear(given)
