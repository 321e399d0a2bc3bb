"""`mooring client` as a user has it: real files of clients in a home of its own, a real daemon."""

import json
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.program import ROOT
from tests.e2e.terminal import on_terminal
from tests.e2e.test_commands_document import names
from tests.e2e.test_daemon_command import MOORING, Home, home
from tests.hosting import DEMO
from tests.support import until

CURSOR = (
    '{\n  "mcpServers": {\n    "mine": {"command": "sh", "env": {"API_TOKEN": "nobody-reads-this"}}\n  }\n}\n'
)
ZED = (
    b'\xef\xbb\xbf// settings\r\n{\r\n\t"theme": "dark", // dark\r\n\t"context_servers": {\r\n'
    b'\t\t"other": {"url": "http://other"}, // mine\r\n\t},\r\n}\r\n'
)
TELLTALE = (sys.executable, str(ROOT / "tests/telltale_server.py"))


class Files:
    """Files of three clients: one as JSON, one as JSON with comments, one as TOML that is not there yet."""

    def __init__(self, place: Home) -> None:
        root = Path(place.environment["HOME"])
        self.cursor = root / ".cursor/mcp.json"
        self.zed = root / ".config/zed/settings.json"
        self.codex = root / ".codex/config.toml"
        for file in (self.cursor, self.zed, self.codex):
            file.parent.mkdir(parents=True)
        self.cursor.write_text(CURSOR)
        self.zed.write_bytes(ZED)

    def servers(self) -> dict[str, Any]:
        """Of Cursor, the easiest to read."""
        found: dict[str, Any] = json.loads(self.cursor.read_text())["mcpServers"]
        return found


