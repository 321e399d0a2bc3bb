"""Where an engine is looked for."""

import hashlib
import json
from pathlib import Path

import pytest

from mooring.errors import UserError
from mooring.runtimes.containers.endpoints import as_named, candidates, parse_endpoint

HOME = Path("/home/ada")


def paths(wanted: str, environment: dict[str, str], home: Path = HOME) -> list[str]:
    return [str(endpoint) for endpoint in candidates(wanted, environment, home)]


def test_the_usual_sockets_are_tried_docker_first() -> None:
    found = paths("auto", {"XDG_RUNTIME_DIR": "/run/user/7", "TMPDIR": "/var/tmp/x"})
    assert found == [
        "/var/run/docker.sock",
        "/run/user/7/docker.sock",
        "/home/ada/.docker/run/docker.sock",
        "/home/ada/.docker/desktop/docker.sock",
        "/home/ada/.orbstack/run/docker.sock",
        "/home/ada/.colima/default/docker.sock",
        "/home/ada/.config/colima/default/docker.sock",
        "/home/ada/.rd/docker.sock",
        "/run/user/7/podman/podman.sock",
        "/run/podman/podman.sock",
        "/var/tmp/x/podman/podman-machine-default-api.sock",
        "/home/ada/.local/share/containers/podman/machine/podman.sock",
    ]
    assert not [path for path in paths("docker", {}) if "podman" in path]
    assert all("podman" in path for path in paths("podman", {}))


def test_a_runtime_folder_that_no_variable_names_can_be_told() -> None:
    found = candidates("podman", {}, HOME, runtime_dir=Path("/run/user/9"))
    assert str(found[0]) == "/run/user/9/podman/podman.sock"


@pytest.mark.parametrize(
    ("wanted", "environment", "found"),
    [
        ("auto", {"DOCKER_HOST": "unix:///x/d.sock"}, "/x/d.sock"),
        ("docker", {"DOCKER_HOST": "tcp://10.0.0.1:2375"}, "10.0.0.1:2375"),
        ("auto", {"CONTAINER_HOST": "unix:///x/p.sock"}, "/x/p.sock"),
        ("podman", {"CONTAINER_HOST": "unix:///x/p.sock", "DOCKER_HOST": "unix:///x/d.sock"}, "/x/p.sock"),
        ("auto", {"CONTAINER_HOST": "unix:///x/p.sock", "DOCKER_HOST": "unix:///x/d.sock"}, "/x/d.sock"),
        ("/a/b.sock", {"DOCKER_HOST": "unix:///x/d.sock"}, "/a/b.sock"),
        ("unix:///a/b.sock", {}, "/a/b.sock"),
        ("unix:///a/b#c?d.sock", {}, "/a/b#c?d.sock"),
    ],
)
def test_whoever_names_one_means_it_and_nothing_else_is_tried(
    wanted: str, environment: dict[str, str], found: str
) -> None:
    assert paths(wanted, environment) == [found]


@pytest.mark.parametrize(
    "host", ["ssh://me@there", "npipe:////./pipe/docker", "tcp://nowhere", "fd://", "tcp://x:y"]
)
def test_what_cannot_be_reached_says_so(host: str) -> None:
    with pytest.raises(UserError) as refused:
        parse_endpoint(host, "DOCKER_HOST")
    assert refused.value.code == "engine_unsupported" and "DOCKER_HOST" in refused.value.message
    assert "--engine" in refused.value.hint


def test_an_engine_by_tls_is_refused_in_words() -> None:
    environment = {"DOCKER_HOST": "tcp://h:2376", "DOCKER_TLS_VERIFY": "1"}
    with pytest.raises(UserError) as refused:
        candidates("auto", environment, HOME)
    assert refused.value.code == "engine_unsupported"


def context(folder: Path, name: str, meta: object) -> None:
    place = folder / "contexts/meta" / hashlib.sha256(name.encode()).hexdigest()
    place.mkdir(parents=True)
    (place / "meta.json").write_text(json.dumps(meta))


def test_the_context_that_docker_would_use_is_used(tmp_path: Path) -> None:
    folder = tmp_path / ".docker"
    context(folder, "colima", {"Name": "colima", "Endpoints": {"docker": {"Host": "unix:///c/docker.sock"}}})
    assert len(paths("auto", {}, tmp_path)) > 1
    assert paths("auto", {"DOCKER_CONTEXT": "colima"}, tmp_path) == ["/c/docker.sock"]
    (folder / "config.json").write_text('{"currentContext": "colima"}')
    assert paths("auto", {}, tmp_path) == ["/c/docker.sock"]
    assert (
        paths("auto", {"DOCKER_CONFIG": str(tmp_path / "elsewhere")}, tmp_path)[0] == "/var/run/docker.sock"
    )
    assert len(paths("auto", {"DOCKER_CONTEXT": "default"}, tmp_path)) > 1
    assert "/c/docker.sock" not in paths("podman", {}, tmp_path)


