"""One client's conversation with the demo server: lines in, lines out, no I/O.

A handler answers at once by returning a result, or takes its time by being a generator:
it yields a `Sleep` or an `Ask`, gets the client's answer from the latter, and returns the
result at last. Between the yields other calls are served, so answers may come in another
order than their calls; cancelling a call closes its generator.

Invariants: every request but a cancelled one is answered exactly once. `calls` has the
generators that are waiting, each either in `timers` or in `asked`. Output is only
collected here; `take_output` empties it.
"""

from __future__ import annotations

import json
import sys
from heapq import heappop, heappush
from time import monotonic

TYPE_CHECKING = False  # `typing` costs more to import than this server needs to start
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import Any

    Json = dict[str, Any]
    Task = Generator["Sleep | Ask", Any, Json]
    Handler = Callable[["Conversation", Json], "Json | Task"]

__all__ = ["INVALID_PARAMS", "LEVELS", "Ask", "ClientError", "Conversation", "RpcError", "Sleep"]

BATCH_VERSION = "2025-03-26"  # the only revision that had them
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_decode = json.JSONDecoder(parse_constant=_no_constant).decode
_encode = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode
_encode_ascii = json.JSONEncoder(check_circular=False, separators=(",", ":")).encode


def _usable_id(id: object) -> int | str | None:
    # Not isinstance: JSON's true is an int to Python, and would be the same key as 1.
    return id if type(id) in (int, str) else None  # type: ignore[return-value]


