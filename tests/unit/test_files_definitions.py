"""From a file to what `mooring run` would have asked for."""

from pathlib import Path
from time import process_time
from typing import Any

import pytest
from click.testing import CliRunner

from mooring.cli.files.definitions import MAX_FILE_CHARACTERS, Asked, define, read_file
from mooring.cli.files.reading import BadFile, parse
from mooring.cli.files.secret_looks import is_reference, looks_secret, secret_name, shown_command
from mooring.cli.files.settings import OF_CONTAINERS, SETTINGS, container_settings, settings_of
from mooring.cli.files.variables import escaped, expand, has_variables
from mooring.cli.main import cli
from mooring.errors import UserError
from mooring.host.options import ServerOptions
from mooring.proxy.policy import SessionPolicy
from mooring.runtimes.containers.spec import ContainerOptions, Volume
from mooring.runtimes.stopping import StopPatience
from mooring.workloads.definition import Borrowed

OURS = {"PATH": "/usr/bin:/bin", "HOME": "/home/me", "NAME": "of mine", "EMPTY": ""}


def asked(folder: Path, text: str, *, is_json: bool = False, **ours: str) -> Asked:
    document = parse(text, "file", is_json=is_json)
    return define(document, folder / ("mooring.json" if is_json else "mooring.toml"), {**OURS, **ours})


def one(folder: Path, text: str, **other: Any) -> ServerOptions:
    [wanted] = asked(folder, text, **other).servers.values()
    return wanted.options


def refused(folder: Path, text: str) -> list[str]:
    with pytest.raises(BadFile) as caught:
        asked(folder, text)
    return [f"{each.place.line}:{each.place.column}: {each.text}" for each in caught.value.problems]


def test_what_is_wrong_in_one_way_hides_nothing_else(tmp_path: Path) -> None:
    text = """
[servers."No Name"]
command = "sh"
idle_timeout = "soon"
[servers.one]
args = "x"
command = 3
call_timeout = "later"
env = { A = "${NOT_SET}" }
[servers.two]
command = "'"
"""
    assert refused(tmp_path, text) == [
        "2:10: 'No Name' cannot be a name; use 1 to 40 of a-z, 0-9 and '-', with no '-' at either end",
        "4:1: idle_timeout: 'soon' is not a span of time; write 500ms, 1.5s, 30m, 2h or plain seconds",
        "6:1: args takes a list of texts, not text",
        "7:1: command takes text or a list of texts, not a whole number",
        "8:1: call_timeout: 'later' is not a span of time; write 500ms, 1.5s, 30m, 2h or plain seconds",
        "9:9: the variable NOT_SET is not set; set it, or write ${NOT_SET:-default}",
        "11:1: No closing quotation",
    ]


def test_in_json_the_program_stands_alone(tmp_path: Path) -> None:
    text = '{"mcpServers": {"a": {"command": "python -m demo", "args": ["x"]}}}'
    [wanted] = asked(tmp_path, text, is_json=True).servers.values()
    assert wanted.trouble is not None and wanted.trouble.hint == (
        'in JSON the program stands alone: "command": "python", "args": ["-m", "demo", "x"]'
    )


