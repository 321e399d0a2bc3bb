"""Who reaches the pods, and what they reach: Services and the NetworkPolicy. Pure."""

from mooring.kubernetes.labels import Object, made, replicas_name, selector
from mooring.kubernetes.release import PORT, Exit, Release

__all__ = ["INTERNET", "network_policy", "replicas_service", "service"]

HTTPS = 443
DNS = 53
INTERNET = (
    Exit(
        "0.0.0.0/0",
        HTTPS,
        without=("10.0.0.0/8", "100.64.0.0/10", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"),
    ),
    Exit("::/0", HTTPS, without=("fc00::/7", "fe80::/10")),
)
"""Packages and APIs; nothing private: neither the cluster nor the cloud's metadata with credentials."""


def service(release: Release) -> Object:
    """Where clients connect."""
    return made(
        release,
        "Service",
        "v1",
        spec={"type": "ClusterIP", "selector": selector(release), "ports": [_http()]},
    )


def replicas_service(release: Release) -> Object:
    """The headless one that a StatefulSet needs."""
    return made(
        release,
        "Service",
        "v1",
        name=replicas_name(release),
        spec={
            "clusterIP": "None",
            # Replicas have something to say to one that drains, and it is no longer ready then.
            "publishNotReadyAddresses": True,
            "selector": selector(release),
            "ports": [_http()],
        },
    )


def _http() -> Object:
    return {"name": "http", "port": PORT, "targetPort": "http", "protocol": "TCP"}


def network_policy(release: Release) -> Object:
    """Only to the one port, and out only where it must."""
    return made(
        release,
        "NetworkPolicy",
        "networking.k8s.io/v1",
        spec={
            "podSelector": {"matchLabels": selector(release)},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": _sources(release), "ports": [_port(PORT)]}],
            "egress": _egress(release),
        },
    )


def _sources(release: Release) -> list[Object]:
    labels, namespaces = release.entrance
    if not labels and not namespaces:
        return [{"podSelector": {}}]
    return [
        _itself(release),
        *({"podSelector": {"matchLabels": dict(wanted)}} for wanted in labels),
        *(
            {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}}
            for name in namespaces
        ),
    ]


def _itself(release: Release) -> Object:
    return {"podSelector": {"matchLabels": selector(release)}}


def _egress(release: Release) -> list[Object]:
    # Where DNS and Redis are is not known by their names: their ports are.
    rules: list[Object] = [{"ports": [_port(DNS, "UDP"), _port(DNS)]}]
    if release.sessions is not None:
        rules.append({"to": [_itself(release)], "ports": [_port(PORT)]})
        rules.append({"ports": [_port(port) for port in release.sessions.ports]})
    return rules + [_rule(out) for out in release.exits]


def _rule(out: Exit) -> Object:
    block = {"cidr": out.network, **({"except": list(out.without)} if out.without else {})}
    return {
        **({"to": [{"ipBlock": block}]} if out.network else {}),
        **({"ports": [_port(out.port)]} if out.port is not None else {}),
    }


def _port(port: int, protocol: str = "TCP") -> Object:
    return {"port": port, "protocol": protocol}
