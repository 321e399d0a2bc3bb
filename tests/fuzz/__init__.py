"""Coverage-guided fuzzing of everything that reads bytes from outside.

Each target is one function that takes bytes and raises if a promise is broken. `test_corpus` gives
every kept input to its target, in milliseconds each; `test_fuzzing` (slow) lets atheris look for new
ones. By hand, with libFuzzer's options, into a folder of your own:

    python -m tests.fuzz http_input -max_total_time=60 FOUND tests/fuzz/corpus/http_input

What it finds is fixed and gets a test of its own where the fault was, and its input joins the corpus.
To keep what widens the coverage, and no more:

    python -m tests.fuzz http_input -merge=1 -use_counters=0 tests/fuzz/corpus/http_input FOUND
"""

from pathlib import Path

__all__ = ["CORPUS", "TARGETS"]

TARGETS = ("http_input", "jsonrpc_lines", "session_headers", "sse_events")
"""Modules of this package, each with a `check`."""
CORPUS = Path(__file__).parent / "corpus"
