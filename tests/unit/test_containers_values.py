"""What is asked of an engine and what it says, as values: specs, states, events, exits, labels, pulls."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mooring.errors import MooringError, UserError
from mooring.runtimes.containers.events import Event, Happened, read_event
from mooring.runtimes.containers.exits import ContainerExit, Ending
from mooring.runtimes.containers.failures import Refusal
from mooring.runtimes.containers.labels import Owned, Owner, labels_of, owned, owner_filter
from mooring.runtimes.containers.pulling import Progress, Pull, failure
from mooring.runtimes.containers.remains import may_come_back
from mooring.runtimes.containers.spec import ContainerSpec, Volume, check_spec, creation, image_name
from mooring.runtimes.containers.states import Seen, Verdict, judge
from mooring.runtimes.exits import Exit

OWNED = Owned(Owner("me", "life-1", "7 8 9"), "tool", 3)
SECRET = "c4nary"


# What is created


def test_a_container_is_created_with_safe_defaults() -> None:
    body = creation(ContainerSpec(name="tool", image="image"), OWNED)
    host = body["HostConfig"]
    assert host["SecurityOpt"] == ["no-new-privileges"] and host["CapDrop"] == ["ALL"]
    assert host["PidsLimit"] > 0 and host["Memory"] > 0 and host["MemorySwap"] == host["Memory"]
    assert host["RestartPolicy"] == {"Name": "no"} and host["AutoRemove"] is False and host["Init"] is True
    assert host["Privileged"] is False and host["LogConfig"]["Type"] == "none"
    assert body["OpenStdin"] and body["StdinOnce"] and not body["Tty"]
    # What the image says stands, where nothing was asked for.
    assert not {"Cmd", "Entrypoint", "User", "WorkingDir"} & body.keys() and "NanoCpus" not in host


def test_what_was_asked_for_is_created() -> None:
    spec = ContainerSpec(
        name="tool",
        image="image",
        args=("--flag", "value"),
        env={"TOKEN": SECRET},
        volumes=(Volume("/data", "/in", True, "z"), Volume("named", "/out")),
        network="none",
        memory_bytes=1 << 30,
        cpus=1.5,
        pids=7,
        user="1000:1000",
        read_only=True,
    )
    body = creation(spec, OWNED, init=False)
    host = body.pop("HostConfig")
    assert body["Cmd"] == ["--flag", "value"] and body["User"] == "1000:1000"
    assert host["Binds"] == ["/data:/in:ro,z", "named:/out"] and host["NetworkMode"] == "none"
    assert (host["Memory"], host["NanoCpus"], host["PidsLimit"]) == (1 << 30, 1_500_000_000, 7)
    assert host["ReadonlyRootfs"] and "/tmp" in host["Tmpfs"] and host["Init"] is False
    assert body.pop("Env") == [f"TOKEN={SECRET}"]
    assert SECRET not in json.dumps([body, host]) and SECRET not in repr(spec)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"image": "UPPER CASE"}, "bad_image"),
        ({"image": ""}, "bad_image"),
        ({"image": "-x"}, "bad_image"),
        ({"args": ("a\0b",)}, "bad_command"),
        ({"env": {"A=B": "x"}}, "bad_environment"),
        ({"volumes": (Volume("/no/such/folder", "/x"),)}, "bad_volume"),
        ({"volumes": (Volume("./here", "/x"),)}, "bad_volume"),
        ({"volumes": (Volume("a:b", "/x"),)}, "bad_volume"),
        ({"memory_bytes": 1000}, "bad_limit"),
        ({"cpus": 0.0}, "bad_limit"),
        ({"cpus": float("nan")}, "bad_limit"),
        ({"pids": 0}, "bad_limit"),
    ],
)
def test_what_no_engine_could_make_is_refused(changes: dict[str, Any], code: str) -> None:
    with pytest.raises(UserError) as refused:
        check_spec(ContainerSpec(**{"name": "tool", "image": "image", **changes}))
    assert refused.value.code == code and refused.value.hint


def test_what_can_be_made_is_not_refused(tmp_path: Path) -> None:
    volumes = (Volume(str(tmp_path), "/x"), Volume("named", "/y"))
    check_spec(ContainerSpec(name="tool", image="ghcr.io/a/b:1", volumes=volumes, cpus=0.5, env={"A": "b"}))


def test_the_name_of_a_workload_is_printable() -> None:
    with pytest.raises(ValueError, match="printable"):
        ContainerSpec(name="a\nb", image="image")


@pytest.mark.parametrize(
    ("image", "repository", "tag"),
    [
        ("nginx", "nginx", "latest"),
        ("nginx:1.2", "nginx", "1.2"),
        ("ghcr.io/github/github-mcp-server", "ghcr.io/github/github-mcp-server", "latest"),
        ("localhost:5000/a/b:t", "localhost:5000/a/b", "t"),
        ("localhost:5000/a/b", "localhost:5000/a/b", "latest"),
        (f"a/b@sha256:{'0' * 64}", "a/b", f"sha256:{'0' * 64}"),
        (f"a/b:t@sha256:{'0' * 64}", "a/b", f"sha256:{'0' * 64}"),
    ],
)
def test_one_image_is_pulled_and_never_all_of_a_repository(image: str, repository: str, tag: str) -> None:
    assert image_name(image) == (repository, tag)


def test_an_image_by_its_id_is_not_pulled() -> None:
    assert image_name(f"sha256:{'a' * 64}") is None and image_name("a" * 64) is None


@pytest.mark.parametrize(
    ("text", "volume"),
    [
        ("/a:/b", Volume("/a", "/b")),
        ("/a:/b:ro", Volume("/a", "/b", True)),
        ("v:/b:rw", Volume("v", "/b")),
        ("/a:/b:z", Volume("/a", "/b", relabel="z")),
        ("/a:/b:ro,Z", Volume("/a", "/b", True, "Z")),
        ("/a:/b:z,ro", Volume("/a", "/b", True, "z")),
        ("/a:/b:rw,z", Volume("/a", "/b", False, "z")),
    ],
)
def test_volumes_are_read_as_docker_writes_them(text: str, volume: Volume) -> None:
    assert Volume.parse(text) == volume
    assert Volume.parse(str(volume)) == volume


@pytest.mark.parametrize(
    "text",
    [
        "/a",
        ":/b",
        "/a:/b:ro,ro",
        "/a:b",
        "/a:/b:x",
        "/a:/b:ro:x",
        "/a:/b:ro,rw",
        "/a:/b:z,Z",
        "/a:/b:ro,",
        "",
    ],
)
def test_what_is_no_volume_is_refused(text: str) -> None:
    with pytest.raises(UserError) as refused:
        Volume.parse(text)
    assert refused.value.code == "bad_volume"


# Whose it is


def test_labels_say_whose_it_is_and_are_read_back() -> None:
    assert owned(labels_of(OWNED)) == OWNED
    assert owner_filter("me") == {"label": ["dev.mooring.owner=me"]}


@pytest.mark.parametrize("missing", ["owner", "life", "workload", "generation"])
def test_without_all_labels_it_is_nobodys(missing: str) -> None:
    labels = labels_of(OWNED)
    del labels[f"dev.mooring.{missing}"]
    assert owned(labels) is None and owned(None) is None
    assert owned(labels_of(OWNED) | {"dev.mooring.generation": "x"}) is None


# What became of it


def seen(**state: Any) -> Seen:
    return msgspec.json.decode(json.dumps({"Id": "x", "State": state}), type=Seen)


LIFE = "2026-01-01T00:00:00.5Z"
OTHER = "2026-01-01T00:00:09.5Z"


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (None, ContainerExit(ending=Ending.REMOVED)),
        (seen(Status="running", Running=True, StartedAt=LIFE), Verdict.RUNS),
        (seen(Status="paused", Running=True, Paused=True, StartedAt=LIFE), Verdict.PAUSED),
        (seen(Status="created", StartedAt="0001-01-01T00:00:00Z"), Verdict.NOT_STARTED),
        (seen(Status="stopping", StartedAt=LIFE), Verdict.ENDING),
        (seen(Status="removing", StartedAt=LIFE, ExitCode=137), Verdict.BEING_REMOVED),
        (seen(Status="exited", StartedAt=LIFE, ExitCode=3), ContainerExit(3)),
        (seen(Status="dead", StartedAt=LIFE, ExitCode=3), ContainerExit(3)),
        (
            seen(Status="exited", StartedAt=LIFE, ExitCode=137, OOMKilled=True),
            ContainerExit(137, out_of_memory=True),
        ),
        (seen(Status="running", Running=True, StartedAt=OTHER), ContainerExit(ending=Ending.RESTARTED)),
        (
            seen(Status="paused", Running=True, Paused=True, StartedAt=OTHER),
            ContainerExit(ending=Ending.RESTARTED),
        ),
        (seen(Status="exited", StartedAt=OTHER, ExitCode=3, OOMKilled=True), ContainerExit(None)),
    ],
)
def test_what_an_engine_says_means_this(found: Seen | None, verdict: ContainerExit | Verdict) -> None:
    assert judge(LIFE, found) == verdict


@pytest.mark.parametrize(
    ("status", "words", "is_gone"),
    [
        (404, "No such container: abc", True),
        (404, "no container with name or ID abc found: no such container", True),
        (404, "page not found", False),
        (404, "", False),
        (500, "No such container: abc", False),
        (409, "removal of container abc is already in progress", False),
    ],
)
def test_only_a_definite_not_found_is_one(status: int, words: str, is_gone: bool) -> None:
    assert Refusal("looking", status, words).is_no_such_container is is_gone


def test_an_image_that_is_not_there_is_told_by_both_engines() -> None:
    assert Refusal("creating", 404, "No such image: x:1").is_no_such_image
    assert Refusal("creating", 404, "x: image not known").is_no_such_image
    assert not Refusal("creating", 404, "network x not found").is_no_such_image


@pytest.mark.parametrize(
    ("exit", "words"),
    [
        (ContainerExit(0), "exit status 0"),
        (ContainerExit(None), "exit status unknown"),
        (ContainerExit(143), "exit status 143, as by SIGTERM"),
        (ContainerExit(137, out_of_memory=True), "exit status 137, out of memory"),
        (ContainerExit(ending=Ending.REMOVED), "removed outside Mooring"),
        (
            ContainerExit(137, ending=Ending.REMOVED),
            "removed outside Mooring, exit status 137, as by SIGKILL",
        ),
        (ContainerExit(ending=Ending.RESTARTED), "restarted outside Mooring"),
        (ContainerExit(ending=Ending.ENGINE_GONE), "engine unreachable"),
        (ContainerExit(ending=Ending.CUT_OFF), "cut off from its container"),
    ],
)
def test_an_exit_has_words_and_the_shape_of_that_of_a_process(exit: ContainerExit, words: str) -> None:
    assert str(exit) == words and words in repr(exit)
    assert isinstance(exit, Exit) and exit.signal is None
    assert msgspec.json.decode(msgspec.json.encode(exit), type=Exit) == (exit.code, None)


def test_exits_that_differ_are_not_equal() -> None:
    exits = {ContainerExit(1), ContainerExit(2), ContainerExit(1, ending=Ending.REMOVED), ContainerExit(1)}
    assert len(exits) == 3 and ContainerExit(1) != Exit(1, None)


@pytest.mark.parametrize(
    ("exit", "meddled", "told", "comes_back"),
    [
        (ContainerExit(137), False, True, False),
        (ContainerExit(137), True, True, True),
        (ContainerExit(143), False, False, True),
        (ContainerExit(0), False, False, True),
        (ContainerExit(1), False, False, False),
        (ContainerExit(1), True, False, True),
        (ContainerExit(137, out_of_memory=True), True, False, False),
        (ContainerExit(ending=Ending.CUT_OFF), True, False, False),
    ],
)
def test_a_crash_is_not_waited_for_and_an_end_by_others_is(
    exit: ContainerExit, meddled: bool, told: bool, comes_back: bool
) -> None:
    assert may_come_back(exit, was_meddled_with=meddled, is_told=told) is comes_back


# What happened


def event(action: str, **attributes: str) -> bytes:
    return json.dumps({"Action": action, "Actor": {"ID": "c", "Attributes": attributes}}).encode()


@pytest.mark.parametrize(
    ("line", "read"),
    [
        (event("die", exitCode="7"), Event("c", Happened.DIED, 7)),
        (event("died", exitCode="7"), Event("c", Happened.DIED, 7)),
        (event("die"), Event("c", Happened.DIED)),
        (event("destroy"), Event("c", Happened.REMOVED)),
        (event("remove"), Event("c", Happened.REMOVED)),
        (event("kill", signal="15"), Event("c", Happened.MEDDLED)),
        (event("kill"), Event("c", Happened.MEDDLED)),
        (event("kill", signal="SIGINT"), Event("c", Happened.MEDDLED)),
        (event("kill", signal="3"), Event("c", Happened.MEDDLED)),
        (event("stop"), Event("c", Happened.MEDDLED)),
        (event("kill", signal="9"), None),
        (event("kill", signal="1"), None),
        (event("kill", signal="SIGUSR1"), None),
        (event("restart"), Event("c", Happened.MEDDLED)),
        (event("start"), Event("c", Happened.STARTED)),
        (event("pause"), Event("c", Happened.PAUSED)),
        (event("unpause"), Event("c", Happened.UNPAUSED)),
        (event("oom"), Event("c", Happened.OUT_OF_MEMORY)),
        (event("exec_create: sh"), None),
        (b"{", None),
        (b"[]", None),
        (b"{}", None),
        (b'{"Action": "die", "Actor": null}', None),
        (b'{"Action": ["die"], "Actor": {"ID": "c"}}', None),
        (b'{"Action": "die", "Actor": {"ID": 7}}', None),
    ],
)
def test_events_of_both_engines_are_read_and_nonsense_is_not(line: bytes, read: Event | None) -> None:
    assert read_event(line) == read


# Pulls

SPEC = ContainerSpec(name="tool", image="a/b:1")


def test_the_progress_of_a_pull_adds_up() -> None:
    pull = Pull(SPEC)
    lines = [
        {"status": "Pulling from a/b", "id": "1"},
        {"status": "Pulling fs layer", "id": "x"},
        {"status": "Downloading", "progressDetail": {"current": 10, "total": 100}, "id": "x"},
        {"status": "Downloading", "progressDetail": {"current": 30, "total": 50}, "id": "y"},
        {"status": "Pull complete", "progressDetail": {}, "id": "x"},
    ]
    progress = [pull.feed(json.dumps(line).encode()) for line in lines][-1]
    assert progress == Progress("a/b:1", 3, 1, 130, 150)
    for nonsense in (b"{", b"[]", b"7", b'{"status": "x"}', b'{"id": 7, "status": "x"}'):
        assert pull.feed(nonsense) is None
    assert pull.progress == progress


def test_an_image_of_too_many_layers_is_not_remembered_whole() -> None:
    pull = Pull(SPEC)
    for number in range(1500):
        pull.feed(json.dumps({"status": "Waiting", "id": str(number)}).encode())
    assert pull.progress.layers == 1000


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (
            "pull access denied for a/b, repository does not exist or may require 'docker login'",
            "image_missing",
        ),
        ("manifest for a/b:1 not found: manifest unknown", "image_missing"),
        ("no matching manifest for linux/arm64/v8 in the manifest list entries", "wrong_architecture"),
        ("Get https://registry-1.docker.io/v2/: dial tcp: lookup failed", "pull_failed"),
        ("toomanyrequests: You have reached your pull rate limit", "pull_failed"),
    ],
)
def test_a_pull_that_fails_says_what_to_do(words: str, code: str) -> None:
    error = failure(SPEC, words)
    assert error.code == code and error.hint and "a/b:1" in error.message
    with pytest.raises(MooringError) as raised:
        Pull(SPEC).feed(json.dumps({"error": words}).encode())
    assert raised.value.code == code
