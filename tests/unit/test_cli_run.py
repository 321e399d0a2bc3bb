"""`mooring run`: from argv to what is asked of the host, and how errors are told."""

import json
import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import click
import pytest
from click.testing import CliRunner

import mooring.host
from mooring import __version__
from mooring.cli.main import cli, main
from mooring.cli.running.images import ONLY_OF_IMAGES
from mooring.errors import ListenFailed
from mooring.host.options import ForegroundOptions, ListenOptions, ServerOptions
from mooring.proxy.policy import SessionPolicy
from mooring.remote.options import RemoteOptions, ServedOptions
from mooring.runtimes.containers.spec import ContainerOptions, Network, Pull, Volume
from mooring.runtimes.environment import DEFAULT_NAMES
from mooring.runtimes.stopping import StopPatience
from mooring.supervise.restart import RestartPolicy
from mooring.workloads.definition import Borrowed, dump_options, load_options


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A stand-in for `mooring.host.foreground`, of which only `main` is used."""
    module = ModuleType("mooring.host.foreground")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(mooring.host, "foreground", module, raising=False)
    return module


@pytest.fixture
def asked(stand_in: ModuleType) -> list[ForegroundOptions]:
    """What the host was asked to do."""
    seen: list[ForegroundOptions] = []

    def main(options: ForegroundOptions) -> int:
        seen.append(options)
        return 3

    vars(stand_in)["main"] = main
    return seen


@pytest.fixture
def bodies(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the daemon would have been asked for."""
    seen: list[dict[str, Any]] = []

    def run_server(_name: str, body: dict[str, Any], **_how: Any) -> int:
        seen.append(body)
        return 0

    monkeypatch.setattr("mooring.cli.servers.changing.run_server", run_server)
    return seen


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("MOORING_DEBUG", raising=False)
    for name in ("KUBERNETES_SERVICE_HOST", "DOCKER_HOST", "DOCKER_CONTEXT", "CONTAINER_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "stderr", sys.__stderr__)  # capfd sees it; its own has no descriptor


def mooring_(*arguments: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert isinstance(caught.value.code, int)
    return caught.value.code


def planned(asked: list[ForegroundOptions], *options: str) -> ForegroundOptions:
    assert mooring_("run", "--foreground", "time", *options, "--", "uvx", "mcp-server-time") == 3
    return asked.pop()


def test_defaults_are_those_of_the_host(asked: list[ForegroundOptions]) -> None:
    options = planned(asked)
    assert (options.server.name, options.server.argv) == ("time", ("uvx", "mcp-server-time"))
    assert set(options.server.env) <= {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"}
    expected = ForegroundOptions(
        server=ServerOptions(name="time", argv=("uvx", "mcp-server-time"), env=options.server.env)
    )
    assert options == expected


def test_every_option_arrives(
    asked: list[ForegroundOptions], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OURS", "passed")
    monkeypatch.setenv("PATH", "/bin")
    for name in ("HOME", "LOGNAME", "SHELL", "TERM", "USER"):
        monkeypatch.delenv(name, raising=False)
    for name in ("token", "cert", "key"):
        (tmp_path / name).write_text("x")
    (tmp_path / "env").write_text("A=file\nB=file\n")
    options = planned(
        asked,
        *("--host", "0.0.0.0", "--port", "0", "--allow-remote", "--token-file", f"{tmp_path}/token"),
        *("--tls-cert", f"{tmp_path}/cert", "--tls-key", f"{tmp_path}/key"),
        *("--allow-host", "a.example", "--allow-host", "b.example", "--allow-origin", "https://c.example"),
        *("--env", "A=first", "--env", "A=last=1", "--env-file", f"{tmp_path}/env", "--pass-env", "OURS"),
        *("--cwd", str(tmp_path), "--max-sessions", "5", "--idle-timeout", "none", "--spare", "2"),
        *("--shared", "3", "--ping-interval", "none", "--ping-timeout", "2s"),
        *("--call-timeout", "90s", "--max-message-bytes", "1MB", "--retry", "--no-restart"),
        *("--drain-delay", "250ms", "--drain-timeout", "none", "--eof-grace", "0", "--stop-grace", "1m"),
    )
    assert options == ForegroundOptions(
        server=ServerOptions(
            name="time",
            argv=("uvx", "mcp-server-time"),
            env={"PATH": "/bin", "OURS": "passed", "B": "file", "A": "last=1"},
            cwd=tmp_path,
            spare=2,
            sessions=SessionPolicy(
                max_sessions=5,
                shared=3,
                max_message_bytes=1_000_000,
                idle_timeout_s=None,
                call_timeout_s=90,
                ping_interval_s=None,
                ping_timeout_s=2,
                retry=True,
            ),
            restarts=RestartPolicy(restart=False),
            patience=StopPatience(eof_grace_s=0, stop_grace_s=60),
        ),
        listen=ListenOptions(
            host="0.0.0.0",
            port=0,
            tls_cert=tmp_path / "cert",
            tls_key=tmp_path / "key",
            allow_hosts=("a.example", "b.example"),
            allow_origins=("https://c.example",),
            allow_remote=True,
            token_file=tmp_path / "token",
        ),
        drain_delay_s=0.25,
        drain_timeout_s=None,
    )


def test_every_field_of_the_options_can_be_given() -> None:
    names = {parameter.name for parameter in cli.commands["run"].params}
    spelled = {"allow_hosts": "allow_host", "allow_origins": "allow_origin", "env_references": "env"}
    spelled |= {"container": "image", "volumes": "volume"}
    spelled |= {"remote": "url", "headers": "header", "header_references": "header"}
    spelled |= {"served": "transport"}
    made_of_several = {"argv", "borrowed", "server", "listen", "sessions", "restarts", "patience"}
    made_of_several |= {"secrets"}  # by the state directory
    made_of_several |= {"replicas"}  # by --sessions and what belongs to it
    made_of_several |= {"pids"}  # a bound against runaways, which nobody has to choose
    every = (ServerOptions, ListenOptions, ForegroundOptions, StopPatience, ContainerOptions)
    for options in (*every, RemoteOptions, ServedOptions):
        for field in options.__annotations__:
            name = field.removesuffix("_s").removesuffix("_bytes")
            assert spelled.get(name, name) in names | made_of_several, field


@pytest.mark.parametrize("words", [("--shared",), ("--shared", "1"), ("--shared=1",)])
def test_shared_alone_means_one_and_no_spare(asked: list[ForegroundOptions], words: tuple[str, ...]) -> None:
    assert mooring_("run", "--foreground", *words, "time", "--", "uvx", "mcp-server-time") == 3
    server = asked.pop().server
    assert (server.name, server.sessions.shared, server.spare) == ("time", 1, 0)
    assert planned(asked, *words).server == server


def test_references_stay_references(
    asked: list[ForegroundOptions], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MOORING_STATE_DIR", "/state")
    monkeypatch.setenv("TOKEN", "of ours")
    given = ("TOKEN=secret:linear", "A=file:token", 'B={"a": 1}', "C=literal:env:x")
    options = planned(asked, "--inherit-env", *(word for one in given for word in ("--env", one)))
    assert options.server.env_references == {"TOKEN": "secret:linear", "A": f"file:{tmp_path}/token"}
    assert (options.server.env["B"], options.server.env["C"]) == ('{"a": 1}', "env:x")
    assert "TOKEN" not in options.server.env, "what is not used is not kept"
    assert options.secrets == Path("/state/secrets.json")


def of_image(asked: list[ForegroundOptions], *options: str, args: tuple[str, ...] = ()) -> ServerOptions:
    words = ("--", *args) if args else ()
    assert mooring_("run", "--foreground", "gh", "--image", "ghcr.io/a/b:1", *options, *words) == 3
    return asked.pop().server


def test_an_image_needs_no_command_and_has_the_defaults_of_containers(asked: list[ForegroundOptions]) -> None:
    container = ContainerOptions(image="ghcr.io/a/b:1")
    assert of_image(asked) == ServerOptions(name="gh", argv=(), container=container)
    assert of_image(asked, args=("stdio", "--x", "")).argv == ("stdio", "--x", "")
    assert mooring_("run", "--foreground", "gh", "--image", "ghcr.io/a/b:1", "--") == 3
    assert asked.pop().server.argv == ()


def test_every_option_of_a_container_arrives(
    asked: list[ForegroundOptions], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    volumes = ("./data:/data:ro", "sub/dir:/sub", ".:/here", "~/x:/home", "/abs:/abs:rw", "cache:/cache")
    server = of_image(
        asked,
        *(word for volume in volumes for word in ("--volume", volume)),
        *("--network", "none", "--memory", "512MiB", "--cpus", "1.5", "--user", "1000:100", "--read-only"),
        *("--pull", "always", "--engine", "podman"),
    )
    assert server.container == ContainerOptions(
        image="ghcr.io/a/b:1",
        volumes=(
            Volume(f"{tmp_path}/data", "/data", read_only=True),
            Volume(f"{tmp_path}/sub/dir", "/sub"),
            Volume(str(tmp_path), "/here"),
            Volume("/home/me/x", "/home"),
            Volume("/abs", "/abs"),
            Volume("cache", "/cache"),
        ),
        network="none",
        memory_bytes=512 * 1024**2,
        cpus=1.5,
        user="1000:100",
        read_only=True,
        pull="always",
        engine="podman",
    )
    assert load_options(dump_options(server)) == server


def test_a_container_gets_no_variables_but_those_that_were_asked_for(
    asked: list[ForegroundOptions], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OURS", "passed")
    (tmp_path / "env").write_text("A=file\nB=file\n")
    options = ("--env", "A=given", "--env-file", f"{tmp_path}/env", "--pass-env", "OURS")
    server = of_image(asked, *options, "--env", "TOKEN=secret:x")
    assert server.env == {"A": "given", "B": "file", "OURS": "passed"}
    assert server.env_references == {"TOKEN": "secret:x"}
    assert server.borrowed == Borrowed(named=("OURS",))


def test_the_engine_is_written_down_as_this_terminal_means_it(
    asked: list[ForegroundOptions], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def engine(*options: str) -> str:
        container = of_image(asked, *options).container
        assert container is not None
        return container.engine

    monkeypatch.chdir(tmp_path)
    assert engine("--engine", "./x.sock") == f"unix://{tmp_path}/x.sock"
    assert engine("--engine", "unix://x/y.sock") == f"unix://{tmp_path}/x/y.sock"
    assert engine("--engine", "tcp://127.0.0.1:2375") == "tcp://127.0.0.1:2375"
    monkeypatch.setenv("DOCKER_HOST", "unix:///elsewhere.sock")
    assert engine() == engine("--engine", "docker") == "unix:///elsewhere.sock"
    assert engine("--engine", "podman") == "podman"


def test_what_can_be_chosen_is_what_containers_know() -> None:
    options = {option.name: option for option in cli.commands["run"].params}
    for name, words in (("network", Network), ("pull", Pull)):
        choice = options[name].type
        assert isinstance(choice, click.Choice) and tuple(choice.choices) == get_args(words)
    in_section = {
        option.name for option in options.values() if "with --image" in getattr(option, "section", "")
    }
    assert in_section == ONLY_OF_IMAGES


def test_the_daemon_is_given_an_image_without_a_folder(
    bodies: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    assert mooring_("run", "gh", "--image", "x", "--volume", "data/:/data", "--env", "PATH=env:P") == 0
    options = load_options(json.dumps(bodies.pop()["options"]).encode())
    container = ContainerOptions(image="x", volumes=(Volume(f"{tmp_path}/data", "/data"),))
    assert options == ServerOptions(
        name="gh", argv=(), container=container, env_references={"PATH": "env:P"}
    ), "no cwd of ours"
    assert mooring_("run", "time", "--", sys.executable) == 0
    assert bodies.pop()["options"]["cwd"] == str(tmp_path), "a process has one"


def test_a_folder_that_is_not_there_is_told_before_anybody_is_asked(
    bodies: list[dict[str, Any]], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert mooring_("run", "gh", "--image", "x", "--volume", f"{tmp_path}/gone:/data") == 2
    assert capfd.readouterr().err == (
        f"error: gh: {tmp_path}/gone does not exist\nhint: create it, or choose another\n"
    )
    assert mooring_("run", "gh", "--image", "x", "--volume", "gone:/data") == 0, "the engine's to know"
    assert len(bodies) == 1


def test_help_of_run_needs_nothing_of_containers() -> None:
    code = (
        "import sys; from mooring.cli.main import main\n"
        "try: main(['run', '--help'])\n"
        "finally: print([name for name in sys.modules if name.startswith('mooring.runtimes')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "--image IMAGE" in done.stdout and done.stdout.endswith("\n[]\n")


def test_inherit_env_and_unix(asked: list[ForegroundOptions], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOMETHING", "of ours")
    options = planned(asked, "--inherit-env", "--unix", "/run/m.sock")
    assert options.server.env["SOMETHING"] == "of ours"
    assert options.listen.unix == Path("/run/m.sock")


def test_kubernetes_has_its_own_defaults(
    asked: list[ForegroundOptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    options = planned(asked)
    assert (options.drain_delay_s, options.drain_timeout_s) == (5, 20)
    options = planned(asked, "--drain-delay", "1s", "--drain-timeout", "none")
    assert (options.drain_delay_s, options.drain_timeout_s) == (1, None)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost", "LOCALHOST"])
def test_loopback_needs_no_permission(asked: list[ForegroundOptions], host: str) -> None:
    assert planned(asked, "--host", host).listen.host == host


def test_no_auth(asked: list[ForegroundOptions]) -> None:
    assert planned(asked, "--host", "::", "--allow-remote", "--no-auth").listen.no_auth


def test_options_of_the_server_are_its_own(asked: list[ForegroundOptions]) -> None:
    assert mooring_("run", "--foreground", "x", "--", "python", "--port", "1", "--", "-h", "") == 3
    assert asked.pop().server.argv == ("python", "--port", "1", "--", "-h", "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("run time --port 1 -- uvx x", "error: --port: works only with --foreground\n"),
        ("run time --unix /s --drain-delay 1s -- uvx x", "error: --drain-delay, --unix: works only with"),
        ("run time --foreground --client-refresh auto -- uvx x", "--client-refresh: does not go with"),
        (
            "run time --client-refresh sometimes -- uvx x",
            "'sometimes' is not one of 'auto', 'always', 'never'",
        ),
        ("run", "'NAME'"),
        ("run -- uvx x", "hint: write: mooring run NAME -- uvx x\n"),
        ("run --foreground", "'NAME'"),
        ("run --foreground -- uvx x", "hint: write: mooring run --foreground NAME -- uvx x\n"),
        ("run --foreground time", "no command"),
        ("run --foreground time --", "no command"),
        ("run --foreground time uvx x", "error: there is no -- before the server's command\n"),
        ("run --foreground time uvx x", "hint: write: mooring run --foreground time -- uvx x\n"),
        (
            "run --foreground time uvx --option",
            "hint: write: mooring run --foreground time -- uvx --option\n",
        ),
        ("run time --port 0 uvx x --port 1", "run time --port 0 -- uvx x --port 1\n"),
        ("run a --env=K=hush --env L=hush b", "run a '--env=K=…' --env 'L=…' -- b\n"),
        ("run --foreground time --prot 1 uvx x", "'--port'"),
        ("run --foreground time --port", "hint: see mooring run --help\n"),
        ("run --foreground Time -- x", "'Time' cannot be a name"),
        ("run --foreground mcp -- x", "choose another"),
        ("run --foreground time --nonsense -- x", "--nonsense"),
        (
            "run --foreground time --port abc -- x",
            "error: --port: 'abc' is not a port: give a number from 0 to 65535\n",
        ),
        ("run --foreground time --port 70000 -- x", "'70000' is not a port"),
        ("run --foreground time --max-sessions 0 -- x", "--max-sessions: '0' is not a count"),
        ("run --foreground time --spare -1 -- x", "--spare: '-1' is not a count"),
        ("run --foreground time --eof-grace none -- x", "--eof-grace"),
        ("run --foreground time --max-message-bytes 1X -- x", "64MiB"),
        ("run --foreground time --env A -- x", "NAME=VALUE"),
        ("run --foreground time --env-file /nope -- x", "/nope"),
        ("run --foreground time --pass-env MOORING_TEST_NOT_SET -- x", "MOORING_TEST_NOT_SET"),
        ("run --foreground time --cwd /nope -- x", "/nope"),
        ("run --foreground time --token-file /nope -- x", "/nope"),
        ("run --foreground time --tls-cert /dev/null -- x", "belong together"),
        ("run --foreground time --unix /s --port 1 -- x", "--unix"),
        ("run --foreground time --no-auth --token-file /dev/null -- x", "--no-auth"),
        ("run --foreground time --host 0.0.0.0 -- x", "--allow-remote"),
        ("run --foreground time --host example.com -- x", "--allow-remote"),
        ("run --foreground time --host :: --allow-remote -- x", "--token-file"),
        ("run --foreground time --log-format xml -- x", "--log-format"),
        (
            "run x --memory 1GiB -- uvx x",
            "error: --memory: works only with --image\nhint: add --image IMAGE\n",
        ),
        (
            "run --foreground x --volume /a:/b --read-only -- x",
            "error: --read-only, --volume: works only with",
        ),
        ("run x --image y --from uvx:x", "error: --image takes the place of --from\n"),
        (
            "run x --image y --inherit-env",
            "--inherit-env does not go with --image: a container has the environ",
        ),
        (
            "run x --image y --cwd / -- z",
            "--cwd does not go with --image: a container begins in the folder of",
        ),
        ("run --foreground x --image y --cwd /", "leave it out; --volume DIR:/TARGET shows it a folder"),
        ("run x --image Not:An:Image", "error: --image: 'Not:An:Image' is no name of an image; for example"),
        ("run x --image=", "--image: '' is no name of an image"),
        ("run x --image y --volume /a:b", "--volume: '/a:b' is no volume; write it as SOURCE:/TARGET or"),
        (
            "run x --image y --volume ~nobody-at-all/a:/b",
            "error: ~nobody-at-all/a: whose home that is, is not",
        ),
        ("run x --image y --network lan", "--network: 'lan' is not one of 'none', 'bridge', 'host'"),
        ("run x --image y --pull daily", "--pull: 'daily' is not one of 'missing', 'always', 'never'"),
        (
            "run x --image y --memory 1MiB",
            "--memory: '1MiB' is not what a container can have: give 6MiB or more",
        ),
        ("run x --image y --cpus 1,5", "--cpus: '1,5' is no number of processors"),
        ("run x --image y --user a:b:c", "--user: 'a:b:c' is no user"),
        ("run x --image y --engine dokcer", "--engine: 'dokcer' is no engine; write auto, docker, podman"),
        (
            "run x --image y --engine ssh://me@host",
            "error: --engine names the container engine ssh://me@host",
        ),
        ("run x --image y stdio", "hint: write: mooring run x --image y -- stdio\n"),
        ("nonsense", "nonsense"),
        ("--nonsense", "--nonsense"),
        ("completion tcsh", "error: no script for 'tcsh'; there is one for bash, zsh and fish\n"),
        ("completion", "error: which shell? bash, zsh or fish\n"),
    ],
)
def test_wrong_usage_is_status_2_and_told_on_stderr(
    asked: list[ForegroundOptions],
    bodies: list[dict[str, Any]],
    capfd: pytest.CaptureFixture[str],
    arguments: str,
    words: str,
) -> None:
    assert mooring_(*arguments.split(" ")) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert "\nhint: " in err
    assert words in err
    assert "Traceback" not in err
    assert err.count("\n") == 2 and "\t" not in err and "\\" not in err
    assert "hush" not in err
    assert not asked and not bodies


def test_an_error_in_colour_where_a_person_looks(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mooring.cli.terminal.words.colourful", lambda _stream, _environ: True)
    assert mooring_("nonsense") == 2
    assert capfd.readouterr().err.startswith("\x1b[31merror:\x1b[0m No such command")


def test_an_empty_command(capfd: pytest.CaptureFixture[str]) -> None:
    assert mooring_("run", "--foreground", "time", "--", "") == 2
    assert "the command to run is empty" in capfd.readouterr().err


def failing(error: Exception) -> Callable[[ForegroundOptions], int]:
    def fail(_options: ForegroundOptions) -> int:
        logging.getLogger("mooring.test").info("about to fail")
        raise error

    return fail


RUN = ("run", "--foreground", "time", "--", "x")


def test_an_error_of_the_host(stand_in: ModuleType, capfd: pytest.CaptureFixture[str]) -> None:
    taken = ListenFailed("port 4670 is taken", code="port_taken", hint="use --port 0")
    vars(stand_in)["main"] = failing(taken)
    assert mooring_(*RUN) == 1
    err = capfd.readouterr().err
    assert err.splitlines()[1:] == ["error: port 4670 is taken", "hint: use --port 0"]
    assert err.splitlines()[0].endswith("about to fail")


def test_an_error_of_the_host_in_json(stand_in: ModuleType, capfd: pytest.CaptureFixture[str]) -> None:
    vars(stand_in)["main"] = failing(ListenFailed("port taken", code="port_taken", hint="use another"))
    assert mooring_(*RUN[:3], "--log-format", "json", *RUN[3:]) == 1
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert [line["message"] for line in lines] == ["about to fail", "port taken"]
    assert (lines[1]["event"], lines[1]["code"], lines[1]["hint"]) == ("failed", "port_taken", "use another")


def test_a_bug_in_json(stand_in: ModuleType, capfd: pytest.CaptureFixture[str]) -> None:
    vars(stand_in)["main"] = failing(ZeroDivisionError("oh"))
    assert mooring_(*RUN[:3], "--log-format", "json", *RUN[3:]) == 1
    told = json.loads(capfd.readouterr().err.splitlines()[-1])
    assert (told["level"], told["code"], told["message"]) == ("critical", "bug", "oh")
    assert told["exception"].startswith("Traceback")


def test_a_bug_is_told_in_one_line(
    stand_in: ModuleType, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    vars(stand_in)["main"] = failing(ZeroDivisionError("oh\x1b"))
    assert mooring_(*RUN) == 1
    err = capfd.readouterr().err
    assert "error: ZeroDivisionError: oh\\x1b\nhint: " in err
    assert "Traceback" not in err
    monkeypatch.setenv("MOORING_DEBUG", "1")
    assert mooring_(*RUN) == 1
    assert "Traceback" in capfd.readouterr().err


def test_an_interrupted_command(stand_in: ModuleType) -> None:
    def interrupted(_options: ForegroundOptions) -> int:
        raise KeyboardInterrupt

    vars(stand_in)["main"] = interrupted
    assert mooring_(*RUN) == 130


def test_help_shows_every_option_with_its_default_and_examples() -> None:
    done = CliRunner().invoke(cli, ["run", "--help"], prog_name="mooring", terminal_width=100)
    assert done.exit_code == 0
    assert done.stdout.startswith("Usage: mooring run NAME [OPTIONS] -- COMMAND [ARGS]...\n")
    for parameter in cli.commands["run"].params:
        for name in parameter.opts:
            assert name.lower() in done.stdout.lower()
    for default in (
        "4670",
        "127.0.0.1",
        "30m",
        "64MiB",
        "0s; 5s in Kubernetes",
        "25s; 20s in Kubernetes",
        "2s",
    ):
        assert f"[default: {default}]" in done.stdout
    for name in DEFAULT_NAMES:
        assert name in done.stdout, "--inherit-env tells what is passed on without it"
    for title in (
        "Where it listens (with --foreground):",
        "Who may use it (with --foreground):",
        "Containers (with --image):",
        "Stopping:",
        "Examples:",
    ):
        assert f"{title}\n" in done.stdout
    assert "  mooring run --foreground time --port 4671 -- uvx mcp-server-time\n" in done.stdout


@pytest.mark.parametrize("command", ["", "run", "completion"])
def test_help_fits_a_terminal_of_80_columns(command: str) -> None:
    done = CliRunner().invoke(cli, [*command.split(), "--help"], prog_name="mooring", terminal_width=80)
    assert done.exit_code == 0
    assert [line for line in done.stdout.splitlines() if len(line) > 80] == []
    assert "..." not in done.stdout.replace("[ARGS]...", ""), "something is cut off"
    assert done.stdout.isascii()
    for line in done.stdout.splitlines():
        assert line.count("[") == line.count("]"), "a bracket is broken"


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["--help"], 0, "completion"),
        (["-h"], 0, "MOORING_DEBUG"),
        (["run", "-h"], 0, "--foreground"),
        (["completion", "--help"], 0, ".bashrc"),
        (["--version"], 0, f"mooring {__version__}\n"),
        (["run", "--version"], 2, ""),
        ([], 2, ""),
    ],
)
def test_help_and_version(arguments: list[str], status: int, words: str) -> None:
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == status
    assert words in done.stdout


@pytest.mark.parametrize(
    ("shell", "words"), [("bash", "complete -o nosort"), ("zsh", "#compdef"), ("fish", "complete ")]
)
def test_completion_scripts(shell: str, words: str) -> None:
    done = CliRunner().invoke(cli, ["completion", shell])
    assert done.exit_code == 0
    assert done.stderr == ""
    assert words in done.stdout
    assert "_MOORING_COMPLETE" in done.stdout
