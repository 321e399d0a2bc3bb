"""Objects as text: many YAML documents, a file each with a kustomization, or one JSON list. Pure.

Readers of YAML differ: `y` is true to some, `1e3` a number to others. So every text is quoted that is not
plainly one to all of them; Kubernetes wants text where there is text.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

from mooring.kubernetes.labels import Object

__all__ = ["as_files", "as_list", "as_yaml"]

_PLAIN = re.compile(r"(?!(?:y|n|yes|no|on|off|true|false|null)$)[A-Za-z/][A-Za-z0-9./_-]*", re.IGNORECASE)
_UNLIMITED = 2**31 - 1
"""Columns: a text that was folded is hard to read, and to search for."""
KUSTOMIZATION = "kustomization.yaml"


def as_yaml(objects: Sequence[Object]) -> str:
    """All of them, one document after the other."""
    return "---\n".join(map(_document, objects))


def as_list(objects: Sequence[Object]) -> str:
    """One object of the kind List, as JSON."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}, indent=2) + "\n"


def as_files(objects: Sequence[Object]) -> dict[str, str]:
    """Text by the name of its file; with a kustomization that names them all."""
    files = {_file_name(one): _document(one) for one in objects}
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": list(files),
    }
    return {**files, KUSTOMIZATION: _document(kustomization)}


def _file_name(one: Object) -> str:
    kind = one["kind"].lower()
    return f"{kind}-replicas.yaml" if one.get("spec", {}).get("clusterIP") == "None" else f"{kind}.yaml"


def _document(one: Object) -> str:
    import yaml  # noqa: PLC0415 - heavy, and only whoever writes needs it

    class Dumper(yaml.SafeDumper):  # type: ignore[misc]
        """Indents lists below their key, as most manifests do; writes no anchors."""

        def increase_indent(self, flow: bool = False, indentless: bool = False) -> Any:
            """Never without."""
            return super().increase_indent(flow, False)

        def ignore_aliases(self, data: Any) -> bool:
            """What stands twice is written twice."""
            return True

    def text(dumper: Any, value: str) -> Any:
        style = None if _PLAIN.fullmatch(value) else "|" if value.endswith("\n") else '"'
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    return str(yaml.dump(one, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=_UNLIMITED, indent=2))
