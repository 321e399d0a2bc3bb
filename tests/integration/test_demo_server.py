"""The demo server as a real process: its protocol, its errors, how it ends."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support import PATIENCE_S

Json = dict[str, Any]


class Demo:
    """A client of few words: writes lines, reads lines, each read bounded."""

    def __init__(self) -> None:
        # In the background Ctrl-C is ignored, and a child would inherit that; what is handled it does not.
        ours = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mooring.demo"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        signal.signal(signal.SIGINT, ours)
        self._read_so_far = b""
        self._last_id = 0
        self.heard: list[Json] = []
        """What came before the answers that were waited for."""

    def write(self, line: bytes) -> None:
        assert self.process.stdin
        data = line + b"\n"
        while data:
            data = data[self.process.stdin.write(data) or 0 :]

    def send(self, message: object) -> None:
        self.write(json.dumps(message).encode())

    def read_line(self) -> bytes:
        assert self.process.stdout
        deadline = time.monotonic() + PATIENCE_S
        while b"\n" not in self._read_so_far:
            ready, _, _ = select.select([self.process.stdout], [], [], deadline - time.monotonic())
            assert ready, "nothing came"
            chunk = os.read(self.process.stdout.fileno(), 1 << 20)
            if not chunk:
                raise EOFError
            self._read_so_far += chunk
        line, _, self._read_so_far = self._read_so_far.partition(b"\n")
        return line

    def read(self) -> Any:
        return json.loads(self.read_line())

    def ask(self, method: str, params: object = None) -> int:
        """Send a request; its id."""
        self._last_id += 1
        message = {"jsonrpc": "2.0", "id": self._last_id, "method": method}
        self.send(message if params is None else {**message, "params": params})
        return self._last_id

    def ask_tool(self, name: str, /, token: int | str | None = None, **arguments: object) -> int:
        meta = {} if token is None else {"_meta": {"progressToken": token}}
        return self.ask("tools/call", {"name": name, "arguments": arguments, **meta})

    def answer_to(self, id: int) -> Json:
        while True:
            message: Json = self.read()
            if message.get("id") == id and "method" not in message:
                return message
            self.heard.append(message)

    def request(self, method: str, params: object = None) -> Json:
        return self.answer_to(self.ask(method, params))

    def result(self, method: str, params: object = None) -> Json:
        answer = self.request(method, params)
        assert "result" in answer, answer
        result: Json = answer["result"]
        return result

    def error(self, method: str, params: object = None) -> int:
        code: int = self.request(method, params)["error"]["code"]
        return code

    def call(self, name: str, /, **arguments: object) -> Json:
        answer = self.answer_to(self.ask("tools/call", {"name": name, "arguments": arguments}))
        assert "result" in answer, answer
        result: Json = answer["result"]
        return result

    def text(self, name: str, /, **arguments: object) -> str:
        result = self.call(name, **arguments)
        assert not result.get("isError"), result
        text: str = result["content"][0]["text"]
        return text

    def cancel(self, id: int | str) -> None:
        params = {"requestId": id, "reason": "changed my mind"}
        self.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})

    def ask_tool_and_cancel(self, name: str, /, **arguments: object) -> int:
        """In one piece, so that no pause of this process can come between the two."""
        self._last_id += 1
        params = {"name": name, "arguments": arguments, "_meta": {"progressToken": 1}}
        call = {"jsonrpc": "2.0", "id": self._last_id, "method": "tools/call", "params": params}
        cancel = {
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": self._last_id},
        }
        self.write(json.dumps(call).encode() + b"\n" + json.dumps(cancel).encode())
        return self._last_id

    def initialize(self, version: str = "2025-11-25", **capabilities: object) -> Json:
        client = {"name": "test", "version": "1"}
        params = {"protocolVersion": version, "capabilities": capabilities, "clientInfo": client}
        result = self.result("initialize", params)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return result

    def end_stdin(self) -> tuple[int, bytes, bytes]:
        """Exit status, and what else it had to say."""
        out, err = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, self._read_so_far + out, err

    def wait(self) -> int:
        return self.process.wait(PATIENCE_S)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe
            pipe.close()


@pytest.fixture
def start() -> Iterator[Callable[[], Demo]]:
    started: list[Demo] = []

    def start_one() -> Demo:
        started.append(Demo())
        return started[-1]

    yield start_one
    for demo in started:
        demo.close()


@pytest.fixture
def stranger(start: Callable[[], Demo]) -> Demo:
    """A server nobody has spoken to."""
    return start()


@pytest.fixture
def demo(stranger: Demo) -> Demo:
    """A server that was initialized by a client that can do nothing."""
    stranger.initialize()
    return stranger


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_a_known_version_is_agreed_to(stranger: Demo, version: str) -> None:
    assert stranger.initialize(version)["protocolVersion"] == version


@pytest.mark.parametrize("version", ["2026-07-28", "1.0", ""])
def test_an_unknown_version_gets_the_newest_of_ours(stranger: Demo, version: str) -> None:
    assert stranger.initialize(version)["protocolVersion"] == "2025-11-25"


def test_capabilities_and_name(stranger: Demo) -> None:
    result = stranger.initialize()
    assert result["capabilities"] == {
        "completions": {},
        "logging": {},
        "prompts": {},
        "resources": {"subscribe": True},
        "tools": {"listChanged": True},
    }
    assert result["serverInfo"]["name"] == "mooring-demo"


@pytest.mark.parametrize("line", [b"{", b"nonsense", b"\xff\xfe", b'{"a": NaN}', b"[" * 100_000])
def test_a_line_that_is_not_json(stranger: Demo, line: bytes) -> None:
    stranger.write(line)
    answer = stranger.read()
    assert (answer["id"], answer["error"]["code"]) == (None, -32700)
    assert stranger.result("ping") == {}


@pytest.mark.parametrize(
    ("message", "id"),
    [
        (1, None),
        ("ping", None),
        (None, None),
        ({}, None),
        ({"id": 7, "method": "ping"}, 7),
        ({"jsonrpc": "1.0", "id": "x", "method": "ping"}, "x"),
        ({"jsonrpc": "2.0", "id": 7, "method": 1}, 7),
        ({"jsonrpc": "2.0", "id": None, "method": "ping"}, None),
        ({"jsonrpc": "2.0", "id": True, "method": "ping"}, None),
        ({"jsonrpc": "2.0", "id": 1.5, "method": "ping"}, None),
        ({"jsonrpc": "2.0", "id": [], "method": "ping"}, None),
        ([], None),
        ([{"jsonrpc": "2.0", "id": 1, "method": "ping"}], None),
    ],
)
def test_json_that_is_not_a_message(demo: Demo, message: object, id: object) -> None:
    demo.send(message)
    answer = demo.read()
    assert (answer["id"], answer["error"]["code"]) == (id, -32600)


def test_blank_lines_and_strange_answers_are_passed_over(demo: Demo) -> None:
    for line in (
        b"",
        b"  \r",
        b'{"jsonrpc":"2.0","id":99,"result":{}}',
        b'{"jsonrpc":"2.0","id":{},"error":1}',
    ):
        demo.write(line)
    assert demo.result("ping") == {}
    assert demo.heard == []


@pytest.mark.parametrize("method", ["tools/list", "tools/call", "server/discover", "nonsense"])
def test_nothing_but_ping_before_initialize(stranger: Demo, method: str) -> None:
    assert stranger.error(method) == -32600
    assert stranger.result("ping") == {}


def test_initialize_comes_once(demo: Demo) -> None:
    assert demo.error("initialize") == -32600


@pytest.mark.parametrize(
    "params",
    [
        None,
        {},
        {"protocolVersion": 1, "capabilities": {}, "clientInfo": {}},
        {"protocolVersion": "2025-11-25", "capabilities": [], "clientInfo": {}},
        {"protocolVersion": "2025-11-25", "capabilities": {}},
    ],
)
def test_an_incomplete_initialize(stranger: Demo, params: object) -> None:
    assert stranger.error("initialize", params) == -32602
    assert stranger.initialize()


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("nonsense", None, -32601),
        ("tasks/list", {}, -32601),
        ("ping", [], -32602),
        ("tools/list", {"cursor": "2"}, -32602),
        ("tools/call", {}, -32602),
        ("tools/call", {"name": "nonsense"}, -32602),
        ("tools/call", {"name": "extra"}, -32602),
        ("tools/call", {"name": ["echo"]}, -32602),
        ("tools/call", {"name": "echo"}, -32602),
        ("tools/call", {"name": "echo", "arguments": []}, -32602),
        ("tools/call", {"name": "echo", "arguments": {"text": 1}}, -32602),
        ("tools/call", {"name": "add", "arguments": {"a": 1}}, -32602),
        ("tools/call", {"name": "add", "arguments": {"a": 1, "b": True}}, -32602),
        ("tools/call", {"name": "add", "arguments": {"a": 1e308, "b": 1e308}}, -32602),
        ("tools/call", {"name": "add", "arguments": {"a": 10**400, "b": 0.5}}, -32602),
        ("tools/call", {"name": "sleep", "arguments": {"seconds": -1}}, -32602),
        ("tools/call", {"name": "sleep", "arguments": {"steps": 0.5}}, -32602),
        ("tools/call", {"name": "crash", "arguments": {"code": 256}}, -32602),
        ("tools/call", {"name": "crash", "arguments": {"signal": "SIGNONSENSE"}}, -32602),
        ("tools/call", {"name": "crash", "arguments": {"signal": 1000}}, -32602),
        ("tools/call", {"name": "crash", "arguments": {"answer": 1}}, -32602),
        ("tools/call", {"name": "noisy", "arguments": {"stream": "stdin"}}, -32602),
        ("tools/call", {"name": "big", "arguments": {"bytes": -1}}, -32602),
        ("tools/call", {"name": "log", "arguments": {"level": "loud"}}, -32602),
        ("logging/setLevel", {"level": "loud"}, -32602),
        ("prompts/get", {"name": "nonsense"}, -32602),
        ("prompts/get", {"name": "greet"}, -32602),
        ("prompts/get", {"name": "greet", "arguments": {"name": "A", "tone": "rude"}}, -32602),
        ("completion/complete", {}, -32602),
        ("resources/read", {}, -32602),
        ("resources/read", {"uri": "demo://nonsense"}, -32002),
        ("resources/subscribe", {"uri": "file:///etc/passwd"}, -32002),
    ],
)
def test_errors(demo: Demo, method: str, params: object, code: int) -> None:
    assert demo.error(method, params) == code
    assert demo.result("ping") == {}


def test_ids_come_back_as_they_were(demo: Demo) -> None:
    for id in (0, -1, 2**63, 2**64 + 1, "1", "", "ключ", "\ud800"):
        demo.send({"jsonrpc": "2.0", "id": id, "method": "ping"})
        assert demo.read() == {"jsonrpc": "2.0", "id": id, "result": {}}


def test_a_batch_is_answered_by_a_batch_when_all_is_there(stranger: Demo) -> None:
    stranger.initialize("2025-03-26")
    sleep = {"name": "sleep", "arguments": {"seconds": 0.05}}
    stranger.send(
        [
            {"jsonrpc": "2.0", "id": "slow", "method": "tools/call", "params": sleep},
            {"jsonrpc": "2.0", "id": "gone", "method": "tools/call", "params": {"name": "sleep"}},
            {"jsonrpc": "2.0", "id": "fast", "method": "ping"},
            {"jsonrpc": "2.0", "id": "again", "method": "initialize", "params": {}},
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "gone"}},
            17,
        ]
    )
    answers = stranger.read()
    codes = {answer["id"]: answer.get("error", {}).get("code") for answer in answers}
    assert codes == {"fast": None, "again": -32600, None: -32600, "slow": None}


@pytest.mark.parametrize("version", ["2025-03-26"])
def test_a_batch_without_requests_is_not_answered(stranger: Demo, version: str) -> None:
    stranger.initialize(version)
    stranger.send([{"jsonrpc": "2.0", "method": "notifications/initialized"}])
    assert stranger.result("ping") == {}
    stranger.send([])
    assert stranger.read()["error"]["code"] == -32600


def test_a_message_in_many_pieces_and_many_in_one(demo: Demo) -> None:
    assert demo.process.stdin
    line = json.dumps({"jsonrpc": "2.0", "id": 70, "method": "ping"}).encode() + b"\n"
    for byte in line[:-1]:
        demo.process.stdin.write(bytes([byte]))
    demo.process.stdin.write(b"\n" + line * 3 + line[:10])
    assert [demo.read()["id"] for _ in range(4)] == [70] * 4
    demo.process.stdin.write(line[10:])
    assert demo.read()["id"] == 70


def test_a_message_of_many_megabytes(demo: Demo) -> None:
    text = "é" * (4 << 20)
    assert demo.text("echo", text=text) == text


def test_it_ends_with_stdin_and_says_nothing(demo: Demo) -> None:
    assert demo.end_stdin() == (0, b"", b"")


def test_it_ends_with_stdin_before_anything_was_said(stranger: Demo) -> None:
    assert stranger.end_stdin() == (0, b"", b"")


def test_the_last_line_needs_no_line_end(demo: Demo) -> None:
    assert demo.process.stdin
    demo.process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
    status, out, _ = demo.end_stdin()
    assert (status, json.loads(out)["result"]) == (0, {})


def test_it_ends_with_stdin_while_calls_wait(stranger: Demo) -> None:
    stranger.initialize(elicitation={})
    stranger.ask_tool("sleep", seconds=3600)
    stranger.ask_tool("ask")
    assert stranger.read()["method"] == "elicitation/create"
    assert stranger.end_stdin() == (0, b"", b"")


def test_it_ends_when_nobody_reads_its_output(demo: Demo) -> None:
    assert demo.process.stdout
    demo.process.stdout.close()
    demo.ask("ping")
    assert demo.wait() == 0


@pytest.mark.parametrize("busy", [False, True])
def test_sigterm_ends_it(demo: Demo, busy: bool) -> None:
    if busy:
        demo.ask_tool("sleep", seconds=3600)
    assert demo.result("ping") == {}
    demo.process.send_signal(signal.SIGTERM)
    assert demo.wait() == -signal.SIGTERM


def test_sigint_ends_it_quietly(demo: Demo) -> None:
    demo.process.send_signal(signal.SIGINT)
    assert demo.wait() == 130
    assert demo.process.stderr
    assert demo.process.stderr.read() == b""


@pytest.mark.parametrize(
    ("argument", "status", "word"),
    [
        ("--help", 0, "counter"),
        ("-h", 0, "usage"),
        ("--version", 0, "mooring-demo "),
        ("--nonsense", 2, "--help"),
    ],
)
def test_command_line(argument: str, status: int, word: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mooring.demo", argument],
        capture_output=True,
        check=False,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == status
    assert word in (done.stdout if status == 0 else done.stderr)
    assert (done.stderr if status == 0 else done.stdout) == ""


def test_it_imports_nothing_that_takes_time() -> None:
    code = (
        "import sys; before = set(sys.modules); import mooring.demo.server; print(*set(sys.modules) - before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    loaded = set(done.stdout.split())
    heavy = {
        "typing",
        "dataclasses",
        "inspect",
        "logging",
        "asyncio",
        "threading",
        "pathlib",
        "argparse",
        "signal",
    }
    assert not loaded & heavy
    ours = {name for name in loaded if name.startswith("mooring") and not name.startswith("mooring.demo")}
    assert ours == {"mooring"}
