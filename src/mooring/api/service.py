"""Answers the API's requests, each in a task of its own: some wait until what was asked is true.

A client that goes away stops waiting; what it asked for is done all the same.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import msgspec

from mooring.api.level import API_LEVEL, PREFIX
from mooring.api.routes import Route, find_route, openapi
from mooring.api.types import Changed, Daemon, Instance, Run, Server
from mooring.errors import ListenFailed, MooringError, ServerFailed, Unavailable, UserError
from mooring.wire.http import Exchange, Headers, Response
from mooring.workloads.definition import load_options
from mooring.workloads.fleet import Fleet, Seen

__all__ = ["Api"]

log = logging.getLogger("mooring.api")

JSON: Headers = [
    (b"content-type", b"application/json"),
    (b"cache-control", b"no-store"),
    (b"mooring-api", b"%d" % API_LEVEL),
]
STATUS: dict[str, int] = {"unknown_server": 404, "name_taken": 409, "conflict": 409}
"""By code; others by their class."""


class Api:
    """An app for everything below the prefix."""

    def __init__(
        self,
        fleet: Fleet,
        about: Callable[[], Daemon],
        *,
        url_of: Callable[[str], str],
        memory_of: Callable[[int], int],
        stop: Callable[[str], None],
        calls_s: float | None,
    ) -> None:
        self._fleet = fleet
        self._about = about
        self._url_of = url_of
        self._memory_of = memory_of
        self._stop = stop
        self._calls_s = calls_s
        self._tasks: set[asyncio.Task[None]] = set()
        self.routes = [
            Route("GET", "/daemon", "The daemon itself", Daemon, self._daemon),
            Route("POST", "/daemon/stop", "End the daemon, after what is under way", Changed, self._end),
            Route("GET", "/servers", "All servers", list[Server], self._servers),
            Route("GET", "/servers/{name}", "One server", Server, self._server),
            Route("PUT", "/servers/{name}", "Have a server run, as described", Changed, self._run, Run),
            Route("DELETE", "/servers/{name}", "Forget a server, when it has ended", Changed, self._remove),
            Route("POST", "/servers/{name}/start", "Have it run, now", Changed, self._start),
            Route("POST", "/servers/{name}/stop", "Have it not run; waits for that", Changed, self._stop_one),
            Route("POST", "/servers/{name}/restart", "End it, then run it", Changed, self._restart),
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

    async def wait_done(self) -> None:
        """Until nobody waits for an answer."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _answer(self, exchange: Exchange, route: Route, parameters: dict[str, Any]) -> None:
        try:
            if route.body is not None:
                parameters["body"] = _body(exchange.request.body, route.body)
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
        asyncio.get_running_loop().call_soon(self._stop, "asked for by the API")
        return Changed(changed=True)

    # Servers

    async def _servers(self) -> list[Server]:
        return [self._told(seen) for seen in self._fleet.all()]

    async def _server(self, name: str) -> Server:
        return self._told(self._fleet.seen(name))

    async def _run(self, name: str, body: Run) -> Changed:
        try:
            options = load_options(msgspec.json.encode({**body.options, "name": name}))
        except msgspec.DecodeError as error:
            raise UserError(f"the description is malformed: {error}", code="bad_request") from None
        changed = await self._fleet.run(options, replace=body.replace, calls_s=self._calls_s)
        return Changed(changed=changed, server=self._told(self._fleet.seen(name)))

    async def _remove(self, name: str) -> Changed:
        return Changed(changed=True, cut=await self._fleet.remove(name, self._calls_s))

    async def _start(self, name: str) -> Changed:
        await self._fleet.start(name)
        return Changed(changed=True, server=self._told(self._fleet.seen(name)))

    async def _stop_one(self, name: str) -> Changed:
        cut = await self._fleet.stop(name, self._calls_s)
        return Changed(changed=True, cut=cut)

    async def _restart(self, name: str) -> Changed:
        await self._fleet.restart(name, self._calls_s)
        return Changed(changed=True, server=self._told(self._fleet.seen(name)))

    def _told(self, seen: Seen) -> Server:
        wanted, live, snapshot = seen.wanted, seen.live, seen.snapshot()
        instances = [] if live is None else live.workload.report()
        proxy = None if live is None else live.workload.proxy
        return Server(
            name=wanted.name,
            desired=str(wanted.desired),
            state=_at_rest(seen) if snapshot is None else str(snapshot.state),
            reason="asked" if snapshot is None else str(snapshot.reason.code),
            reason_text=seen.problem if snapshot is None else snapshot.reason.text,
            generation=wanted.generation,
            pid=self._about().pid,
            url=self._url_of(wanted.name),
            started_at=None if live is None else live.began_at,
            restarts=0 if snapshot is None else snapshot.restarts,
            attempt=0 if snapshot is None else snapshot.attempt,
            attempts=0 if snapshot is None else snapshot.attempts,
            retry_in_s=None if snapshot is None else snapshot.retry_in_s,
            last_exit="" if snapshot is None else snapshot.last_exit,
            sessions=0 if proxy is None else len(proxy.sessions),
            calls=0 if proxy is None else proxy.calls_in_flight,
            calls_total=0 if proxy is None else proxy.stats.calls,
            memory_bytes=sum(self._memory_of(one.pid) for one in instances),
            instances=[
                Instance(pid=one.pid, use=one.use, session=one.session, age_s=one.age_s) for one in instances
            ],
            command=[] if seen.options is None else list(seen.options.argv),
        )


def _at_rest(seen: Seen) -> str:
    """The state of a server that has no live generation."""
    if seen.wanted.is_stopped:
        return "stopped"
    return "failed" if seen.problem else "starting"


def _body(data: bytes, kind: Any) -> Any:
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as error:
        raise UserError(f"the body is malformed: {error}", code="bad_request") from None


def _not_there(path: str, methods: list[str]) -> MooringError:
    if methods:
        return UserError(f"{path} takes {', '.join(methods)}", code="method_not_allowed")
    hint = f"{PREFIX}/openapi.json lists what there is; the daemon may be older than what asks"
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
