"""Which method and path mean what: one table, from which requests are dispatched and OpenAPI is made."""

import re
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

import msgspec

from mooring import __version__
from mooring.api.level import PREFIX
from mooring.api.types import Problem

__all__ = ["Route", "find_route", "openapi"]

_PARAMETER = re.compile(r"\{(\w+)\}")


class Route(NamedTuple):
    """One thing that can be asked."""

    method: str
    path: str
    """Below the prefix; a word in braces stands for any one segment."""
    summary: str
    answer: Any
    handle: Callable[..., Coroutine[Any, Any, Any]]
    """Called with the parameters of the path, and with `body` and `query` if it has them."""
    body: Any = None
    query: Any = None
    """What may follow a question mark: a Struct, all of whose members have defaults."""

    def match(self, method: str, path: str) -> dict[str, str] | None:
        """The parameters, if it is this one."""
        wanted, given = self.path.split("/"), path.split("/")
        if method != self.method or len(wanted) != len(given):
            return None
        found: dict[str, str] = {}
        for word, value in zip(wanted, given, strict=True):
            if word.startswith("{"):
                found[word[1:-1]] = value
            elif word != value:
                return None
        return found


def find_route(routes: list[Route], method: str, path: str) -> tuple[Route, dict[str, str]] | list[str]:
    """The route and its parameters; or else the methods that the path takes."""
    for route in routes:
        parameters = route.match(method, path)
        if parameters is not None:
            return route, parameters
    return sorted({route.method for route in routes if route.match(route.method, path) is not None})


def openapi(routes: list[Route]) -> bytes:
    """The OpenAPI document, made from the table and the types."""
    kinds = [kind for route in routes for kind in (route.answer, route.body, route.query) if kind is not None]
    schemas, components = msgspec.json.schema_components(
        [*kinds, Problem], ref_template="#/components/schemas/{name}"
    )
    named = dict(zip(map(str, [*kinds, Problem]), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        operation: dict[str, Any] = {
            "summary": route.summary,
            "operationId": f"{route.handle.__name__.strip('_')}",
            "parameters": [
                {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
                for name in _PARAMETER.findall(route.path)
            ]
            + _query_parameters(route, components),
            "responses": {
                "200": _content("done", named[str(route.answer)]),
                "default": _content(
                    "refused", {"type": "object", "properties": {"error": named[str(Problem)]}}
                ),
            },
        }
        if route.body is not None:
            operation["requestBody"] = {"required": True, **_content("", named[str(route.body)])}
            operation["requestBody"].pop("description")
        paths.setdefault(PREFIX + route.path, {})[route.method.lower()] = operation
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Mooring", "version": __version__},
        "paths": paths,
        "components": {"schemas": components},
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2)


def _query_parameters(route: Route, components: dict[str, Any]) -> list[dict[str, Any]]:
    if route.query is None:
        return []
    members = components[route.query.__name__]["properties"]
    return [{"name": name, "in": "query", "schema": schema} for name, schema in members.items()]


def _content(description: str, schema: Any) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}
