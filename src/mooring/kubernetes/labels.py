"""What the objects of a server are called, and how they find each other."""

from typing import Any

from mooring.kubernetes.release import Release, object_name

__all__ = ["INSTANCE", "MANAGER", "OURS", "Object", "made", "replicas_name", "selector"]

INSTANCE = "app.kubernetes.io/instance"
"""The label that has the name of the server."""
MANAGER, OURS = "app.kubernetes.io/managed-by", "mooring"
"""What we have made."""

Object = dict[str, Any]
"""Of Kubernetes, as it is written."""


def selector(release: Release) -> dict[str, str]:
    """By which its pods are found. Of a StatefulSet it can never change."""
    return {"app.kubernetes.io/name": "mooring", INSTANCE: release.name}


def replicas_name(release: Release) -> str:
    """Of the headless Service."""
    return f"{object_name(release.name)}-replicas"


def made(release: Release, kind: str, version: str, *, name: str = "", **parts: Any) -> Object:
    """An object of that kind, with its name and labels."""
    labels = {
        **selector(release),
        "app.kubernetes.io/component": "mcp-server",
        MANAGER: OURS,
    }
    namespace = {} if release.namespace is None else {"namespace": release.namespace}
    metadata = {"name": name or object_name(release.name), **namespace, "labels": labels}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **parts}
