"""The addresses of a fleet: `/NAME/…` for each server, on one router."""

from collections.abc import Callable

from mooring.host.routes import add_routes
from mooring.http.problems import problem
from mooring.http.router import Router
from mooring.proxy.proxy import Proxy
from mooring.wire.http import App, Exchange

__all__ = ["Street"]

RETRY_AFTER: tuple[bytes, bytes] = (b"retry-after", b"10")


class Street:
    """See `workloads.fleet.Addresses`."""

    def __init__(self, router: Router, on_forgotten: Callable[[str], None]) -> None:
        self._router = router
        self._on_forgotten = on_forgotten

    def serve(self, name: str, proxy: Proxy) -> None:
        """From now on this one answers."""
        self._router.clear(f"/{name}")
        add_routes(self._router, proxy, f"/{name}")

    def close(self, name: str, why: str) -> None:
        """Nobody answers, for now."""
        self._router.clear(f"/{name}")
        self._router.mount(f"/{name}", _closed(name, why))

    def forget(self, name: str) -> None:
        """There is no such server any more."""
        self._router.clear(f"/{name}")
        self._on_forgotten(name)


def _closed(name: str, why: str) -> App:
    def answer(exchange: Exchange) -> None:
        exchange.respond(
            problem(
                503,
                "server_stopped",
                f"{name} does not run: {why}",
                hint=f"mooring start {name}",
                headers=[RETRY_AFTER],
            )
        )

    return answer
