"""What people are told of a server, and how it fits on their screen."""

import time
from typing import Any

import pytest

from mooring.cli.servers.telling import (
    count,
    described,
    moment,
    state_in_short,
    state_in_words,
    why_not_ready,
)
from mooring.cli.terminal.tables import fitted

NOW = time.time()
READY: dict[str, Any] = {
    "name": "time",
    "desired": "running",
    "state": "ready",
    "reason": "working",
    "reason_text": "",
    "hint": "",
    "generation": 4,
    "pid": 12,
    "url": "http://127.0.0.1:4670/time/mcp",
    "started_at": NOW - 7300,
    "restarts": 1,
    "attempt": 0,
    "attempts": 10,
    "retry_in_s": None,
    "last_exit": "exit status 1",
    "sessions": 1,
    "calls": 1,
    "calls_total": 17,
    "memory_bytes": 0,
    "instances": [
        {"pid": 20, "container": "", "use": "serving", "session": "abcdefgh", "since": NOW - 7300},
        {"pid": 21, "container": "", "use": "spare", "session": None, "since": NOW - 90_000},
    ],
    "exits": [
        {"at": 0.0, "pid": 18, "code": 1, "signal": None, "how": "exit status 1", "ran_s": 0.25},
        {"at": 60.0, "pid": 19, "code": None, "signal": 9, "how": "signal 9 (SIGKILL)", "ran_s": 61.0},
    ],
    "stderr": [],
    "versions": ["2025-06-18", "2025-11-25"],
    "command": ["uvx", "mcp-server-time"],
    "image": "",
    "origin": "",
    "references": ["secret:zone", "env:TZ"],
}


def server(**other: Any) -> dict[str, Any]:
    return {**READY, **other}


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({}, "ready"),
        (
            {"state": "starting", "reason": "restarting", "reason_text": "instance 1: exit status 2"},
            "starting again: instance 1: exit status 2",
        ),
        ({"state": "backoff", "attempt": 3, "retry_in_s": 12.2}, "restarting in 12 s, attempt 3 of 10"),
        (
            {"state": "failed", "reason": "cannot_start", "reason_text": "no such program"},
            "failed: it cannot be started: no such program",
        ),
        (
            {"state": "failed", "reason": "initialize_failed", "reason_text": "it said no"},
            "failed: it starts, but is of no use as an MCP server: it said no",
        ),
        (
            {"state": "failed", "reason": "crash_loop", "reason_text": "more than 10 exits in 10 minutes"},
            "failed: it crashes again and again: more than 10 exits in 10 minutes",
        ),
        (
            {
                "state": "failed",
                "reason": "initialize_failed",
                "reason_text": "no",
                "address": "http://x/mcp",
            },
            "failed: what answers there is of no use as an MCP server: no",
        ),
        (
            {
                "state": "failed",
                "reason": "unauthorized",
                "reason_text": "it asks",
                "address": "http://x/mcp",
            },
            "failed: it asks",
        ),
        (
            {
                "state": "starting",
                "reason": "unreachable",
                "reason_text": "time: it is not there",
                "instances": [],
            },
            "starting: it is not there",
        ),
        ({"state": "failed", "reason": "of_tomorrow", "reason_text": "so"}, "failed: so"),
        ({"state": "draining", "reason_text": "SIGTERM"}, "draining: 1 call to finish"),
        ({"state": "stopping", "reason_text": "by request", "calls": 0}, "stopping: by request"),
    ],
)
def test_states(other: dict[str, Any], words: str) -> None:
    assert words in state_in_words(server(**other))


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("unauthorized", "failed (unauthorized)"),
        ("not_mcp", "failed (not MCP)"),
        ("crash_loop", "failed (crashes)"),
    ],
)
def test_why_it_failed_in_short(reason: str, words: str) -> None:
    assert state_in_short(server(state="failed", reason=reason)) == words


@pytest.mark.parametrize(
    ("retry_in_s", "told"),
    [
        (0.0, "the next call tries it again; so does: mooring start time"),
        (3.2, "a call in 4 s or later tries it again; at once: mooring start time"),
    ],
)
def test_when_a_failed_one_is_tried_again(retry_in_s: float, told: str) -> None:
    failed = server(state="failed", reason="crash_loop", retry_in_s=retry_in_s)
    assert ("", told) in list(described(failed))


