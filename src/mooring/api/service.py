"""Answers the API's requests, each in a task of its own: some wait until what was asked is true.

A client that goes away stops waiting; what it asked for is done all the same.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from mooring import __version__
from mooring.api.level import API_LEVEL, NEWER_DAEMON, PREFIX
from mooring.api.reports import report
from mooring.api.routes import Route, find_route, openapi
from mooring.api.types import (
    Changed,
    Daemon,
    Definition,
    Event,
    RemoveQuery,
    Run,
    Server,
    WaitQuery,
    WhichEvents,
)
from mooring.errors import ListenFailed, MooringError, ServerFailed, Unavailable, UserError
from mooring.wire.http import Exchange, Headers, Response
from mooring.workloads.definition import ServerOptions, dump_options, load_options
from mooring.workloads.fleet import Fleet, Seen

__all__ = ["Api"]

log = logging.getLogger("mooring.api")

JSON: Headers = [
    (b"content-type", b"application/json"),
    (b"cache-control", b"no-store"),
    (b"mooring-api", b"%d" % API_LEVEL),
]
STATUS: dict[str, int] = {"unknown_server": 404, "name_taken": 409, "conflict": 409, "not_of_this_file": 409}
"""By code; others by their class."""


class Api:
    """An app for everything below the prefix."""

    def __init__(
        self,
        fleet: Fleet,
        about: Callable[[], Daemon],
        *,
        url_of: Callable[[str], str],
        memory_of: Callable[[int, str], int],
        stop: Callable[[str], None],
        hand_over: Callable[[], Awaitable[None]],
        connect: Callable[[], Awaitable[None]],
        calls_s: float | None,
    ) -> None:
        self._fleet = fleet
        self._about = about
        self._url_of = url_of
        self._memory_of = memory_of
        self._stop = stop
        self._hand_over_to = hand_over
        self._look_at_connections = connect
        self._calls_s = calls_s
        self._tasks: set[asyncio.Task[None]] = set()
        changing = partial(Route, answer=Changed, query=WaitQuery)
        self.routes = [
            Route("GET", "/daemon", "The daemon itself", Daemon, self._daemon),
            Route("POST", "/daemon/stop", "End the daemon, after what is under way", Changed, self._end),
            Route("POST", "/daemon/handover", "Hand over to a daemon that waits", Changed, self._hand_over),
            Route(
                "POST",
                "/connections",
                "Be connected to the relays that the file of connections names",
                Changed,
                self._connect,
            ),
            Route("GET", "/events", "What has happened", list[Event], self._events, query=WhichEvents),
            Route(
                "GET",
                "/definitions",
                "All servers as they were asked for",
                list[Definition],
                self._definitions,
            ),
            Route("GET", "/servers", "All servers", list[Server], self._servers),
            Route("GET", "/servers/{name}", "One server", Server, self._server),
            Route(
                "PUT", "/servers/{name}", "Have a server, as described", Changed, self._run, Run, WaitQuery
            ),
            Route(
                "DELETE",
                "/servers/{name}",
                "Forget a server, when it has ended",
                Changed,
                self._remove,
                query=RemoveQuery,
            ),
            changing("POST", "/servers/{name}/start", "Have it run, now", handle=self._start),
            changing("POST", "/servers/{name}/stop", "Have it not run", handle=self._stop_one),
            changing("POST", "/servers/{name}/restart", "End it, then run it", handle=self._restart),
        ]

    def __call__(self, exchange: Exchange) -> None:
        """Answer, now or when it is done."""
        path = exchange.request.path.removeprefix(PREFIX)
        if path == "/openapi.json":
            exchange.respond(Response(200, openapi(self.routes), JSON))
            return
        found = find_route(self.routes, exchange.request.method, path)
        if isinstance(found, list):
            exchange.respond(_refusal(_not_there(path, found), 405 if found else 404))
            return
        task = asyncio.create_task(self._answer(exchange, *found), name=f"api {path}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @property
    def is_busy(self) -> bool:
        """Somebody waits for an answer."""
        return bool(self._tasks)

    async def wait_done(self) -> None:
        """Until nobody waits for an answer."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _answer(self, exchange: Exchange, route: Route, parameters: dict[str, Any]) -> None:
        try:
            if route.body is not None:
                parameters["body"] = _body(exchange.request.body, route.body)
            if route.query is not None:
                parameters["query"] = _query(exchange.request.query, route.query)
            answer = await route.handle(**parameters)
        except MooringError as error:
            exchange.respond(_refusal(error, _status(error)))
        except Exception:  # a bug of ours: never a request that waits for ever
            log.exception("a request to the API failed")
            bug = MooringError("the request failed inside Mooring; its log says why", code="internal")
            exchange.respond(_refusal(bug, 500))
        else:
            exchange.respond(Response(200, msgspec.json.encode(answer), JSON))

    # The daemon

    async def _daemon(self) -> Daemon:
        return self._about()

    async def _end(self) -> Changed:
        asyncio.get_running_loop().call_soon(self._stop, "stopped by request")
        return Changed(changed=True)

    async def _hand_over(self) -> Changed:
        await self._hand_over_to()
        return Changed(changed=True)

    async def _connect(self) -> Changed:
        await self._look_at_connections()
        return Changed(changed=True)

    async def _events(self, query: WhichEvents) -> list[Event]:
        history = self._fleet.history
        found = await history.read(query.name, after=query.after, since=query.since, wait_s=0.0)
        if query.name and not found and not query.after:
            self._fleet.seen(query.name)  # raises if there is no such server, and was none
        if not found and query.wait_s:
            found = await history.read(query.name, after=query.after, since=query.since, wait_s=query.wait_s)
        return [Event(**event._asdict()) for event in found]

    # Servers

    async def _servers(self) -> list[Server]:
        return [self._told(seen) for seen in self._fleet.all()]

    async def _definitions(self) -> list[Definition]:
        return [_definition(seen) for seen in self._fleet.all()]

    async def _server(self, name: str) -> Server:
        return self._told(self._fleet.seen(name))

    async def _run(self, name: str, body: Run, query: WaitQuery) -> Changed:
        changed = await self._fleet.run(
            _described(name, body),
            replace=body.replace,
            origin=body.origin,
            adopt=body.adopt,
            calls_s=self._calls_s,
            wait=query.wait,
        )
        return self._changed(name, changed=changed)

    async def _remove(self, name: str, query: RemoveQuery) -> Changed:
        cut = await self._fleet.remove(name, self._calls_s, origin=query.origin, wait=query.wait)
        return Changed(changed=True, cut=cut)

    async def _start(self, name: str, query: WaitQuery) -> Changed:
        await self._fleet.start(name)
        return self._changed(name)

    async def _stop_one(self, name: str, query: WaitQuery) -> Changed:
        return Changed(changed=True, cut=await self._fleet.stop(name, self._calls_s, wait=query.wait))

    async def _restart(self, name: str, query: WaitQuery) -> Changed:
        await self._fleet.restart(name, self._calls_s, wait=query.wait)
        return self._changed(name)

    def _changed(self, name: str, *, changed: bool = True) -> Changed:
        return Changed(changed=changed, server=self._told(self._fleet.seen(name)))

    def _told(self, seen: Seen) -> Server:
        return report(
            seen,
            pid=self._about().pid,
            url=self._url_of(seen.wanted.name),
            memory_of=self._memory_of,
            now=time.time(),
        )


