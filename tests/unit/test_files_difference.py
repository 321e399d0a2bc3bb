"""What is to be done, as it is decided and as it is shown; and servers written as a file."""

import json
from pathlib import Path
from typing import Any

import pytest

from mooring.cli.files.difference import Action, Known, Plan, plan_down, plan_up
from mooring.cli.files.picture import pictured, summary
from mooring.cli.files.writing import as_json, as_toml, written
from mooring.errors import UserError
from mooring.runtimes.containers.spec import ContainerOptions, Volume
from mooring.workloads.definition import Borrowed, ServerOptions

FILE = "/here/mooring.toml"
HERE = Path("/here")


def server(name: str, *words: str, env: dict[str, str] | None = None, **other: Any) -> ServerOptions:
    base = {"PATH": "/bin", "TERM": "xterm"}
    borrowed = Borrowed(unnamed=("PATH", "TERM"))
    argv = ("uvx", *(words or (f"mcp-{name}",)))
    return ServerOptions(name=name, argv=argv, env=base | (env or {}), borrowed=borrowed, cwd=HERE, **other)


def known(options: ServerOptions, origin: str = FILE, **other: Any) -> Known:
    return Known(options.name, origin, options, **other)


def plan(
    wanted: list[ServerOptions],
    there: list[Known],
    troubles: dict[str, UserError] | None = None,
    **other: Any,
) -> Plan:
    return plan_up(
        {options.name: options for options in wanted},
        {one.name: one for one in there},
        FILE,
        troubles=troubles,
        **other,
    )


def shown(plan: Plan, width: int | None = None) -> list[str]:
    assert not plan.taken
    return [summary(plan), *pictured(plan, width=width, colours=False)]


def test_a_plan_is_shown_like_a_difference() -> None:
    wanted = [
        server("time"),
        server("notes", "mcp-notes", "--token", "canary", env={"A": "canary", "C": "1"}, spare=2),
        server("same"),
        server("foreign"),
        server("slept"),
        server("broken"),
    ]
    there = [
        known(server("notes", "mcp-memo", env={"A": "x", "B": "y"})),
        known(server("same")),
        known(server("gone")),
        known(server("others"), origin="/there/mooring.toml"),
        known(server("foreign"), origin="", is_down=True),
        known(server("slept"), is_down=True),
    ]
    trouble = UserError("broken: the program uvx is not on the server's PATH", code="program_not_found")
    made = plan(wanted, there, {"broken": trouble, "same": trouble})
    assert shown(made) == [
        "1 to add, 1 to start, 1 to change, 1 to remove, 2 the same, 1 that cannot be started",
        "! broken   cannot be started",
        "           uvx mcp-broken",
        "= foreign  the same, but not made from this file: left alone",
        "- gone     is stopped and forgotten",
        "~ notes    command: uvx mcp-memo → uvx mcp-notes --token …",
        "           spare: 1 → 2",
        "           env: ~ A, - B, + C",
        "= same     the same",
        "+ slept    the same, but it does not run",
        "+ time     uvx mcp-time",
    ]
    assert "canary" not in repr([step.changes for step in made.steps])
    assert all(len(line) <= 40 for line in shown(made, 40)[1:])
    assert shown(made, 40)[3] == "= foreign  the same, but not made from …"


def image(name: str, *words: str, env: dict[str, str] | None = None, **other: Any) -> ServerOptions:
    container = ContainerOptions(**{"image": f"mcp/{name}:1", **other})
    return ServerOptions(name=name, argv=words, container=container, env=env or {})


def test_a_plan_names_images_and_what_differs() -> None:
    volumes = (Volume("/a", "/a"), Volume("cache", "/c", read_only=True))
    wanted = [
        image("new", "--token", "canary", memory_bytes=1024**3),
        image("other", image="mcp/other:2"),
        image("words", "--token", "canary"),
        image(
            "all",
            "x",
            volumes=volumes,
            network="none",
            memory_bytes=1000,
            cpus=2.0,
            user="me",
            read_only=True,
            pull="always",
            engine="podman",
            env={"A": "canary"},
        ),
        image("from-command", "x"),
        server("to-command"),
        image("same", "x"),
        image("hidden", pids=5),
    ]
    there = [
        known(image("other")),
        known(image("words", "x")),
        known(image("all", "x")),
        known(server("from-command")),
        known(image("to-command")),
        known(image("same", "x")),
        known(image("hidden")),
    ]
    made = plan(wanted, there)
    assert shown(made) == [
        "1 to add, 6 to change, 1 the same",
        "~ all           volume: none → /a:/a, cache:/c:ro",
        "                network: bridge → none",
        "                memory: 2GiB → 1000",
        "                cpus: none → 2",
        "                user: none → me",
        "                read_only: false → true",
        "                pull: missing → always",
        "                engine: auto → podman",
        "                env: + A",
        "~ from-command  command: uvx mcp-from-command → image:mcp/from-command:1 x",
        "                cwd: /here → none",
        "~ hidden        something that is not shown here",
        "+ new           image:mcp/new:1 --token …",
        "~ other         image: mcp/other:1 → mcp/other:2",
        "= same          the same",
        "~ to-command    command: image:mcp/to-command:1 → uvx mcp-to-command",
        "                cwd: none → /here",
        "~ words         args: x → --token …",
    ]
    assert "canary" not in repr([step.changes for step in made.steps])


def test_colours_are_those_of_differences() -> None:
    made = plan([server("a")], [known(server("b"))])
    assert pictured(made, width=None, colours=True) == [
        "\x1b[32m+ a  uvx mcp-a\x1b[0m",
        "\x1b[31m- b  is stopped and forgotten\x1b[0m",
    ]


