"""The tools of the demo server."""

from __future__ import annotations

import json
import math
import os
import sys

from mooring.demo.content import COUNTER, NOTE, only_page
from mooring.demo.conversation import INVALID_PARAMS, LEVELS, Ask, ClientError, Conversation, RpcError, Sleep

TYPE_CHECKING = False  # see conversation.py
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from mooring.demo.conversation import Handler, Json, Task

    Tool = Callable[[Conversation, "Arguments"], "Json | Task"]

__all__ = ["METHODS", "Death"]

DAY_S = 86_400
GIB = 1 << 30


class Death(BaseException):
    """The end of this process, as ordered by `crash`; no handler of errors may stop it."""

    def __init__(self, code: int, signal: int | None) -> None:
        super().__init__(code, signal)
        self.code = code
        self.signal = signal

    def die(self) -> NoReturn:
        """By the signal if there is one and it kills; otherwise with the exit status."""
        if self.signal is not None:
            os.kill(os.getpid(), self.signal)
        os._exit(self.code)


class Arguments:
    """The arguments of a tool call, checked as they are read."""

    __slots__ = ("_values", "token")

    def __init__(self, values: Json, token: int | str | None) -> None:
        self._values = values
        self.token = token
        """The caller's progressToken."""

    def _take(self, key: str, default: Any, right: Callable[[Any], bool], what: str) -> Any:
        value = self._values.get(key, default)
        if not right(value):
            raise RpcError(INVALID_PARAMS, f"{key} must be {what}")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """A string."""
        value: str = self._take(key, default, lambda value: isinstance(value, str), "a string")
        return value

    def number(self, key: str, default: float | None = None, *, high: float = math.inf) -> int | float:
        """A number; with `high`, between 0 and that."""
        low = 0 if high < math.inf else -math.inf
        value: int | float = self._take(
            key,
            default,
            lambda value: type(value) in (int, float) and low <= value <= high,
            "a number" + (f" from 0 to {high}" if high < math.inf else ""),
        )
        return value

    def whole(self, key: str, default: int, *, high: int) -> int:
        """A whole number between 0 and `high`."""
        value: int = self._take(
            key, default, lambda value: type(value) is int and 0 <= value <= high, f"a whole number to {high}"
        )
        return value

    def choice(self, key: str, default: str, among: tuple[str, ...]) -> str:
        """One of a few words."""
        value: str = self._take(key, default, among.__contains__, f"one of {', '.join(among)}")
        return value

    def flag(self, key: str) -> bool:
        """True or false; false if not there."""
        value: bool = self._take(key, False, lambda value: isinstance(value, bool), "true or false")
        return value

    def signal(self) -> int | None:
        """A signal by its number or name, if there is one."""
        value = self._values.get("signal")
        if value is None:
            return None
        import signal  # noqa: PLC0415 - start-up counts

        try:
            if isinstance(value, str):
                return signal.Signals["SIG" + value.upper().removeprefix("SIG")]
            return signal.Signals(value)
        except (KeyError, ValueError):
            raise RpcError(INVALID_PARAMS, f"no signal {value!r}") from None


def text_result(text: str, structured: Json | None = None, *, is_error: bool = False) -> Json:
    """A tool's result: one text, and the same as a value for programs."""
    result: Json = {"content": [{"type": "text", "text": text}]}
    if structured is not None:
        result["structuredContent"] = structured
    if is_error:
        result["isError"] = True
    return result


def _echo(_conversation: Conversation, arguments: Arguments) -> Json:
    return text_result(arguments.text("text"))


def _add(_conversation: Conversation, arguments: Arguments) -> Json:
    try:
        total = arguments.number("a") + arguments.number("b")
    except OverflowError:
        total = math.inf
    if not math.isfinite(total):
        raise RpcError(INVALID_PARAMS, "the sum is too large")
    return text_result(json.dumps(total))