def test_every_key_arrives(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.env").write_text("A=file\nB=file\n")
    text = """
[servers.time]
command = "uvx 'mcp server'"
args = ["--zone", "UTC"]
cwd = "sub"
env = { A = "given" }
env_file = "a.env"
pass_env = ["NAME"]
max_sessions = 2
idle_timeout = "1h"
shared = 3
spare = 2
call_timeout = 1.5
ping_interval = "none"
ping_timeout = 3
max_message_bytes = "2MiB"
retry = true
eof_grace = "500ms"
stop_grace = 1
client_refresh = "always"
"""
    options = one(tmp_path, text)
    assert options == ServerOptions(
        name="time",
        argv=("uvx", "mcp server", "--zone", "UTC"),
        env={"PATH": OURS["PATH"], "HOME": OURS["HOME"], "NAME": "of mine", "A": "given", "B": "file"},
        cwd=tmp_path / "sub",
        spare=2,
        sessions=SessionPolicy(
            max_sessions=2,
            idle_timeout_s=3600,
            shared=3,
            call_timeout_s=1.5,
            ping_interval_s=None,
            ping_timeout_s=3,
            max_message_bytes=2 * 1024 * 1024,
            retry=True,
        ),
        patience=StopPatience(0.5, 1.0),
        client_refresh="always",
    )
    assert (options.borrowed.named, options.borrowed.unnamed) == (("NAME",), ("HOME", "PATH"))
    assert set(settings_of(options)) == set(SETTINGS), "all of them are told again"


IMAGE = """
[servers.gh]
image = "ghcr.io/a/${NAME:-x}:1"
args = ["stdio", "${TARGET}"]
env = { A = "given", TOKEN = "secret:x" }
env_file = "a.env"
pass_env = ["NAME"]
volume = ["./data:/data:ro", "~/x:${TARGET}", "sub/dir:/sub", "cache:/cache", "${HERE}:/here"]
network = "none"
memory = "512MiB"
cpus = 1.5
user = 1000
read_only = true
pull = "never"
engine = "run/docker.sock"
shared = true
"""


def test_every_key_of_an_image_arrives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    (tmp_path / "a.env").write_text("A=file\nB=file\n")
    options = one(tmp_path, IMAGE, NAME="b", TARGET="/t", HERE="/somewhere")
    container = ContainerOptions(
        image="ghcr.io/a/b:1",
        volumes=(
            Volume(f"{tmp_path}/data", "/data", read_only=True),
            Volume("/home/me/x", "/t"),
            Volume(f"{tmp_path}/sub/dir", "/sub"),
            Volume("cache", "/cache"),
            Volume("/somewhere", "/here"),
        ),
        network="none",
        memory_bytes=512 * 1024**2,
        cpus=1.5,
        user="1000",
        read_only=True,
        pull="never",
        engine=f"unix://{tmp_path}/run/docker.sock",
    )
    assert options == ServerOptions(
        name="gh",
        argv=("stdio", "/t"),
        container=container,
        env={"A": "given", "B": "file", "NAME": "b"},
        env_references={"TOKEN": "secret:x"},
        spare=0,
        sessions=SessionPolicy(shared=1),
    ), "and neither a folder nor variables of ours"
    assert options.borrowed == Borrowed(named=("NAME",))
    assert set(container_settings(container)) == set(OF_CONTAINERS), "all of them are told again"


@pytest.mark.parametrize("is_json", [True, False])
def test_an_image_alone_is_enough(tmp_path: Path, is_json: bool) -> None:
    text = '{"mcpServers": {"a": {"image": "x"}}}' if is_json else '[servers.a]\nimage = "x"\n'
    [wanted] = asked(tmp_path, text, is_json=is_json).servers.values()
    assert wanted.options == ServerOptions(name="a", argv=(), container=ContainerOptions(image="x"))
    assert wanted.trouble is None
    assert container_settings(ContainerOptions(image="x")) == {}


@pytest.mark.parametrize("engine", ["./run/x.sock", "run/x.sock", "unix://run/x.sock"])
def test_a_socket_begins_at_the_folder_of_the_file(tmp_path: Path, engine: str) -> None:
    container = one(tmp_path, f"[servers.a]\nimage = 'x'\nengine = '{engine}'\n").container
    assert container is not None and container.engine == f"unix://{tmp_path}/run/x.sock"


def test_an_engine_that_the_terminal_names_is_written_down(tmp_path: Path) -> None:
    text = '[servers.a]\nimage = "x"\n'
    container = one(tmp_path, text, DOCKER_HOST="unix:///elsewhere.sock").container
    assert container is not None and container.engine == "unix:///elsewhere.sock"
    with pytest.raises(BadFile) as caught:
        asked(tmp_path, text, DOCKER_HOST="ssh://me@there")
    assert caught.value.message == (
        "file:1:10: DOCKER_HOST names the container engine ssh://me@there, which cannot be reached that way"
    )
    assert caught.value.hint.startswith("forward its socket")


@pytest.mark.parametrize("is_json", [True, False])
def test_a_folder_that_is_not_there_costs_its_server_only(tmp_path: Path, is_json: bool) -> None:
    (tmp_path / "there").mkdir()
    text = "[servers.a]\nimage = 'x'\nvolume = './gone:/a'\n[servers.b]\nimage = 'x'\nvolume = './there:/a'\n"
    if is_json:
        one_of = '"{}": {{"image": "x", "volume": "./{}:/a"}}'
        text = f'{{"servers": {{{one_of.format("a", "gone")}, {one_of.format("b", "there")}}}}}'
    servers = asked(tmp_path, text, is_json=is_json).servers
    assert servers["b"].trouble is None
    trouble = servers["a"].trouble
    assert trouble is not None and trouble.message == f"a: {tmp_path}/gone does not exist"
    assert trouble.hint == "create it, or choose another"


def test_values_that_no_container_takes_are_refused_where_they_stand(tmp_path: Path) -> None:
    text = """[servers.a]
image = "not an image"
volume = ["/a:/b", "nowhere", "${NOPE}:/x", "/a:/"]
network = "lan"
memory = "1MiB"
cpus = 0
user = "me\\n"
pull = "sometimes"
engine = "dokcer"
[servers.b]
image = "${NOPE}"
volume = "~nobody-at-all/x:/x"
user = ""
engine = "ssh://me@there"
[servers.c]
image = "x"
engine = "ssh://me@there"
[servers.d]
image = "x"
engine = "/run/\\u0000"
"""
    assert refused(tmp_path, text) == [
        "2:1: image: 'not an image' is no name of an image; for example ghcr.io/OWNER/NAME:TAG",
        "3:20: 'nowhere' is no volume; write it as SOURCE:/TARGET or SOURCE:/TARGET:ro",
        "3:31: the variable NOPE is not set; set it, or write ${NOPE:-default}",
        "3:45: '/a:/' would hide all of the image; write SOURCE:/TARGET",
        "4:1: network: 'lan' is not one of 'none', 'bridge', 'host'.",
        "5:1: memory: '1MiB' is not what a container can have: give 6MiB or more, "
        "and no more than machines have",
        "6:1: cpus: '0' is no number of processors: give 2 or 1.5, and at least 0.01",
        r"7:1: user: 'me\n' is no user; write USER or USER:GROUP, by name or by number",
        "8:1: pull: 'sometimes' is not one of 'missing', 'always', 'never'.",
        "9:1: 'dokcer' is no engine; write auto, docker, podman, or its socket: /var/run/docker.sock",
        "11:1: the variable NOPE is not set; set it, or write ${NOPE:-default}",
        "12:1: ~nobody-at-all/x: whose home that is, is not known",
        "13:1: user: '' is no user; write USER or USER:GROUP, by name or by number",
        "17:1: --engine names the container engine ssh://me@there, which cannot be reached that way",
        r"20:1: '/run/\x00' is no engine; write auto, docker, podman, or its socket: /var/run/docker.sock",
    ]


def test_a_home_of_nobody_is_refused_where_it_stands(tmp_path: Path) -> None:
    text = "[servers.a]\ncommand = 'sh'\ncwd = '~nobody-at-all/x'\n"
    assert refused(tmp_path, text) == ["3:1: ~nobody-at-all/x: whose home that is, is not known"]


def test_what_is_not_said_is_as_run_has_it(tmp_path: Path) -> None:
    options = one(tmp_path, "[servers.time]\nfrom = 'uvx:mcp-server-time'\n")
    env = {"PATH": OURS["PATH"], "HOME": OURS["HOME"]}
    assert options == ServerOptions(name="time", argv=("uvx", "mcp-server-time"), env=env, cwd=tmp_path)
    assert settings_of(options) == {}
    shared = one(tmp_path, "[servers.time]\ncommand = 'x'\nshared = true\n")
    assert (shared.sessions.shared, shared.spare, settings_of(shared)) == (1, 0, {"shared": 1})
    assert one(tmp_path, "[servers.time]\ncommand = 'x'\nshared = false\n").sessions.shared == 0
    everything = one(tmp_path, "[servers.time]\ncommand = 'x'\ninherit_env = true\n")
    assert everything.borrowed.all and everything.env["NAME"] == "of mine"


def test_run_itself_is_not_changed_by_being_asked_for_its_defaults(tmp_path: Path) -> None:
    one(tmp_path, "[servers.time]\ncommand = 'x'\n")
    assert CliRunner().invoke(cli, ["run", "-h"]).exit_code == 0


def test_the_command_of_json_is_a_program(tmp_path: Path) -> None:
    text = '{"mcpServers": {"x": {"command": "/my apps/run ${NAME}", "args": ["a b"]}}}'
    assert one(tmp_path, text, is_json=True).argv == ("/my apps/run of mine", "a b")


def test_values_that_no_option_takes_are_refused_where_they_stand(tmp_path: Path) -> None:
    text = """[servers.time]
command = "uvx 'x"
spare = -1
idle_timeout = "soon"
cwd = "nowhere"
env_file = ["gone"]
env = { "A=" = "1", B = "${NOPE}" }
args = ["x", "${input:token}"]
[servers.git]
from = "pip:x"
pass_env = ["NOPE"]
[servers.empty]
command = []
[servers.other]
command = "x"
pass_env = ["NOPE"]
"""
    assert refused(tmp_path, text) == [
        "2:1: No closing quotation",
        "3:1: spare: '-1' is not a count: give a whole number from 0 on",
        "4:1: idle_timeout: 'soon' is not a span of time; write 500ms, 1.5s, 30m, 2h or plain seconds",
        f"5:1: cwd: Directory '{tmp_path}/nowhere' does not exist.",
        f"6:1: env_file: File '{tmp_path}/gone' does not exist.",
        "7:9: the name of a variable is not empty and has no '=' and no NUL character",
        "7:21: the variable NOPE is not set; set it, or write ${NOPE:-default}",
        "8:14: ${input:token} is not a variable; "
        "write ${NAME} or ${NAME:-default}, and $${ for the text itself",
        "10:1: 'pip:x' is not a source; write npx:PACKAGE[@VERSION], uvx:PACKAGE[@VERSION] or python:MODULE, "
        "or give a command",
        "13:1: the command is empty",
        "16:1: the variable NOPE is to be passed on but is not set",
    ]


def test_a_program_that_is_not_there_costs_its_server_only(tmp_path: Path) -> None:
    text = "[servers.a]\ncommand = 'no-such-program'\n[servers.b]\ncommand = 'sh'\n"
    servers = asked(tmp_path, text).servers
    assert servers["b"].trouble is None
    assert servers["a"].trouble is not None and servers["a"].trouble.code == "program_not_found"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("plain $HOME {x}", "plain $HOME {x}"),
        ("${NAME}", "of mine"),
        ("a${env:NAME}b", "aof mineb"),
        ("${NOPE:-x y}", "x y"),
        ("${EMPTY:-x}", "x"),
        ("${EMPTY}", ""),
        ("${NAME:-x}", "of mine"),
        ("$${NAME}", "${NAME}"),
        ("$$", "$$"),
    ],
)
def test_variables(text: str, value: str) -> None:
    assert expand(text, OURS) == value
    assert expand(escaped(text), {}) == text


