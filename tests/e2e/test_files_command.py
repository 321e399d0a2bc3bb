"""`mooring up`, `down` and `export`, as a user has them: the real command, daemon and servers."""

import asyncio
import json
import shlex
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.program import Program
from tests.e2e.test_commands import QUITS, VENV_PATH, on_terminal, said
from tests.e2e.test_daemon_command import MOORING, Home, home
from tests.hosting import DEMO, SCRIPTED
from tests.mcp_client import client_of
from tests.support import until


class Folder:
    """Where a user works, with a file of servers."""

    def __init__(self, place: Home, path: Path) -> None:
        path.mkdir(exist_ok=True)
        self.place, self.path = place, path
        self.file = path / "mooring.toml"

    def write(self, *lines: str) -> None:
        self.file.write_text("\n".join(lines) + "\n")

    async def up(self, *words: str) -> tuple[int, str, str]:
        return await self.place.mooring("up", "-f", str(self.file), *words)

    async def done(self, *words: str) -> list[str]:
        """What it prints after its first line, which names the file."""
        status, out, err = await self.up(*words)
        assert status == 0, (out, err)
        first, *lines = out.splitlines()
        assert first.startswith(f"{self.file}: ")
        return [first.removeprefix(f"{self.file}: "), *lines]


def demo(name: str, *more: str, command: tuple[str, ...] = DEMO) -> list[str]:
    return [f"[servers.{name}]", f"command = {json.dumps(list(command))}", *more, ""]


async def generations(place: Home) -> dict[str, int]:
    return {server["name"]: server["generation"] for server in await place.told("ls")}


async def serving(place: Home, name: str) -> set[int]:
    instances = (await place.told("status", name))["instances"]
    return {one["pid"] for one in instances if one["use"] == "serving"}