def test_everything_is_told() -> None:
    lines = [f"{title}: {text}" for title, text in described(server(hint="look", stderr=["a", "b"]))]
    assert lines == [
        "name: time",
        "state: ready",
        "hint: look",
        "url: http://127.0.0.1:4670/time/mcp",
        "command: uvx mcp-server-time",
        "references: secret:zone, env:TZ",
        "generation: 4, owned by the daemon (pid 12)",
        "started: 2h ago, 1 restart",
        "sessions: 1; 1 call in flight, 17 requests in all",
        "versions: 2025-06-18, 2025-11-25",
        "instances: pid 20, serving, session abcdefgh, for 2h",
        ": pid 21, spare, for 1d",
        lines[12],
        lines[13],
        "stderr: a",
        ": b",
    ]
    assert lines[12].startswith("exits: 1970-01-01T00:01:00Z (") and lines[12].endswith(
        "ago), pid 19: signal 9 (SIGKILL), after 61.0 s"
    )
    assert lines[13].endswith("pid 18: exit status 1, after 0.2 s"), "the latest first"


def test_a_server_in_containers_is_told_by_its_image_and_their_names() -> None:
    container = "4b8902e661ff" + 52 * "0"
    lost = {"at": 0.0, "pid": 7, "container": container, "how": "removed outside Mooring", "ran_s": 1.0}
    told = dict(
        described(
            server(
                image="ghcr.io/x/y:1",
                command=["--read-only"],
                instances=[{**READY["instances"][0], "container": container, "use": "paused"}],
                exits=[lost],
            )
        )
    )
    assert told["image"] == "ghcr.io/x/y:1" and told["arguments"] == "--read-only" and "command" not in told
    assert told["instances"].startswith("container 4b8902e661ff, paused")
    assert told["exits"].endswith("container 4b8902e661ff: removed outside Mooring, after 1.0 s")
    assert "arguments" not in dict(described(server(image="x", command=[])))


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({}, "ready"),
        ({"reason": "paused"}, "ready (paused)"),
        ({"state": "starting", "reason": "engine_unreachable"}, "starting (engine unreachable)"),
        ({"state": "stopped", "reason": "removed_outside"}, "stopped (removed outside Mooring)"),
        ({"state": "stopped", "reason": "asked"}, "stopped"),
    ],
)
def test_the_state_in_a_list_says_what_it_alone_would_not(other: dict[str, Any], words: str) -> None:
    assert state_in_short(server(**other)) == words


def test_one_that_was_given_up_says_how_it_goes_on() -> None:
    told = [text for _, text in described(server(state="failed", reason="crash_loop", retry_in_s=50.0))]
    assert any(text.endswith("mooring start time") for text in told)
    told = [text for _, text in described(server(state="failed", reason="server_exited", retry_in_s=None))]
    assert not any("mooring start" in text for text in told), "it is not tried again"


def test_why_it_is_not_ready_and_what_to_do() -> None:
    text, hint = why_not_ready(server(state="backoff", attempt=1, retry_in_s=5.0))
    assert text == (
        "time is not ready: it ended 2 times, the last with exit status 1; restarting in 5 s, attempt 1 of 10"
    )
    assert "mooring status time" in hint and "--replace" in hint and "mooring rm time" in hint
    text, hint = why_not_ready(server(state="failed", reason="cannot_start", reason_text="x", hint="do y"))
    assert text == "time is not ready: failed: it cannot be started: x" and hint.startswith("do y; ")


def test_counts_and_moments() -> None:
    assert (count(0, "call"), count(1, "call"), count(2, "call")) == ("0 calls", "1 call", "2 calls")
    assert moment(0.0) == "1970-01-01T00:00:00Z"


def test_a_table_has_the_columns_that_fit() -> None:
    head, rows = ("NAME", "STATE", "CALLS", "URL"), [("one", "ready", "7", "http://x/one/mcp")]

    def shown(width: int | None) -> list[str]:
        return fitted(head, rows, ("CALLS", "URL"), width)[0].split()

    whole = fitted(head, rows, ("CALLS", "URL"), None)
    assert whole == ["NAME  STATE  CALLS  URL", "one   ready  7      http://x/one/mcp"]
    widest = max(map(len, whole))
    assert shown(widest) == list(head)
    assert shown(widest - 1) == ["NAME", "STATE", "URL"]
    assert shown(20) == ["NAME", "STATE"]
    assert shown(1) == ["NAME", "STATE"], "less than that is nothing"
