"""Manifests are valid for each version of Kubernetes that they are for; one that is not would be found."""

from collections.abc import Callable
from copy import deepcopy
from functools import cache
from itertools import product
from typing import Any

import kubernetes_validate
import pytest
from kubernetes_validate import utils

from mooring.kubernetes.objects import objects_of
from mooring.kubernetes.release import Release
from tests.manifests import Manifest, container, manifests, of_kind, pod, release_of

VERSIONS = ("1.29", "1.30", "1.31", "1.32", "1.33", "1.34")
SERVERS = (
    ("--", "uvx", "mcp-server-time", "$(HOME)", "1e3", "yes", ""),
    ("--from", "npx:@modelcontextprotocol/server-memory", "--env", "A=b", "--env", "T=secret:gh"),
    ("--url", "https://mcp.example.com/mcp", "--header", "Authorization: Bearer {secret:linear}"),
    ("--shared", "2", "--retry", "--transport", "http", "--port-env", "PORT", "--", "node", "server.js"),
)
SESSIONS = (
    (),
    ("--redis-secret", "redis-auth", "--replicas", "3"),
    ("--redis-url", "rediss+sentinel://a,b/main/1", "--redis-secret", "r", "--redis-ca-secret", "ca"),
    ("--redis-url", "redis+cluster://user@a:7000,b:7001"),
)
REST = (
    (),
    ("--namespace", "tools", "--no-auth", "--egress", "any", "--ipv6"),
    (
        *(
            "--token-secret",
            "tokens",
            "--allow-host",
            "mcp.example.com",
            "--allow-origin",
            "https://a.example",
        ),
        *("--allow-from", "app=web", "--allow-from-namespace", "ingress", "--egress", "10.0.0.0/8:5432"),
        *("--cpu", "250m:2", "--memory", "1Gi:1Gi", "--scratch", "500Mi", "--uid", "65532"),
        *(
            "--pull-secret",
            "registry",
            "--drain-delay",
            "0",
            "--drain-timeout",
            "1.5s",
            "--egress",
            "fd00::/8",
        ),
    ),
)


@pytest.fixture(autouse=True)
def _schemas_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(utils, "schema_contents", _schema)


@cache
def _schema(filename: str, version: str) -> Any:
    return _read_schema(filename, version)


_read_schema: Callable[[str, str], Any] = utils.schema_contents


def check(objects: list[Manifest], version: str) -> None:
    for one in objects:
        # It says by which it was checked: the newest that is not newer.
        assert kubernetes_validate.validate(one, version, strict=True) == version


@cache
def releases() -> tuple[Release, ...]:
    combinations = product(SERVERS, SESSIONS, REST)
    return tuple(
        release_of("time", "--image", "a:1", *many, *few, *server) for server, few, many in combinations
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_every_combination_is_valid(version: str) -> None:
    assert len(releases()) == 48
    for release in releases():
        check(objects_of(release), version)


def _unknown_field(objects: list[Manifest]) -> None:
    pod(objects)["terminationGracePeriod"] = 3


def _wrong_type(objects: list[Manifest]) -> None:
    container(objects)["args"].append(3)


def _missing(objects: list[Manifest]) -> None:
    del of_kind(objects, "StatefulSet")["spec"]["selector"]


def _no_such_kind(objects: list[Manifest]) -> None:
    of_kind(objects, "PodDisruptionBudget")["apiVersion"] = "policy/v1beta1"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("spoil", [_unknown_field, _wrong_type, _missing, _no_such_kind])
def test_what_is_broken_is_found(spoil: Callable[[list[Manifest]], None], version: str) -> None:
    objects = deepcopy(manifests("x", "--image", "a", "--", "sh"))
    check(objects, version)
    spoil(objects)
    with pytest.raises((kubernetes_validate.ValidationError, kubernetes_validate.SchemaNotFoundError)):
        check(objects, version)