@pytest.mark.parametrize("text", ["${NOPE}", "${", "${a b}", "${NAME", "${}"])
def test_variables_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="is not"):
        expand(text, OURS)
    assert not has_variables("$${NAME}") and has_variables("x${NAME}")


SECRETS = [
    ("GITHUB_TOKEN", "abc"),
    ("OPENAI_API_KEY", "abc"),
    ("password", "abc"),
    ("PGPASSWORD", "abc"),
    ("DATABASE", "ghp_" + "a" * 36),
    ("X", "github_pat_" + "a" * 30),
    ("X", "sk-" + "a" * 40),
    ("X", "xoxb-1234567890-abc"),
    ("X", "AKIA" + "A" * 16),
    ("X", "Bearer eyJhbGciOi.eyJzdWIi.abc"),
    ("DB_PASS", "abc"),
    ("API_TOKENS", "abc,def"),
    ("HEADER", "Authorization: Bearer 0123456789"),
    ("DATABASE_URL", "postgres://me:abc@db.internal/notes"),
    ("MYSQL_PWD", "abc"),
    ("ACCESSKEY", "abc"),
    ("CONNECTION", "Server=db;User=sa;Password=abc!;"),
    ("HEADERS", '{"Authorization": "Basic abc"}'),
    ("HEADER", "Basic dXNlcjpwYXNz"),
    ("MCP_URL", "https://x.example/mcp?api_key=abc"),
    ("WEBHOOK_URL", "https://hooks.slack.com/services/T000/B000/abcdEFGH1234"),
]
HARMLESS = [
    ("GITHUB_TOKEN", ""),
    ("GITHUB_TOKEN", "secret:github"),
    ("AUTHORIZATION", "Bearer {secret:x}"),
    ("API_KEY", "env:KEY"),
    ("TOKEN_FILE", "/run/token"),
    ("KEYBOARD", "de"),
    ("MONKEY", "yes"),
    ("COMPASS", "yes"),
    ("BASE_URL", "http://localhost:8080/@me"),
    ("PATH", "/usr/bin"),
    ("X", "task-management-server-of-ours"),
    ("PWD", "/home/me"),
    ("OPTIONS", '{"max_tokens": 5, "key": true}'),
    ("OPTIONS", "max_tokens=5;level=9"),
    ("DSN", "Server=db;Password={secret:x}"),
    ("TITLE", "Basic usage of a token: see below"),
]


