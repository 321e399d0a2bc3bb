"""`--transport` without `--url`: what may be asked for, in commands and files, and how it is told again."""

import json
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from mooring.cli.files.definitions import define
from mooring.cli.files.difference import Known, plan_up
from mooring.cli.files.reading import BadFile, parse
from mooring.cli.files.settings import OF_SERVED, served_settings
from mooring.cli.files.writing import as_json, as_toml, written
from mooring.cli.main import cli
from mooring.cli.running.plan import plan_server
from mooring.errors import UserError
from mooring.remote.options import RemoteOptions, ServedOptions
from mooring.runtimes.containers.labels import Owned, Owner
from mooring.runtimes.containers.spec import ContainerSpec, creation
from mooring.runtimes.containers.states import Seen
from mooring.workloads.definition import ServerOptions, differences, dump_options, load_options
from mooring.workloads.words import hint_if_silent

OURS = {"PATH": "/usr/bin:/bin", "HOME": "/home/me"}
PROCESS = ("--transport", "http", "--port-env", "PORT")
CONTAINER = ("--image", "x", "--transport", "sse", "--container-port", "8080")


def planned(*options: str) -> ServerOptions:
    """As `mooring run` plans it."""
    run = cli.commands["run"]
    command = () if "--image" in options or "--url" in options else ("node", "server.js")
    context = run.make_context("run", ["web", *options, "--", *command], help_option_names=[])
    chosen = {word.removeprefix("--").replace("-", "_") for word in options if word.startswith("--")}
    return plan_server(context.params, chosen, command, OURS)


def one(text: str, *, is_json: bool = False) -> ServerOptions:
    folder = Path("/here")
    [wanted] = define(parse(text, "file", is_json=is_json), folder / "mooring.toml", OURS).servers.values()
    return wanted.options


def test_a_program_and_an_image_are_spoken_to_as_was_asked() -> None:
    process = planned(*PROCESS)
    assert process.served == ServedOptions(transport="http", path="/mcp", port_env="PORT")
    assert process.argv == ("node", "server.js") and process.is_process
    assert process.spare == 0, "a session more is a session more with the same program"
    image = planned(*CONTAINER, "--path", "/events", "--spare", "2")
    assert image.served == ServedOptions(transport="sse", path="/events", container_port=8080)
    assert image.container is not None and image.spare == 2
    assert planned(*CONTAINER).served == ServedOptions(transport="sse", path="/sse", container_port=8080)
    assert planned().served is None and planned("--url", "http://x", "--transport", "sse").served is None


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--transport", "http"), "--transport needs --port-env"),
        (("--transport", "http", "--container-port", "80"), "--container-port goes only with an image"),
        (("--transport", "auto", "--port-env", "PORT"), "--transport auto is for servers elsewhere"),
        (("--port-env", "PORT"), "--port-env goes only with --transport"),
        (("--path", "/x"), "--path goes only with --transport"),
        ((*PROCESS, "--env", "PORT=80"), "PORT is to be the port, and has a value"),
        (("--image", "x", "--transport", "http"), "--transport needs --container-port"),
        ((*CONTAINER, "--port-env", "PORT"), "--port-env does not go with an image"),
        ((*CONTAINER, "--network", "none"), "without a network nobody can reach --container-port"),
        (("--url", "http://x", "--path", "/x"), "--path: means nothing to a server elsewhere"),
    ],
)
def test_what_cannot_work_is_refused_with_advice(options: tuple[str, ...], told: str) -> None:
    with pytest.raises(UserError) as caught:
        planned(*options)
    assert caught.value.message.startswith(told) and caught.value.hint


@pytest.mark.parametrize("path", ["mcp", "/a b", "/ü", "/a#b", ""])
def test_a_path_is_one(path: str) -> None:
    done = CliRunner().invoke(cli, ["run", "x", *PROCESS, "--path", path, "--", "true"])
    assert done.exit_code == 2 and "path" in done.output


@pytest.mark.parametrize("port", ["0", "65536", "http"])
def test_a_port_is_one(port: str) -> None:
    options = ["--image", "x", "--transport", "http", "--container-port", port]
    done = CliRunner().invoke(cli, ["run", "x", *options])
    assert done.exit_code == 2 and "port" in done.output


