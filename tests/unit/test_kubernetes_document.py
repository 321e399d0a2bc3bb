"""docs/kubernetes.md is true: examples are rendered, numbers are those of the code, links lead somewhere."""

import re
import shlex
from pathlib import Path
from typing import Any

import click
import kubernetes_validate
import pytest
import yaml

from mooring.cli.k8s.command import k8s
from mooring.cli.running.run import run
from mooring.host.foreground import PAGES
from mooring.kubernetes.objects import objects_of
from tests.manifests import container, manifests, of_kind, pod, release_of
from tests.unit.test_kubernetes_valid import VERSIONS

PAGE = Path(__file__).parents[2] / "docs/kubernetes.md"
TEXT = PAGE.read_text()
RENDERED = re.findall(r"^ {4}mooring k8s render (.*)$", TEXT, re.MULTILINE)
ELSEWHERE = {"--target", "--from-file", "--build"}
"""Options of other programs."""


def options_of(command: click.Command) -> set[str]:
    return {name for option in command.params for name in option.opts}


def example(kind: str) -> Any:
    """The one object of that kind on the page."""
    found = map(yaml.safe_load, re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL))
    [only] = [one for one in found if one["kind"] == kind]
    return only


def test_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mooring.toml").write_text(
        '[servers.notes]\nfrom = "npx:@modelcontextprotocol/server-memory"\n'
    )
    assert len(RENDERED) == 3
    for line in RENDERED:
        words = shlex.split(line.partition(" | ")[0])
        assert objects_of(release_of(*words))


def test_options_are_those_of_the_commands() -> None:
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", TEXT)) - ELSEWHERE
    assert named <= options_of(k8s.commands["render"]) | options_of(run)


def test_numbers() -> None:
    spec = pod(manifests("x", "--image", "a", "--", "sh"))
    assert f"**{spec['terminationGracePeriodSeconds']} s**" in TEXT
    assert f"For Kubernetes {VERSIONS[0]} to {VERSIONS[-1]}." in TEXT


@pytest.mark.parametrize("version", VERSIONS)
def test_the_autoscaler_is_valid_and_finds_the_replicas(version: str) -> None:
    scaler = example("HorizontalPodAutoscaler")
    assert kubernetes_validate.validate(scaler, version, strict=True) == version
    objects = manifests("time", "--image", "a", "--redis-secret", "r", "--", "sh")
    target = scaler["spec"]["scaleTargetRef"]
    [found] = [one for one in objects if one["kind"] == target["kind"]]
    assert (found["apiVersion"], found["metadata"]["name"]) == (target["apiVersion"], target["name"])
    assert "replicas" not in found["spec"]


def test_the_monitor_finds_the_pods() -> None:
    monitor = example("PodMonitor")["spec"]
    objects = manifests("time", "--image", "a", "--", "sh")
    template = of_kind(objects, "StatefulSet")["spec"]["template"]
    assert monitor["selector"]["matchLabels"] == template["metadata"]["labels"]
    [endpoint] = monitor["podMetricsEndpoints"]
    assert endpoint["port"] in [port["name"] for port in container(objects)["ports"]]
    assert endpoint["path"] in PAGES


def test_monitoring_is_let_in_beside_the_own_namespace() -> None:
    [words] = re.findall(r"`(--allow-from-namespace monitoring --allow-from-namespace NAMESPACE)`", TEXT)
    objects = manifests("x", "--image", "a", *words.replace("NAMESPACE", "own").split(), "--", "sh")
    [rule] = of_kind(objects, "NetworkPolicy")["spec"]["ingress"]
    names = [
        one["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"]
        for one in rule["from"]
        if "namespaceSelector" in one
    ]
    assert names == ["monitoring", "own"] and {"podSelector": {}} not in rule["from"]


def test_the_way_to_look_at_sessions_is_that_of_a_pod() -> None:
    args = container(
        manifests(
            "time",
            "--image",
            "a",
            "--redis-secret",
            "r",
            "--redis-url",
            "rediss://r",
            "--redis-ca-secret",
            "c",
            "--",
            "sh",
        )
    )["args"]
    for page in (TEXT, (PAGE.parent / "scaling.md").read_text()):
        [line] = re.findall(r"^ {4}kubectl exec (?:.*\\\n)?.*--sessions-prefix.*$", page, re.MULTILINE)
        words = line.replace("\\\n", " ").split()
        for option in ("--sessions-password", "--sessions-prefix"):
            said = words[words.index(option) + 1].replace("NAMESPACE", "$(POD_NAMESPACE)")
            assert said == args[args.index(option) + 1]
    for option in ("--sessions-ca", "--replica-key"):
        assert f"`{option} {args[args.index(option) + 1]}`" in TEXT


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", TEXT):
        assert (PAGE.parent / target).exists(), target
    for file in re.findall(r"`(deploy/[\w.]+)`", TEXT):
        assert (PAGE.parents[1] / file).exists(), file