@pytest.mark.parametrize(("name", "value"), SECRETS)
def test_what_looks_like_a_secret(name: str, value: str) -> None:
    assert looks_secret(name, value) and not is_reference(value)


@pytest.mark.parametrize(("name", "value"), HARMLESS)
def test_what_does_not(name: str, value: str) -> None:
    assert not looks_secret(name, value)


def test_words_that_look_like_secrets_are_not_shown() -> None:
    words = ["run", "--token", "abc", "--api-key=abc", "--token", "--port", "80", "a b", "ghp_" + "a" * 36]
    assert shown_command(words) == "run --token … --api-key=… --token --port 80 'a b' …"
    assert secret_name("git", "GITHUB_TOKEN") == "git-github-token"


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("-e TOKEN=abc x", "-e TOKEN=… x"),
        ("--env=API_KEY=abc next", "--env=… next"),
        ("--header X-API-Key:abc", "--header 'X-API-Key: …'"),
        ("--pw abc --pwd /tmp --pwd abc", "--pw … --pwd /tmp --pwd …"),
        ("--password -abc --token -v --api-key --x", "--password … --token -v --api-key --x"),
        ("https://h/mcp?a=b&api_key=abc&c=d", "'https://h/mcp?a=b&api_key=…&c=d'"),
        ("https://hooks.slack.com/services/T0/B0/abcdef", "https://hooks.slack.com/…"),
        ("-v tokens:/data sort:key level:9 a=b", "-v tokens:/data sort:key level:9 a=b"),
    ],
)
def test_only_what_looks_like_a_secret_is_not_shown(words: str, shown: str) -> None:
    assert shown_command(words.split()) == shown


