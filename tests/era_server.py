"""An MCP server over stdio that speaks the era it is told to, and no other: `handshake` or `modern`.

    python era_server.py handshake|modern|REVISION [--silent] [--first] [--record FOLDER]

`handshake` speaks whatever revision it is asked for. Of a REVISION it speaks that and, in its era, those
before it, as servers do; and it does nothing that the revision it agreed on does not have. It locks nothing
and checks little; tools, by name:

    echo       its arguments, of which `region` is a header too, and its pid
    structured its arguments as structured content
    fail       a result that is an error
    ask        asks for one elicitation, and tells what it heard
    sample     asks for a sample
    roots      asks for the roots
    ask-two    asks for an elicitation and a sample at once
    forever    (modern) a state and no question, again and again
    rounds     (modern) a state and no question twice, then asks, then answers
    progress   three notes of progress, with words if the revision has them
    log        a log message of a level, if that is wanted, then answers
    change     tells that its tools have changed; and that res://a, or its part `uri`, was updated if somebody
               subscribed to it
    die        exits
    hold       never answers
    heard      every message that reached it

and, which it does not list:

    ask-slowly     asks as `ask` does, and tells of progress before its answer
    end-listeners  (modern) ends every `subscriptions/listen`

A listener (modern) for `res://deadly` kills it before it is told anything.
`--silent`: says nothing at all to what it does not know, as some servers do. `--first`: of two members of an
object with one name it takes the first. `--record`: every message that reached it goes to FOLDER/PID too.
"""

import argparse
import json
import os
import sys
from typing import Any, TextIO

Json = dict[str, Any]

META = "io.modelcontextprotocol/"
MODERN = "2026-07-28"
SINCE_2025_06_18 = ("ask", "ask-two", "rounds")
"""Elicitation is not older."""
TOOLS = (
    *("echo", "structured", "fail", *SINCE_2025_06_18, "sample", "roots", "forever"),
    *("progress", "log", "change", "die", "hold", "heard"),
)
FRESH: Json = {"ttlMs": 0, "cacheScope": "private"}
QUESTION = {"message": "who?", "requestedSchema": {"type": "object", "properties": {}}}
SAMPLE = {"messages": [], "maxTokens": 5}
WHO: Json = {"who": {"method": "elicitation/create", "params": QUESTION}}
WHAT: Json = {"what": {"method": "sampling/createMessage", "params": SAMPLE}}
QUESTIONS: dict[str, Json] = {
    "ask": WHO,
    "ask-two": WHO | WHAT,
    "rounds": WHO,
    "sample": WHAT,
    "roots": {"where": {"method": "roots/list", "params": {}}},
}
UNLISTED = ("ask-slowly", "end-listeners")
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


