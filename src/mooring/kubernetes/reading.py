"""What was written before: whose it is. Pure."""

from typing import Any

from mooring.kubernetes.labels import INSTANCE, MANAGER, OURS

__all__ = ["is_kustomization", "server_of"]


def server_of(text: str) -> str | None:
    """The server whose manifest this is; None: it is none of ours."""
    metadata = _read(text).get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    if not isinstance(labels, dict) or labels.get(MANAGER) != OURS:
        return None
    server = labels.get(INSTANCE)
    return server if isinstance(server, str) else None


def is_kustomization(text: str) -> bool:
    """It names files, and belongs to whoever has these."""
    return _read(text).get("kind") == "Kustomization"


def _read(text: str) -> dict[Any, Any]:
    import yaml  # noqa: PLC0415 - heavy, and only whoever writes files needs it

    try:
        document = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}
