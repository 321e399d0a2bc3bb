"""`mooring k8s render`: what it takes, what it refuses, and that a pod is told what was meant."""

from pathlib import Path

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.cli.files.reading import BadFile
from mooring.cli.k8s import values
from mooring.cli.k8s.command import OF_THE_SERVER
from mooring.cli.running.plan import plan_foreground, plan_server
from mooring.cli.running.run import run
from mooring.errors import UserError
from mooring.kubernetes.release import Exit, SecretKey
from mooring.replicas.address import parse_store_address
from mooring.runtimes.environment import parse_env_file
from mooring.workloads.definition import ServerOptions
from tests.e2e.command_line import parse_run
from tests.manifests import chosen_of, container, expanded, manifests, of_kind, release_of

POD = {"POD_IP": "10.1.2.3", "POD_NAMESPACE": "tools", "HOME": "/var/lib/mooring"}
X = ("x", "--image", "a")
CANARY = "canary-7c1f"


def refused(*words: str, **ours: str) -> UserError:
    with pytest.raises(UserError) as caught:
        release_of(*words, **ours)
    return caught.value


def words_in_pod(*words: str) -> list[str]:
    """What `mooring` is given in the pod."""
    return ["mooring", *(expanded(word, POD) for word in container(manifests(*words))["args"])]


def test_more_than_one_replica_needs_redis() -> None:
    error = refused(*X, "--replicas", "2", "--", "sh")
    assert error.code == "replicas_without_redis"
    assert "2 replicas need Redis" in error.message
    assert "--redis-url" in error.hint and "--redis-secret" in error.hint
    for redis in (("--redis-url", "redis://r"), ("--redis-secret", "r")):
        assert release_of(*X, "--replicas", "2", *redis, "--", "sh").replicas == 2


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("x", "--", "sh"), "no_image"),
        ((*X, "--redis-url", f"redis://u:{CANARY}@r", "--", "sh"), "password_in_address"),
        ((*X, "--env", f"API_KEY={CANARY}", "--", "sh"), "secret_in_manifest"),
        ((*X, "--env", "A=ghp_0123456789abcdefghij", "--", "sh"), "secret_in_manifest"),
        ((*X, "--", "sh", "--token", CANARY), "secret_in_manifest"),
        ((*X, "--", "sh", f"--api-key={CANARY}"), "secret_in_manifest"),
        ((*X, "--url", "https://a", "--header", f"X-Api-Key: {CANARY}"), "secret_in_manifest"),
        ((*X, "--url", f"https://a/?api_key={CANARY}"), "secret_in_manifest"),
        ((*X, "--env", f"A=file:/{CANARY}", "--", "sh"), "not_in_a_pod"),
        ((*X, "--env", "A={keyring:a} b", "--", "sh"), "not_in_a_pod"),
        ((*X, "--env", "A=env:B", "--", "sh"), "not_in_a_pod"),
        ((*X, "--url", "unix:/run/x.sock"), "not_in_a_pod"),
        ((*X, "--env", "A=secret:Not_a_name", "--", "sh"), "bad_secret_name"),
        ((*X, "--env", "A B=c", "--", "sh"), "bad_environment"),
        ((*X, "--env", f"A={'x' * 1_000_001}", "--", "sh"), "bad_environment"),
        ((*X, "--", "sh", "\udcff"), "not_text"),
        ((*X, "--no-auth", "--token-secret", "a", "--", "sh"), "conflicting_options"),
        ((*X, "--egress", "none", "--egress", "any", "--", "sh"), "conflicting_options"),
        ((*X, "--redis-ca-secret", "a", "--", "sh"), "conflicting_options"),
        ((*X, "--redis-url", "redis://r", "--redis-ca-secret", "a", "--", "sh"), "conflicting_options"),
        ((*X, "-f", "mooring.toml", "--", "sh"), "conflicting_options"),
        ((*X, "--env", "A=b"), "conflicting_options"),
        ((*X, "--url", "https://a", "--", "sh"), "conflicting_options"),
        ((*X, "--url", "https://a", "--env", "A=b"), "conflicting_options"),
        ((*X, "--port-env", "A", "--", "sh"), "conflicting_options"),
    ],
)
def test_what_is_refused(words: tuple[str, ...], code: str) -> None:
    error = refused(*words)
    assert error.code == code
    assert error.hint, "it says what to do"
    assert CANARY not in error.message + error.hint


