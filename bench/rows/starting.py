"""How soon there is an answer, and how soon there is help."""

import json
import subprocess
import time
from collections.abc import Mapping
from functools import partial

from bench.client import INTRODUCTION, first_answer
from bench.installed import mooring_program, mooring_python
from bench.measuring import Figures
from bench.results import MOORING, PIPE, PYTHON_CHILD
from bench.rows.fresh import from_scratch
from bench.targets import Argv, environment, native_child, python_child, spawned

__all__ = ["GROUPS", "first_line_s", "run_s"]

HELP_RUNS = 15


def _start(target: str, *, python: bool = False) -> Figures:
    """From the start of the process to the first answer to a call. The bare pipe's is the server's own."""
    child = python_child() if python else native_child()
    took_s = first_line_s(child) if target == PIPE else _first_response(target, child)
    return Figures({"start" + (PYTHON_CHILD if python else ""): took_s})


def _first_response(target: str, child: Argv) -> float:
    began = time.perf_counter()
    with spawned(target, child) as running:
        first_answer(running.port)
        return time.perf_counter() - began


def first_line_s(child: Argv) -> float:
    """From the start of a server on our pipes to its answer to a call."""
    call = {"name": "echo", "arguments": {"text": "hello world"}}
    messages = (*INTRODUCTION, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
    lines = b"".join(json.dumps(message).encode() + b"\n" for message in messages)
    began = time.perf_counter()
    with subprocess.Popen(child, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()) as process:
        assert process.stdin and process.stdout
        process.stdin.write(lines)
        process.stdin.flush()
        answers = [json.loads(process.stdout.readline()) for _ in range(2)]
        took_s = time.perf_counter() - began
        process.stdin.close()
    assert "result" in answers[1], answers
    return took_s


def _help(_: str) -> Figures:
    """`mooring --help` against the bare interpreter that runs it, in turn; the best of each."""
    help_argv = [mooring_program(), "--help"]
    bare_argv = [mooring_python(), "-c", "pass"]
    times_s = [(run_s(help_argv), run_s(bare_argv)) for _ in range(HELP_RUNS)]
    help_s, bare_s = (min(column) for column in zip(*times_s, strict=True))
    return Figures({"help_ratio": help_s / bare_s}, {"help_ratio": f"{help_s * 1000:.0f} ms"})


def run_s(argv: Argv, variables: Mapping[str, str] | None = None) -> float:
    """How long a command takes."""
    began = time.perf_counter()
    subprocess.run(argv, stdout=subprocess.DEVNULL, env=variables or environment(), check=True)
    return time.perf_counter() - began


GROUPS = (
    from_scratch(("start",), _start, windows=6, quick_windows=4),
    from_scratch(("start" + PYTHON_CHILD,), partial(_start, python=True), windows=4),
    from_scratch(("help_ratio",), _help, windows=1, quick_windows=1, targets=(MOORING,)),
)
