"""The objects of a server: what they say, how they fit together, and that nothing of a secret is in them."""

import json
from typing import Any

import pytest

from mooring.kubernetes.objects import needed_secrets
from mooring.kubernetes.release import SecretKey
from tests.manifests import container, manifests, of_kind, pod, release_of

SMALL = ("time", "--image", "example/mooring:1", "--", "uvx", "mcp-server-time")
LARGE = ("time", "--image", "example/mooring:1", "--replicas", "3", "--redis-secret", "redis-auth")
LARGE_COMMAND = ("--", "uvx", "mcp-server-time")
KINDS = (
    "ServiceAccount",
    "ConfigMap",
    "Service",
    "Service",
    "NetworkPolicy",
    "PodDisruptionBudget",
    "StatefulSet",
)


def test_all_that_is_needed_is_there() -> None:
    objects = manifests(*LARGE, *LARGE_COMMAND)
    assert tuple(one["kind"] for one in objects) == KINDS
    stateful_set = of_kind(objects, "StatefulSet")["spec"]
    assert stateful_set["replicas"] == 3
    assert stateful_set["podManagementPolicy"] == "Parallel"
    assert stateful_set["updateStrategy"] == {"type": "RollingUpdate"}
    assert of_kind(objects, "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    assert of_kind(objects, "ServiceAccount")["automountServiceAccountToken"] is False
    assert pod(objects)["automountServiceAccountToken"] is False
    assert [one["spec"].get("clusterIP") for one in objects if one["kind"] == "Service"] == [None, "None"]
    # A replica that drains is no longer ready, and the others still have something to say to it.
    told = [one["spec"].get("publishNotReadyAddresses") for one in objects if one["kind"] == "Service"]
    assert told == [None, True]


def test_nodes_can_be_drained_and_replicas_are_spread_over_them() -> None:
    objects = manifests(*LARGE, *LARGE_COMMAND)
    budget = of_kind(objects, "PodDisruptionBudget")["spec"]
    assert (budget["maxUnavailable"], budget["unhealthyPodEvictionPolicy"]) == (1, "AlwaysAllow")
    [spread] = pod(objects)["topologySpreadConstraints"]
    assert (spread["topologyKey"], spread["maxSkew"]) == ("kubernetes.io/hostname", 1)
    assert spread["whenUnsatisfiable"] == "ScheduleAnyway", "one node for all is better than none"


@pytest.mark.parametrize(
    ("words", "resources", "scratch"),
    [
        ((), {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "2Gi"}}, "2Gi"),
        (
            ("--cpu", "250m:2", "--memory", "1Gi", "--scratch", "500Mi"),
            {"requests": {"cpu": "250m", "memory": "1Gi"}, "limits": {"cpu": "2"}},
            "500Mi",
        ),
        (
            ("--cpu", "1.5", "--memory", "64Mi"),
            {"requests": {"cpu": "1.5", "memory": "64Mi"}},
            "2Gi",
        ),
    ],
)
def test_how_much_a_pod_has(words: tuple[str, ...], resources: object, scratch: str) -> None:
    objects = manifests("x", "--image", "a", *words, "--", "sh")
    assert container(objects)["resources"] == resources
    volumes = {one["name"]: one.get("emptyDir") for one in pod(objects)["volumes"]}
    assert (volumes["home"], volumes["tmp"]) == ({"sizeLimit": scratch}, {"sizeLimit": scratch})


def test_the_command_line_is_this_one() -> None:
    assert container(manifests(*LARGE, *LARGE_COMMAND))["command"] == ["mooring"]
    assert " ".join(container(manifests(*LARGE, *LARGE_COMMAND))["args"]) == (
        "run --foreground time --sessions redis://redis:6379/0"
        " --sessions-password file:/run/secrets/redis/password"
        " --replica-key file:/run/secrets/mooring/replica-key --sessions-prefix mooring:$(POD_NAMESPACE)"
        " --advertise http://$(POD_IP):4670 --host 0.0.0.0 --port 4670 --allow-remote"
        " --token-file /run/secrets/mooring/tokens --allow-host time --allow-host time.$(POD_NAMESPACE)"
        " --allow-host time.$(POD_NAMESPACE).svc --allow-host time.$(POD_NAMESPACE).svc.cluster.local"
        " --drain-delay 5s --drain-timeout 20s --env-file /etc/mooring/server.env -- uvx mcp-server-time"
    )