@pytest.mark.parametrize(
    "words",
    [
        ("--replicas", "0"),
        ("--cpu", "lots"),
        ("--memory", "2Gi:1Gi"),
        ("--uid", "0"),
        ("--namespace", "A"),
        ("--redis-secret", "A_b"),
        ("--allow-from", "app"),
        ("--allow-host", "https://a"),
        ("--egress", "everywhere"),
        ("--egress", "10.0.0.1/8"),
        ("--secret", "a"),
        ("--secret", "a=B"),
        ("--secret", "a=b/ c"),
        ("--drain-timeout", "none"),
        ("--scratch", "0"),
    ],
)
def test_values_that_are_none(words: tuple[str, ...]) -> None:
    with pytest.raises(click.BadParameter):
        release_of(*X, *words, "--", "sh")


def test_what_looks_like_a_secret_and_is_none() -> None:
    plain = ("--plain", "MAX_TOKENS", "--plain", "--max-tokens", "--plain", "key", "--plain", "X-Token-Kind")
    command = ("--", "sh", "--max-tokens", "40", "--key=a")
    assert release_of(*X, *plain, "--env", "MAX_TOKENS=5", *command).variables == {"MAX_TOKENS": "5"}
    words = words_in_pod(*X, *plain, "--url", "https://a", "--header", "X-Token-Kind: opaque")
    assert words[-1] == "X-Token-Kind: literal:opaque", "or the pod would refuse it"


def test_a_header_with_a_value_that_only_looks_like_a_secret_is_taken_by_the_pod() -> None:
    token = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
    words = words_in_pod(
        "x", "--image", "a", "--plain", "X-A", "--url", "https://a", "--header", f"X-A: {token}"
    )
    assert f"X-A: literal:{token}" in words


def test_a_url_that_only_looks_like_a_secret_is_taken_by_the_pod() -> None:
    url = "https://a/ghp_0123456789abcdefghijklmnopqrstuvwxyz"
    with pytest.raises(UserError) as refused:
        words_in_pod(*X, "--url", f"literal:{url}")  # says so to `mooring run` alone
    assert refused.value.hint.endswith("if it is none: --plain url")
    words = words_in_pod(*X, "--plain", "url", "--url", url)
    assert words[words.index("--url") + 1] == f"literal:{url}"


def test_values() -> None:
    assert values.parse_egress("fd00::/8:443") == (Exit("fd00::/8", 443),)
    assert values.parse_egress("10.0.0.0/8") == (Exit("10.0.0.0/8"),)
    assert values.parse_egress("none") is None
    assert values.parse_secret_place("A_b=c.d/e") == ("A_b", SecretKey("c.d", "e"))
    assert values.parse_secret_place("a=b") == ("a", SecretKey("b", "value"))
    assert values.parse_labels("a.b/c=d,e=") == (("a.b/c", "d"), ("e", ""))
    assert values.parse_host("mcp.example.com:8443") == "mcp.example.com:8443"


def test_a_pod_runs_what_was_asked_for() -> None:
    """The words are read by `mooring run` itself, and mean what the same options mean there."""
    asked = (
        *("--shared", "2", "--max-sessions", "7", "--idle-timeout", "none", "--call-timeout", "90s"),
        *("--ping-interval", "1m", "--ping-timeout", "3s", "--max-message-bytes", "1MiB", "--retry"),
        *("--spare", "1", "--eof-grace", "500ms", "--stop-grace", "1m"),
        *("--transport", "sse", "--port-env", "PORT", "--path", "/events"),
    )
    command = ("--", "node", "$PORT", "$(POD_IP)", "$$", "a b", "--", "")
    assert _meant([*_told_by_pod(*X, *asked, *command)]) == _meant(["mooring", "run", "x", *asked, *command])


def test_replicas_are_told_where_their_sessions_are(tmp_path: Path) -> None:
    words = words_in_pod(
        *(
            *X,
            "--redis-url",
            "rediss+sentinel://me@a,b/main",
            "--redis-secret",
            "r",
            "--redis-ca-secret",
            "ca",
        ),
        *("--replicas", "3", "--allow-host", "mcp.example.com", "--", "sh"),
    )
    for path, text in {
        "/run/secrets/redis/password": "hush\n",
        "/run/secrets/redis/ca.crt": "",
        "/run/secrets/mooring/tokens": "",
        "/run/secrets/mooring/replica-key": "hush, for replicas\n",
        "/etc/mooring/server.env": "A=b\n",
    }.items():
        file = tmp_path / Path(path).name
        file.write_text(text)
        words = [word.replace(path, str(file)) for word in words]
    context = parse_run(words)
    options = plan_foreground(context.params, chosen_of(context), context.obj, {"HOME": str(tmp_path)})
    replicas, listen = options.replicas, options.listen
    assert replicas is not None
    assert (replicas.store, replicas.password) == (
        parse_store_address("rediss+sentinel://me@a,b/main"),
        "hush",
    )
    assert (replicas.advertise, replicas.prefix) == ("http://10.1.2.3:4670", "mooring:tools")
    assert replicas.key == "hush, for replicas"
    assert str(replicas.ca_file) == str(tmp_path / "ca.crt")
    assert (listen.host, listen.port, listen.allow_remote) == ("0.0.0.0", 4670, True)
    assert listen.allow_hosts == (
        "x",
        "x.tools",
        "x.tools.svc",
        "x.tools.svc.cluster.local",
        "mcp.example.com",
    )
    assert (options.drain_delay_s, options.drain_timeout_s) == (5.0, 20.0)
    assert options.server.env["A"] == "b"


WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)


@settings(max_examples=50)
@given(st.lists(WORDS.filter(lambda word: "KEY" not in word.upper()), min_size=1, max_size=4))
def test_words_arrive_as_they_are(words: list[str]) -> None:
    try:
        told = words_in_pod(*X, "--", "sh", *words)
    except UserError as error:
        assert error.code == "secret_in_manifest"
    else:
        assert told[told.index("--") + 1 :] == ["sh", *words]


def test_variables_arrive_as_they_are() -> None:
    odd = 'a\n"$(HOME)" \\ # $x\t'
    objects = manifests(*X, "--env", f"ODD={odd}", "--env", "PATH=/opt/bin", "--", "sh")
    text = of_kind(objects, "ConfigMap")["data"]["server.env"]
    assert parse_env_file(text, "file") == {"ODD": odd, "PATH": "/opt/bin"}
    assert not {"ODD", "PATH"} & {one["name"] for one in container(objects)["env"]}, "they are the server's"


def _told_by_pod(*words: str) -> list[str]:
    """Those words that say how the server is run; the rest says where it listens."""
    told = words_in_pod(*words)
    end = told.index("--")
    kept = ["mooring", "run", "x"]
    flags = {option.opts[0] for option in run.params if isinstance(option, click.Option) and option.is_flag}
    names = {option.opts[0]: option.name for option in run.params}
    at = told.index("x") + 1
    while at < end:
        size = 1 if told[at] in flags else 2
        if names.get(told[at]) in OF_THE_SERVER - {"env_file"}:
            kept += told[at : at + size]
        at += size
    return [*kept, *told[end:]]


def _meant(words: list[str]) -> ServerOptions:
    context = parse_run(words)
    return plan_server(context.params, chosen_of(context), context.obj, {})


def test_a_server_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mooring.toml"
    file.write_text(
        """
[servers.github]
command = ["github-mcp", "${MODE:-stdio}"]
env = { GITHUB_TOKEN = "secret:github", ZONE = "${ZONE}" }
pass_env = ["REGION"]
idle_timeout = "2h"
shared = true
client_refresh = "never"
[servers.other]
image = "ghcr.io/example/other"
[servers.here]
command = "sh"
cwd = "data"
[servers.all]
command = "sh"
inherit_env = true
[servers.key]
command = "sh"
env = { API_KEY = "abc" }
[servers.far]
url = "https://a.example/mcp"
ca_file = "ca.pem"
"""
    )
    (tmp_path / "ca.pem").write_text("")
    (tmp_path / "data").mkdir()
    ours = {"ZONE": "UTC", "REGION": "eu", "PATH": "/bin", "HOME": "/home/me"}
    where = ("--image", "a", "-f", str(file))
    release = release_of("github", *where, **ours)
    assert release.command == ("github-mcp", "stdio")
    assert release.variables == {"ZONE": "UTC", "REGION": "eu"}, "nothing else of this terminal"
    assert release.settings == (
        *("--idle-timeout", "2h", "--shared", "1", "--env", "GITHUB_TOKEN=file:/run/secrets/server/github"),
    )
    assert release.secret_files == {"github": SecretKey("github", "value")}
    for name, code in {
        "other": "not_in_a_pod",
        "here": "not_in_a_pod",
        "all": "not_in_a_pod",
        "far": "not_in_a_pod",
        "key": "secret_in_manifest",
        "nobody": "unknown_server",
    }.items():
        assert refused(name, *where, **ours).code == code
    assert "github, other" in refused("nobody", *where, **ours).hint
    file.write_text("[servers.x]\ncommand = 3\n")
    with pytest.raises(BadFile):
        release_of("x", *where, **ours)


def test_the_file_is_found_as_up_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert refused(*X).code == "no_command"
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"x": {"command": "json"}}}')
    assert release_of(*X).command == ("json",)
    (tmp_path / "mooring.toml").write_text('[servers.x]\ncommand = "toml"\n')
    assert release_of(*X).command == ("toml",)
