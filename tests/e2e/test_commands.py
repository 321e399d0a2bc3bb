"""The commands about servers, read as a stranger would: what they print, wait for, and end with."""

import asyncio
import json
import os
import pty
import shlex
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tests.e2e.program import Program, kill
from tests.e2e.test_daemon_command import MOORING, Home, home
from tests.e2e.test_secrets_command import keep
from tests.hosting import DEMO, SCRIPTED
from tests.mcp_client import client_of
from tests.support import alive, suspend, until, within

QUITS = ("sh", "-c", "echo cannot open the database >&2; exit 3")
VENV_PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"


def command(place: Home, *words: str) -> Program:
    return Program([MOORING, *words], environment=place.environment)


async def said(program: Program, words: str) -> str:
    async with within():
        return await program.word(lambda line: words in line)


async def state_of(place: Home, name: str) -> Any:
    return (await place.told("status", name))["state"]


async def test_what_happens_is_told(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        await place.done("run", "demo", "--", *DEMO)
        async with command(place, "events", "-f", "--json") as following:
            async with within():
                await following.message(lambda event: event["kind"] == "ready")
            await place.done("restart", "demo")
            await place.mooring("run", "quits", "--", *QUITS)
            await place.done("rm", "quits")
            # The daemon ends under it, and there is another one.
            await place.done("daemon", "stop")
            await place.done("run", "other", "--no-wait", "--", *DEMO)
            async with within():
                await following.message(lambda event: (event["name"], event["kind"]) == ("other", "ready"))
            following.process.send_signal(signal.SIGINT)
            assert await following.ended() == 0
        told = [(event["name"], event["kind"]) for event in following.messages]
        assert told[:6] == [
            ("", "daemon_started"),
            *(("demo", kind) for kind in ("started", "ready", "stopped", "started", "ready")),
        ]
        assert told[6] == ("quits", "started")
        assert told.count(("quits", "exited")) == 4 and ("quits", "backoff") in told
        assert ("quits", "removed") in told and ("quits", "stopped") not in told
        after = told.index(("", "daemon_ended"))
        assert ("demo", "stopped") in told[:after] and told[after + 1] == ("", "daemon_started")
        assert {"number", "at", "name", "generation", "kind", "text"} == set(following.messages[0])
        lines = (await place.done("events", "demo")).splitlines()
        assert lines[1].endswith("Z demo ready: it works")
        assert any(line.endswith("demo stopped: restarted by request") for line in lines)
        assert (await place.done("events", "quits")).endswith("quits removed: by request\n")
        assert await place.done("events", "--since", "0s", "demo") == ""
        status, _, err = await place.mooring("events", "unknown")
        assert status == 2 and "no server named unknown" in err


async def test_who_stops_looking_has_done_nothing_wrong(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        await place.done("run", "demo", "--no-wait", "--", *DEMO)
        async with command(place, "logs", "-f", "demo") as following:
            await said(following, "demo started")
            following.process.send_signal(signal.SIGINT)
            assert await following.ended() == 0
        async with on_terminal(place, 80, 24, "secret", "set", "token") as (screen, process):
            await until(lambda: "Value of token" in screen.shown)
            process.send_signal(signal.SIGINT)
        assert process.returncode == 130
        assert screen.lines[-1].endswith("nothing is kept under token but what was before")
        assert await place.told("secret", "ls") == []


async def test_of_many_that_are_started_one_fails(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        await place.done("run", "demo", "--no-wait", "--", *DEMO)
        await keep(place, "one", "value")
        await place.done("run", "needy", "--no-wait", "--env", "A=secret:one", "--", *DEMO)
        await place.done("stop", "--all")
        await place.done("secret", "rm", "--force", "one")
        status, out, err = await place.mooring("start", "--all")
        assert (status, out) == (1, "demo is started\n")
        assert "no secret named one" in err and "stopped by request" not in err
        assert "demo: ready" not in err


async def test_a_server_that_does_not_work_says_why(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        status, out, err = await place.mooring("run", "quits", "--", *QUITS)
        assert (status, out) == (1, "")
        words = err[err.index("Its last lines") :].splitlines()
        assert words[:2] == ["Its last lines on stderr:", "  cannot open the database"]
        assert words[2].startswith("error: quits is not ready: it ended 4 times, the last with exit status 3")
        assert words[3].startswith("hint: ") and "mooring rm quits" in words[3]
        shown = await place.done("status", "quits")
        assert "backoff: restarting in " in shown and "attempt 1 of 10" in shown
        assert shown.count("exit status 3, after 0.") == 4 and "cannot open the database" in shown
        status, _, err = await place.mooring("run", "refuses", "--", *SCRIPTED, "--refuse")
        assert status == 1 and "it starts, but is of no use as an MCP server" in err
        assert (await place.told("status", "refuses"))["reason"] == "initialize_failed"
        # One whose program is not there is refused before anything is made of it.
        status, _, err = await place.mooring("run", "nowhere", "--", "no-such-program")
        assert status == 2 and "no-such-program is not on the server's PATH" in err
        assert {server["name"] for server in await place.told("ls")} == {"quits", "refuses"}
        # One whose program has gone since could not start at all.
        gone = tmp_path / "gone"
        gone.write_text(f"#!/bin/sh\nexec {shlex.join(DEMO)}\n")
        gone.chmod(0o700)
        await place.done("run", "gone", "--", str(gone))
        gone.unlink()
        status, _, err = await place.mooring("restart", "gone")
        assert status == 1 and "it cannot be started" in err and "hint: check the path" in err
        assert (await place.told("status", "gone"))["reason"] == "cannot_start"


async def test_a_server_from_where_it_comes(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        place.environment["PATH"] = VENV_PATH
        await place.done("run", "demo", "--from", "python:mooring.demo")
        server = await place.told("status", "demo")
        assert server["command"] == ["python3", "-m", "mooring.demo"]
        assert (server["state"], server["versions"]) == ("ready", ["2025-11-25"])
        status, _, err = await place.mooring("run", "demo", "--from", "python:mooring.demo", "--", "--x")
        assert status == 2 and "another definition" in err, "what follows -- are its arguments"
        for source, words in (
            ("npx:@modelcontextprotocol/server-memory", "npx comes with Node.js"),
            ("uvx:mcp-server-time", "uvx comes with uv: pip install uv"),
        ):
            place.environment["PATH"] = "/nowhere"
            status, _, err = await place.mooring("run", "other", "--from", source)
            assert status == 2 and words in err
        status, _, err = await place.mooring("run", "other", "--foreground", "--from", "npx:x")
        assert status == 2 and "Node.js" in err


async def test_every_change_is_true_when_the_command_returns(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        for name in ("one", "two"):
            await place.done("run", name, "--no-wait", "--", *DEMO)
        assert await place.done("restart", "--all") == "one was restarted\ntwo was restarted\n"
        assert [await state_of(place, name) for name in ("one", "two")] == ["ready", "ready"]
        status, out, err = await place.mooring("stop", "one", "nobody", "one")
        assert (status, out) == (2, "one has stopped\n")
        assert "error: there is no server named nobody" not in out and "nobody" in err
        assert await state_of(place, "one") == "stopped"
        assert (
            await place.done("start", "one", "--json")
            == json.dumps([{"name": "one", "done": True, "cut": 0, "error": None}], indent=2) + "\n"
        )
        assert await state_of(place, "one") == "ready"
        [told] = json.loads((await place.mooring("rm", "nobody", "--json"))[1])
        assert (told["done"], told["error"]["code"]) == (False, "unknown_server")
        assert await place.done("stop", "one", "--no-wait") == "one is being stopped\n"
        assert await place.done("rm", "--all", "--no-wait") == "one is being removed\ntwo is being removed\n"
        assert await place.told("ls") == []
        assert json.loads(await place.done("run", "demo", "--json", "--", *DEMO))["state"] == "ready"


async def test_the_daemon_has_ended_when_its_stop_returns(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        await place.done("run", "demo", "--no-wait", "--", *DEMO)
        pid = (await place.told("daemon", "status"))["pid"]
        assert await place.done("daemon", "stop") == "Mooring has stopped\n"
        assert not alive(pid)
        assert await place.done("daemon", "stop") == "Mooring does not run\n", "which is what was wanted"
        assert await place.done("run", "demo", "--", *DEMO)
        assert await place.done("daemon", "stop", "--no-wait") == "Mooring is being stopped\n"


async def test_a_replacement_waits_for_the_calls_of_its_predecessor(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        await place.done("run", "held", "--", *SCRIPTED)
        port = (await place.told("daemon", "status"))["port"]
        async with client_of(port, path="/held/mcp") as client:
            pid = await client.pid()
            await client.send("POST", client.request("x/hold"))
            async with command(place, "run", "held", "--replace", "--", *DEMO) as replacing:
                await said(replacing, "held: draining: 1 call to finish")
                async with command(place, "restart", "held") as restarting:
                    await said(restarting, "error: held is ending: replaced by another definition")
                    assert await restarting.ended() == 2
                replacing.process.send_signal(signal.SIGINT)
                assert await replacing.ended() == 130
                assert replacing.words[-1].startswith("held is being started, and goes on without you")
            kill(pid)  # and with it ends what was waited for
        async with within():
            while (await place.told("status", "held"))["command"] != list(DEMO):
                pass


async def test_who_does_not_want_to_wait_any_longer_changes_nothing(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        async with command(place, "run", "mute", "--", *SCRIPTED, "--mute") as waiting:
            await said(waiting, "mute: starting")
            waiting.process.send_signal(signal.SIGINT)
            assert await waiting.ended() == 130
            assert waiting.words[-1] == "mute is being started, and goes on without you: mooring status mute"
        assert await state_of(place, "mute") == "starting"


async def test_of_two_commands_on_one_server_one_wins(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        for other, words in (
            (("restart", "mute", "--no-wait"), "mute was started anew by another command meanwhile"),
            (("stop", "mute"), "mute was stopped by another command meanwhile"),
            (("rm", "mute"), "mute was removed by another command meanwhile"),
        ):
            async with command(place, "run", "mute", "--", *SCRIPTED, "--mute") as waiting:
                await said(waiting, "mute: starting")
                await place.done(*other)
                assert await waiting.ended() == 2
                assert f"error: {words}" in waiting.words
                assert "hint: mooring events mute tells what happened" in waiting.words


async def test_a_client_that_can_only_launch_a_command_names_the_server(tmp_path: Path) -> None:
    initialize = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    }

    async def call(program: Program, id: int, method: str, params: Any) -> Any:
        await program.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        async with within(60):
            return (await program.message(lambda message: message.get("id") == id))["result"]

    async with home(tmp_path) as place:
        status, _, err = await place.mooring("stdio", "demo")
        assert status == 2 and "no server named demo" in err
        await place.done("run", "demo", "--", *DEMO)
        place.environment["MOORING_PORT"] = str((await place.told("daemon", "status"))["port"])
        await place.done("daemon", "stop")
        async with command(place, "stdio", "demo") as client:  # which starts the daemon
            await call(client, 1, "initialize", initialize)
            await client.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
            echo = {"name": "echo", "arguments": {"text": "hi"}}
            assert (await call(client, 2, "tools/call", echo))["content"][0]["text"] == "hi"
            [session] = [server["sessions"] for server in await place.told("ls")]
            os.kill((await place.told("daemon", "status"))["pid"], signal.SIGKILL)
            await place.done("run", "demo", "--", *DEMO)
            assert (await call(client, 3, "tools/call", echo))["content"][0]["text"] == "hi"
            assert session == 1 and await client.ended() == 0
        told = (await place.done("events")).splitlines()
        assert any(" mooring daemon_recovered: pid " in line for line in told), "it was killed"


async def test_a_port_that_somebody_else_has_is_explained(tmp_path: Path) -> None:
    async with home(tmp_path) as place, home(tmp_path / "other") as other:
        await place.done("run", "demo", "--no-wait", "--", *DEMO)
        port = (await place.told("daemon", "status"))["port"]
        other.environment["MOORING_PORT"] = str(port)
        status, _, err = await other.mooring("run", "demo", "--", *DEMO)
        assert status == 1
        assert f"error: Mooring cannot be started: 127.0.0.1:{port} is already in use" in err
        assert "another Mooring, of another user or with another MOORING_STATE_DIR" in err
        assert f"MOORING_PORT={port + 1}" in err


async def test_a_shell_completes_the_names_of_servers(tmp_path: Path) -> None:
    async def completed(place: Home, *words: str) -> set[str]:
        asked = {
            **place.environment,
            "_MOORING_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(["mooring", *words]),
            "COMP_CWORD": str(len(words)),
        }
        process = await asyncio.create_subprocess_exec(MOORING, env=asked, stdout=asyncio.subprocess.PIPE)
        async with within():
            out, _ = await process.communicate()
        return {line.partition(",")[2] for line in out.decode().split()}

    async with home(tmp_path) as place:
        assert await completed(place, "status", "") == set(), "there is no daemon, and none is started"
        assert not place.state.exists()
        for name in ("demo", "deep", "time"):
            await place.done("run", name, "--no-wait", "--", *DEMO)
        for words in (
            ("status",),
            ("stop",),
            ("start",),
            ("restart",),
            ("rm",),
            ("logs",),
            ("events",),
            ("stdio",),
        ):
            assert await completed(place, *words, "de") == {"demo", "deep"}, words
        assert await completed(place, "login", "") == set(), "they run here"
        await place.done("run", "desk", "--no-wait", "--url", "http://127.0.0.1:1/mcp")
        for word in ("login", "logout"):
            assert await completed(place, word, "de") == {"desk"}
        await place.done("rm", "desk")
        assert await completed(place, "rm", "demo", "") == {"deep", "time"}, "not the same again"
        pid = (await place.told("daemon", "status"))["pid"]
        await suspend(pid)
        try:
            assert await completed(place, "status", "") == set(), "one that does not answer is not waited for"
        finally:
            os.kill(pid, signal.SIGCONT)


class Terminal:
    """A command on a terminal of so many columns."""

    def __init__(self, controller: int) -> None:
        self._controller = controller
        self.shown = ""

    def read(self) -> None:
        try:
            self.shown += os.read(self._controller, 1 << 16).decode()
        except OSError:  # the other end is closed
            asyncio.get_running_loop().remove_reader(self._controller)

    def type(self, text: str) -> None:
        os.write(self._controller, text.encode())

    def has_lines(self, number: int) -> bool:
        return len(self.lines) == number

    @property
    def lines(self) -> list[str]:
        return self.shown.replace("\r", "").splitlines()


@asynccontextmanager
async def on_terminal(
    place: Home, columns: int, rows: int, *words: str
) -> AsyncIterator[tuple[Terminal, asyncio.subprocess.Process]]:
    controller, terminal = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        MOORING,
        *words,
        env={**place.environment, "COLUMNS": str(columns), "LINES": str(rows), "NO_COLOR": "1"},
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
    )
    os.close(terminal)
    screen = Terminal(controller)
    loop = asyncio.get_running_loop()
    loop.add_reader(controller, screen.read)
    try:
        yield screen, process
        async with within():
            await process.wait()
    finally:
        loop.remove_reader(controller)
        os.close(controller)


async def test_the_list_fits_on_the_terminal(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        for n in range(6):
            await place.done("run", f"a-rather-long-name-{n}", "--no-wait", "--", *DEMO)
        plain = (await place.done("ls")).splitlines()
        assert plain[0].split()[:3] == ["NAME", "STATE", "UPTIME"] and len(plain[0].split()) == 8
        for columns, titles in ((200, 8), (80, 7), (60, 5), (30, 2)):
            async with on_terminal(place, columns, 24, "ls") as (screen, _process):
                await until(partial(screen.has_lines, 7 if columns == 200 else 9))
            assert columns == 200 or screen.lines[-1].endswith("/NAME/mcp")
            assert max(map(len, screen.lines)) <= max(columns, 40)
            assert len(screen.lines[0].split()) <= titles, screen.lines[0]
        async with on_terminal(place, 80, 6, "ls", "--watch") as (screen, process):
            await until(lambda: screen.shown.count("\x1b[H") >= 2)
            process.send_signal(signal.SIGINT)
        assert process.returncode == 0
        first = screen.shown.split("\x1b[H")[1].replace("\r", "").replace("\x1b[K", "").splitlines()
        assert [line.split()[0] for line in first[:4]] == [
            "NAME",
            *(f"a-rather-long-name-{n}" for n in range(2)),
            "…",
        ]
        assert first[3] == "… 4 more"


async def test_progress_on_a_terminal_is_one_line_that_goes(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        await place.done("run", "demo", "--", *DEMO)
        async with on_terminal(place, 80, 24, "run", "mute", "--", *SCRIPTED, "--mute") as (screen, process):
            await until(lambda: "mute: starting" in screen.shown)
            process.send_signal(signal.SIGINT)
        assert process.returncode == 130
        assert screen.lines[-1].rpartition("\x1b[2K")[2].startswith("mute is being started, and goes on")