def test_everything_finds_everything_else() -> None:
    for words in (SMALL, (*LARGE, *LARGE_COMMAND), ("3d", "--image", "a", "--", "sh")):
        objects = manifests(*words)
        by_kind = {one["kind"]: one for one in objects}
        stateful_set = by_kind["StatefulSet"]["spec"]
        wanted = stateful_set["selector"]["matchLabels"]
        labels = stateful_set["template"]["metadata"]["labels"]
        assert wanted.items() <= labels.items()
        selectors = [one["spec"]["selector"] for one in objects if one["kind"] == "Service"]
        selectors.append(by_kind["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"])
        selectors.append(by_kind["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"])
        [spread] = pod(objects)["topologySpreadConstraints"]
        selectors.append(spread["labelSelector"]["matchLabels"])
        assert all(one == wanted for one in selectors)
        headless = next(one for one in objects if one.get("spec", {}).get("clusterIP") == "None")
        assert stateful_set["serviceName"] == headless["metadata"]["name"]
        assert pod(objects)["serviceAccountName"] == by_kind["ServiceAccount"]["metadata"]["name"]
        mounts = {mount["name"] for mount in container(objects)["volumeMounts"]}
        assert mounts == {volume["name"] for volume in pod(objects)["volumes"]}
        named = {(one["kind"], one["metadata"]["name"]) for one in objects}
        assert len(named) == len(objects), "no name is there twice"


def test_a_service_begins_with_a_letter() -> None:
    objects = manifests("3d", "--image", "a", "--", "sh")
    assert of_kind(objects, "Service")["metadata"]["name"] == "mcp-3d"
    words = container(objects)["args"]
    assert words[2] == "3d", "clients find it by the name that it was given"
    assert "mcp-3d.$(POD_NAMESPACE).svc" in words


def test_it_may_do_as_little_as_possible() -> None:
    """The Pod Security Standard `restricted`, and a file system that it cannot change."""
    objects = manifests(*LARGE, "--uid", "1234", *LARGE_COMMAND)
    spec, only = pod(objects), container(objects)
    context = spec["securityContext"]
    assert context["runAsNonRoot"] is True
    assert (context["runAsUser"], context["runAsGroup"], context["fsGroup"]) == (1234, 1234, 1234)
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert only["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
    kinds = {kind for volume in spec["volumes"] for kind in volume if kind != "name"}
    assert kinds <= {"configMap", "emptyDir", "projected"}
    written = [mount["mountPath"] for mount in only["volumeMounts"] if not mount.get("readOnly")]
    assert written == ["/var/lib/mooring", "/tmp"]
    environment = {one["name"]: one.get("value") for one in only["env"]}
    assert environment["HOME"] == "/var/lib/mooring"
    assert spec["enableServiceLinks"] is False


def test_probes() -> None:
    only = container(manifests(*SMALL))
    paths = {name: only[name]["httpGet"]["path"] for name in only if name.endswith("Probe")}
    assert paths == {"startupProbe": "/livez", "livenessProbe": "/livez", "readinessProbe": "/readyz"}
    assert {only[name]["httpGet"]["port"] for name in paths} == {only["ports"][0]["name"]}
    numbers = {
        name: tuple(only[name][what] for what in ("periodSeconds", "failureThreshold", "timeoutSeconds"))
        for name in paths
    }
    # A minute to begin, half a minute without a word before it is killed, six seconds to take it out.
    assert numbers == {"startupProbe": (1, 60, 5), "livenessProbe": (10, 3, 5), "readinessProbe": (3, 2, 5)}


@pytest.mark.parametrize(
    ("words", "grace_s"),
    [
        ((), 27),
        (("--drain-timeout", "1m"), 67),
        (("--drain-delay", "0s", "--drain-timeout", "500ms"), 4),
        (("--drain-delay", "7.5s"), 30),
        (("--stop-grace", "5m"), 27),  # children get what is left of the time-out
    ],
)
def test_the_grace_period_is_all_that_a_drain_may_take(words: tuple[str, ...], grace_s: int) -> None:
    objects = manifests("x", "--image", "a", *words, "--", "sh")
    assert pod(objects)["terminationGracePeriodSeconds"] == grace_s
    assert {"name": "MOORING_GRACE_PERIOD", "value": str(grace_s)} in container(objects)["env"]
    assert "lifecycle" not in container(objects), "the program itself waits; see docs/kubernetes.md"


def test_who_says_how_many_there_are() -> None:
    def replicas(*words: str) -> object:
        spec = of_kind(manifests("x", "--image", "a", *words, "--", "sh"), "StatefulSet")["spec"]
        return spec.get("replicas", "an autoscaler")

    redis = ("--redis-url", "redis://r")
    assert replicas(*redis) == "an autoscaler"
    assert replicas(*redis, "--replicas", "1") == 1
    assert replicas() == 1, "nobody may add one that knows nothing of the sessions"


def test_other_variables_are_another_pod() -> None:
    def note(*words: str) -> Any:
        template = of_kind(manifests("x", "--image", "a", *words, "--", "sh"), "StatefulSet")["spec"][
            "template"
        ]
        return template["metadata"]["annotations"]

    assert note() == note() != note("--env", "A=1") != note("--env", "A=2")


def network(*words: str) -> tuple[Any, Any]:
    spec = of_kind(manifests("x", "--image", "a", *words, "--", "sh"), "NetworkPolicy")["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    [rule] = spec["ingress"]
    assert rule["ports"] == [{"port": 4670, "protocol": "TCP"}]
    return rule["from"], spec["egress"]


ITSELF = {
    "podSelector": {"matchLabels": {"app.kubernetes.io/name": "mooring", "app.kubernetes.io/instance": "x"}}
}
DNS = {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]}


def test_who_may_connect() -> None:
    assert network()[0] == [{"podSelector": {}}]
    assert network("--allow-from", "app=web,tier=front", "--allow-from-namespace", "ingress")[0] == [
        ITSELF,
        {"podSelector": {"matchLabels": {"app": "web", "tier": "front"}}},
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}},
    ]