def _sleep(conversation: Conversation, arguments: Arguments) -> Task:
    seconds = arguments.number("seconds", 1, high=DAY_S)
    steps = arguments.whole("steps", 1, high=1_000_000)
    for step in range(1, steps + 1):
        yield Sleep(seconds / steps)
        if arguments.token is not None:
            progress = {"progressToken": arguments.token, "progress": step, "total": steps}
            conversation.notify("notifications/progress", progress)
    if not steps:
        yield Sleep(seconds)
    return text_result(f"slept {seconds} s")


def _crash(conversation: Conversation, arguments: Arguments) -> Json | Task:
    death = Death(arguments.whole("code", 1, high=255), arguments.signal())
    delay_s = arguments.whole("after_ms", 0, high=DAY_S * 1000) / 1000

    def later() -> Task:
        yield Sleep(delay_s)
        raise death

    if arguments.flag("answer"):
        conversation.start(later())
        return text_result(f"crashing in {delay_s} s")
    return later()


def _noisy(conversation: Conversation, arguments: Arguments) -> Json:
    lines = arguments.whole("lines", 1, high=10_000_000)
    stream = arguments.choice("stream", "both", ("stdout", "stderr", "both"))
    for number in range(1, lines + 1):
        if stream != "stderr":
            conversation.output.append(b"this line is not JSON-RPC: %d\n" % number)
        if stream != "stdout":
            sys.stderr.write(f"this line is only noise: {number}\n")
    sys.stderr.flush()
    return text_result(f"wrote {lines} lines")


def _big(_conversation: Conversation, arguments: Arguments) -> Json:
    return text_result("x" * arguments.whole("bytes", 1024, high=GIB))


def _ask(conversation: Conversation, arguments: Arguments) -> Json | Task:
    capability = conversation.client.get("elicitation")
    # Since 2025-11-25 there are kinds; an empty object means forms, as it did before.
    if not isinstance(capability, dict) or (capability and "form" not in capability):
        return text_result("the client has no elicitation capability", is_error=True)
    schema = {
        "type": "object",
        "properties": {"answer": {"type": "string", "title": "Answer", "description": "Anything you like"}},
        "required": ["answer"],
    }
    return _asking(
        "elicitation/create",
        {"message": arguments.text("message", "What shall I say?"), "requestedSchema": schema},
    )


def _sample(conversation: Conversation, arguments: Arguments) -> Json | Task:
    if not isinstance(conversation.client.get("sampling"), dict):
        return text_result("the client has no sampling capability", is_error=True)
    question = {"role": "user", "content": {"type": "text", "text": arguments.text("prompt", "Say hello.")}}
    return _asking("sampling/createMessage", {"messages": [question], "maxTokens": 100})


def _roots(conversation: Conversation, _arguments: Arguments) -> Json | Task:
    if not isinstance(conversation.client.get("roots"), dict):
        return text_result("the client has no roots capability", is_error=True)
    return _asking("roots/list", {})


def _asking(method: str, params: Json) -> Task:
    try:
        answer = yield Ask(method, params)
    except ClientError as error:
        return text_result(str(error), is_error=True)
    structured = answer if isinstance(answer, dict) else {"answer": answer}
    return text_result(json.dumps(answer), structured)


def _counter(conversation: Conversation, _arguments: Arguments) -> Json:
    conversation.count += 1
    conversation.updated(COUNTER)
    state = {"count": conversation.count, "pid": os.getpid()}
    return text_result(json.dumps(state), state)


def _touch(conversation: Conversation, arguments: Arguments) -> Json:
    conversation.note = arguments.text("text", "touched")
    conversation.updated(NOTE)
    return text_result(f"{NOTE} is now: {conversation.note}")


def _log(conversation: Conversation, arguments: Arguments) -> Json:
    level = arguments.choice("level", "info", LEVELS)
    message = arguments.text("message", "hello from the log")
    if LEVELS.index(level) < conversation.level:
        return text_result(f"not sent: {level} is below the level that was set")
    conversation.notify("notifications/message", {"level": level, "logger": "demo", "data": message})
    return text_result("sent")


