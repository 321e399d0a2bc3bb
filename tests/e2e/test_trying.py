"""`mooring tools`, `resources`, `prompts` and `call`, as somebody at a terminal has them."""

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tests.e2e.program import ROOT
from tests.e2e.test_commands import Terminal, on_terminal
from tests.e2e.test_commands_document import names
from tests.e2e.test_daemon_command import MOORING, Home, home
from tests.hosting import DEMO
from tests.integration.test_visiting import never
from tests.raw_server import raw_server
from tests.support import suspend, until, within

TRIAL = (sys.executable, str(ROOT / "tests/trial_server.py"))
MODERN = (sys.executable, str(ROOT / "tests/era_server.py"), "modern")
STEERING = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e]")
TOOL_PAGE = """\
add
The sum of two numbers

Parameters:
  a  number, required
  b  number, required

The server says: reads only, twice is as once.

mooring call demo add a=… b=…
"""
BAD_ARGUMENTS = """\
add takes:
  a  number, required
  b  number, required
error: a must be a number; there is no c; b is missing
hint: mooring tools demo add tells more; --json '{…}' sends anything
"""


@asynccontextmanager
async def demo(tmp_path: Path) -> AsyncIterator[Home]:
    async with home(tmp_path) as place:
        await place.done("run", "demo", "--", *DEMO)
        yield place


class Trial:
    """A place with the trial server, and what has reached that."""

    def __init__(self, place: Home, record: Path) -> None:
        self.place = place
        self._record = record

    def heard(self, method: str) -> list[Any]:
        lines = self._record.read_text().splitlines() if self._record.exists() else []
        return [message for message in map(json.loads, lines) if message.get("method") == method]

    async def is_left(self) -> None:
        """No session is left behind."""
        async with within():
            while (await self.place.told("status", "trial"))["sessions"]:
                pass


@asynccontextmanager
async def trial(tmp_path: Path) -> AsyncIterator[Trial]:
    async with home(tmp_path) as place:
        record = tmp_path / "record"
        await place.done("run", "trial", "--", *TRIAL, str(record))
        yield Trial(place, record)


async def shown(screen: Terminal, *words: str) -> None:
    """All these have been shown, in that order."""

    def are_there() -> bool:
        at = 0
        for word in words:
            at = screen.shown.find(word, at) + 1
            if not at:
                return False
        return True

    try:
        await until(are_there)
    except TimeoutError:
        raise AssertionError(f"{words} are not all in {screen.shown!r}") from None


async def test_a_server_is_tried(tmp_path: Path) -> None:
    async with demo(tmp_path) as place:
        assert "add      The sum of two numbers\n" in await place.done("tools", "demo")
        assert await place.done("tools", "demo", "add") == TOOL_PAGE
        assert "demo://echo/{text}  The same text\n" in await place.done("resources", "demo")
        assert await place.done("prompts", "demo") == "greet  Greet somebody\n"
        assert await place.done("call", "demo", "add", "a=1", "b=2.5") == "3.5\n"
        assert await place.done("call", "demo", "add", "--json", '{"a": 1, "b": 2}') == "3\n"
        assert await place.done("resources", "demo", "demo://echo/h%C3%A9") == "hé\n"
        greeting = "user:\nWrite a nautical greeting for Ada.\n"
        assert await place.done("prompts", "demo", "greet", "name=Ada", "tone=nautical") == greeting
        here = {"uri": f"file://{os.getcwd()}", "name": Path.cwd().name}  # noqa: PTH109
        assert json.loads(await place.done("call", "demo", "roots", "--root", ".")) == {"roots": [here]}
        url = (await place.told("status", "demo"))["url"]
        assert await place.done("call", url, "echo", "text=1") == "1\n"
        # The daemon is started if it does not run.
        await place.done("daemon", "stop")
        assert await place.done("call", "demo", "echo", "text=again") == "again\n"
        await place.done("stop", "demo")
        status, _, err = await place.mooring("call", "demo", "echo", "text=x")
        assert (status, err) == (1, "error: demo is stopped\nhint: mooring start demo\n")