def test_a_name_that_is_taken_is_refused_unless_it_is_adopted() -> None:
    for origin in ("", "/there/mooring.toml"):
        other = known(server("time", "another"), origin=origin)
        made = plan([server("time"), server("new")], [other])
        assert made.taken == [other]
        [new, adopted] = plan([server("time"), server("new")], [other], adopt=True).steps
        assert (new.action, adopted.action) == (Action.ADD, Action.CHANGE)
        assert adopted.changes == ("command: uvx another → uvx mcp-time", "of this file from now on")
        same = known(server("time"), origin=origin)
        [step] = plan([server("time")], [same], adopt=True).steps
        assert (step.action, step.options) == (Action.ADOPT, same.options)


def test_what_cannot_be_read_is_replaced() -> None:
    [step] = plan([server("time")], [Known("time", FILE, None)]).steps
    assert (step.action, step.changes) == (Action.CHANGE, ("what it was cannot be read",))


def test_another_terminal_changes_nothing() -> None:
    here = server("time")
    elsewhere = ServerOptions(
        name="time", argv=here.argv, cwd=HERE, env={"TERM": "dumb"}, borrowed=Borrowed(unnamed=("TERM",))
    )
    assert [step.action for step in plan([elsewhere], [known(here)]).steps] == [Action.KEEP]
    everything = ServerOptions(
        name="time",
        argv=here.argv,
        cwd=HERE,
        env=here.env,
        borrowed=Borrowed(all=True, unnamed=("PATH", "TERM")),
    )
    [step] = plan([everything], [known(here)]).steps
    assert step.changes == ("inherit_env: false → true",)


def test_down_is_about_this_file_only() -> None:
    there = {one.name: one for one in (known(server("b")), known(server("a")), known(server("c"), "/x.toml"))}
    assert shown(plan_down(there, FILE)) == [
        "2 to remove",
        "- a  is stopped and forgotten",
        "- b  is stopped and forgotten",
    ]
    assert shown(plan_down(there, "/none.toml")) == ["nothing to do"]


SECRET = "ghp_" + "a" * 36


@pytest.fixture
def many() -> list[ServerOptions]:
    plain = server("time", env={"A": 'q"\x7f${X}', "odd name": "1"}, spare=0)
    secret = ServerOptions(
        name="git-hub",
        argv=("run", "--token", SECRET, f"--key={SECRET}"),
        env={"GITHUB_TOKEN": SECRET, "HOME": "/home/me", "MINE": "x"},
        borrowed=Borrowed(all=True, named=("MINE",), unnamed=("HOME",)),
    )
    return [plain, secret]


def test_servers_are_written_as_toml_without_their_secrets(many: list[ServerOptions]) -> None:
    assert (
        as_toml([written(options) for options in many])
        == r"""[servers.time]
command = ["uvx", "mcp-time"]
cwd = "/here"
spare = 0

[servers.time.env]
A = "q\"\u007f$${X}"
"odd name" = "1"

[servers.git-hub]
# a word that looks like a secret is not shown; for mooring up, set GIT_HUB_WORD_3 to it
command = ["run", "--token", "${GIT_HUB_WORD_2}", "--key=${GIT_HUB_WORD_3}"]
pass_env = ["MINE"]
inherit_env = true

[servers.git-hub.env]
# its value is not shown; keep it with: mooring secret set git-hub-github-token
GITHUB_TOKEN = "secret:git-hub-github-token"
"""
    )


def test_and_as_json(many: list[ServerOptions]) -> None:
    assert (
        as_json([written(many[0])])
        == r"""{
  "mcpServers": {
    "time": {
      "command": "uvx",
      "args": [
        "mcp-time"
      ],
      "cwd": "/here",
      "spare": 0,
      "env": {
        "A": "q\"$${X}",
        "odd name": "1"
      }
    }
  }
}
""".replace('q\\"', 'q\\"\x7f')
    )


@pytest.fixture
def gh() -> ServerOptions:
    return image(
        "gh",
        "--token",
        SECRET,
        "${X}",
        volumes=(Volume("/my ${data}", "/data", read_only=True), Volume("cache", "/c")),
        memory_bytes=512 * 1024**2,
        cpus=1.5,
        user="1000",
        read_only=True,
        engine="unix:///run/x.sock",
        env={"GITHUB_TOKEN": SECRET, "A": "1"},
    )


def test_an_image_is_written_as_toml_with_all_that_it_is_run_with(gh: ServerOptions) -> None:
    assert (
        as_toml([written(gh), written(image("plain"))])
        == """[servers.gh]
image = "mcp/gh:1"
# a word that looks like a secret is not shown; for mooring up, set GH_WORD_1 to it
args = ["--token", "${GH_WORD_1}", "$${X}"]
volume = ["/my $${data}:/data:ro", "cache:/c"]
memory = "512MiB"
cpus = 1.5
user = "1000"
read_only = true
engine = "unix:///run/x.sock"

[servers.gh.env]
A = "1"
# its value is not shown; keep it with: mooring secret set gh-github-token
GITHUB_TOKEN = "secret:gh-github-token"

[servers.plain]
image = "mcp/plain:1"
"""
    )


def test_and_an_image_as_json(gh: ServerOptions) -> None:
    told = json.loads(as_json([written(gh), written(image("plain"))]))["mcpServers"]
    assert told["plain"] == {"image": "mcp/plain:1"}
    assert told["gh"]["args"] == ["--token", "${GH_WORD_1}", "$${X}"] and "command" not in told["gh"]
    assert told["gh"]["volume"] == ["/my $${data}:/data:ro", "cache:/c"] and told["gh"]["cpus"] == 1.5
    assert SECRET not in repr(told)
