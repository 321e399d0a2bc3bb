"""Which app answers which path: an exact table, and apps for all that is below a prefix."""

from mooring.http.problems import problem
from mooring.wire.http import App, Exchange

__all__ = ["Router"]


class Router:
    """An app that hands each exchange to the app added for its method and path.

    `hint`: where to go instead, told with every 404.
    """

    def __init__(self, *, hint: str = "") -> None:
        self._hint = hint
        self._routes: dict[str, dict[str, App]] = {}
        self._mounts: dict[str, App] = {}

    def mount(self, prefix: str, app: App) -> "Router":
        """Answer everything below `prefix` with `app`, in place of what was there before."""
        self._mounts[prefix] = app
        return self

    def clear(self, prefix: str) -> None:
        """Nothing is below `prefix` any more."""
        self._mounts.pop(prefix, None)
        for path in [path for path in self._routes if path.startswith(f"{prefix}/")]:
            del self._routes[path]

    def add(self, method: str, path: str, app: App) -> "Router":
        """Answer `method path` with `app`; returns itself, so that routes can be chained."""
        self._routes.setdefault(path, {})[method] = app
        return self

    def __call__(self, exchange: Exchange) -> None:
        """Route one exchange."""
        request = exchange.request
        methods = self._routes.get(request.path)
        if methods is None:
            mounted = self._mounted(request.path)
            if mounted is not None:
                mounted(exchange)
                return
            exchange.respond(
                problem(404, "not_found", f"nothing is served at {request.path}", hint=self._hint)
            )
            return
        app = methods.get(request.method)
        if app is None:
            allowed = ", ".join(sorted(methods))
            exchange.respond(
                problem(
                    405,
                    "method_not_allowed",
                    f"{request.path} takes {allowed}",
                    headers=[(b"allow", allowed.encode("ascii"))],
                )
            )
            return
        app(exchange)

    def _mounted(self, path: str) -> App | None:
        """By its first segments: names of servers are one, the prefix of the API is two."""
        for prefix in (path[: path.find("/", 1)], "/".join(path.split("/", 3)[:3])):
            if (app := self._mounts.get(prefix)) is not None:
                return app
        return None
