"""Secrets as a user has them: kept by a command, given by name, and found nowhere else."""

import asyncio
import json
import os
import pty
import re
import signal
import sys
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mooring.api.client import ApiClient
from mooring.errors import UserError
from tests.e2e.program import ROOT, carrying
from tests.e2e.test_commands_document import names
from tests.e2e.test_daemon_command import MOORING, Home, home
from tests.hosting import DEMO
from tests.keyring_in_file import NAME as KEYRING_BACKEND
from tests.mcp_client import client_of
from tests.support import until, within

TELLTALE = (sys.executable, str(ROOT / "tests/telltale_server.py"))


async def keep(place: Home, name: str, value: str, *options: str) -> tuple[int, str, str]:
    """`mooring secret set`, with the value on stdin."""
    process = await asyncio.create_subprocess_exec(
        *(MOORING, "secret", "set", *options, name),
        env=place.environment,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with within(60):
        out, err = await process.communicate(value.encode())
    return process.returncode or 0, out.decode(), err.decode()


def environment_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")


def kept_files(state: Path) -> Iterator[Path]:
    """All files of the state directory but the one that keeps secrets."""
    for path in state.rglob("*"):
        if path.is_file() and path.name != "secrets.json":
            yield path


def cmdlines(pids: set[int]) -> Iterator[str]:
    for pid in pids:
        with suppress(OSError):  # it has ended meanwhile
            yield Path(f"/proc/{pid}/cmdline").read_text()


async def test_a_canary_is_found_nowhere_but_where_it_belongs(tmp_path: Path) -> None:
    canary = f"canary-{uuid.uuid4().hex}"
    heard: list[str] = []
    async with home(tmp_path) as place:
        place.environment["MOORING_DEBUG"] = "1"

        async def mooring(*words: str) -> int:
            status, out, err = await place.mooring(*words)
            heard.extend((out, err))
            return status

        heard.extend(map(str, await keep(place, "canary", canary + "\n")))
        refer = ("--env", "TOKEN=secret:canary", "--env", "AUTH=Bearer {secret:canary}")
        assert await mooring("run", "demo", *refer, "--", *DEMO) == 0
        assert await mooring("run", "telltale", *refer, "--", *TELLTALE) == 1
        assert await mooring("run", "quits", *refer, "--", *TELLTALE, "quit") == 1
        assert await mooring("run", "bad", *refer, "--env", "X=secret:nobody", "--", *DEMO) == 2
        port = (await place.told("daemon", "status"))["port"]
        async with client_of(port, path="/demo/mcp") as client:
            assert await client.text("echo", text="hi") == "hi"
            [demo, *_] = await place.told("ls")
            serving = [one["pid"] for one in demo["instances"] if one["use"] == "serving"]
            for pid in serving:
                assert {f"TOKEN={canary}", f"AUTH=Bearer {canary}"} <= set(environment_of(pid))
            assert serving, "it is where it belongs"
            heard.extend(cmdlines(carrying(place.mark)))
            assert await mooring("restart", "demo") == 0
            assert await client.text("echo", text="again") == "again"
        good = tmp_path / "good"
        good.touch()
        assert await mooring("run", "turncoat", *refer, "--spare", "0", "--", *TELLTALE, str(good)) == 0
        async with client_of(port, path="/turncoat/mcp") as client:
            assert await client.result("tools/list") == {}
            good.unlink()
            [instance] = (await place.told("status", "turncoat"))["instances"]
            os.kill(instance["pid"], signal.SIGKILL)
            await until(lambda: "cannot take over" in (place.state / "daemon.log").read_text())
        for words in (("ls",), ("status", "quits"), ("status", "telltale"), ("events",), ("secret", "ls")):
            assert await mooring(*words, "--json") == 0
        assert await mooring("status", "quits") == 0
        for name in ("demo", "telltale", "quits"):
            await mooring("logs", name)
        for path in ("metrics", "api/v1/openapi.json", "api/v1/servers", "api/v1/events"):
            token = (place.state / "token").read_text().strip()
            request = urllib.request.Request(f"http://127.0.0.1:{port}/{path}")
            request.add_header("Authorization", f"Bearer {token}")
            heard.append(await asyncio.to_thread(_page, request))
        assert await mooring("secret", "set", "canary", canary) == 2
        assert await mooring("secret", "set", f"canary={canary}") == 2
        assert await mooring("secret", "rm", "canary") == 2
        assert await mooring("secret", "rm", "--force", "canary") == 0
        assert await mooring("restart", "demo") == 2
        os.kill(demo["pid"], signal.SIGQUIT)  # dumps all stacks into the daemon's log, and ends it
        await until(lambda: not carrying(place.mark), 60)
        assert "--- threads" in (place.state / "daemon.log").read_text()
        heard.extend(map(str, await keep(place, "canary", canary)))
        foreground = await _foreground(place, refer)
        heard.append(foreground)
        logs = [path.read_bytes() for path in kept_files(place.state)]
    said = "\n".join(heard)
    assert "[secret:canary]" in said, "a server did say it"
    assert "the key is [secret:canary]" in foreground and "--- threads" in foreground
    assert canary not in said
    assert len(logs) > 5 and not [data for data in logs if canary.encode() in data]
    assert canary in (place.state / "secrets.json").read_text()


def _page(request: urllib.request.Request) -> str:
    with urllib.request.urlopen(request, timeout=20) as answer:
        return str(answer.read())


async def _foreground(place: Home, refer: tuple[str, ...]) -> str:
    """What a run in the foreground says until SIGQUIT has ended it."""
    words = ("run", "--foreground", "telltale", "--port", "0", *refer, "--", *TELLTALE)
    process = await asyncio.create_subprocess_exec(
        *(MOORING, *words), env=place.environment, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    said = b""
    async with within(60):
        while b"cannot be used" not in said:
            said += await process.stderr.readline()
        process.send_signal(signal.SIGQUIT)
        said += await process.stderr.read()
        await process.wait()
    return said.decode()


async def test_what_is_missing_is_named_before_anything_starts_and_in_the_status(
    tmp_path: Path,
) -> None:
    async with home(tmp_path) as place:
        run = ("run", "demo", "--env", "TOKEN=secret:linear", "--", *DEMO)
        status, _, err = await place.mooring(*run)
        assert status == 2
        assert (
            "there is no secret named linear (needed for TOKEN)" in err and "mooring secret set linear" in err
        )
        assert await place.told("ls") == [], "nothing was begun"
        status, _, err = await place.mooring("run", "demo", "--env", "TOKEN=env:NOBODY_HAS_IT", "--", *DEMO)
        assert status == 2 and "is not set in the environment of the daemon" in err and "--pass-env" in err
        await keep(place, "linear", "the-first-one")
        await place.done(*run)
        assert (await place.told("status", "demo"))["references"] == ["secret:linear"]
        status, out, err = await keep(place, "linear", "the-second-one")
        assert (status, out) == (0, f"linear is kept in {place.state}/secrets.json\n")
        assert "mooring restart demo" in err
        await place.done("secret", "rm", "--force", "linear")
        await place.done("daemon", "stop")
        status, _, err = await place.mooring("start", "--all")
        assert status == 1 and "no secret named linear" in err
        seen = await place.told("status", "demo")
        assert (seen["state"], seen["reason"]) == ("failed", "cannot_start")
        assert "no secret named linear" in seen["reason_text"] and "mooring secret set linear" in seen["hint"]
        await keep(place, "linear", "the-third-one")
        assert await place.done("start", "demo") == "demo is started\n"
        port = (await place.told("daemon", "status"))["port"]
        async with client_of(port, path="/demo/mcp") as client:
            await client.text("echo", text="hi")
            [demo] = await place.told("ls")
            pids = [one["pid"] for one in demo["instances"] if one["use"] == "serving"]
            assert pids and all("TOKEN=the-third-one" in environment_of(pid) for pid in pids)


async def test_values_are_written_in_every_way_that_there_is(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        place.environment |= {
            "PYTHON_KEYRING_BACKEND": KEYRING_BACKEND,
            "PYTHONPATH": str(ROOT),
            "MOORING_TEST_KEYRING": str(tmp_path / "keyring.json"),
            "OURS": "of-the-daemon",
        }
        (tmp_path / "token").write_text("of-the-file\n")
        status, out, _ = await keep(place, "linear", "of-the-keyring", "--keyring")
        assert (status, out) == (0, "linear is kept in the keyring\n")
        given = {
            "A": "keyring:linear",
            "B": f"file:{tmp_path}/token",
            "C": "env:OURS",
            "D": "<{secret:linear}|{env:OURS}>",
            "E": '{"a": {"b": "{c}"}}',
            "F": "literal:file:./dev.db",
        }
        options = [word for name, value in given.items() for word in ("--env", f"{name}={value}")]
        file = tmp_path / "variables"
        file.write_text("G=file:./dev.db\n")
        await place.done("run", "demo", *options, "--env-file", str(file), "--shared", "--", *DEMO)
        port = (await place.told("daemon", "status"))["port"]
        async with client_of(port, path="/demo/mcp") as client:
            await client.text("echo", text="hi")
            [demo] = await place.told("ls")
            [instance] = demo["instances"]
            wanted = {
                "A=of-the-keyring",
                "B=of-the-file",
                "C=of-the-daemon",
                "D=<of-the-keyring|of-the-daemon>",
                'E={"a": {"b": "{c}"}}',
                "F=file:./dev.db",
                "G=file:./dev.db",
            }
            assert wanted <= set(environment_of(instance["pid"]))
        [listed] = await place.told("secret", "ls")
        assert set(listed) == names("`mooring secret ls --json`")
        assert (listed["name"], listed["kept"], listed["used_by"]) == ("linear", "keyring", ["demo"])
        head, line = (await place.done("secret", "ls")).splitlines()
        assert head.split() == ["NAME", "KEPT", "IN", "SET", "USED", "BY"]
        assert re.fullmatch(r"linear  keyring  \d+s ago  demo", re.sub(" {2,}", "  ", line))
        status, _, err = await place.mooring("secret", "rm", "linear")
        assert status == 2 and "linear is used by demo" in err and "--force" in err
        await place.done("rm", "demo")
        assert await place.done("secret", "rm", "linear") == "linear is removed\n"
        assert json.loads((tmp_path / "keyring.json").read_text()) == {}
        assert await place.done("secret", "ls") == "There are no secrets. Keep one: mooring secret set NAME\n"


async def test_who_has_no_process_here_is_not_said_to_keep_the_old_value(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        await keep(place, "linear", "old")
        reference = ("--header", "Authorization: Bearer {secret:linear}")
        await place.done("run", "far", "--no-wait", "--url", "http://127.0.0.1:9/mcp", *reference)
        _, _, err = await keep(place, "linear", "new")
        assert "far: new sessions use it" in err and "mooring restart" not in err, err


async def test_a_value_that_a_reference_takes_the_place_of_is_not_written_down(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        place.environment["TOKEN"] = "canary-of-the-shell"
        await keep(place, "linear", "of-the-secret")
        await place.done("run", "demo", "--inherit-env", "--env", "TOKEN=secret:linear", "--", *DEMO)
        await place.done("daemon", "stop")
        assert not [path for path in kept_files(place.state) if b"canary-of" in path.read_bytes()]


async def test_bad_values_are_refused_and_a_damaged_file_is_told(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        for value, words in (
            ("", "it is empty"),
            ("\n", "it is empty"),
            ("a\0b", "NUL"),
            ("x" * 70000, "65,536"),
        ):
            status, _, err = await keep(place, "linear", value)
            assert status == 2 and words in err, err
        status, _, err = await place.mooring("secret", "rm", "linear")
        assert status == 2 and "there is no secret named linear" in err
        place.state.mkdir(mode=0o700)
        (place.state / "secrets.json").write_text("{")
        status, _, err = await place.mooring("secret", "ls")
        assert status == 1 and "is damaged" in err and "mooring secret set" in err
        status, _, err = await keep(place, "linear", "value")
        assert status == 0 and "was damaged: it is kept as secrets.json.damaged-" in err
        [aside] = place.state.glob("secrets.json.damaged-*")
        assert aside.read_text() == "{"
        for line in ("mooring secret rm li", "mooring secret set l"):
            place.environment |= {
                "_MOORING_COMPLETE": "bash_complete",
                "COMP_WORDS": line,
                "COMP_CWORD": "3",
            }
            assert await place.done() == "plain,linear\n"


def test_a_terminal_is_asked_and_shows_nothing(tmp_path: Path) -> None:
    place = Home(tmp_path / "state")
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(MOORING, [MOORING, "secret", "set", "linear"], place.environment)
    said = b""
    with suppress(OSError), os.fdopen(terminal, "r+b", buffering=0) as screen:  # its end is an error
        while b"(not shown): " not in said:
            said += screen.read(1024)
        screen.write(b"hunter2-hunter2\n")
        while piece := screen.read(1024):
            said += piece
    _, status = os.waitpid(pid, 0)
    assert status == 0 and b"Value of linear (not shown): " in said and b"hunter2" not in said
    assert "hunter2-hunter2" in (place.state / "secrets.json").read_text()


async def test_the_api_refuses_a_reference_that_is_none(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        await place.done("run", "demo", "--", *DEMO)
        client = ApiClient(place.state / "daemon.sock")
        body = {"options": {"argv": ["true"], "env_references": {"A": "secret:hunter2!"}}}
        with pytest.raises(UserError, match="malformed") as refusal:
            await asyncio.to_thread(client.ask, "PUT", "/servers/bad", body)
        assert "hunter2" not in str(refusal.value)
