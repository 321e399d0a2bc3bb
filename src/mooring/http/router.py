"""Which app answers which path: an exact table, nothing clever."""

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

    def add(self, method: str, path: str, app: App) -> "Router":
        """Answer `method path` with `app`; returns itself, so that routes can be chained."""
        self._routes.setdefault(path, {})[method] = app
        return self

    def __call__(self, exchange: Exchange) -> None:
        """Route one exchange."""
        request = exchange.request
        methods = self._routes.get(request.path)
        if methods is None:
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
