"""The guardian ends containers: what it asks of an engine, and what it makes of the answers."""

import asyncio
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from mooring.runtimes import guardian_containers, guardian_main
from mooring.runtimes.guardian import PROGRAM
from mooring.runtimes.proctable import start_time
from tests.containers.scripted import Answer, Scripted, answer
from tests.support import until, within

REQUEST = re.compile(r"(?P<method>\w+) /containers/(?P<name>[\w-]+)(?:/(?P<verb>\w+))?(?:\?(?P<how>\S+))? .*")
EXITED, LEAVING = "e" * 64, "1" * 64
"""By its id, whatever an engine says of it is final."""
DONE = answer(b"", 204)
MISSING = answer(b'{"message": "No such container: x"}', 404)
RUNNING = answer(b'{"message": "You cannot remove a running container"}', 409)
IN_PROGRESS = answer(b'{"message": "removal of container x is already in progress"}', 409)
NOT_PAUSED = answer(b'{"message": "Container x is not paused"}', 500)
BROKEN = answer(b'{"message": "layers are in use"}', 500)


class FakeContainer:
    """Answers as an engine would; what becomes of it is in `done`, in order and each once."""

    def __init__(self, *, heeds: str = "", paused: bool = False, exited: bool = False) -> None:
        self.is_running = not exited
        self.is_paused = paused
        self.is_there = True
        self.done: list[str] = []
        self._heeds = heeds

    def answer(self, method: str, verb: str | None, how: str | None) -> Answer:
        self._note(f"{verb or method} {how or ''}".strip())
        if not self.is_there:
            return MISSING
        match verb:
            case "unpause":
                self.is_paused, was_paused = False, self.is_paused
                return DONE if was_paused else NOT_PAUSED
            case "kill":
                if self.is_paused or not self.is_running:
                    return answer(b'{"message": "not running"}', 409)
                self.is_running = self._heeds not in (how or "?")
                return DONE
        if self.is_running and "force=1" not in (how or ""):
            return RUNNING
        self.is_there = False
        return DONE

    def _note(self, what: str) -> None:
        if self.done[-1:] != [what]:
            self.done.append(what)


def stubborn(*, paused: bool = False) -> FakeContainer:
    return FakeContainer(heeds="nothing", paused=paused)


def heeding_sigterm(*, paused: bool = False) -> FakeContainer:
    return FakeContainer(heeds="signal=SIGTERM", paused=paused)


def engine(containers: dict[str, FakeContainer]) -> Callable[[str], Answer]:
    def answers(line: str) -> Answer:
        match = REQUEST.fullmatch(line)
        assert match, line
        there = containers.get(match["name"])
        return there.answer(match["method"], match["verb"], match["how"]) if there else MISSING

    return answers


async def end(where: object, *names: str) -> None:
    await asyncio.to_thread(guardian_main.end_all, {f"@{name}": str(where) for name in names})


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guardian_main, "EOF_GRACE_S", 0.2)
    monkeypatch.setattr(guardian_main, "TERM_GRACE_S", 0.5)
    monkeypatch.setattr(guardian_main, "KILL_PATIENCE_S", 0.5)
    monkeypatch.setattr(guardian_containers, "LOOK_S", 0.01)