def test_what_it_may_reach() -> None:
    assert network("--egress", "none")[1] == [DNS]
    assert network("--egress", "any")[1] == [DNS, {}]
    redis = (
        "--redis-url",
        "redis+sentinel://a,b:26380/main",
        "--egress",
        "10.1.0.0/16:5432",
        "--egress",
        "80",
    )
    ports = [{"port": port, "protocol": "TCP"} for port in (26379, 26380, 6379)]
    assert network(*redis)[1] == [
        DNS,
        {"to": [ITSELF], "ports": [{"port": 4670, "protocol": "TCP"}]},
        {"ports": ports},
        {"to": [{"ipBlock": {"cidr": "10.1.0.0/16"}}], "ports": [{"port": 5432, "protocol": "TCP"}]},
        {"ports": [{"port": 80, "protocol": "TCP"}]},
    ]
    _, four, six = network()[1]
    assert "169.254.0.0/16" in four["to"][0]["ipBlock"]["except"], "the metadata of the cloud has credentials"
    assert six["to"][0]["ipBlock"]["cidr"] == "::/0"


def test_a_server_elsewhere() -> None:
    words = ("linear", "--image", "a", "--url", "http://mcp.tools:8080/mcp", "--header")
    objects = manifests(*words, "Authorization: Bearer {secret:linear}")
    assert tuple(one["kind"] for one in objects) == tuple(kind for kind in KINDS if kind != "ConfigMap")
    assert container(objects)["args"][-4:] == [
        "--url",
        "http://mcp.tools:8080/mcp",
        "--header",
        "Authorization: Bearer {file:/run/secrets/server/linear}",
    ]
    egress = of_kind(objects, "NetworkPolicy")["spec"]["egress"]
    assert {"ports": [{"port": 8080, "protocol": "TCP"}]} in egress


def test_secrets_are_named() -> None:
    release = release_of(
        *LARGE,
        *("--redis-url", "rediss://redis:6379/0", "--redis-ca-secret", "redis-ca"),
        *("--env", "A=secret:github", "--env", "B=Bearer {secret:github} {secret:Other_one}"),
        *("--secret", "Other_one=other/key.txt", "--token-secret", "tokens"),
        *LARGE_COMMAND,
    )
    assert needed_secrets(release) == [
        SecretKey("redis-auth", "password"),
        SecretKey("redis-ca", "ca.crt"),
        SecretKey("tokens", "tokens"),
        SecretKey("tokens", "replica-key"),
        SecretKey("github", "value"),
        SecretKey("other", "key.txt"),
    ]
    assert (
        "B=Bearer {file:/run/secrets/server/github} {file:/run/secrets/server/Other_one}" in release.settings
    )


def test_replicas_have_a_key_that_is_not_in_redis() -> None:
    """Or whoever reads Redis could speak for everybody. Where everybody is let in, it keeps nobody out."""
    [tokens, *_] = [
        one for one in pod(manifests(*LARGE, *LARGE_COMMAND))["volumes"] if one["name"] == "tokens"
    ]
    items = [source["secret"] for source in tokens["projected"]["sources"]]
    assert [(one["name"], one["items"]) for one in items] == [
        ("time-tokens", [{"key": key, "path": key}]) for key in ("tokens", "replica-key")
    ]
    for without in (("x", "--image", "a", "--", "sh"), (*LARGE, "--no-auth", *LARGE_COMMAND)):
        assert "--replica-key" not in container(manifests(*without))["args"]
        assert "replica-key" not in [key for _, key in needed_secrets(release_of(*without))]


def test_addresses_of_the_other_family() -> None:
    words = container(manifests(*LARGE, "--ipv6", *LARGE_COMMAND))["args"]
    assert "http://[$(POD_IP)]:4670" in words and "::" in words


def test_objects_are_plain_values() -> None:
    objects = manifests(*LARGE, *LARGE_COMMAND)
    assert json.loads(json.dumps(objects)) == objects