class RpcError(Exception):
    """A request that is answered with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class ClientError(Exception):
    """The client answered our request with an error; raised inside the generator that asked."""


class Sleep:
    """Yielded: go on after that many seconds."""

    __slots__ = ("seconds",)

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


class Ask:
    """Yielded: send this request to the client, go on with its result."""

    __slots__ = ("method", "params")

    def __init__(self, method: str, params: Json) -> None:
        self.method = method
        self.params = params


class Batch:
    """The answers to one batch, sent together once all are there."""

    __slots__ = ("answers", "missing")

    def __init__(self) -> None:
        self.answers: list[Json] = []
        self.missing = 1  # the reading of the batch itself


class Call:
    """A generator at work on a request; without an id, on something nobody waits for."""

    __slots__ = ("asked", "batch", "done", "id", "task")

    def __init__(self, id: int | str | None, task: Task, batch: Batch | None) -> None:
        self.id = id
        self.task = task
        self.batch = batch
        self.asked: int | None = None
        self.done = False


class Conversation:
    """The messages of one client, and all the state this process has."""

    def __init__(self, methods: dict[str, Handler]) -> None:
        self._methods = methods
        self.version: str | None = None
        self.client: Json = {}
        """The client's capabilities."""
        self.level = LEVELS.index("info")
        self.subscribed: set[str] = set()
        self.count = 0
        self.note = "not touched yet"
        self.extra = False
        self.calls: dict[int | str, Call] = {}
        self.asked: dict[int, Call] = {}
        self.timers: list[tuple[float, int, Call]] = []
        self.output: list[bytes] = []
        self._asked_so_far = 0
        self._timed_so_far = 0

    # What goes out

    def take_output(self) -> bytes:
        """Everything to be written to stdout since the last time."""
        if not self.output:
            return b""
        data = b"".join(self.output)
        self.output.clear()
        return data

    def send(self, message: Json | list[Json]) -> None:
        """Queue one line."""
        text = _encode(message)
        try:
            self.output.append(text.encode() + b"\n")
        except UnicodeEncodeError:  # a lone surrogate is fine in JSON, but only as an escape
            self.output.append(_encode_ascii(message).encode() + b"\n")

    def notify(self, method: str, params: Json | None = None) -> None:
        """Queue a notification."""
        message: Json = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        self.send(message)

    def updated(self, uri: str) -> None:
        """Tell a subscriber that a resource has changed."""
        if uri in self.subscribed:
            self.notify("notifications/resources/updated", {"uri": uri})

    def _answer(self, batch: Batch | None, message: Json) -> None:
        if batch is None:
            self.send(message)
        else:
            batch.answers.append(message)

    def _result(self, id: int | str, batch: Batch | None, result: Json) -> None:
        self._answer(batch, {"jsonrpc": "2.0", "id": id, "result": result})

    def _error(self, id: int | str | None, batch: Batch | None, error: Exception) -> None:
        if isinstance(error, RpcError):
            code, message = error.code, error.message
        else:
            code, message = INTERNAL_ERROR, f"{type(error).__name__}: {error}"
            sys.stderr.write(f"mooring.demo: internal error: {message}\n")
        self._answer(batch, {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})

    # What comes in

    def receive(self, line: bytes) -> None:
        """One line of stdin."""
        if not line.strip():
            return
        try:
            message = _decode(line.decode())
        except (ValueError, RecursionError) as error:
            self._error(None, None, RpcError(PARSE_ERROR, f"not JSON: {error}"))
            return
        if isinstance(message, list):
            self._receive_batch(message)
        else:
            self._receive_message(message, None)

    def _receive_batch(self, messages: list[object]) -> None:
        if self.version != BATCH_VERSION or not messages:
            reason = "an empty batch" if not messages else f"batches exist in {BATCH_VERSION} only"
            self._error(None, None, RpcError(INVALID_REQUEST, reason))
            return
        batch = Batch()
        for message in messages:
            self._receive_message(message, batch)
        self._one_less(batch)

    def _one_less(self, batch: Batch) -> None:
        batch.missing -= 1
        if not batch.missing and batch.answers:
            self.send(batch.answers)

    def _receive_message(self, message: object, batch: Batch | None) -> None:
        if not isinstance(message, dict):
            self._error(None, batch, RpcError(INVALID_REQUEST, "a message is an object"))
            return
        id, method = _usable_id(message.get("id")), message.get("method")
        if "method" not in message and ("result" in message or "error" in message):
            self._receive_answer(id, message)
        elif message.get("jsonrpc") != "2.0" or not isinstance(method, str):
            self._error(id, batch, RpcError(INVALID_REQUEST, "not a JSON-RPC 2.0 message"))
        elif id is not None:
            self._receive_request(id, method, message.get("params", {}), batch)
        elif "id" in message:
            self._error(None, batch, RpcError(INVALID_REQUEST, "an id is a string or a whole number"))
        else:
            self._receive_notification(method, message.get("params"))

    def _receive_request(self, id: int | str, method: str, params: object, batch: Batch | None) -> None:
        try:
            if self.version is None and method not in ("initialize", "ping"):
                raise RpcError(INVALID_REQUEST, f"{method} before initialize")
            if method == "initialize" and (batch or self.version):
                raise RpcError(INVALID_REQUEST, "initialize comes once, alone")
            if id in self.calls:
                raise RpcError(INVALID_REQUEST, f"id {id!r} belongs to a call that is not answered yet")
            handler = self._methods.get(method)
            if handler is None:
                raise RpcError(METHOD_NOT_FOUND, f"no method {method}")
            if not isinstance(params, dict):
                raise RpcError(INVALID_PARAMS, "params is an object")
            outcome = handler(self, params)
        except Exception as error:  # whatever a handler does wrong, its caller gets an answer
            self._error(id, batch, error)
            return
        if isinstance(outcome, dict):
            self._result(id, batch, outcome)
            return
        self.calls[id] = call = Call(id, outcome, batch)
        if batch is not None:
            batch.missing += 1
        self._go_on(call)

    def _receive_notification(self, method: str, params: object) -> None:
        if method != "notifications/cancelled" or not isinstance(params, dict):
            return
        id = _usable_id(params.get("requestId"))
        call = None if id is None else self.calls.get(id)
        if call is None:
            return  # answered already, or never asked: both are normal
        call.task.close()
        if call.asked is not None:
            del self.asked[call.asked]
            reason = {"requestId": call.asked, "reason": "the call that asked was cancelled"}
            self.notify("notifications/cancelled", reason)
        self._retire(call)

    def _receive_answer(self, id: int | str | None, message: Json) -> None:
        call = self.asked.pop(id, None) if isinstance(id, int) else None
        if call is None:
            return
        call.asked = None
        if "error" in message:
            error = message["error"] if isinstance(message["error"], dict) else {}
            text = f"the client answered with error {error.get('code')}: {error.get('message')}"
            self._go_on(call, error=ClientError(text))
        else:
            self._go_on(call, message["result"])

    # Generators

    def start(self, task: Task) -> None:
        """Run a generator that nobody waits for."""
        self._go_on(Call(None, task, None))

    def run_due(self, now: float) -> float | None:
        """Go on with every generator whose time has come; the moment of the next one."""
        while self.timers and (self.timers[0][0] <= now or self.timers[0][2].done):
            call = heappop(self.timers)[2]
            if not call.done:
                self._go_on(call)
        return self.timers[0][0] if self.timers else None

    def _go_on(self, call: Call, value: object = None, error: Exception | None = None) -> None:
        try:
            wait = call.task.throw(error) if error else call.task.send(value)
        except StopIteration as stop:
            if call.id is not None:
                self._result(call.id, call.batch, stop.value)
        except Exception as failure:  # as in _receive_request
            if call.id is not None:
                self._error(call.id, call.batch, failure)
        else:
            if isinstance(wait, Sleep):
                self._timed_so_far += 1  # keeps equal moments in order, and calls uncompared
                heappush(self.timers, (monotonic() + wait.seconds, self._timed_so_far, call))
            else:
                # Small integers, as most SDKs use: they look like the client's own ids, which a
                # proxy must not take them for.
                self._asked_so_far += 1
                call.asked = self._asked_so_far
                self.asked[call.asked] = call
                self.send({"jsonrpc": "2.0", "id": call.asked, "method": wait.method, "params": wait.params})
            return
        self._retire(call)

    def _retire(self, call: Call) -> None:
        call.done = True
        if call.id is not None:
            del self.calls[call.id]
        if call.batch is not None:
            self._one_less(call.batch)