def say(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


class Server:
    def __init__(self, era: str, silent: bool, record: TextIO | None) -> None:
        self.modern = era in ("modern", MODERN)
        self.newest = "9999" if era == "handshake" else era
        self.revision = MODERN if self.modern else ""
        """Agreed on."""
        self.silent = silent
        self.record = record
        self.heard: list[Json] = []
        self.waiting: dict[Any, tuple[Any, str]] = {}
        self.answers: dict[Any, dict[str, Any]] = {}
        self.listeners: dict[Any, Json] = {}
        self.subscribed: set[str] = set()
        self.slow: dict[Any, Any] = {}
        """Calls that tell of their progress when they have their answers → the token."""
        self.level: str | None = None
        self.asked = 0

    def take(self, message: Json) -> None:
        self.heard.append(message)
        if self.record is not None:
            print(json.dumps(message), file=self.record, flush=True)
        if "method" not in message:
            self.hear_answer(message)
        elif "id" in message:
            self.answer(message["id"], message["method"], message.get("params") or {})
        elif message["method"] == "notifications/cancelled":
            self.listeners.pop(message["params"]["requestId"], None)

    def answer(self, id: Any, method: str, params: Json) -> None:
        meta = params.get("_meta") or {}
        if self.modern and META + "protocolVersion" not in meta:
            self.fail(id, -32022 if method == "initialize" else -32602, "not of this era")
        elif not self.modern and META + "protocolVersion" in meta:
            if not self.silent:
                self.fail(id, -32601, "what?")
        elif method == "initialize":
            self.revision = min(params["protocolVersion"], self.newest)
            self.result(
                id,
                protocolVersion=self.revision,
                capabilities=self.capabilities(),
                serverInfo={"name": "era", "version": "1"},
                instructions="be kind",
            )
        elif method == "server/discover":
            self.result(
                id,
                supportedVersions=[MODERN],
                capabilities=self.capabilities(),
                instructions="be kind",
                **FRESH,
            )
        elif method == "ping" and not self.modern:
            self.result(id)
        elif method == "tools/list":
            region = {"type": "string", "x-mcp-header": "Region"}
            schemas = {"echo": {"type": "object", "properties": {"region": region}}}
            listed = [
                {"name": name, "inputSchema": schemas.get(name, {"type": "object"})} for name in self.tools()
            ]
            self.result(id, tools=listed, **(FRESH if self.modern else {}))
        elif method == "logging/setLevel" and not self.modern:
            self.level = params["level"]
            self.result(id)
        elif method == "resources/subscribe" and not self.modern:
            self.subscribed.add(params["uri"])
            self.result(id)
        elif method == "resources/unsubscribe" and not self.modern:
            self.subscribed.discard(params["uri"])
            self.result(id)
        elif method == "resources/read":
            self.fail(id, -32602 if self.modern else -32002, "no such resource")
        elif method == "subscriptions/listen" and self.modern:
            if "res://deadly" in params["notifications"].get("resourceSubscriptions", ()):
                os._exit(3)
            self.listeners[id] = params["notifications"]
            self.news(id, "notifications/subscriptions/acknowledged", notifications=params["notifications"])
        elif method == "tools/call":
            self.call(id, params, meta)
        elif not self.silent:
            self.fail(id, -32601, f"no {method} here")

    def has(self, since: str) -> bool:
        """Is the revision agreed on that one, or a newer?"""
        return self.revision >= since

    def tools(self) -> list[str]:
        return [name for name in TOOLS if name not in SINCE_2025_06_18 or self.has("2025-06-18")]

    def capabilities(self) -> Json:
        return {
            "tools": {"listChanged": True},
            "resources": {"subscribe": True, "listChanged": True},
            "logging": {},
        }

    def result(self, id: Any, **members: Any) -> None:
        if self.modern:
            members = {
                "resultType": "complete",
                "_meta": {META + "serverInfo": {"name": "era", "version": "1"}},
            } | members
        say(id=id, result=members)

    def fail(self, id: Any, code: int, text: str) -> None:
        say(id=id, error={"code": code, "message": text})

    def news(self, id: Any, method: str, **params: Any) -> None:
        say(method=method, params={**params, "_meta": {META + "subscriptionId": id}})

    def progress(self, token: Any, n: int, **words: str) -> None:
        if token is not None:
            say(method="notifications/progress", params={"progressToken": token, "progress": n, **words})

    def text(self, id: Any, value: Any) -> None:
        self.result(id, content=[{"type": "text", "text": json.dumps(value)}])

    def call(self, id: Any, params: Json, meta: Json) -> None:
        name, arguments = params["name"], params.get("arguments") or {}
        if name not in self.tools() and name not in UNLISTED:
            self.fail(id, -32602, f"no tool {name} here")
        elif name == "echo":
            self.text(id, {"arguments": arguments, "pid": os.getpid()})
        elif name == "structured":
            content = [{"type": "text", "text": json.dumps(arguments)}]
            structured = {"structuredContent": arguments} if self.has("2025-06-18") else {}
            self.result(id, content=content, **structured)
        elif name == "fail":
            self.result(id, content=[{"type": "text", "text": "it failed"}], isError=True)
        elif name in QUESTIONS or name == "forever":
            (self.ask_modern if self.modern else self.ask)(id, name, params)
        elif name == "ask-slowly":
            self.slow[id] = meta["progressToken"]
            self.ask(id, "ask", params)
        elif name == "end-listeners":
            for listener in self.listeners:
                self.result(listener)
            self.listeners = {}
            self.text(id, "ended")
        elif name == "progress":
            words = {"message": arguments["say"]} if "say" in arguments and self.has("2025-03-26") else {}
            for n in range(3):
                self.progress(meta.get("progressToken"), n, **words)
            self.text(id, "done")
        elif name == "log":
            self.log(arguments, meta.get(META + "logLevel", self.level))
            self.text(id, "logged")
        elif name == "change":
            self.change(arguments.get("uri", "res://a"))
            self.text(id, "changed")
        elif name == "die":
            os._exit(3)
        elif name == "heard":
            self.text(id, self.heard)

    def log(self, arguments: Json, wanted: str | None) -> None:
        level = arguments.get("level", "info")
        if wanted is not None and LEVELS.index(level) >= LEVELS.index(wanted):
            say(method="notifications/message", params={"level": level, "data": arguments.get("say", "hm")})

    def change(self, uri: str) -> None:
        if not self.modern:
            say(method="notifications/tools/list_changed")
        if "res://a" in self.subscribed:
            say(method="notifications/resources/updated", params={"uri": uri})
        for id, wanted in self.listeners.items():
            if wanted.get("toolsListChanged"):
                self.news(id, "notifications/tools/list_changed")
            if "res://a" in wanted.get("resourceSubscriptions", ()):
                self.news(id, "notifications/resources/updated", uri=uri)

    def ask(self, id: Any, name: str, params: Json) -> None:
        self.answers[id] = {}
        for question in QUESTIONS[name].values():
            self.asked += 1
            self.waiting[self.asked] = (id, question["method"])
            say(id=self.asked, **question)

    def hear_answer(self, message: Json) -> None:
        id, method = self.waiting.pop(message["id"])
        self.answers[id][method] = message.get("result", message.get("error"))
        if not any(of == id for of, _ in self.waiting.values()):
            if id in self.slow:
                self.progress(self.slow.pop(id), 1)
            self.text(id, self.answers.pop(id))

    def ask_modern(self, id: Any, name: str, params: Json) -> None:
        answers, state = params.get("inputResponses"), params.get("requestState")
        if name == "forever":
            self.result(id, resultType="input_required", requestState="again")
            return
        if name == "rounds" and state != "two":
            self.result(id, resultType="input_required", requestState={None: "one", "one": "two"}[state])
            return
        if answers is None:
            state = state or 'é"1'
            self.result(id, resultType="input_required", inputRequests=QUESTIONS[name], requestState=state)
        else:
            self.text(id, {"answers": answers, "state": state})


def first_of_each(members: list[tuple[str, Any]]) -> Json:
    return dict(reversed(members))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("era")
    parser.add_argument("--silent", action="store_true")
    parser.add_argument("--first", action="store_true")
    parser.add_argument("--record", metavar="FOLDER")
    options = parser.parse_args()
    record = open(f"{options.record}/{os.getpid()}", "w") if options.record else None  # noqa: PTH123, SIM115
    server = Server(options.era, options.silent, record)
    hook = first_of_each if options.first else None
    for line in sys.stdin:
        server.take(json.loads(line, object_pairs_hook=hook))


if __name__ == "__main__":
    main()