def test_a_file_says_the_same() -> None:
    process = one('[servers.web]\ncommand = "node server.js"\ntransport = "http"\nport_env = "PORT"\n')
    assert process.served == planned(*PROCESS).served and process.spare == 0
    image = {"image": "x", "transport": "sse", "container_port": 8080, "path": "/events"}
    found = one(json.dumps({"mcpServers": {"web": image}}), is_json=True)
    assert found.served == planned(*CONTAINER, "--path", "/events").served
    with pytest.raises(BadFile, match="PORT is to be the port"):
        one('[servers.web]\ncommand = "a"\ntransport = "http"\nport_env = "PORT"\nenv = {PORT = "1"}\n')
    with pytest.raises(BadFile, match="stdio"):
        one('[servers.web]\ncommand = "a"\ntransport = "stdio"\n')


@pytest.mark.parametrize("options", [PROCESS, CONTAINER, (*CONTAINER, "--path", "/events?a=$b")])
def test_what_is_written_can_be_read_again(options: tuple[str, ...]) -> None:
    asked = planned(*options)
    assert load_options(dump_options(asked)) == asked
    assert one(as_toml([written(asked)])).served == asked.served
    assert one(as_json([written(asked)]), is_json=True).served == asked.served
    assert asked.served is not None
    assert served_settings(asked.served).keys() <= OF_SERVED.keys()


def test_options_of_an_earlier_mooring_can_be_read() -> None:
    known = msgspec.json.decode(dump_options(planned()))
    del known["served"]
    assert load_options(msgspec.json.encode(known)) == planned()


def test_what_differs_is_told() -> None:
    before, after = planned(), planned(*PROCESS)
    assert differences(before, after) == ["whether it is spoken to over HTTP", "spare"]
    assert differences(after, planned(*PROCESS, "--path", "/x")) == ["path"]
    known = {"web": Known("web", "/file", before)}
    [step] = plan_up({"web": after}, known, "/file").steps
    told = ("transport: none → http", "port_env: none → PORT", "path: none → /mcp")
    assert set(told) <= set(step.changes)


def test_a_port_is_published_for_this_machine_alone() -> None:
    owned = Owned(Owner("me", "life", "process"), "web", 1)
    body = creation(ContainerSpec(image="x", name="web", published=8080), owned)
    assert body["HostConfig"]["PortBindings"] == {"8080/tcp": [{"HostIp": "127.0.0.1", "HostPort": ""}]}
    assert body["ExposedPorts"] == {"8080/tcp": {}}
    assert "PortBindings" not in creation(ContainerSpec(image="x", name="web"), owned)["HostConfig"]


@pytest.mark.parametrize(
    ("ports", "found"),
    [
        ({"8080/tcp": [{"HostIp": "127.0.0.1", "HostPort": "49153"}], "9/udp": None}, 49153),
        ({"8080/tcp": None}, None),
        ({"8080/tcp": [{"HostIp": "127.0.0.1", "HostPort": "0"}]}, None),
        ({"8080/tcp": [{"HostIp": "127.0.0.1", "HostPort": ""}]}, None),
        ({}, None),
        (None, None),
    ],
)
def test_an_engine_tells_where_it_has_published_it(ports: object, found: int | None) -> None:
    seen = {"Id": "a", "State": {}, "NetworkSettings": {"Ports": ports}}
    assert msgspec.json.decode(json.dumps(seen), type=Seen).published_port == found
    assert msgspec.json.decode(b'{"Id": "a", "State": {}}', type=Seen).published_port is None


def test_one_that_is_silent_is_asked_where_it_listens() -> None:
    assert "PORT" in hint_if_silent(planned(*PROCESS).served, None)
    assert "8080" in hint_if_silent(planned(*CONTAINER).served, None)
    assert "standard input" in hint_if_silent(None, None)
    elsewhere = RemoteOptions(url="http://127.0.0.1:1/mcp")
    assert "URL" in hint_if_silent(None, elsewhere) and "--transport" not in hint_if_silent(None, elsewhere)
    assert "--transport sse" in hint_if_silent(None, RemoteOptions(url=elsewhere.url, transport="sse"))
