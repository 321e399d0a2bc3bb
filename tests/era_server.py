"""An MCP server over stdio that speaks the era it is told to, and no other: `handshake` or `modern`.

    python era_server.py handshake|modern [--silent]

It locks nothing and checks little; tools, by name:

    echo       its arguments, of which `region` is a header too, and its pid
    ask        asks for one elicitation, and tells what it heard
    ask-two    asks for an elicitation and a sample at once
    forever    (modern) a state and no question, again and again
    rounds     (modern) a state and no question twice, then asks, then answers
    progress   three notes of progress
    log        a log message, then answers
    change     tells that its tools have changed, and that res://a was updated
    die        exits
    hold       never answers
    heard      every message that reached it

`--silent`: says nothing at all to what it does not know, as some servers do.
"""

import json
import os
import sys
from typing import Any

META = "io.modelcontextprotocol/"
TOOLS = ("echo", "ask", "ask-two", "rounds", "forever", "progress", "log", "change", "die", "hold", "heard")
QUESTION = {"message": "who?", "requestedSchema": {"type": "object", "properties": {}}}
SAMPLE = {"messages": [], "maxTokens": 5}

Json = dict[str, Any]


def say(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


class Server:
    def __init__(self, modern: bool, silent: bool) -> None:
        self.modern = modern
        self.silent = silent
        self.heard: list[Json] = []
        self.waiting: dict[Any, tuple[Any, str]] = {}
        self.answers: dict[Any, dict[str, Any]] = {}
        self.listeners: dict[Any, Json] = {}
        self.level: str | None = None
        self.asked = 0

    def take(self, message: Json) -> None:
        self.heard.append(message)
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
            self.result(
                id,
                protocolVersion=params["protocolVersion"],
                capabilities=self.capabilities(),
                serverInfo={"name": "era", "version": "1"},
                instructions="be kind",
            )
        elif method == "server/discover":
            self.result(
                id,
                supportedVersions=["2026-07-28"],
                capabilities=self.capabilities(),
                instructions="be kind",
                ttlMs=0,
                cacheScope="private",
            )
        elif method == "ping" and not self.modern:
            self.result(id)
        elif method == "tools/list":
            region = {"type": "string", "x-mcp-header": "Region"}
            schemas = {"echo": {"type": "object", "properties": {"region": region}}}
            listed = [{"name": name, "inputSchema": schemas.get(name, {"type": "object"})} for name in TOOLS]
            self.result(id, tools=listed)
        elif method == "logging/setLevel" and not self.modern:
            self.level = params["level"]
            self.result(id)
        elif method in ("resources/subscribe", "resources/unsubscribe") and not self.modern:
            self.result(id)
        elif method == "resources/read":
            self.fail(id, -32602 if self.modern else -32002, "no such resource")
        elif method == "subscriptions/listen" and self.modern:
            self.listeners[id] = params["notifications"]
            self.news(id, "notifications/subscriptions/acknowledged", notifications=params["notifications"])
        elif method == "tools/call":
            self.call(id, params, meta)
        elif not self.silent:
            self.fail(id, -32601, f"no {method} here")

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

    def text(self, id: Any, value: Any) -> None:
        self.result(id, content=[{"type": "text", "text": json.dumps(value)}])

    def call(self, id: Any, params: Json, meta: Json) -> None:
        name, arguments = params["name"], params.get("arguments") or {}
        if name == "echo":
            self.text(id, {"arguments": arguments, "pid": os.getpid()})
        elif name in ("ask", "ask-two", "rounds", "forever"):
            (self.ask_modern if self.modern else self.ask)(id, name, params)
        elif name == "progress":
            for n in range(3):
                say(
                    method="notifications/progress",
                    params={"progressToken": meta["progressToken"], "progress": n},
                )
            self.text(id, "done")
        elif name == "log":
            if self.level is not None or META + "logLevel" in meta:
                say(
                    method="notifications/message",
                    params={"level": "info", "data": arguments.get("say", "hm")},
                )
            self.text(id, "logged")
        elif name == "change":
            self.change()
            self.text(id, "changed")
        elif name == "die":
            os._exit(3)
        elif name == "heard":
            self.text(id, self.heard)

    def change(self) -> None:
        if not self.modern:
            say(method="notifications/tools/list_changed")
            say(method="notifications/resources/updated", params={"uri": "res://a"})
        for id, wanted in self.listeners.items():
            if wanted.get("toolsListChanged"):
                self.news(id, "notifications/tools/list_changed")
            if "res://a" in wanted.get("resourceSubscriptions", ()):
                self.news(id, "notifications/resources/updated", uri="res://a")

    def ask(self, id: Any, name: str, params: Json) -> None:
        kinds = [("elicitation/create", QUESTION)] + [("sampling/createMessage", SAMPLE)] * (
            name == "ask-two"
        )
        self.answers[id] = {}
        for method, question in kinds:
            self.asked += 1
            self.waiting[self.asked] = (id, method)
            say(id=self.asked, method=method, params=question)

    def hear_answer(self, message: Json) -> None:
        id, method = self.waiting.pop(message["id"])
        self.answers[id][method] = message.get("result", message.get("error"))
        if not any(of == id for of, _ in self.waiting.values()):
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
            questions = {"who": {"method": "elicitation/create", "params": QUESTION}}
            if name == "ask-two":
                questions["what"] = {"method": "sampling/createMessage", "params": SAMPLE}
            self.result(id, resultType="input_required", inputRequests=questions, requestState=state or 'é"1')
        else:
            self.text(id, {"answers": answers, "state": state})


def main() -> None:
    server = Server(sys.argv[1] == "modern", "--silent" in sys.argv)
    for line in sys.stdin:
        server.take(json.loads(line))


if __name__ == "__main__":
    main()