def _definition(seen: Seen) -> Definition:
    options = None if seen.options is None else msgspec.json.decode(dump_options(seen.options))
    return Definition(name=seen.wanted.name, origin=seen.wanted.origin, options=options)


def _described(name: str, run: Run) -> ServerOptions:
    """The server that is asked for. Nothing in it is passed over: it may come from a newer Mooring."""
    try:
        options = load_options(msgspec.json.encode({**run.options, "name": name}))
    except msgspec.DecodeError as error:
        raise UserError(f"the description is malformed: {error}", code="bad_request") from None
    known = msgspec.json.decode(dump_options(options))
    if unknown := sorted(_members(run.options) - _members(known)):
        raise UserError(
            f"this daemon (version {__version__}) does not know {', '.join(unknown)}",
            code="unknown_option",
            hint=NEWER_DAEMON,
        )
    return options


def _members(options: dict[str, Any]) -> set[str]:
    """Names of options, and of their options; but not of variables, which are the user's."""
    nested = {
        f"{name}.{member}"
        for name, value in options.items()
        if isinstance(value, dict) and name != "env"
        for member in value
    }
    return options.keys() | nested


def _body(data: bytes, kind: Any) -> Any:
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as error:
        raise UserError(f"the body is malformed: {error}", code="bad_request") from None


def _query(text: str, kind: Any) -> Any:
    try:
        return msgspec.convert(dict(parse_qsl(text)), kind, strict=False)
    except (msgspec.ValidationError, ValueError) as error:
        raise UserError(f"the query is malformed: {error}", code="bad_request", hint=NEWER_DAEMON) from None


def _not_there(path: str, methods: list[str]) -> MooringError:
    if methods:
        return UserError(f"{path} takes {', '.join(methods)}", code="method_not_allowed")
    hint = f"{PREFIX}/openapi.json lists what there is. If a command asked: {NEWER_DAEMON}"
    return UserError(f"there is nothing at {path}", code="not_found", hint=hint)


def _status(error: MooringError) -> int:
    if error.code in STATUS:
        return STATUS[error.code]
    if isinstance(error, UserError):
        return 400
    return 503 if isinstance(error, Unavailable | ServerFailed | ListenFailed) else 500


def _refusal(error: MooringError, status: int) -> Response:
    told = {"code": error.code, "message": error.message, "hint": error.hint}
    return Response(status, msgspec.json.encode({"error": told}), JSON)