@pytest.mark.parametrize("text", ["eyJ", "--a", "--key", "\n", '"a" ', "a=", "://a:", "&a", "basic "])
def test_a_long_text_is_looked_through_once(text: str) -> None:
    begun = process_time()
    assert shown_command(["run", text * 50_000])
    assert process_time() - begun < 10, "it would be minutes if every part were compared with all others"


def test_a_literal_that_looks_like_a_secret_is_warned_about_and_not_repeated(tmp_path: Path) -> None:
    text = """[servers.git]
command = ["git", "--token", "canary-1"]
env = { GITHUB_TOKEN = "canary-2", OTHER_TOKEN = "${NAME}", THIRD_TOKEN = "secret:x" }
"""
    warnings = asked(tmp_path, text).warnings
    assert [(each.place.line, each.place.column) for each in warnings] == [(3, 9), (2, 30)]
    assert "canary" not in repr(warnings)
    assert warnings[0].hint == (
        "keep it out of the file: mooring secret set git-github-token, "
        'and here GITHUB_TOKEN = "secret:git-github-token"'
    )


def test_words_for_an_image_are_looked_at_too(tmp_path: Path) -> None:
    text = '[servers.git]\nimage = "x"\nargs = ["--token", "canary"]\n'
    [warning] = asked(tmp_path, text).warnings
    assert (warning.place.line, warning.place.column) == (3, 20) and "canary" not in repr(warning)


def test_a_file_without_end_is_not_read_to_its_end() -> None:
    with pytest.raises(UserError, match=f"over {MAX_FILE_CHARACTERS} characters"):
        read_file(Path("/dev/zero"), {})


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No such file"):
        read_file(tmp_path / "mooring.toml", {})
    (tmp_path / "mooring.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="not UTF-8"):
        read_file(tmp_path / "mooring.toml", {})
    (tmp_path / "mooring.toml").write_text("\N{ZERO WIDTH NO-BREAK SPACE}[servers.a]\r\ncommand = 'sh'\r\n")
    assert read_file(tmp_path / "mooring.toml", OURS).servers["a"].place.column == 10


def test_the_origin_is_where_the_file_is_whichever_way_leads_there(tmp_path: Path) -> None:
    folder, link = tmp_path / "folder", tmp_path / "link"
    folder.mkdir()
    link.symlink_to(folder)
    (folder / "mooring.toml").write_text("[servers.a]\ncommand = 'sh'\n")
    read = read_file(link / "mooring.toml", OURS)
    assert read.origin == str(folder.resolve() / "mooring.toml")
    assert read.servers["a"].options.cwd == folder.resolve()
