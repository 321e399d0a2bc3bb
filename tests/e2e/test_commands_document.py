"""docs/commands.md is an interface: its names are exactly what the commands print."""

import json
import re
from pathlib import Path
from typing import Any

from mooring.cli.files.difference import Action
from mooring.clients.outcomes import Change
from mooring.supervise.reasons import ReasonCode
from mooring.supervise.states import State
from mooring.workloads.happenings import Kind
from tests.e2e.program import ROOT
from tests.e2e.test_daemon_command import home
from tests.hosting import DEMO

PAGE = (ROOT / "docs/commands.md").read_text()


def names(title: str, head: str = "name") -> set[str]:
    """What the first column has of the table of that head, in the section of that title."""
    [section] = re.findall(rf"^#+ {re.escape(title)}\n(.*?)(?=^#|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    table = section.partition(f"| {head} |")[2].partition("\n\n")[0]
    return set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))


async def test_the_names_are_those_that_are_printed(tmp_path: Path) -> None:
    async with home(tmp_path) as place:
        run = json.loads(await place.done("run", "demo", "--json", "--", *DEMO))
        await place.mooring("run", "quits", "--", "false")
        status = await place.told("status", "quits")
        [listed, other] = await place.told("ls")
        for server in (run, status, listed, other):
            assert set(server) == names("`mooring status NAME --json`")
        assert {name for one in status["exits"] for name in one} == names("An exit")
        assert set(await place.told("daemon", "status")) == names("`mooring daemon status --json`")
        [event, *_] = (await place.done("events", "--json")).splitlines()
        assert set(json.loads(event)) == names("`mooring events --json`")
        [changed] = json.loads(await place.done("stop", "demo", "--json"))
        assert set(changed) == names("`mooring start|stop|restart|rm --json`")
        (tmp_path / "mooring.toml").write_text("[servers.filed]\ncommand = 'sh'\n")
        for words in (("up", "--dry-run"), ("up", "--no-wait"), ("down",)):
            [step] = json.loads(await place.done(*words, "--json", "-f", str(tmp_path / "mooring.toml")))
            assert set(step) == names("`mooring up --json`, `mooring down --json`")
        [refused] = json.loads((await place.mooring("stop", "nobody", "--json"))[1])
        assert set(refused["error"]) == {"code", "message", "hint"}


def test_codes_are_those_that_there_are() -> None:
    assert names("Reasons", "reason") == set(ReasonCode)
    assert names("`mooring up --json`, `mooring down --json`", "action") == set(Action)
    assert names("`mooring events --json`", "kind") == set(Kind)
    assert names("`mooring client add|rm|undo|refresh|sync --json`", "change") == set(Change)
    assert set(State) <= set(re.findall(r"`(\w+)`", PAGE.partition("### States")[2].partition("###")[0]))


def test_an_instance_is_as_the_page_says() -> None:
    from mooring.api.types import Instance

    assert set(Instance.__struct_fields__) == names("An instance")


def test_links_lead_somewhere() -> None:
    found: list[Any] = re.findall(r"\]\(([^)#]+)\)", PAGE)
    assert found
    for target in found:
        assert (ROOT / "docs" / target).exists(), target