async def test_what_goes_wrong_is_told(tmp_path: Path) -> None:
    async with demo(tmp_path) as place:
        assert await place.mooring("call", "demo", "add", "a=x", "c=1") == (2, "", BAD_ARGUMENTS)
        status, out, err = await place.mooring("call", "demo", "add", "--json", '{"a": "x"}')
        assert (status, out, err) == (1, "", "error: a must be a number (error -32602)\n"), "sent as given"
        status, out, err = await place.mooring("call", "demo", "crash")
        assert (status, out) == (1, "") and err.startswith("error: the server ended (exit status 1)")
        assert "\nhint: mooring logs demo tells more\nreason: server_exited\n" in err
        status, _, err = await place.mooring("call", "demo", "add", "--json", '{"a": 1')
        assert status == 2 and err.startswith("error: what follows --json is not JSON")
        status, out, err = await place.mooring("call", "demo", "roots")
        assert status == 1 and out == "the client has no roots capability\n" and "says that it failed" in err
        status, out, err = await place.mooring("call", "demo", "sleep", "seconds=60", "--timeout", "500ms")
        assert status == 1 and "error: no answer to tools/call within 0.5 s; it was cancelled" in err
        for words, told in (
            (("call", "nobody", "x"), "there is no server named nobody"),
            (("call", "demo", "ad"), "did you mean add?"),
            (("prompts", "demo", "greet"), "name is missing"),
            (("tools", "demo", "nothing"), "demo has no tool 'nothing'"),
        ):
            status, out, err = await place.mooring(*words)
            assert (status, out) == (2, "") and told in err, (words, err)


async def test_for_programs(tmp_path: Path) -> None:
    async with demo(tmp_path) as place:
        tools = await place.told("tools", "demo")
        assert {"name", "description", "inputSchema", "annotations"} == set(tools[0])
        assert await place.told("tools", "demo", "echo") == tools[0]
        assert set(await place.told("resources", "demo")) == names("`mooring resources NAME --json`")
        assert [prompt["name"] for prompt in await place.told("prompts", "demo")] == ["greet"]
        assert (await place.told("resources", "demo", "demo://note"))["contents"][0][
            "mimeType"
        ] == "text/plain"
        assert (await place.told("prompts", "demo", "greet", "name=x"))["messages"][0]["role"] == "user"
        assert (await place.told("call", "demo", "counter"))["structuredContent"]["count"] == 1
        status, out, _ = await place.mooring("call", "demo", "add", "--json", "{}", "--json")
        assert status == 1 and set(json.loads(out)["error"]) == {"code", "message"}
        lines = (await place.done("call", "demo", "add", "--raw", "a=1", "b=2")).splitlines()
        wire = [(line[:3], json.loads(line[4:])) for line in lines]
        sent = [message["method"] for way, message in wire if way == "-->"]
        assert sent == [
            "initialize",
            "notifications/initialized",
            "logging/setLevel",
            "tools/list",
            "tools/call",
        ]
        assert wire[-1] == (
            "<--",
            {"jsonrpc": "2.0", "id": 4, "result": {"content": [{"type": "text", "text": "3"}]}},
        )


async def test_a_call_is_cancelled_by_an_interrupt(tmp_path: Path) -> None:
    async with trial(tmp_path) as there:
        async with on_terminal(there.place, 60, 24, "call", "trial", "work") as (screen, process):
            await shown(screen, "[######------------------]  25% 1/4 part 1")
            process.send_signal(signal.SIGINT)
        assert process.returncode == 130
        assert screen.lines[-1].endswith("interrupted; what was under way is cancelled")
        assert max(map(len, re.split(r"\r\x1b\[2K|\n|\r", screen.shown))) < 60
        assert screen.shown.rpartition("\x1b[2K")[2].startswith("interrupted"), "the bar is gone"
        [call] = there.heard("tools/call")
        await until(lambda: there.heard("notifications/cancelled"))
        [cancelled] = there.heard("notifications/cancelled")
        assert cancelled["params"]["requestId"] == call["id"]
        await there.is_left()


