"""Waiting with something to look at."""

import io
import sys
import threading
from typing import Any

import pytest

from mooring.api.client import ApiClient
from mooring.cli.servers import changing, waiting
from mooring.cli.servers.waiting import Job, NotReady, Progress, carry_out, wait_ready
from mooring.cli.terminal.live import progress_of
from mooring.errors import Unavailable, UserError
from tests.unit.test_cli_telling import server


class Screen(io.StringIO):
    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


class Told(ApiClient):
    """A daemon that gives these answers, one after the other, and the last again and again."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    def ask(self, method: str, path: str, body: Any = None, *, timeout_s: float | None = 30.0) -> Any:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "LOOK_S", 0.001)


def shown(monkeypatch: pytest.MonkeyPatch, *, terminal: bool, quiet: bool = False) -> str:
    screen = Screen(terminal=terminal)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("COLUMNS", "40")
    progress = Progress(quiet=quiet)
    progress.show({"one": "starting"})
    progress.show({"one": "starting"})
    progress.show({"one": "backoff: \x1b[31mred", "two": "x" * 60})
    progress.clear()
    return screen.getvalue()


def test_progress_is_one_line_that_changes_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = shown(monkeypatch, terminal=True).split(waiting.CLEAR_LINE)
    assert lines == [
        "",
        "one: starting",
        r"one: backoff: \x1b[31mred · two: xxxxxxxxxxxx"[:39],
        "",
    ]


def test_progress_is_a_line_for_each_change_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = shown(monkeypatch, terminal=False).splitlines()
    assert lines == ["one: starting", r"one: backoff: \x1b[31mred", f"two: {'x' * 60}"]


def test_programs_are_shown_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, terminal=True, quiet=True) == ""
    assert shown(monkeypatch, terminal=False, quiet=True) == ""


def test_all_are_done_and_each_has_its_own_outcome() -> None:
    def fails() -> None:
        raise UserError("no", code="no")

    jobs = [Job("good", lambda: 7), Job("bad", fails)]
    carry_out(Told([]), jobs, Progress(quiet=True))
    assert (jobs[0].answer, jobs[0].error) == (7, None)
    assert isinstance(jobs[1].error, UserError)


def test_so_many_at_once_and_no_more() -> None:
    running, most, lock = 0, 0, threading.Lock()
    full = threading.Event()

    def work() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
            if running == waiting.MOST_AT_ONCE:
                full.set()
        assert full.wait(20)
        with lock:
            running -= 1

    jobs = [Job(str(n), work) for n in range(waiting.MOST_AT_ONCE * 2)]
    carry_out(Told([]), jobs, Progress(quiet=True))
    assert most == waiting.MOST_AT_ONCE and not any(job.error for job in jobs)


def test_who_interrupts_knows_what_was_begun(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(waiting, "MOST_AT_ONCE", 1)
    over = threading.Event()
    jobs = [Job(name, lambda: over.wait(20)) for name in ("one", "two")]

    class Interrupted(Told):
        def ask(self, *words: Any, **options: Any) -> Any:
            if not any(job.begun for job in jobs):
                return []
            raise KeyboardInterrupt

    try:
        assert not changing.waited(Interrupted(), jobs, "is being stopped", Progress(quiet=True))
        [begun] = [job.name for job in jobs if job.begun]
        [other] = [job.name for job in jobs if not job.begun]
    finally:
        over.set()
    assert set(capsys.readouterr().err.splitlines()) == {
        f"{begun} is being stopped, and goes on without you: mooring status {begun}",
        f"{other} is left as it is",
    }
    assert all(job.done.wait(20) for job in jobs)


def test_looking_on_does_not_disturb_the_work() -> None:
    looked = threading.Event()

    class Gone(Told):
        def ask(self, *words: Any, **options: Any) -> Any:
            looked.set()
            raise Unavailable("gone", code="connection_lost")

    job = Job("one", lambda: looked.wait(20))
    carry_out(Gone(), [job], Progress(quiet=True))
    assert job.answer


def test_what_is_at_rest_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    looks = [[server(state=state)] for state in ("stopped", "starting", "ready")]
    over = threading.Event()

    class Looked(Told):
        def ask(self, *words: Any, **options: Any) -> Any:
            if len(self.answers) == 1:
                over.set()
            return super().ask(*words, **options)

    carry_out(Looked(*looks), [Job("time", lambda: over.wait(20))], Progress())
    assert [
        line for line in capsys.readouterr().err.splitlines() if not line.startswith("time: starting")
    ] == []


def test_ready_is_waited_for() -> None:
    starting = server(state="starting")
    assert wait_ready(Told(starting, starting, server()), starting)["state"] == "ready"
    assert wait_ready(Told(), server())["state"] == "ready", "nothing need be asked"


@pytest.mark.parametrize("state", ["failed", "backoff"])
def test_one_that_will_not_be_ready_says_why(state: str) -> None:
    with pytest.raises(NotReady, match="time is not ready") as caught:
        wait_ready(Told(server(state=state, stderr=["oh no"], retry_in_s=5.0)), server(state="starting"))
    assert caught.value.last_words == ["oh no"]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (server(state="stopped", desired="stopped"), "time was stopped by another command"),
        (server(generation=5), "time was started anew by another command"),
        (UserError("no server", code="unknown_server"), "time was removed by another command"),
    ],
)
def test_of_two_commands_one_wins_and_the_other_says_so(answer: Any, words: str) -> None:
    with pytest.raises(UserError, match=words):
        wait_ready(Told(answer), server(state="starting"))


def test_many_have_a_line_each_that_is_rewritten_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen(terminal=True)
    monkeypatch.setattr(sys, "stderr", screen)
    for name, value in {"COLUMNS": "30", "LINES": "4", "NO_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)
    jobs = [Job(name, lambda: None) for name in ("one", "three", "four", "five")]

    def drawn() -> str:
        text = screen.getvalue()
        screen.seek(0)
        screen.truncate()
        return text

    view = progress_of(jobs, quiet=False)
    view.show({"one": "starting", "three": "backoff: \x1b[31m" + "x" * 40})
    line = "one    starting\x1b[K\nthree  {}\x1b[K\n… 2 more\x1b[K\n\x1b[J"
    assert drawn() == line.format("backoff: \\x1b[31mxxxxx")
    view.show({})
    assert drawn() == "", "what has not changed is not drawn again"
    jobs[0].done.set()
    jobs[1].error = UserError("three is not ready: why", code="x")
    jobs[1].done.set()
    view.show({})
    assert drawn() == "\x1b[3A\rone    done\x1b[K\nthree  is not ready: why\x1b[K\n… 2 more\x1b[K\n\x1b[J"
    monkeypatch.setenv("LINES", "9")
    view.show({})
    assert "four   waits for its turn\x1b[K\nfive   waits" in drawn()
    view.clear()
    assert drawn() == "\x1b[4A\r\x1b[J"
    view.clear()
    assert drawn() == ""
    for other in (progress_of(jobs, quiet=True), progress_of([], quiet=False)):
        other.show({})
        other.clear()
    assert drawn() == ""
    monkeypatch.setattr(sys, "stderr", Screen(terminal=False))
    assert type(progress_of(jobs, quiet=False)) is Progress


@pytest.mark.parametrize("reason", ["engine_unreachable", "pull_failed"])
def test_what_it_needs_and_nobody_knows_when_it_will_be_there_is_not_waited_for(reason: str) -> None:
    waits = server(state="starting", reason=reason, reason_text="the engine is gone", instances=[])
    with pytest.raises(NotReady) as not_ready:
        wait_ready(Told(server(state="starting", reason="pulling"), waits), server(state="starting"))
    assert "the engine is gone" in not_ready.value.message