def _toggle(conversation: Conversation, _arguments: Arguments) -> Json:
    conversation.extra = not conversation.extra
    conversation.notify("notifications/tools/list_changed")
    return text_result("`extra` is there" if conversation.extra else "`extra` is gone")


def _extra(_conversation: Conversation, _arguments: Arguments) -> Json:
    return text_result("only sometimes here")


PURE = {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False}
READS = {"readOnlyHint": True, "idempotentHint": False, "openWorldHint": True}
SETS = {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
CHANGES = {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": False, "openWorldHint": False}
DESTROYS = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": False}

STRING: Json = {"type": "string"}
NUMBER: Json = {"type": "number"}
WHOLE: Json = {"type": "integer", "minimum": 0}
SIGNAL: Json = {"type": ["string", "integer"], "description": "Name or number; it outranks code"}

TOOLS: dict[str, tuple[Tool, str, Json, Json, tuple[str, ...]]] = {
    # name: (function, description, annotations, arguments, which of them are required)
    "echo": (_echo, "The same text", PURE, {"text": STRING}, ("text",)),
    "add": (_add, "The sum of two numbers", PURE, {"a": NUMBER, "b": NUMBER}, ("a", "b")),
    "sleep": (
        _sleep,
        "Waits, with progress",
        PURE,
        {"seconds": {**NUMBER, "minimum": 0}, "steps": WHOLE},
        (),
    ),
    "crash": (
        _crash,
        "Ends the process, unanswered unless `answer` is true",
        DESTROYS,
        {"code": WHOLE, "signal": SIGNAL, "after_ms": WHOLE, "answer": {"type": "boolean"}},
        (),
    ),
    "noisy": (
        _noisy,
        "Writes junk, then answers",
        PURE,
        {"lines": WHOLE, "stream": {**STRING, "enum": ["stdout", "stderr", "both"]}},
        (),
    ),
    "big": (_big, "That many bytes of text", PURE, {"bytes": WHOLE}, ()),
    "ask": (_ask, "Asks the user a question", READS, {"message": STRING}, ()),
    "sample": (_sample, "Asks the model for a text", READS, {"prompt": STRING}, ()),
    "roots": (_roots, "Asks the client for its roots", READS, {}, ()),
    "counter": (_counter, "How often it was called in this process, and the pid", CHANGES, {}, ()),
    "touch": (_touch, f"Changes the resource {NOTE}", SETS, {"text": STRING}, ()),
    "log": (
        _log,
        "Sends a log message",
        PURE,
        {"level": {**STRING, "enum": list(LEVELS)}, "message": STRING},
        (),
    ),
    "toggle": (_toggle, "Adds or removes the tool `extra`", CHANGES, {}, ()),
    "extra": (_extra, "Added by the tool `toggle`", PURE, {}, ()),
}


def _list_tools(conversation: Conversation, params: Json) -> Json:
    only_page(params)
    return {
        "tools": [
            {
                "name": name,
                "description": description,
                "inputSchema": {"type": "object", "properties": properties, "required": list(required)},
                "annotations": annotations,
            }
            for name, (_, description, annotations, properties, required) in TOOLS.items()
            if name != "extra" or conversation.extra
        ]
    }


def _call_tool(conversation: Conversation, params: Json) -> Json | Task:
    name = params.get("name")
    tool = TOOLS.get(name) if isinstance(name, str) else None
    if tool is None or (name == "extra" and not conversation.extra):
        raise RpcError(INVALID_PARAMS, f"no tool {name!r}")
    values, meta = params.get("arguments", {}), params.get("_meta")
    if not isinstance(values, dict):
        raise RpcError(INVALID_PARAMS, "arguments is an object")
    token = meta.get("progressToken") if isinstance(meta, dict) else None
    return tool[0](conversation, Arguments(values, token))


METHODS: dict[str, Handler] = {"tools/list": _list_tools, "tools/call": _call_tool}