async def test_the_bar_makes_room_for_the_result(tmp_path: Path) -> None:
    async with demo(tmp_path) as place:
        words = ("call", "demo", "sleep", "seconds=0.5", "steps=4")
        async with on_terminal(place, 60, 24, *words) as (screen, process):
            await shown(screen, "  25% 1/4", "\r\x1b[2Kslept 0.5 s\r\n")
        assert process.returncode == 0


async def test_a_form_is_filled_in(tmp_path: Path) -> None:
    async with trial(tmp_path) as there:
        dialogue = (
            ("trial asks: Who are you?\r\nAnswer? yes, decline or cancel [yes]: ", ""),
            ("Name: Yours, or any other\r\nName (string, 2 or more characters): ", "x"),
            ("Name must have 2 or more characters\r\nName (string", "Ada"),
            ("age (integer, 0 to 150): ", "old"),
            ("age must be an integer\r\nage", "36"),
            ("  1  Red\r\n  2  Green\r\ncolour (a number): ", "2"),
            ("Send news (yes or no, optional) [no]: ", ""),
            ("more (string, optional): ", ""),
        )
        async with on_terminal(there.place, 120, 24, "call", "trial", "form") as (screen, _):
            for question, typed in dialogue:
                await shown(screen, question)
                screen.type(typed + "\n")
            content = {"name": "Ada", "age": 36, "colour": "g", "news": False}
            await shown(screen, json.dumps({"action": "accept", "content": content}))


async def test_a_form_is_declined_or_left(tmp_path: Path) -> None:
    async def answered(place: Home, *typed: str) -> str:
        async with on_terminal(place, 80, 24, "call", "trial", "form") as (screen, _):
            for n, text in enumerate(typed, 1):
                # A question ends with a colon and a space; so does the line before the first.
                await until(partial(lambda n: screen.shown.count(": ") > n, n))
                screen.type(text)
            await shown(screen, '{"action": ')
        return screen.lines[-1]

    async with trial(tmp_path) as there:
        done = await asyncio.gather(
            answered(there.place, "d\n"),
            answered(there.place, "what?\n", "cancel\n"),
            answered(there.place, "\x04"),
            answered(there.place, "y\n", "\x04"),
        )
    assert [json.loads(line)["action"] for line in done] == ["decline", "cancel", "cancel", "cancel"]


async def test_a_page_is_told_and_not_opened(tmp_path: Path) -> None:
    async with trial(tmp_path) as there:
        async with on_terminal(there.place, 80, 24, "call", "trial", "page") as (screen, _):
            await shown(
                screen, "trial asks: Log in", "open this page: https://example.com/\\x1b[2J", "[yes]: "
            )
            screen.type("yes\n")
            await shown(screen, '{"action": "accept"}')
        status, out, err = await there.place.mooring("call", "trial", "page")
        assert (status, out) == (0, '{"action": "decline"}\n')
        assert err.splitlines() == ["trial asks: Log in", "declined: there is no terminal to ask at"]


async def test_what_a_server_says_does_not_steer_the_terminal(tmp_path: Path) -> None:
    async def seen(place: Home, *words: str) -> str:
        async with on_terminal(place, 80, 24, "call", "trial", *words) as (screen, process):
            await process.wait()
            await shown(screen, "today" if "rejects" in words else "after")
        return screen.shown.replace("\r\x1b[2K", "")

    async with trial(tmp_path) as there:
        kinds = (("nasty",), ("nasty", "--raw"), ("nasty", "--json"), ("rejects",))
        for plain in await asyncio.gather(*(seen(there.place, *words) for words in kinds)):
            assert not STEERING.findall(plain), plain