@pytest.fixture
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that is waited for to its end would be seen: by the bound of the test."""
    monkeypatch.setattr(guardian_main, "EOF_GRACE_S", 1000.0)
    monkeypatch.setattr(guardian_main, "TERM_GRACE_S", 1000.0)
    monkeypatch.setattr(guardian_main, "KILL_PATIENCE_S", 1000.0)


async def test_each_is_ended_as_it_needs_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guardian_main, "EOF_GRACE_S", 1.0)
    monkeypatch.setattr(guardian_main, "TERM_GRACE_S", 1.0)
    there = {
        EXITED: FakeContainer(exited=True),
        "polite": heeding_sigterm(),
        "paused": heeding_sigterm(paused=True),
        "stubborn": stubborn(),
        "both": stubborn(paused=True),
        "another": stubborn(),
    }
    async with within(), Scripted(tmp_path, engine(there)) as scripted:
        await end(scripted.path, *(name for name in there if name != "another"))
    sigterm = ["DELETE v=1", "unpause", "kill signal=SIGTERM", "DELETE v=1"]
    assert {name: container.done for name, container in there.items()} == {
        EXITED: ["DELETE v=1"],
        "polite": sigterm,
        "paused": sigterm,
        "stubborn": [*sigterm, "DELETE force=1&v=1"],
        "both": [*sigterm, "DELETE force=1&v=1"],
        "another": [],
    }
    assert [name for name, container in there.items() if container.is_there] == ["another"]


@pytest.mark.usefixtures("_patient")
async def test_those_that_leave_by_themselves_are_waited_for_no_longer(tmp_path: Path) -> None:
    there = {EXITED: FakeContainer(exited=True), LEAVING: stubborn()}
    async with within(), Scripted(tmp_path, engine(there)) as scripted:
        ending = asyncio.create_task(end(scripted.path, *there))
        await until(lambda: there[LEAVING].done and not there[EXITED].is_there)
        there[LEAVING].is_running = False
        await ending
    assert [container.done for container in there.values()] == [["DELETE v=1"], ["DELETE v=1"]]


async def test_one_that_is_not_there_is_done_with(tmp_path: Path) -> None:
    async with within(), Scripted(tmp_path, engine({})) as scripted:
        await end(scripted.path, "nowhere")
        assert not [line for line in scripted.asked if "force" in line]


async def test_one_that_the_engine_was_about_to_make_is_removed_when_it_is_there(tmp_path: Path) -> None:
    there: dict[str, FakeContainer] = {}
    async with within(), Scripted(tmp_path, engine(there)) as scripted:
        ending = asyncio.create_task(end(scripted.path, "late"))
        await until(lambda: scripted.asked)
        late = there["late"] = FakeContainer(exited=True)
        await ending
    assert not late.is_there


@pytest.mark.usefixtures("_patient")
async def test_one_that_is_being_removed_is_done_with(tmp_path: Path) -> None:
    async with within(), Scripted(tmp_path, lambda line: IN_PROGRESS) as scripted:
        await end(scripted.path, LEAVING)
        assert len(scripted.asked) == 1


@pytest.mark.parametrize("trouble", [BROKEN, RUNNING, b"", b"nonsense\r\n\r\n", b"HTTP/1.1 2"])
async def test_a_removal_that_fails_is_tried_again(
    tmp_path: Path, trouble: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guardian_main, "KILL_PATIENCE_S", 1000.0)
    answers = [trouble, trouble, DONE]

    def say(line: str) -> Answer:
        return answers.pop(0) if "force=1" in line else trouble

    async with within(), Scripted(tmp_path, say) as scripted:
        await end(scripted.path, "x")
        assert not answers and scripted.asked[-1].startswith("DELETE /containers/x?force=1&v=1 ")


@pytest.mark.parametrize("trouble", [BROKEN, None], ids=["always refuses", "says nothing"])
async def test_an_engine_that_does_not_do_it_is_given_up(tmp_path: Path, trouble: Answer) -> None:
    async with within(), Scripted(tmp_path, lambda line: trouble) as scripted:
        await end(scripted.path, *(f"x{n}" for n in range(20)))
        assert any("force=1" in line for line in scripted.asked)


@pytest.mark.parametrize(
    "where", ["/nowhere/engine.sock", "/" + "x" * 200, "127.0.0.1:1", "[::1]:1", "neither", "host:port"]
)
async def test_an_engine_that_is_not_there_is_given_up(where: str) -> None:
    async with within():
        await end(where, "x", "y")


def serve(
    answers: Callable[[str], Answer], before: Callable[[str], Awaitable[object]]
) -> Callable[..., Awaitable[None]]:
    """An engine that does something else before it answers."""

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = (await reader.readuntil(b"\r\n\r\n")).decode().partition("\r\n")[0]
        await before(line)
        writer.write(answers(line) or b"")
        writer.close()
        await writer.wait_closed()

    return one


async def nothing(line: str) -> None:
    """Before it answers."""


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_an_engine_that_is_no_socket_in_a_folder(host: str) -> None:
    there = {"x": stubborn()}
    try:
        server = await asyncio.start_server(serve(engine(there), nothing), host, 0)
    except OSError:
        pytest.skip(f"there is no {host} here")
    async with within(), server:
        port = server.sockets[0].getsockname()[1]
        await end(f"[{host}]:{port}" if ":" in host else f"{host}:{port}", "x")
    assert not there["x"].is_there


async def test_many_are_ended_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """None of them alone is ever answered."""
    monkeypatch.setattr(guardian_main, "KILL_PATIENCE_S", 1000.0)
    there = {f"x{n}": stubborn() for n in range(50)}
    pairs = asyncio.Barrier(2)

    async def wait_for_another(line: str) -> None:
        if "force=1" in line:
            await pairs.wait()

    serving = serve(engine(there), wait_for_another)
    async with within(), await asyncio.start_unix_server(serving, str(tmp_path / "engine.sock")):
        await end(tmp_path / "engine.sock", *there)
    assert not [name for name, container in there.items() if container.is_there]


async def test_an_engine_that_gets_on_with_it_is_given_more_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time only one more is removed before our patience ends."""
    monkeypatch.setattr(guardian_main, "KILL_PATIENCE_S", 1.0)
    there = {f"x{n}": stubborn() for n in range(3)}
    asked: Counter[str] = Counter()

    def say(line: str) -> Answer:
        asked[line] += "force=1" in line
        name = line.split("/")[2].partition("?")[0]
        return engine(there)(line) if asked[line] > int(name[1:]) or "force=1" not in line else None

    async with within(), Scripted(tmp_path, say) as scripted:
        await end(scripted.path, *there)
    assert not [name for name, container in there.items() if container.is_there]