@pytest.mark.parametrize(
    ("endpoint", "material", "is_refused"),
    [
        ({"Host": "tcp://h:2376"}, "docker/cert.pem", True),
        ({"Host": "tcp://h:2376"}, "docker/ca.pem", True),
        ({"Host": "tcp://h:2376", "SkipTLSVerify": True}, "", True),
        ({"Host": "tcp://h:2375", "SkipTLSVerify": False}, "", False),
        ({"Host": "tcp://h:2375"}, "kubernetes/ca.pem", False),
        ({"Host": "unix:///c/docker.sock", "SkipTLSVerify": True}, "docker/ca.pem", False),
    ],
)
def test_a_context_by_tls_is_refused_in_words(
    tmp_path: Path, endpoint: dict[str, object], material: str, is_refused: bool
) -> None:
    folder = tmp_path / ".docker"
    context(folder, "far", {"Name": "far", "Endpoints": {"docker": endpoint}})
    if material:
        file = folder / "contexts/tls" / hashlib.sha256(b"far").hexdigest() / material
        file.parent.mkdir(parents=True)
        file.touch()
    if not is_refused:
        assert len(paths("auto", {"DOCKER_CONTEXT": "far"}, tmp_path)) == 1
        return
    for ask in (
        lambda: paths("auto", {"DOCKER_CONTEXT": "far"}, tmp_path),
        lambda: as_named("docker", {"DOCKER_CONTEXT": "far"}, tmp_path),
    ):
        with pytest.raises(UserError) as refused:
            ask()
        assert refused.value.code == "engine_unsupported" and "'far'" in refused.value.message


@pytest.mark.parametrize("meta", [{}, {"Endpoints": None}, {"Endpoints": {"docker": {"Host": 7}}}, []])
def test_a_context_that_names_no_engine_is_an_error_and_not_skipped(tmp_path: Path, meta: object) -> None:
    context(tmp_path / ".docker", "broken", meta)
    with pytest.raises(UserError) as refused:
        candidates("auto", {"DOCKER_CONTEXT": "broken"}, tmp_path)
    assert refused.value.code == "no_engine" and "broken" in refused.value.message


def test_a_damaged_configuration_of_docker_is_as_none(tmp_path: Path) -> None:
    (tmp_path / ".docker").mkdir()
    (tmp_path / ".docker/config.json").write_text("{nonsense")
    assert len(paths("auto", {}, tmp_path)) > 1


@pytest.mark.parametrize(
    ("wanted", "environment", "written"),
    [
        ("auto", {}, "auto"),
        ("podman", {"DOCKER_HOST": "unix:///x/d.sock"}, "podman"),
        ("auto", {"DOCKER_HOST": "unix:///x/d.sock"}, "unix:///x/d.sock"),
        ("docker", {"DOCKER_HOST": "tcp://[::1]:2375"}, "tcp://[::1]:2375"),
        ("podman", {"CONTAINER_HOST": "unix:///x/p.sock"}, "unix:///x/p.sock"),
        ("/a/b.sock", {"DOCKER_HOST": "unix:///x/d.sock"}, "unix:///a/b.sock"),
        ("tcp://127.0.0.1:2375", {}, "tcp://127.0.0.1:2375"),
    ],
)
def test_what_is_written_down_means_the_same_to_a_daemon_with_another_environment(
    wanted: str, environment: dict[str, str], written: str
) -> None:
    assert as_named(wanted, environment, HOME) == written
    if "://" in written:
        assert [found.url for found in candidates(written, {}, HOME)] == [written]


def test_a_relative_socket_is_written_down_in_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert as_named("engine.sock", {}, HOME) == f"unix://{tmp_path}/engine.sock"


def test_an_engine_that_cannot_be_used_is_not_written_down() -> None:
    for wanted, environment in (
        ("ssh://host", {}),
        ("auto", {"DOCKER_HOST": "tcp://h:2376", "DOCKER_TLS_VERIFY": "1"}),
    ):
        with pytest.raises(UserError):
            as_named(wanted, environment, HOME)