async def test_entries_come_and_go_and_nothing_else_changes(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        files = Files(place)
        url = (await place.done("run", "demo", "--", *DEMO)).strip()
        dry = await place.done("client", "add", "--all", "--dry-run")
        assert "would be added" in dry and url in dry and "nobody-reads-this" not in dry
        assert files.zed.read_bytes() == ZED and not files.codex.exists(), "nothing was done"

        told = await place.done("client", "add", "cursor", "zed", "codex")
        assert told.count("demo is added") == 3 and "picked up by itself" in told
        assert "nobody-reads-this" not in told, "neighbours are nobody's business"
        assert files.servers()["demo"]["url"] == url and "mine" in files.servers()
        assert url in files.zed.read_text() and url in files.codex.read_text()
        again = await place.told("client", "add", "cursor")
        assert [(one["server"], one["change"]) for one in again] == [("demo", "unchanged")]

        standings = {one["client"]: one for one in await place.told("client", "ls")}
        assert set(standings) == {"cursor", "zed", "codex"}
        assert standings["cursor"]["entries"] == [{"server": "demo", "state": "in", "why": ""}]
        assert standings["cursor"]["follows_all"] and standings["cursor"]["installed"]

        gone = await place.done("client", "rm", "--all")
        assert gone.count("demo is taken out") == 3
        assert files.cursor.read_text() == CURSOR and files.zed.read_bytes() == ZED
        assert (await place.told("status", "demo"))["state"] == "ready", "the server stays"


async def test_a_new_server_goes_where_all_servers_are_to_be(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        files = Files(place)
        status, out, err = await place.mooring("client", "add", "cursor")
        assert status == 0 and "There are no servers yet" in out and "from now on" in err
        status, url, err = await place.mooring("run", "demo", "--", *DEMO)
        assert status == 0 and url.startswith("http://") and "Cursor: demo is added" in err
        assert files.servers()["demo"]["url"] == url.strip()
        (tmp_path / "mooring.toml").write_text(f"[servers.filed]\ncommand = {json.dumps(list(DEMO))}\n")
        await place.done("up", "-f", str(tmp_path / "mooring.toml"))
        assert "filed" in files.servers()
        await place.done("rm", "demo")
        await until(lambda: "demo" not in files.servers(), 30)
        assert "filed" in files.servers() and "mine" in files.servers()


async def test_all_that_up_told_clients_is_undone_at_once(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        files = Files(place)
        await place.done("client", "add", "cursor", "zed")
        command = json.dumps(list(DEMO))
        definitions = tmp_path / "mooring.toml"
        definitions.write_text("".join(f"[servers.{name}]\ncommand = {command}\n" for name in ("a", "b")))
        status, _, err = await place.mooring("up", "-f", str(definitions))
        assert status == 0 and err.count("note: ") == 1
        assert "note: Cursor, Zed: a, b are added; picked up by itself" in err
        assert {"a", "b"} < set(files.servers())
        told = await place.told("client", "undo")
        assert [(one["client"], one["server"]) for one in told] == [
            (client, server) for client in ("cursor", "zed") for server in ("a", "b")
        ]
        assert files.cursor.read_text() == CURSOR and files.zed.read_bytes() == ZED
        files.cursor.write_text("{")
        await place.done("down", "-f", str(definitions))
        status, _, err = await place.mooring("up", "-f", str(definitions))
        assert status == 0 and err.count("warning: Cursor was not told of a, b: ") == 1


async def test_one_clients_trouble_does_not_stop_the_others(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        files = Files(place)
        files.cursor.write_text('{"mcpServers": {,}}')
        await place.done("run", "demo", "--", *DEMO)
        status, out, err = await place.mooring("client", "add", "cursor", "zed")
        assert status == 1 and "Zed" in out and "demo is added" in out
        assert "error: cursor: demo: " in err and "line 1" in err and "To paste into" in err
        assert files.cursor.read_text() == '{"mcpServers": {,}}' and b"demo" in files.zed.read_bytes()
        [row] = [one for one in await place.told("client", "ls") if one["client"] == "cursor"]
        assert row["trouble"]


async def test_an_entry_of_somebody_else_is_left(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        files = Files(place)
        files.cursor.write_text('{"mcpServers": {"demo": {"url": "http://elsewhere"}}}')
        await place.done("run", "demo", "--", *DEMO)
        status, _, err = await place.mooring("client", "add", "cursor", "--server", "demo")
        assert status == 1 and "mooring client add cursor --server demo --force" in err
        assert files.servers()["demo"] == {"url": "http://elsewhere"}
        await place.done("client", "add", "cursor", "--server", "demo", "--force")
        assert "127.0.0.1" in files.servers()["demo"]["url"]
        await place.done("client", "undo", "cursor")
        assert files.cursor.read_text() == '{"mcpServers": {"demo": {"url": "http://elsewhere"}}}'


async def test_entries_go_and_are_undone_where_the_clients_file_cannot_be_told_any_more(
    tmp_path: Path,
) -> None:
    async with home(tmp_path) as place:
        files = Files(place)
        chat, project = tmp_path / "librechat.yaml", tmp_path / "project"
        project.mkdir()
        await place.done("run", "demo", "--client", "cursor", "--", *DEMO)
        place.environment["CONFIG_PATH"] = str(chat)
        await place.done("client", "add", "librechat")
        del place.environment["CONFIG_PATH"]
        assert "demo" in chat.read_text()
        await place.done("client", "add", "visual-studio", "--project", str(project))
        [there] = [path for path in project.rglob("*") if path.is_file()]

        assert "as it was before" in await place.done("client", "undo", "visual-studio")
        assert not there.exists()
        await place.done("client", "add", "visual-studio", "--project", str(project))
        gone = await place.told("client", "rm", "--all", "--dry-run")
        assert [one["client"] for one in gone] == ["cursor", "visual-studio", "librechat"]
        status, _, err = await place.mooring("client", "rm", "boltai", "librechat")
        assert (status, err) == (0, "warning: boltai: BoltAI has no file on linux\n")
        assert not chat.exists(), "it was made for the entry"
        await place.done("client", "undo", "librechat")
        assert "demo" in chat.read_text()
        await place.done("client", "rm", "--all")
        assert files.cursor.read_text() == CURSOR and not chat.exists() and not there.exists()
        assert "demo" not in json.dumps(await place.told("client", "ls"))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("add",), "on this machine: "),
        (("add", "cusor"), "cursor"),
        (("add", "cusor"), "mooring client ls --all"),
        (("add", "--all", "cursor"), "not both"),
        (("rm", "nobody-has-this"), "mooring client ls --all"),
        (("undo", "nobody-has-this"), "mooring client ls --all"),
        (("import", "nobody-has-this"), "mooring client ls --all"),
    ],
)
async def test_wrong_words_are_told_and_nothing_is_done(
    tmp_path: Path, words: tuple[str, ...], told: str
) -> None:
    async with home(tmp_path) as place:
        files = Files(place)
        status, out, err = await place.mooring("client", *words)
        assert (status, out) == (2, "") and told in err
        assert files.cursor.read_text() == CURSOR


async def test_clients_are_told_by_run(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        files = Files(place)
        status, _, err = await place.mooring("run", "a", "--client", "cusor", "--", *DEMO)
        assert status == 2 and "cursor" in err and "mooring ls" not in err
        assert (await place.mooring("ls"))[0] == 1, "nothing was started"
        status, _, err = await place.mooring("run", "a", "--foreground", "--client", "zed", "--", *DEMO)
        assert status == 2 and "--client" in err
        status, _, err = await place.mooring("run", "a", "--client", "cursor,zed", "--", *DEMO)
        assert status == 0 and "note: Cursor, Zed: a is added; picked up by itself" in err
        assert "a" in files.servers()
        await place.done("run", "b", "--", *DEMO)
        assert "b" not in files.servers(), "one server is not all of them"
        await place.done("run", "c", "--client", "all", "--", *DEMO)
        assert "c" in files.servers() and '"c"' in files.zed.read_text() and "c" in files.codex.read_text()
        await place.done("client", "add", "cursor")
        await place.done("run", "d", "--client", "none", "--", *DEMO)
        assert "d" not in files.servers()
        files.cursor.write_text("{")
        status, out, err = await place.mooring("run", "e", "--", *DEMO)
        assert (status, err.count("warning: Cursor was not told of e")) == (0, 1) and out.startswith("http")
        status, _, _ = await place.mooring("run", "f", "--client", "cursor", "--", *DEMO)
        assert status == 1, "who asks for it is told that it was not done"


def test_who_has_no_clients_pays_for_none(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "MOORING_STATE_DIR": str(tmp_path),
        "MOORING_PORT": "0",
    }
    words = ("-X", "importtime", "-m", "mooring", "run", "x", "--", "no-such-program-at-all")
    done = subprocess.run(
        [sys.executable, *words], env=environment, capture_output=True, text=True, check=False
    )
    assert "no-such-program-at-all" in done.stderr and "mooring.cli.running.plan" in done.stderr
    assert "mooring.clients" not in done.stderr


async def test_what_clients_run_becomes_moorings(tmp_path: Path) -> None:
    canary = f"canary{uuid.uuid4().hex}"
    async with home(tmp_path) as place:
        files = Files(place)
        demo = {"command": DEMO[0], "args": list(DEMO[1:]), "env": {"API_TOKEN": canary, "LEVEL": "3"}}
        bad = {"command": TELLTALE[0], "args": [TELLTALE[1], "quit"], "env": {"TOKEN": canary}}
        elsewhere = {"url": f"https://mcp.example.com/mcp?key={canary}"}
        before = json.dumps({"mcpServers": {"My Demo": demo, "bad": bad, "far": elsewhere}}, indent=3)
        files.cursor.write_text(before)
        files.zed.write_text(json.dumps({"context_servers": {"the-same": demo}}))
        heard: list[str] = []

        async def mooring(*words: str) -> int:
            status, out, err = await place.mooring("client", *words)
            heard.extend((out, err))
            return status

        assert await mooring("import", "--dry-run") == 0
        assert "my-demo" in heard[-2] and "mcp.example.com" in heard[-2] and "my-demo-api-token" in heard[-2]
        assert await mooring("import") == 2, "there is nobody to ask"
        assert "--yes" in heard[-1] and files.cursor.read_text() == before
        assert await mooring("import", "--yes", "--json") == 1, "one of them does not work"
        told = {(one["client"], one["entry"]): one for one in json.loads(heard[-2])}
        for one in told.values():
            assert set(one) == names("`mooring client import --json`")
        assert told["cursor", "My Demo"]["done"] and told["zed", "the-same"]["server"] == "my-demo"
        assert told["cursor", "bad"]["done"] is False and told["cursor", "far"]["done"] is None

        [server] = await place.told("ls")
        assert (server["name"], server["references"]) == ("my-demo", ["secret:my-demo-api-token"])
        assert set(files.servers()) == {"my-demo", "bad", "far"}
        assert files.servers()["my-demo"] == {"url": server["url"]}
        assert files.servers()["bad"] == bad, "what does not work stays as it was"
        assert [one["name"] for one in await place.told("secret", "ls")] == ["my-demo-api-token"]
        assert await mooring("import", "--dry-run", "zed") == 0
        assert "nothing to import" in heard[-2]

        assert await mooring("ls") == await mooring("sync") == await mooring("undo") == 0
        assert files.cursor.read_text() == before
        assert "my-demo" in heard[-1] and "mooring rm" in heard[-1], "the server stays"
        heard += [await place.done("events"), (place.state / "daemon.log").read_text()]
        assert [text for text in heard if canary in text] == []


async def test_a_file_that_clients_share_is_imported_once(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        shared = tmp_path / "project/.mcp.json"
        shared.parent.mkdir()
        before = json.dumps({"mcpServers": {"D": {"command": DEMO[0], "args": list(DEMO[1:])}}})
        shared.write_text(before)
        words = ("import", "claude-code", "copilot-cli", "--project", str(shared.parent), "--yes")
        [one] = await place.told("client", *words)
        assert (one["entry"], one["server"], one["done"]) == ("D", "d", True)
        assert list(json.loads(shared.read_text())["mcpServers"]) == ["d"]
        await place.done("client", "undo")
        assert shared.read_text() == before


async def test_an_import_that_is_interrupted_can_be_gone_on_with(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        files = Files(place)
        go, script = (
            tmp_path / "go",
            f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; exec {' '.join(DEMO)}",
        )
        entry = {"command": "sh", "args": ["-c", script], "env": {"TOKEN": "hush"}}
        before = json.dumps({"mcpServers": {"slow": entry}})
        files.cursor.write_text(before)
        with subprocess.Popen(
            [MOORING, "client", "import", "cursor", "--yes"],
            env=place.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as command:
            assert command.stderr is not None
            assert "slow: starting" in command.stderr.readline()
            command.send_signal(signal.SIGINT)
            assert "as they were" in command.stderr.read()
        assert command.returncode == 130 and files.cursor.read_text() == before
        go.touch()
        assert "which it does already" in await place.done("client", "import", "cursor", "--yes")
        [server] = await place.told("ls")
        assert files.servers() == {"slow": {"url": server["url"]}}
        assert [one["name"] for one in await place.told("secret", "ls")] == ["slow-token"]


async def test_an_import_is_asked_about_on_a_terminal(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        files = Files(place)
        files.cursor.write_text(
            json.dumps({"mcpServers": {"d": {"command": DEMO[0], "args": list(DEMO[1:])}}})
        )
        before = files.cursor.read_bytes()
        status, seen = on_terminal(place.environment, "client", "import", "cursor", "--json")
        assert status == 2 and "Go on?" not in seen, "a program is not asked"
        status, seen = on_terminal(place.environment, "client", "import", "cursor", answer=b"n\n")
        assert status == 0 and "Go on?" in seen and files.cursor.read_bytes() == before
        assert await place.told("ls") == []
        status, seen = on_terminal(place.environment, "client", "import", "cursor", answer=b"y\n")
        assert status == 0 and "d is run by Mooring" in seen and files.cursor.read_bytes() != before
        assert "mooring client undo" in seen


async def test_a_refresh_is_a_real_difference(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        files = Files(place)
        await place.done("run", "demo", "--client", "cursor,zed,codex", "--", *DEMO)
        cursor, zed = files.cursor.read_bytes(), files.zed.read_bytes()
        refresh = subprocess.Popen(
            [MOORING, "client", "refresh", "demo"],
            env=place.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        await until(lambda: b"demo" not in files.cursor.read_bytes() and files.zed.read_bytes() == ZED, 30)
        out, _ = refresh.communicate(timeout=60)
        assert refresh.returncode == 0 and "demo is back in Cursor, Zed: picked up by itself" in out
        assert "OpenAI Codex does not reload by itself" in out
        assert (files.cursor.read_bytes(), files.zed.read_bytes()) == (cursor, zed)


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
async def test_a_refresh_that_is_cut_short_leaves_nothing_out(tmp_path: Path, end: signal.Signals) -> None:
    async with home(tmp_path) as place:
        files = Files(place)
        await place.done("run", "demo", "--client", "cursor", "--", *DEMO)
        with subprocess.Popen(
            [MOORING, "client", "refresh", "demo"],
            env=place.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as refresh:
            await until(lambda: "demo" not in files.servers(), 30)
            refresh.send_signal(end)
        await until(lambda: "demo" in files.servers(), 30)


async def test_what_a_client_has_lost_is_put_right(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        files = Files(place)
        await place.done("run", "demo", "--client", "cursor,zed", "--", *DEMO)
        files.cursor.write_text(CURSOR)
        assert "demo (missing)" in await place.done("client", "ls")
        told = await place.done("client", "sync")
        assert "demo is added" in told and "demo" in files.servers()
        assert "All entries are as they should be" in await place.done("client", "sync")


async def test_a_server_that_does_not_work_yet_is_told_to_those_who_follow_all(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        files = Files(place)
        await place.done("run", "demo", "--", *DEMO)
        assert (
            "would be added to Cursor, too"
            in (await place.mooring("client", "add", "cursor", "--dry-run"))[2]
        )
        assert "are added to Cursor, too" in (await place.mooring("client", "add", "cursor"))[2]
        status, _, err = await place.mooring("run", "bad", "--", "false")
        assert status == 1 and "Cursor: bad is added" in err
        assert "bad" in files.servers()


async def test_who_removes_a_server_hears_which_clients_are_without_it(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        files = Files(place)
        await place.done("run", "demo", "--client", "cursor,zed,claude-desktop", "--", *DEMO)
        status, out, err = await place.mooring("rm", "demo")
        assert (status, out) == (0, "demo is removed\n")
        assert "note: Cursor, Zed: demo is taken out; picked up by itself\n" in err
        assert "note: Claude Desktop: demo is taken out; quit Claude Desktop" in err
        assert "demo" not in files.servers() and files.zed.read_bytes() == ZED


async def test_a_client_that_has_no_entry_follows_no_more_once_it_is_removed(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        files = Files(place)
        await place.done("run", "demo", "--", *DEMO)
        await place.done("client", "add", "cursor")
        await place.done("rm", "demo")
        await until(lambda: "demo" not in files.servers())
        assert "are not added any more" in await place.done("client", "rm", "cursor")
        await place.done("run", "demo", "--", *DEMO)
        assert "demo" not in files.servers()


async def test_uninstalling_leaves_no_entry_and_no_version(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        place.environment["MOORING_STATE_DIR"] = str(tmp_path / "kept")
        files = Files(place)
        await place.done("run", "demo", "--client", "cursor,zed", "--", *DEMO)
        project = tmp_path / "project"
        project.mkdir()
        await place.done("client", "add", "cursor", "--project", str(project))
        plan = await place.done("uninstall", "--dry-run")
        assert "~/.cursor/mcp.json" in plan and f"{project}/.cursor/mcp.json" in plan
        await place.done("uninstall", "--yes")
        assert files.cursor.read_text() == CURSOR and files.zed.read_bytes() == ZED
        assert not any(b"127.0.0.1" in path.read_bytes() for path in project.rglob("*") if path.is_file())
        assert not (tmp_path / "kept").exists()


async def test_uninstalling_tells_of_what_it_leaves(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        files = Files(place)
        await place.done("run", "demo", "--client", "cursor,zed", "--", *DEMO)
        files.cursor.write_text(files.cursor.read_text().replace("/demo/mcp", "/mine/mcp"))
        status, _, err = await place.mooring("uninstall", "--yes")
        assert status == 1 and "entries of Mooring are left in ~/.cursor/mcp.json" in err
        assert "demo" in files.servers() and files.zed.read_bytes() == ZED


async def test_json_is_as_the_page_says(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        Files(place)
        await place.done("run", "demo", "--", *DEMO)
        for words in (
            ("add", "cursor"),
            ("refresh", "demo"),
            ("sync",),
            ("rm", "cursor"),
            ("undo", "cursor"),
        ):
            for one in await place.told("client", *words):
                assert set(one) == names("`mooring client add|rm|undo|refresh|sync --json`"), words
        for standing in await place.told("client", "ls", "--all"):
            assert set(standing) == names("`mooring client ls --json`")
            for entry in standing["entries"]:
                assert set(entry) == names("An entry")


async def test_nothing_is_wider_than_the_terminal(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        Files(place)
        for n in range(5):
            await place.done("run", f"demo-number-{n}", "--no-wait", "--", *DEMO)
        for words in (("add", "--all"), ("ls",), ("ls", "--all"), ("rm", "--all"), ("undo",)):
            status, seen = on_terminal({**place.environment, "NO_COLOR": "1"}, "client", *words)
            assert status == 0, seen
            assert [line for line in seen.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize(
    ("words", "completions"),
    [
        ("mooring client add cur", {"plain,cursor"}),
        ("mooring client add cursor z", {"plain,zed"}),
        ("mooring run x --client cursor,z", {"plain,cursor,zed"}),
        ("mooring run x --client n", {"plain,none", "plain,nanobot"}),
        ("mooring client ref", {"plain,refresh"}),
    ],
)
def test_clients_are_completed(tmp_path: Path, words: str, completions: set[str]) -> None:
    position = str(len(words.split(" ")) - 1)
    asked = {"_MOORING_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": position}
    environment = {**os.environ, **asked, "HOME": str(tmp_path), "PATH": ""}
    done = subprocess.run([MOORING], env=environment, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == completions
