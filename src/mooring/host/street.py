"""The addresses of a fleet: `/NAME/…` for each server, on one router."""

import asyncio
from collections.abc import Callable

from mooring.host.elsewhere import Elsewhere
from mooring.host.routes import add_routes
from mooring.http.problems import problem
from mooring.http.router import Router
from mooring.proxy.proxy import Proxy
from mooring.wire.http import App, Exchange
from mooring.wire.request_state import Sealer

__all__ = ["Street"]

QUEUE_S = 10.0
"""As long as a call waits for a server that is being restarted."""
MOST_WAITING = 256
MAX_WAITING_BYTES = 64 * 1024 * 1024
RETRY_AFTER: tuple[bytes, bytes] = (b"retry-after", b"10")


class Street:
    """See `workloads.server.Addresses`."""

    def __init__(self, router: Router, on_forgotten: Callable[[str], None]) -> None:
        self._router = router
        self._on_forgotten = on_forgotten
        self._queues: dict[str, _Queue] = {}
        self._elsewhere: dict[str, Elsewhere] = {}

    def serve(self, name: str, proxy: Proxy) -> None:
        """From now on this one answers."""
        self._clear(name)
        add_routes(self._router, proxy, f"/{name}")
        self._let_in(name)

    def serve_beside(self, name: str, proxy: Proxy, ids: set[str], parking: Sealer | None) -> None:
        """The same, but for sessions that another daemon still has: what comes for those goes there."""
        self._clear(name)
        own = Router()
        add_routes(own, proxy, f"/{name}")
        elsewhere = self._elsewhere[name] = Elsewhere(own, ids, parking)
        self._router.mount(f"/{name}", elsewhere)
        self._let_in(name)
        self.arrived(name, proxy)

    def arrived(self, name: str, proxy: Proxy, id: str = "", *, parked_too: bool = False) -> None:
        """A session is no longer elsewhere, or no parked call is. After the last of them all is as ever."""
        if (elsewhere := self._elsewhere.get(name)) is not None:
            elsewhere.ids.discard(id)
            if parked_too:
                elsewhere.parking = None
            if elsewhere.is_over:
                self.serve(name, proxy)

    def still_elsewhere(self, name: str) -> set[str]:
        """The sessions that have not come."""
        elsewhere = self._elsewhere.get(name)
        return elsewhere.ids if elsewhere is not None else set()

    def expect(self, name: str) -> None:
        """One is about to answer: whoever asks waits for it."""
        if name not in self._queues:
            self._queues[name] = queue = _Queue(name, lambda: self.close(name, "it is starting"))
            self._clear(name)
            self._router.mount(f"/{name}", queue)

    def close(self, name: str, why: str) -> None:
        """Nobody answers, for now."""
        self._clear(name)
        self._router.mount(f"/{name}", _closed(name, why))
        self._let_in(name)

    def forget(self, name: str) -> None:
        """There is no such server any more."""
        self._clear(name)
        self._on_forgotten(name)
        self._let_in(name)

    def _clear(self, name: str) -> None:
        self._elsewhere.pop(name, None)
        self._router.clear(f"/{name}")

    def _let_in(self, name: str) -> None:
        """Whoever waited is answered by whatever is there now."""
        if (queue := self._queues.pop(name, None)) is not None:
            for exchange in queue.dissolve():
                self._router(exchange)


class _Queue:
    """Requests that wait for a server which is about to answer."""

    def __init__(self, name: str, on_overdue: Callable[[], None]) -> None:
        self._waiting: list[Exchange] = []
        self._refuse = _closed(name, "it is starting, and too many wait for it")
        self._timer = asyncio.get_running_loop().call_later(QUEUE_S, on_overdue)

    def __call__(self, exchange: Exchange) -> None:
        """One more."""
        waiting = self._waiting = [one for one in self._waiting if not one.disconnected]
        held_bytes = sum(len(one.request.body) for one in (*waiting, exchange))
        if not waiting or (len(waiting) < MOST_WAITING and held_bytes <= MAX_WAITING_BYTES):
            waiting.append(exchange)
        else:
            self._refuse(exchange)

    def dissolve(self) -> list[Exchange]:
        """It is over: those who still wait."""
        self._timer.cancel()
        return [one for one in self._waiting if not one.disconnected]


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
