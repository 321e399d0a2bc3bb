"""`mooring client import` of files that are odd, hostile, or changed meanwhile: real files, a real daemon."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.e2e.test_client_command import Files
from tests.e2e.test_daemon_command import MOORING, home
from tests.hosting import DEMO
from tests.support import until

RUN: dict[str, Any] = {"command": DEMO[0], "args": list(DEMO[1:])}


def servers(**entries: Any) -> str:
    return json.dumps({"mcpServers": entries})


def telling(file: Path) -> dict[str, Any]:
    """A server that writes down what it is given."""
    script = f"printf '%s' \"$TOKEN$GITHUB_TOKEN\" > {file}; exec {' '.join(DEMO)}"
    return {"command": "sh", "args": ["-c", script]}


async def test_each_server_is_given_its_own_secret(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        files = Files(place)
        first, second = tmp_path / "first", tmp_path / "second"
        one = {**telling(first), "env": {"TOKEN": "of-the-first"}}
        other = {**telling(second), "env": {"GITHUB_TOKEN": "of-the-second"}}
        files.cursor.write_text(servers(**{"github-github": one, "github": other}))
        await place.done("client", "import", "cursor", "--yes")
        assert (first.read_text(), second.read_text()) == ("of-the-first", "of-the-second")


async def test_odd_entries_do_not_stop_the_others(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        files = Files(place)
        odd = {
            "address": {"url": "http://[::1"},
            "folder": {**RUN, "cwd": "~nosuchuser/x"},
            "word": {**RUN, "args": [*RUN["args"], "\ud800"]},
            "value": {**RUN, "env": {"BAD_TOKEN": "\ud800abc"}},
            "\ud800": RUN,
        }
        files.cursor.write_text(servers(**odd, good={**RUN, "env": {"GOOD_TOKEN": "hush"}}))
        out = await place.done("client", "import", "cursor", "--yes")
        assert "good is run by Mooring" in out and "\\ud800" in out
        there = files.servers()
        assert set(there) == {*odd, "good"} and "url" in there["good"]
        assert {name: entry for name, entry in there.items() if name != "good"} == odd


async def test_an_entry_that_is_changed_while_its_server_starts_is_left(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        files = Files(place)
        begun, go = tmp_path / "begun", tmp_path / "go"
        script = f"touch {begun}; while [ ! -e {go} ]; do sleep 0.05; done; exec {' '.join(DEMO)}"
        entry = {"command": "sh", "args": ["-c", script]}
        files.cursor.write_text(servers(slow=entry, same=RUN))
        with subprocess.Popen(
            [MOORING, "client", "import", "cursor", "--yes"],
            env=place.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as command:
            await until(begun.exists, 30)
            changed = {**entry, "env": {"TOKEN": "new"}}
            files.cursor.write_text(servers(slow=changed, same=RUN))
            go.touch()
            assert command.stderr is not None
            assert "changed meanwhile" in command.stderr.read()
        assert command.returncode == 1
        there = files.servers()
        assert there["slow"] == changed and "url" in there["same"]


async def test_without_anybody_to_ask_the_hint_asks_for_no_more(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        files = Files(place)
        files.cursor.write_text(servers(a=RUN, b=RUN))
        status, _, err = await place.mooring("client", "import", "cursor", "--server", "a")
        assert status == 2 and "hint: mooring client import cursor --server a --yes\n" in err


async def test_clients_that_follow_all_servers_get_what_is_imported_and_one_undo_is_enough(
    tmp_path: Path,
) -> None:
    async with home(tmp_path) as place:
        files = Files(place)
        await place.done("client", "add", "zed")
        zed, before = files.zed.read_bytes(), servers(a=RUN, b={**RUN, "env": {"LEVEL": "3"}})
        files.cursor.write_text(before)
        out = await place.done("client", "import", "cursor", "--yes")
        assert out.count("Zed leads there") == 2
        told = {one["client"]: one for one in await place.told("client", "ls")}
        assert [one["server"] for one in told["zed"]["entries"]] == ["a", "b"]
        assert {one["server"] for one in told["cursor"]["entries"]} == {"a", "b"}
        await place.done("client", "undo")
        assert files.cursor.read_text() == before and files.zed.read_bytes() == zed


async def test_what_is_looked_up_for_a_server_is_not_shown(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        files = Files(place)
        place.environment["MINE"] = "nobody-sees-this"
        words = ["-c", "pass", "${env:MINE}"]
        files.cursor.write_text(servers(a={"command": sys.executable, "args": words}))
        for how in (["--dry-run"], ["--dry-run", "--json"], ["--yes", "--json"]):
            _, out, err = await place.mooring("client", "import", "cursor", *how)
            assert "${env:MINE}" in out and "nobody-sees-this" not in out + err
