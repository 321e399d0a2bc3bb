"""What is in deploy/: read by whoever reads it, as far as that is possible without the internet."""

import os
import re
import shutil
import subprocess
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml

from mooring.cli.values import parse_duration
from mooring.host.grace import grace_period_s
from mooring.host.shutdown import DrainPolicy
from mooring.kubernetes.release import Release
from tests.e2e.command_line import parse_run
from tests.manifests import container, manifests

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
REPLICAS = {name: one for name, one in COMPOSE["services"].items() if name.startswith("mooring")}


def instructions() -> list[tuple[str, str]]:
    """Of the Dockerfile, with the lines of each put together."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in lines if line.strip()]


def stages() -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    current: list[tuple[str, str]] = []
    for name, rest in instructions():
        if name == "FROM":
            current = found.setdefault(rest.rpartition(" AS ")[2], [])
        current.append((name, rest))
    return found


def test_images_run_as_the_user_that_pods_have() -> None:
    uid = Release(name="x", image="a").uid
    assert list(stages())[-1] == "mooring", "which is made if no target is named"
    for target in ("mooring", "with-node"):
        users = [rest for name, rest in stages()[target] if name == "USER"]
        assert users == [f"{uid}:{uid}"], "Kubernetes cannot tell by a name that it is not root's"


def test_images_have_what_pods_start() -> None:
    base = dict(stages()["base"])
    [word] = container(manifests("x", "--image", "a", "--", "sh"))["command"]
    assert f"/usr/local/bin/{word}" in str(stages()["base"])
    assert base["ENTRYPOINT"] == f'["{word}"]'
    environment = {
        one["name"]: one.get("value") for one in container(manifests("x", "--image", "a", "--", "sh"))["env"]
    }
    assert f"--home-dir {environment['HOME']} " in str(stages()["base"])


def test_every_image_is_of_a_version() -> None:
    for source in (rest.partition(" AS ")[0] for name, rest in instructions() if name == "FROM"):
        assert source in stages() or re.search(r":\$\{[A-Z]+\}", source), source
    for service in COMPOSE["services"].values():
        assert re.search(r":[\w.-]+$", service["image"]) and not service["image"].endswith(":latest")


def test_what_is_copied_is_there_and_nothing_else_is_sent() -> None:
    copied = [rest.split()[:-1] for name, rest in instructions() if name == "COPY" and "--from" not in rest]
    sources = {source for words in copied for source in words}
    everything, *kept = [
        line for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] not in "#"
    ]
    assert everything == "*"
    assert {line[1:] for line in kept if line.startswith("!")} == sources
    assert not any(fnmatch(".git", line[1:]) for line in kept)
    assert all((ROOT / source).exists() for source in sources)


def test_replicas_have_the_same_command_but_for_where_they_are() -> None:
    assert len(REPLICAS) == 3
    lines = {name: " ".join(one["command"]) for name, one in REPLICAS.items()}
    assert len({line.replace(f"//{name}:", "//ITSELF:") for name, line in lines.items()}) == 1
    for name, one in REPLICAS.items():
        given = parse_run(["mooring", *one["command"]]).params
        assert given["advertise"] == f"http://{name}:4670"
        assert set(given["allow_host"]) == set(REPLICAS), "they ask each other by these names"


def test_a_replica_is_not_killed_before_its_drain_is_over() -> None:
    for one in REPLICAS.values():
        given = parse_run(["mooring", *one["command"]]).params
        children_s = given["eof_grace"] + given["stop_grace"]
        policy = DrainPolicy(
            delay_s=given["drain_delay"], timeout_s=given["drain_timeout"], children_s=children_s
        )
        assert parse_duration(one["stop_grace_period"]) == grace_period_s(policy)
        assert one["environment"]["MOORING_GRACE_PERIOD"] == str(grace_period_s(policy))


def test_only_this_machine_reaches_it() -> None:
    published = [port for one in COMPOSE["services"].values() for port in one.get("ports", ())]
    assert published == ["127.0.0.1:8080:8080"], "there is no token"


def test_the_load_balancer_knows_all_replicas() -> None:
    text = (DEPLOY / "haproxy.cfg").read_text()
    assert dict(re.findall(r"^\s+server (\S+) (\S+)$", text, re.MULTILINE)) == {
        name: f"{name}:4670" for name in REPLICAS
    }


def test_the_load_balancer_takes_its_configuration(tmp_path: Path) -> None:
    if shutil.which("haproxy", path=f"{os.environ['PATH']}:/usr/sbin") is None:
        reason = "haproxy is missing: apt-get install haproxy"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)

    def checked(file: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["haproxy", "-c", "-f", str(file)], capture_output=True, text=True, check=False, timeout=60
        )

    done = checked(DEPLOY / "haproxy.cfg")
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stdout + done.stderr
    wrong = tmp_path / "haproxy.cfg"
    wrong.write_text((DEPLOY / "haproxy.cfg").read_text().replace("balance leastconn", "balance fairly"))
    assert checked(wrong).returncode != 0
