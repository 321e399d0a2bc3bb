"""All objects of a server, in the order in which they are made. Pure."""

from mooring.kubernetes.container_words import VARIABLES_FILE
from mooring.kubernetes.labels import Object, made, replicas_name, selector
from mooring.kubernetes.network import network_policy, replicas_service, service
from mooring.kubernetes.pod import pod_template
from mooring.kubernetes.release import Release, SecretKey
from mooring.kubernetes.variables_file import variables_text

__all__ = ["needed_secrets", "objects_of"]


def objects_of(release: Release) -> list[Object]:
    """What `kubectl apply` is given."""
    return [
        made(release, "ServiceAccount", "v1", automountServiceAccountToken=False),
        *([_config_map(release)] if release.takes_variables else []),
        service(release),
        replicas_service(release),
        network_policy(release),
        _disruption_budget(release),
        _stateful_set(release),
    ]


def needed_secrets(release: Release) -> list[SecretKey]:
    """What has to be in the namespace before; each once."""
    sessions = release.sessions
    of_redis = () if sessions is None else (sessions.password, sessions.ca)
    of_replicas = () if sessions is None else (sessions.replica_key,)
    keys = (*of_redis, release.tokens, *of_replicas, *release.secret_files.values())
    return list(dict.fromkeys(key for key in keys if key is not None))


def _config_map(release: Release) -> Object:
    return made(release, "ConfigMap", "v1", data={VARIABLES_FILE: variables_text(release.variables)})


def _disruption_budget(release: Release) -> Object:
    return made(
        release,
        "PodDisruptionBudget",
        "policy/v1",
        spec={
            "maxUnavailable": 1,
            # A pod that is not ready serves nobody, and must not keep a node from being drained.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": selector(release)},
        },
    )


def _stateful_set(release: Release) -> Object:
    return made(
        release,
        "StatefulSet",
        "apps/v1",
        spec={
            **({} if release.replicas is None else {"replicas": release.replicas}),
            "serviceName": replicas_name(release),
            # Replicas need nothing of each other to start or to end; updates go one by one all the same.
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "RollingUpdate"},
            "selector": {"matchLabels": selector(release)},
            "template": pod_template(release),
        },
    )