async def test_a_file_is_made_true_as_a_difference(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        folder = Folder(place, tmp_path / "work")
        folder.write(*demo("one"), *demo("two"), *demo("three"))
        shown = shlex.join(DEMO)
        assert await folder.done("--dry-run") == [
            "3 to add",
            *(f"+ {name}  {shown}" for name in ("one  ", "three", "two  ")),
        ]
        status, _, err = await place.mooring("ls")
        assert status == 1 and "does not run" in err, "a plan starts nothing"
        lines = await folder.done()
        port = (await place.told("daemon", "status"))["port"]
        assert lines[4:] == [
            f"{name} is started: http://127.0.0.1:{port}/{name}/mcp" for name in ("one", "three", "two")
        ]
        await place.done("run", "other", "--", *DEMO)
        before = await generations(place)
        assert (await place.told("status", "one"))["origin"] == str(folder.file)
        assert (await place.told("status", "other"))["origin"] == ""
        assert f"file:        {folder.file}\n" in await place.done("status", "one")
        # From another terminal it is the same.
        place.environment |= {"TERM": "another", "SHELL": "/bin/another"}
        assert await folder.done() == [
            "3 the same",
            "= one    the same",
            "= three  the same",
            "= two    the same",
        ]
        assert await generations(place) == before
        async with client_of(port, path="/one/mcp") as one, client_of(port, path="/two/mcp") as two:
            assert await one.text("echo", text="hi") == "hi"
            pids = await serving(place, "one")
            assert await two.text("echo", text="hi") == "hi"
            folder.write(*demo("one"), *demo("two", 'idle_timeout = "1h"', 'env = { A = "1" }'), *demo("new"))
            assert (await folder.done("--dry-run"))[1:] == [
                f"+ new    {shown}",
                "= one    the same",
                "- three  is stopped and forgotten",
                "~ two    idle_timeout: 30m → 1h",
                "         env: + A",
            ]
            assert await generations(place) == before
            lines = await folder.done()
            assert lines[0] == "1 to add, 1 to change, 1 to remove, 1 the same"
            assert [line.partition(": ")[0] for line in lines[6:]] == [
                "new is started",
                "three is removed",
                "two was replaced",
            ]
            assert pids and await serving(place, "one") == pids, "what is the same is left alone"
            assert await two.text("echo", text="again") == "again", "clients keep their sessions"
        after = await generations(place)
        assert set(after) == {"one", "two", "new", "other"}
        assert (after["one"], after["other"]) == (before["one"], before["other"])
        # What was stopped is started, and what is not of this file is not.
        await place.done("stop", "one", "other")
        steps = json.loads((await folder.up("--json"))[1])
        assert [(step["name"], step["action"], step["done"]) for step in steps] == [
            ("new", "keep", True),
            ("one", "start", True),
            ("two", "keep", True),
        ]
        folder.file.unlink()
        assert (await place.done("down", "-f", str(folder.file))).splitlines()[4:] == [
            "new is removed",
            "one is removed",
            "two is removed",
        ], "down needs no file"
        status, _, err = await place.mooring("down", "-f", str(folder.file))
        assert status == 2 and "no server was made from one there" in err
        assert [server["name"] for server in await place.told("ls")] == ["other"]


async def test_a_server_that_fails_leaves_the_others_up(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        folder = Folder(place, tmp_path / "work")
        folder.write(
            *demo("good"), *demo("quits", command=QUITS), *demo("missing", command=("no-such-program",))
        )
        status, out, err = await folder.up("--dry-run")
        assert status == 1 and "! missing  cannot be started\n" in out
        why = "error: missing: the program no-such-program is not on the server's PATH\nhint: install "
        assert why in err
        status, out, err = await folder.up()
        assert status == 1 and "! missing  cannot be started\n" in out
        assert (out + err).count("is not on the server's PATH") == 1, "told once"
        assert "good is started: http" in out and "missing is" not in out
        assert "  cannot open the database\nerror: quits is not ready: it ended 4 times" in err
        assert f"to change it: edit {folder.file}, then mooring up" in err
        assert "error: missing: the program no-such-program is not on the server's PATH\n" in err
        told = {step["name"]: step for step in json.loads((await folder.up("--json"))[1])}
        assert told["good"]["done"] and not told["quits"]["done"] and not told["missing"]["done"]
        assert told["missing"]["error"]["code"] == "program_not_found"
        assert {server["name"]: server["state"] for server in await place.told("ls")} == {
            "good": "ready",
            "quits": "backoff",
        }
        # One that has failed for good is tried again, as it stands in the file.
        folder.write(*demo("refuses", command=(*SCRIPTED, "--refuse")))
        assert (await folder.up())[0] == 1
        assert (await place.told("status", "refuses"))["state"] == "failed"
        status, out, err = await folder.up()
        assert status == 1 and "+ refuses  the same, but it does not run" in out
        events = [
            event for event in (await place.done("events", "refuses")).splitlines() if " failed: " in event
        ]
        assert len(events) == 2


async def test_a_bad_file_is_refused_whole(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        folder = Folder(place, tmp_path / "work")
        folder.write(*demo("good"), *demo("bad", 'idle_timout = "1h"', "spare = 'x'"))
        status, out, err = await folder.up()
        assert (status, out) == (2, "")
        assert err.splitlines() == [
            f"error: {folder.file}:6:1: idle_timout is not known; did you mean idle_timeout?",
            f"error: {folder.file}:7:1: spare takes a whole number, not text",
        ]
        folder.write("[servers.x", 'command = "x"')
        status, _, err = await folder.up("--dry-run")
        assert status == 2 and f"error: {folder.file}:1:11: not TOML: " in err
        status, _, err = await place.mooring("ls")
        assert status == 1 and "does not run" in err, "nothing was even started"
        status, _, err = await place.mooring("up", "-f", str(tmp_path / "nowhere.toml"))
        assert status == 2 and "cannot be read: No such file" in err


async def test_images_are_planned_without_any_engine(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        place.environment["DOCKER_HOST"] = "unix:///no/such/engine.sock"
        folder = Folder(place, tmp_path / "work")
        (folder.path / "data").mkdir()
        lines = ("[servers.gh]", 'image = "ghcr.io/a/b:1"', 'args = ["stdio", "--token", "canary"]')
        folder.write(*lines, 'volume = ["data/:/data:ro", "cache:/cache"]')
        assert await folder.done("--dry-run") == [
            "1 to add",
            "+ gh  image:ghcr.io/a/b:1 stdio --token …",
        ]
        folder.write(*lines, 'volume = "./gone:/data"')
        status, out, err = await folder.up("--dry-run")
        assert status == 1 and "! gh  cannot be started\n" in out
        why = f"error: gh: {folder.path}/gone does not exist\nhint: create it, or choose another\n"
        assert err.endswith(why)
        folder.write(*lines, 'command = "x"', 'volume = ["cache:/c", "nowhere"]', 'cwd = "data"')
        status, out, err = await folder.up("--dry-run")
        assert (status, out) == (2, "")
        assert err.splitlines() == [
            f"error: {folder.file}:2:1: command and image are two ways to say the same; keep one of them",
            "hint: an image has a program of its own; what is to follow it are args",
            f"error: {folder.file}:5:23: 'nowhere' is no volume; "
            "write it as SOURCE:/TARGET or SOURCE:/TARGET:ro",
            f"error: {folder.file}:6:1: cwd does not go with image: "
            "a container begins in the folder of its image",
            "hint: leave it out; volume shows it a folder of yours",
        ]


async def test_what_was_made_otherwise_is_not_touched_unless_it_is_adopted(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        await place.done("run", "time", "--no-wait", "--spare", "2", "--", *DEMO)
        await place.done("run", "same", "--no-wait", "--cwd", str(tmp_path), "--", *DEMO)
        folder, other = Folder(place, tmp_path), Folder(place, tmp_path / "other")
        other.write(*demo("theirs"))
        await other.done()
        before = await generations(place)
        folder.write(*demo("new"), *demo("time"), *demo("theirs"))
        status, out, err = await folder.up()
        assert (status, out) == (2, "")
        assert err.splitlines() == [
            f"error: {folder.file}:4:10: there is a server named time already, not made from a file, "
            "with another definition; different: "
            f"the working directory ({Path.cwd()}, now {tmp_path}), spare",
            f"hint: choose another name, or replace that one: mooring up -f {folder.file} --adopt; "
            "mooring export time shows it",
            f"error: {folder.file}:7:10: there is a server named theirs already, made from {other.file}, "
            f"with another definition; different: the working directory ({other.path}, now {tmp_path})",
            f"hint: choose another name, or replace that one: mooring up -f {folder.file} --adopt; "
            "mooring export theirs shows it",
        ]
        folder.write(*demo("same"))
        assert await folder.done() == [
            "1 the same",
            "= same  the same, but not made from this file: left alone",
        ]
        assert await place.done("down", "-f", str(folder.file)) == f"{folder.file}: nothing to do\n"
        assert await generations(place) == before
        assert (await folder.done("--adopt"))[1:] == [
            "~ same  of this file from now on",
            f"same is of this file now: {(await place.told('status', 'same'))['url']}",
        ]
        assert await generations(place) == before, "and nothing else has happened to it"
        folder.write(*demo("same"), *demo("theirs"))
        lines = await folder.done("--adopt", "--no-wait")
        assert lines[1:4] == [
            "= same    the same",
            f"~ theirs  cwd: {other.path} → {folder.path}",
            "          of this file from now on",
        ]
        # Who replaces it by hand has it from then on.
        await place.done("run", "same", "--replace", "--no-wait", "--", *DEMO, "--x")
        assert (await place.told("status", "same"))["origin"] == ""
        assert "- theirs" in await place.done("down", "-f", str(folder.file), "--no-wait")
        assert set(await generations(place)) == {"same", "time"}


async def test_what_is_exported_is_nothing_to_do(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        place.environment |= {"MINE": "1", "PATH": VENV_PATH}
        options = (
            "--shared",
            "2",
            "--idle-timeout",
            "90s",
            "--retry",
            "--env",
            "A=${X} 'q'",
            "--pass-env",
            "MINE",
        )
        await place.done("run", "many", "--no-wait", *options, "--", *DEMO, "a b")
        await place.done("run", "plain", "--no-wait", "--from", "python:mooring.demo")
        folder = Folder(place, tmp_path / "work")
        folder.file.write_text(await place.done("export", "--all"))
        alike = ["the same, but not made from this file: left alone"] * 2
        assert [line[9:] for line in (await folder.done())[1:]] == alike
        folder.file = folder.path / "mooring.json"
        folder.file.write_text(await place.done("export", "plain", "many", "--json"))
        assert [line[9:] for line in (await folder.done())[1:]] == alike
        assert json.loads(folder.file.read_text())["mcpServers"]["plain"] == {
            "command": "python3",
            "args": ["-m", "mooring.demo"],
            "cwd": str(Path.cwd()),
        }
        canary = "canary-" + "x" * 20
        await place.done("run", "secret", "--no-wait", "--env", f"API_TOKEN={canary}", "--", *DEMO)
        for words in (("export", "--all"), ("export", "secret", "--json"), ("status", "secret", "--json")):
            status, out, err = await place.mooring(*words)
            assert status == 0 and canary not in out + err
        assert 'API_TOKEN = "secret:secret-api-token"' in await place.done("export", "secret")
        status, _, err = await place.mooring("export", "nobody")
        assert status == 2 and "no server named nobody" in err
        assert (await place.mooring("export"))[0] == (await place.mooring("export", "x", "--all"))[0] == 2


async def test_a_file_of_an_ai_client_and_the_file_that_is_meant(tmp_path: Path, monkeypatch: Any) -> None:
    async with home(tmp_path) as place:
        work = tmp_path / "work"
        work.mkdir()
        monkeypatch.chdir(work)
        status, _, err = await place.mooring("up")
        assert status == 2 and "error: there is no mooring.toml here\nhint: name the file: -f FILE" in err
        entry = {
            "command": DEMO[0],
            "args": list(DEMO[1:]),
            "env": {"API_KEY": "canary"},
            "disabledTools": [],
        }
        servers = {"demo": entry, "far": {"type": "http", "url": "http://127.0.0.1:9/mcp"}}
        (work / ".mcp.json").write_text(json.dumps({"mcpServers": servers}, indent=1))
        status, out, err = await place.mooring("up", "--no-wait")
        assert status == 0 and ".mcp.json: 2 to add\n" in out and "url:http://127.0.0.1:9/mcp" in out
        lines = err.splitlines()
        assert lines[0].startswith("note: .mcp.json:") and lines[0].endswith(
            ": disabledTools means nothing to Mooring"
        )
        assert lines[1].endswith(": the value of API_KEY looks like a secret")
        assert lines[2].startswith("hint: keep it out of the file: mooring secret set demo-api-key, ")
        assert "canary" not in out + err
        # It is taken down from the same place, though by now another file comes first.
        (work / "mooring.toml").write_text("[servers]\n")
        assert "demo is being removed" in await place.done("down", "--no-wait")
        assert await place.done("up") == "mooring.toml: nothing to do\n"


async def test_on_a_terminal_each_server_has_a_line(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        await place.done("run", "first", "--", *DEMO)
        folder = Folder(place, tmp_path / "work")
        mute = (*SCRIPTED, "--mute")
        folder.write(*(line for n in range(12) for line in demo(f"mute-{n:02}", command=mute)), *demo("one"))
        async with on_terminal(place, 50, 10, "up", "-f", str(folder.file)) as (screen, process):
            await until(lambda: "… 5 more" in screen.shown and "mute-00  starting" in screen.shown, 60)
            process.send_signal(signal.SIGINT)
        assert process.returncode == 130
        view = screen.shown.replace("\r", "").partition("\nmute-00  ")[2].partition("\x1b[J")[0]
        lines = view.replace("\x1b[K", "").splitlines()
        assert len(lines) == 9 and lines[8] == "… 5 more"
        assert all(len(line) < 50 for line in lines)
        told = screen.shown.rpartition("\x1b[J")[2].replace("\r", "").splitlines()
        assert "mute-00 is being brought up to date, and goes on without you: mooring status mute-00" in told


async def test_elsewhere_a_line_tells_each_change(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        folder = Folder(place, tmp_path / "work")
        folder.write(*demo("mute", command=(*SCRIPTED, "--mute")))
        async with Program([MOORING, "up", "-f", str(folder.file)], environment=place.environment) as program:
            await said(program, "mute: starting")
            program.process.send_signal(signal.SIGINT)
            assert await program.ended() == 130
        assert "\x1b" not in "".join(program.words)


@pytest.mark.parametrize("command", ["up", "down", "export"])
async def test_every_command_has_examples(command: str) -> None:
    process = await asyncio.create_subprocess_exec(MOORING, command, "--help", stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    assert f"Examples:\n    mooring {command}" in out.decode()


async def test_the_schema_is_printed_without_a_daemon(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        assert json.loads(await place.done("export", "--schema"))["title"] == "mooring.toml"
        assert not place.state.exists()


async def test_references_are_kept_as_such_and_begin_at_the_file(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        folder = Folder(place, tmp_path / "work")
        (folder.path / "token").write_text("canary\n")
        folder.write(
            *demo(
                "one", 'env = { API_TOKEN = "file:token", H = "Bearer {file:token}", L = "literal:env:X" }'
            ),
            *demo("other", 'env = { T = "secret:nowhere" }'),
        )
        status, out, err = await folder.up()
        assert status == 1 and "one is started" in out and "other is" not in out
        assert "there is no secret named nowhere" in err and "looks like a secret" not in err
        token = folder.path / "token"
        assert (await place.told("status", "one"))["references"] == [f"file:{token}"]
        exported = await place.done("export", "one")
        assert f'API_TOKEN = "file:{token}"\nH = "Bearer {{file:{token}}}"\nL = "literal:env:X"\n' in exported
        folder.file.write_text(exported)
        assert await folder.done() == ["1 the same", "= one  the same"]
        folder.file.write_text(exported.replace("Bearer ", "Token "))
        assert (await folder.done("--dry-run"))[1:] == ["~ one  env: ~ H"]
        folder.file.write_text(exported.replace(f"Bearer {{file:{token}}}", "Bearer {file:token"))
        status, _, err = await folder.up()
        assert status == 2 and ":7:1: '{file:' has no closing brace" in err
