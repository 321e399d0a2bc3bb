"""Pages for those who watch: `/livez`, `/readyz`, `/metrics`."""

from typing import Any, Protocol

import msgspec

from mooring.host import metrics
from mooring.host.prometheus import Teller
from mooring.host.stop import Stop
from mooring.http.listener import Listener
from mooring.wire.http import Exchange, Headers, Response
from mooring.workloads.workload import Workload

__all__ = ["Pages"]

JSON: Headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]


class Replicated(Protocol):
    """One of several replicas, as pages see it: see `host.replicated`."""

    @property
    def is_ready(self) -> bool:
        """May it act for its sessions?"""
        ...

    def status(self) -> dict[str, Any]:
        """How it stands with the others."""
        ...

    def tell(self, tell: Teller) -> None:
        """Its counts."""
        ...


class Pages:
    """Of a host with one workload."""

    def __init__(self, workload: Workload, listener: Listener, stop: Stop) -> None:
        self._workload = workload
        self._listener = listener
        self._stop = stop
        self.replicated: Replicated | None = None
        """If there are others like this one."""

    def livez(self, exchange: Exchange) -> None:
        """The process works: it answers."""
        exchange.respond(Response(200, b'{"status":"ok"}', JSON))

    def readyz(self, exchange: Exchange) -> None:
        """Is it worth sending requests here? The status says it, the body why."""
        seen = self._workload.supervisor.snapshot()
        body = msgspec.json.encode(self.status())
        is_ready = seen.ready and (self.replicated is None or self.replicated.is_ready)
        exchange.respond(Response(200 if is_ready else 503, body, JSON))

    def status(self) -> dict[str, Any]:
        """What `/readyz` tells."""
        seen = self._workload.supervisor.snapshot()
        proxy = self._workload.proxy
        return {
            "name": self._workload.name,
            "state": str(seen.state),
            "reason": str(seen.reason.code),
            "cause": self._stop.cause or seen.reason.text or None,
            "retry_in_s": round(seen.retry_in_s, 1) if seen.retry_in_s else None,
            "restarts": seen.restarts,
            "last_exit": seen.last_exit or None,
            "sessions": len(proxy.sessions),
            "calls_in_flight": proxy.calls_in_flight,
            "instances": [
                {"pid": one.pid, "use": one.use, "age_s": one.age_s} for one in self._workload.report()
            ],
            **({"replicas": self.replicated.status()} if self.replicated is not None else {}),
        }

    def metrics(self, exchange: Exchange) -> None:
        """For Prometheus."""
        further = [self.replicated.tell] if self.replicated is not None else []
        page = metrics.render([self._workload], self._listener, {"server": self._workload.name}, further)
        exchange.respond(Response(200, page, [(b"content-type", metrics.CONTENT_TYPE)]))
