"""The pod: as little as the server needs, and nothing that it could change but its scratch space. Pure.

It fits the Pod Security Standard `restricted`.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

from mooring.kubernetes.container_words import (
    CA_FILE,
    PASSWORD_FILE,
    REDIS_FOLDER,
    REPLICA_KEY_FILE,
    SECRETS_FOLDER,
    TOKENS_FILE,
    TOKENS_FOLDER,
    VARIABLES_FILE,
    VARIABLES_FOLDER,
    container_words,
)
from mooring.kubernetes.labels import Object, selector
from mooring.kubernetes.quantities import Amount
from mooring.kubernetes.release import PORT, Release, SecretKey, object_name
from mooring.kubernetes.variables_file import variables_text

__all__ = ["pod_template"]

HOME = "/var/lib/mooring"
"""Caches of uv, npm and their like are below it; and nobody's image has anything there that it would hide."""
FOR_THE_GROUP = 0o440
"""Secrets belong to root and the group of the pod."""
START_S = 60
"""For Mooring itself to listen, on a node that has far too much to do. The server may take longer: that is
readiness, and to kill the pod for it would begin its installation anew."""


def pod_template(release: Release) -> Object:
    """What every replica is made of."""
    # A pod reads its variables when it starts: with others it has to be another pod.
    variables = hashlib.sha256(variables_text(release.variables).encode()).hexdigest()
    return {
        "metadata": {"labels": selector(release), "annotations": {"mooring.dev/variables": variables}},
        "spec": {
            "serviceAccountName": object_name(release.name),
            "automountServiceAccountToken": False,
            # A Service named mooring would otherwise set MOORING_PORT, to something that is no port.
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": release.grace_period_s,
            **_pull_secrets(release),
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": release.uid,
                "runAsGroup": release.uid,
                "fsGroup": release.uid,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": "kubernetes.io/hostname",
                    "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": {"matchLabels": selector(release)},
                }
            ],
            "containers": [_container(release)],
            "volumes": [{"name": name, **source} for name, _, source in _volumes(release)],
        },
    }


def _pull_secrets(release: Release) -> Object:
    if not release.pull_secrets:
        return {}
    return {"imagePullSecrets": [{"name": name} for name in release.pull_secrets]}


def _container(release: Release) -> Object:
    return {
        "name": "mooring",
        "image": release.image,
        "command": ["mooring"],
        "args": container_words(release),
        "env": [
            _field("POD_IP", "status.podIP"),
            _field("POD_NAMESPACE", "metadata.namespace"),
            {"name": "HOME", "value": HOME},
            {"name": "MOORING_GRACE_PERIOD", "value": str(release.grace_period_s)},
        ],
        "ports": [{"name": "http", "containerPort": PORT, "protocol": "TCP"}],
        "startupProbe": _probe("/livez", every_s=1, failures=START_S),
        "livenessProbe": _probe("/livez", every_s=10, failures=3),
        "readinessProbe": _probe("/readyz", every_s=3, failures=2),
        "resources": _resources(cpu=release.cpu, memory=release.memory),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": name, "mountPath": path, **({} if "emptyDir" in source else {"readOnly": True})}
            for name, path, source in _volumes(release)
        ],
    }


def _field(name: str, path: str) -> Object:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _probe(path: str, *, every_s: int, failures: int) -> Object:
    # The usual second is too little for a process that others keep waiting for a processor.
    return {
        "httpGet": {"path": path, "port": "http"},
        "periodSeconds": every_s,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }


def _resources(**amounts: Amount) -> Object:
    resources: Object = {"requests": {what: amount.request for what, amount in amounts.items()}}
    if limits := {what: amount.limit for what, amount in amounts.items() if amount.limit is not None}:
        resources["limits"] = limits
    return resources


def _volumes(release: Release) -> list[tuple[str, str, dict[str, Any]]]:
    """Name, path in the container, and where it comes from."""
    volumes: list[tuple[str, str, dict[str, Any]]] = [
        ("home", HOME, {"emptyDir": {"sizeLimit": release.scratch}}),
        ("tmp", "/tmp", {"emptyDir": {"sizeLimit": release.scratch}}),  # noqa: S108 - in the container
    ]
    if release.takes_variables:
        items = [{"key": VARIABLES_FILE, "path": VARIABLES_FILE}]
        source: Object = {"configMap": {"name": object_name(release.name), "items": items}}
        volumes.append(("variables", VARIABLES_FOLDER, source))
    for name, folder, files in _secret_folders(release):
        if files:
            volumes.append((name, folder, _projected(files)))
    return volumes


def _secret_folders(release: Release) -> list[tuple[str, str, dict[str, SecretKey]]]:
    sessions = release.sessions
    of_redis = {} if sessions is None else {PASSWORD_FILE: sessions.password, CA_FILE: sessions.ca}
    of_replicas = {} if sessions is None else {REPLICA_KEY_FILE: sessions.replica_key}
    return [
        ("tokens", TOKENS_FOLDER, _given({TOKENS_FILE: release.tokens, **of_replicas})),
        ("redis", REDIS_FOLDER, _given(of_redis)),
        ("secrets", SECRETS_FOLDER, dict(release.secret_files)),
    ]


def _given(files: Mapping[str, SecretKey | None]) -> dict[str, SecretKey]:
    return {file: where for file, where in files.items() if where is not None}


def _projected(files: dict[str, SecretKey]) -> Object:
    """Files whose contents follow their Secrets: what starts later reads what is there then."""
    sources = [
        {"secret": {"name": where.secret, "items": [{"key": where.key, "path": file}]}}
        for file, where in files.items()
    ]
    return {"projected": {"defaultMode": FOR_THE_GROUP, "sources": sources}}
