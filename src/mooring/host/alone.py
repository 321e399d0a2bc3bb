"""Sessions in the memory of one process, where there may be several: the log says so.

`mooring k8s render` refuses that, but `kubectl scale` does not, and whoever writes manifests by hand may not
know. A pod cannot count the others; it sees what does not happen, or hardly, where there are none.
"""

import logging
import re
from collections.abc import Mapping

from mooring.workloads.happenings import Happening, Kind

__all__ = ["Alone"]

log = logging.getLogger("mooring.host")

ORDINAL = re.compile(r".*-([1-9][0-9]{0,2})")
"""Of a pod of a StatefulSet, but the first. In a Deployment five characters are there that mean nothing."""
REMEDY = "sessions are in the memory of each: have one replica, or keep them in Redis (--sessions)"


class Alone:
    """Is one? `host`: the name of this machine, or pod. `shares`: its sessions, with other replicas."""

    def __init__(self, host: str, environment: Mapping[str, str], *, shares: bool) -> None:
        self._host = host
        self._may_be_told = bool(environment.get("KUBERNETES_SERVICE_HOST")) and not shares

    def begin(self) -> None:
        """Say what our name says of others."""
        if found := ORDINAL.fullmatch(self._host):
            self._tell(f"{self._host} is one of at least {int(found[1]) + 1} pods, and {REMEDY}")

    def on_happening(self, happening: Happening) -> None:
        """Of the server."""
        if happening.kind is Kind.SESSION_LOST:
            self._tell(
                "a client came with a session that is not known here; if there are other replicas, "
                f"one of them may have it: {REMEDY}"
            )

    def _tell(self, text: str) -> None:
        if self._may_be_told:
            self._may_be_told = False  # once: clients may come for ever
            log.warning("%s", text, extra={"event": "replicas_without_redis"})