async def test_engines_do_not_wait_for_each_other(tmp_path: Path) -> None:
    (tmp_path / "silent").mkdir()
    there = {"good": stubborn()}
    async with (
        within(),
        Scripted(tmp_path / "silent", lambda line: None) as silent,
        Scripted(tmp_path, engine(there)) as scripted,
    ):
        registered = {f"@bad{n}": str(silent.path) for n in range(20)} | {"@good": str(scripted.path)}
        await asyncio.to_thread(guardian_main.end_all, registered)
    assert not there["good"].is_there


# The program itself, with its own patience


async def guard(text: str) -> None:
    """What it does after it was told this and Mooring has died; until it has ended."""
    guardian = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", str(PROGRAM)),
        stdin=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd="/",
        env={},
    )
    _, said = await guardian.communicate(text.encode())
    assert (guardian.returncode, said) == (0, b"")


async def test_it_ends_containers_and_children_together(tmp_path: Path) -> None:
    there = {"x": stubborn(), "y": heeding_sigterm(paused=True), "kept": stubborn()}
    with subprocess.Popen(["sleep", "1000"], env={"M": "1"}, start_new_session=True) as child:
        async with within(), Scripted(tmp_path, engine(there)) as scripted:
            told = "".join(f"+@{name} {scripted.path}\n" for name in there)
            told += f"+{child.pid} {start_time(child.pid)} M=1\n-@kept\n"
            await guard(told)
        assert child.wait() == -signal.SIGTERM
    assert [name for name, container in there.items() if container.is_there] == ["kept"]
    assert not there["kept"].done


async def test_a_silent_engine_does_not_keep_it(tmp_path: Path) -> None:
    async with within(), Scripted(tmp_path, lambda line: None) as scripted:
        await guard("".join(f"+@x{n} {scripted.path}\n" for n in range(20)))
        assert any("force=1" in line for line in scripted.asked)