async def test_bytes_are_saved_and_nothing_is_written_over(tmp_path: Path) -> None:
    async with trial(tmp_path) as there:
        folder = tmp_path / "saved"
        folder.mkdir()
        save = ("--save", str(folder))
        out = await there.place.done("call", "trial", "picture", *save)
        assert out == f"here\nimage image/png, 70 bytes, saved as {folder}/trial-picture-image.png\n"
        assert "image-2.png\n" in await there.place.done("call", "trial", "picture", *save)
        out = await there.place.done("call", "trial", "links", *save)
        assert out == (
            "resource x://1 (one)\n  the first\nresource x://t:\ninside\n"
            f"resource, 3 bytes, saved as {folder}/trial-links-blob.bin\n"
        )
        assert "saved as" in await there.place.done("resources", "trial", "x://b/pixel.png", *save)
        found = {path.name: path.read_bytes()[:4] for path in folder.iterdir()}
        png = b"\x89PNG"
        assert found == {
            "trial-picture-image.png": png,
            "trial-picture-image-2.png": png,
            "trial-links-blob.bin": b"\x00\x01\x02",
            "trial-pixel.png": png,
        }


async def test_pages_questions_and_numbers(tmp_path: Path) -> None:
    async with trial(tmp_path) as there:
        assert len((await there.place.done("tools", "trial")).splitlines()) == 10, "five pages"
        status, out, err = await there.place.mooring("resources", "trial")
        assert (status, len(out.splitlines())) == (0, 1000) and "the list does not end" in err
        assert "was not declared" in await there.place.done("call", "trial", "sample")
        status, out, err = await there.place.mooring("call", "trial", "huge")
        assert status == 1 and "cannot be read; --raw shows it" in err
        status, out, err = await there.place.mooring("call", "trial", "work", "--timeout", "1s", "-v")
        assert status == 1 and "progress: [############------------]  50% 2/4 part 2\n" in err


async def test_a_server_of_the_other_era(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        await place.done("run", "modern", "--", *MODERN)
        assert "region" in await place.done("call", "modern", "echo", "--json", '{"region": "x"}')
        async with on_terminal(place, 80, 24, "call", "modern", "ask") as (screen, process):
            await shown(screen, "modern asks: who?", "[yes]: ")
            screen.type("\n")
        assert process.returncode == 0 and "accept" in screen.shown


async def test_a_shell_completes_what_a_server_has(tmp_path: Path) -> None:
    async def completed(place: Home, *words: str) -> set[str]:
        asked = {
            **place.environment,
            "_MOORING_COMPLETE": "zsh_complete",
            "COMP_WORDS": " ".join(["mooring", *words]),
            "COMP_CWORD": str(len(words)),
        }
        process = await asyncio.create_subprocess_exec(
            MOORING, env=asked, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        async with within():
            out, err = await process.communicate()
        assert not err
        return {value.replace("\\:", ":") for value in out.decode().split("\n")[1::3] if value}

    async with home(tmp_path) as place:
        assert await completed(place, "call", "demo", "") == set()
        assert not place.state.exists(), "no daemon is started"
        await place.done("run", "demo", "--", *DEMO)
        assert await completed(place, "call", "d") == {"demo"}
        assert await completed(place, "call", "demo", "s") == {"sleep", "sample"}
        assert await completed(place, "prompts", "demo", "") == {"greet"}
        assert await completed(place, "resources", "demo", "demo://n") == {"demo://note"}
        async with raw_server(never) as silent:
            assert await completed(place, "call", silent.url, "") == set(), "it is not waited for"
        pid = (await place.told("daemon", "status"))["pid"]
        await suspend(pid)
        try:
            assert await completed(place, "call", "demo", "") == set(), "nor is the daemon"
        finally:
            os.kill(pid, signal.SIGCONT)
