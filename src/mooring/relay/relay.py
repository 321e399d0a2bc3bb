"""A relay: the app behind its public listener, and all that is under way there.

    /v1/server                agents, by WebSocket        (`welcoming`)
    /v1/client                clients that speak our framing
    /AGENT/SERVER/mcp …       everybody else, by HTTP     (`callers`)
    /healthz, /readyz         those who watch

Its end: `drain`, in which calls finish, callers that cannot wait get words, and every link a goodbye; then
`aclose`, which leaves no task.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import msgspec

from mooring import __version__
from mooring.errors import MooringError
from mooring.relay.bodies import Bodies, Share
from mooring.relay.callers import HttpCaller, SocketCaller, opening_of
from mooring.relay.closing import BAD_TOKEN, GOING_AWAY, RESTARTING
from mooring.relay.counting import make_counters
from mooring.relay.envelope import Kind
from mooring.relay.gate import Gate
from mooring.relay.keeper import AGENT, Keeper
from mooring.relay.link import DEAF, Stream
from mooring.relay.meters import Meters
from mooring.relay.parked import Parked
from mooring.relay.passing_on import PATHS, is_one_request
from mooring.relay.policy import RelayPolicy
from mooring.relay.refusals import call_id, may_not_call, refusal
from mooring.relay.registry import Registry
from mooring.relay.splice import splice
from mooring.relay.token_book import TokenBook
from mooring.relay.tokens import Grant
from mooring.relay.waiting import WaitingCall
from mooring.relay.welcoming import Welcoming
from mooring.relay.words import Opening, Reset, Restart
from mooring.wire.http import Exchange, Headers, Request, Response

__all__ = ["Relay"]

log = logging.getLogger("mooring.relay")

JSON: Headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
MEASURE_TICKS = 15
"""How often the distance to agents is measured."""
REVOKED = "the token was revoked, changed or has expired"
LOOK_S = 0.01
AWAY_S = 1.0
"""From the last goodbye of a relay that is restarted until it listens again: the start of a program."""
QUIET_LOOK_S = 0.05
WITH_AN_ID = frozenset({"agent_absent", "draining", "too_many", "too_large"})
"""Refusals that are answers to a call."""

Caller = HttpCaller | SocketCaller


class Relay:
    """Made inside a running loop; `run` is its heartbeat."""

    def __init__(
        self,
        book: TokenBook,
        gate: Gate,
        meters: Meters,
        policy: RelayPolicy,
        *,
        url: Callable[[], str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.registry = Registry()
        self.counters = make_counters()
        self._passed_on = self.counters.find("calls_total", "passed_on")
        self._slowed = self.counters.find("slowed_total")
        self.meters = meters
        self.started_at = time.time()
        self._book = book
        self._gate = gate
        self._policy = policy
        self._clock = clock
        self._bodies = bodies = Bodies(policy.max_waiting_bytes, policy.max_waiting_bytes_per_agent)
        hold_s, max_each = policy.hold_s, policy.max_streams_per_agent
        self._parked = Parked(self._serve_caller, bodies, _body_bytes, hold_s, max_each)
        # What these say meanwhile has the bound of their windows.
        self._parked_calls = Parked(self._serve_call, bodies, _no_bytes, hold_s, max_each)
        self._welcoming = Welcoming(
            self.registry,
            gate,
            self.counters,
            policy,
            on_open=self._on_client_opens,
            on_agent=self._on_agent,
            expects=lambda agent, server: self._is_new and book.may_come(agent, server),
            meters=meters,
            url_of=lambda name: f"{url()}/{name}" if url() else "",
        )
        self._callers: dict[Caller, Grant] = {}
        self._began = clock()
        self._draining = ""
        self._is_restart = False
        self.calls_cut = 0
        """At its end: how many were not finished."""

    @property
    def calls_in_flight(self) -> int:
        """Requests of callers that are not answered, streams included."""
        return len(self._callers)

    @property
    def is_draining(self) -> bool:
        """It shuts down."""
        return bool(self._draining)

    # The app.

    def __call__(self, exchange: Exchange) -> None:
        """Answer one request."""
        path = exchange.request.path
        if path == "/v1/server":
            self._welcoming.serve_agent(exchange)
        elif path == "/v1/client":
            self._welcoming.serve_client(exchange)
        elif path == "/healthz":
            exchange.respond(Response(200, self._health(), JSON))
        elif path == "/readyz":
            exchange.respond(Response(503 if self._draining else 200, self._readiness(), JSON))
        else:
            self._serve_caller(exchange)

    def admit(self, request: Request) -> Response | None:
        """Refuse a caller by its head alone: nobody's body is read who would not be let in."""
        if request.path.startswith("/v1/") or request.path in ("/healthz", "/readyz"):
            return None
        judged = self._judge(request)
        if isinstance(judged, Response):
            return judged
        request.head.notes[self] = judged
        return None

    def _judge(self, request: Request) -> Grant | Response:
        judged = self._gate.check_token(request)
        if isinstance(judged, Response):
            self.counters.add("calls_total", "rate_limited" if judged.status == 429 else "bad_token")
        return judged

    def _health(self) -> bytes:
        agents, clients = self.registry.counts
        about = {"status": "ok", "version": __version__, "agents": agents, "clients": clients}
        return msgspec.json.encode(about)

    def _readiness(self) -> bytes:
        state = {"state": "draining", "cause": self._draining} if self._draining else {"state": "ready"}
        return msgspec.json.encode({**state, "calls_in_flight": self.calls_in_flight})

    # Callers by HTTP.

    def _serve_caller(self, exchange: Exchange, *, is_again: bool = False) -> None:
        """`is_again`: its agent was replaced before it had it, which is made up for once."""
        request = exchange.request
        grant = request.head.notes.get(self)
        if not isinstance(grant, Grant) or not self._book.is_good(grant):
            judged = self._judge(request)
            if isinstance(judged, Response):
                exchange.respond(judged)
                return
            grant = judged
        agent, server, path = (*request.path.split("/")[1:], "", "", "")[:3]
        if path not in PATHS or request.path.count("/") != 3:
            self._refuse(exchange, "no_such_server", "servers are at /AGENT/SERVER/mcp")
            return
        keeper = self._find(grant, agent, server)
        is_absent = isinstance(keeper, Reset) and keeper.reason == "agent_absent"
        is_waiting = is_absent and self._may_be_back(exchange, agent)
        is_counted = is_again or self._parked.has_waited(exchange)
        if isinstance(keeper, Reset) and not is_waiting:
            self._refuse(exchange, keeper.reason, keeper.message)
        elif self._draining:
            self._refuse(exchange, "draining", f"the relay is shutting down ({self._draining})")
        elif not self._bodies.has_room(agent, len(request.body)):
            self._refuse(exchange, "too_many", "too much waits here for its agents already")
        elif not is_counted and (too_much := self._meter(grant, len(request.body))) is not None:
            self._refuse(exchange, too_much.reason, too_much.message)
        elif isinstance(keeper, Reset):
            self._parked.park(agent, exchange)
        else:
            opening = opening_of(request, server, path, grant.name)
            self._pass_on(exchange, grant, keeper, opening, is_again=is_again)

    def _find(self, grant: Grant, agent: str, server: str) -> Keeper | Reset:
        """Who answers for that server, or why nobody does."""
        if not grant.may_call(agent, server):
            return Reset("not_allowed", may_not_call(agent, server, with_remedy=True), not_executed=True)
        keeper = self.registry.agent(agent)
        if keeper is not None and server not in keeper.servers:
            return Reset("no_such_server", f"{agent} offers no server {server}", not_executed=True)
        if keeper is None and not self._book.may_come(agent, server):
            return Reset("no_such_server", f"nobody may offer {agent}/{server} here", not_executed=True)
        if keeper is None:
            return Reset("agent_absent", f"{agent} is not connected now", not_executed=True)
        if len(keeper.link.streams) >= self._policy.max_streams_per_agent:
            return Reset("too_many", f"{agent} has too many calls and streams", not_executed=True)
        return keeper

    def _may_be_back(self, exchange: Exchange, agent: str) -> bool:
        return self._is_new and self._parked.may_wait(agent, exchange)

    @property
    def _is_new(self) -> bool:
        """Has the relay only just begun? Then its agents are on their way."""
        return self._clock() - self._began < self._policy.grace_s and not self._draining

    def _on_agent(self, agent: str) -> None:
        self._parked.go_on(agent)
        self._parked_calls.go_on(agent)

    def _meter(self, grant: Grant, body_bytes: int) -> Reset | None:
        """Count it, or say why it is too much: no link of its token stands still for a body."""
        meter = self.meters.of(grant.id)
        if not meter.could_have_room(body_bytes):
            return Reset("too_large", "that is more than a token may send in a minute here")
        if not meter.has_room(body_bytes):
            return Reset("too_many", "this token has sent too much in the last minute")
        meter.count(body_bytes)
        return None

    def _refuse(self, exchange: Exchange, reason: str, message: str) -> None:
        self.counters.add("calls_total", reason)
        # Being absent is no reason for a client to forget its session: never 404.
        id = call_id(exchange.request) if reason in WITH_AN_ID else None
        exchange.respond(refusal(Reset(reason, message, not_executed=True), id))

    def _pass_on(
        self, exchange: Exchange, grant: Grant, keeper: Keeper, opening: Opening, *, is_again: bool
    ) -> None:
        self._passed_on.value += 1
        caller: Caller
        if opening.websocket:
            measure = self.meters.of(grant.id).counting(self._slowed)
            caller = SocketCaller(exchange, self._forget, *self._shares(keeper.name), measure)
        else:
            again = None if is_again else partial(self._serve_again, keeper)
            size = len(exchange.request.body)
            self._bodies.keep(keeper.name, size)
            caller = HttpCaller(exchange, partial(self._on_answered, keeper.name, size), again)
        self._callers[caller] = grant
        caller.begin(keeper.open(opening, caller))

    def _serve_again(self, keeper: Keeper, exchange: Exchange) -> bool:
        """If another has taken the agent's place. What it says itself is no sign of that."""
        is_replaced = keeper.is_gone and self.registry.agent(keeper.name) not in (None, keeper)
        if is_replaced:
            self._serve_caller(exchange, is_again=True)
        return is_replaced

    def _on_answered(self, agent: str, body_bytes: int, caller: Caller) -> None:
        self._bodies.drop(agent, body_bytes)
        self._forget(caller)

    def _forget(self, caller: Caller) -> None:
        self._callers.pop(caller, None)

    def _shares(self, agent: str) -> tuple[Share, Share]:
        """For either direction of a WebSocket."""
        return Share(self._bodies, agent), Share(self._bodies, agent)

    # Callers that speak our framing.

    def _serve_call(self, waited: WaitingCall) -> None:
        self._on_client_opens(waited.client, waited.stream, waited.opening, waited)

    def _on_client_opens(
        self, client: Keeper, stream: Stream, opening: Opening, waited: WaitingCall | None = None
    ) -> None:
        agent, _, server = opening.server.partition("/")
        keeper = self._find(client.grant, agent, server)
        if opening.path not in PATHS or opening.method not in ("GET", "POST", "DELETE"):
            keeper = Reset("no_such_server", "servers have mcp, sse, messages and ws", not_executed=True)
        elif not is_one_request(opening):
            keeper = Reset("bad_request", "that is no request of HTTP", not_executed=True)
        if len(client.link.streams) > self._policy.max_streams_per_client:
            keeper = Reset("too_many", "too many calls and streams on one link", not_executed=True)
        if self._draining:
            keeper = Reset("draining", f"the relay is shutting down ({self._draining})", not_executed=True)
        if isinstance(keeper, Reset):
            if keeper.reason == "agent_absent" and self._is_new:
                waiting = waited or WaitingCall(client, stream, opening)
                if self._parked_calls.may_wait(agent, waiting):
                    self._parked_calls.park(agent, waiting)
                    return
            self.counters.add("calls_total", keeper.reason)
            stream.reset(keeper)
            return
        self._passed_on.value += 1
        client.calls += 1
        opening.server, opening.caller = server, client.name
        splice(stream, keeper.open(opening, DEAF), *self._shares(keeper.name))
        if waited is not None:
            waited.go_on()

    # Its heartbeat.

    async def run(self) -> None:
        """Until it is cancelled."""
        ticks = 0
        while True:
            await asyncio.sleep(self._policy.acknowledge_s)
            ticks += 1
            if self._book.changed():
                await self._read_tokens()
            self._end_those_that_are_over()
            keepers = self.registry.snapshot()
            for keeper in keepers:
                keeper.look()
            for keeper in keepers[ticks % MEASURE_TICKS :: MEASURE_TICKS]:  # not all at once
                keeper.measure()

    async def _read_tokens(self) -> None:
        try:
            gone = await asyncio.to_thread(self._book.reload)
        except MooringError as error:
            log.error("the tokens cannot be read, those from before stay good: %s", error.message)
            return
        self.meters.forget(gone)
        for id, name in gone.items():
            what = "has changed" if id in self._book else "was revoked"
            log.info("the token %s %s", name, what, extra={"event": "token_over", "name_": name})

    def _end_those_that_are_over(self) -> None:
        """Whose token is not good any more."""
        over = Reset("not_allowed", REVOKED, close=BAD_TOKEN)
        for keeper in self.registry.snapshot():
            if not self._book.is_good(keeper.grant):
                keeper.leave(over, BAD_TOKEN, REVOKED)
        for caller, grant in tuple(self._callers.items()):
            if not self._book.is_good(grant):
                caller.cut(over)

    # Its end.

    async def drain(self, cause: str, *, calls_s: float, is_restart: bool) -> None:
        """Let calls finish, within a bound, and say goodbye to everybody (`calls_cut`).

        1. Nobody new gets in. 2. Calls finish. Streams that no call waits on end at once, a WebSocket when
        its calls are done, one of HTTP+SSE when nothing comes on it for a while: their callers come back
        elsewhere, or later. 3. What is left gets words. 4. Every link is flushed and closed, spread a little.
        Each step has its own bound, and none depends on how many there are.
        """
        self._draining = cause
        self._is_restart = is_restart
        self._welcoming.refuse_new(cause)
        self._parked.go_on_all()
        self._parked_calls.go_on_all()
        with suppress(TimeoutError):
            async with asyncio.timeout(calls_s):
                await self._wait_quiet()
        self.cut(cause)
        await self._close_links()

    async def _wait_quiet(self) -> None:
        """Until no call is under way. There is no one place that knows."""
        over = Reset("draining", "the relay is shutting down", close=GOING_AWAY)
        lulls = _Lulls(self._policy.lull_s)
        while self._callers or self._clients_streams():
            for caller in tuple(self._callers):
                if not (caller.is_call or lulls.is_awaited(caller.stream)):
                    caller.cut(over)
            for stream in self._clients_streams():
                # The last answer on a WebSocket goes before its end, which would overtake it.
                is_unsaid = stream.is_socket and stream.queued_bytes
                if not (stream.is_call or is_unsaid or lulls.is_awaited(stream)):
                    stream.give_up(over)
            await asyncio.sleep(QUIET_LOOK_S)

    def cut(self, cause: str) -> None:
        """Whatever is under way ends now, in words. Idempotent."""
        reset = Reset(
            "draining", f"the relay is shutting down ({cause}); the call was not finished", close=GOING_AWAY
        )
        callers, streams = tuple(self._callers), self._clients_streams()
        self.calls_cut += sum(one.is_call for one in (*callers, *streams))
        for caller in callers:
            caller.cut(reset)
        for stream in streams:
            stream.give_up(reset)

    def _clients_streams(self) -> list[Stream]:
        """What is under way for callers that speak our framing."""
        clients = [keeper for keeper in self.registry.snapshot() if keeper.kind != AGENT]
        return [stream for client in clients for stream in client.link.streams.values()]

    @property
    def _goodbye(self) -> tuple[int, str]:
        return (RESTARTING, "restarting") if self._is_restart else (GOING_AWAY, "shutting down")

    @property
    def closing_s(self) -> float:
        """How much of a drain the goodbyes take, at most."""
        return self._spread_s + self._policy.flush_s

    @property
    def _spread_s(self) -> float:
        """Over which goodbyes are said."""
        return min(self._policy.spread_s, self._policy.spread_each_s * sum(self.registry.counts))

    async def _close_links(self) -> None:
        keepers, spread_s = self.registry.snapshot(), self._spread_s
        for socket in self._welcoming.sockets:
            socket.close(*self._goodbye)
        moments_s = {keeper: random.random() * spread_s for keeper in keepers}  # noqa: S311 - spreads load
        if self._is_restart:
            self._tell_when_to_return(moments_s, spread_s)
        await asyncio.gather(*(self._close(keeper, moment_s) for keeper, moment_s in moments_s.items()))
        late = self.registry.snapshot()  # came in meanwhile
        await asyncio.gather(*(self._close(keeper, 0.0) for keeper in late))

    def _tell_when_to_return(self, goodbyes_s: dict[Keeper, float], spread_s: float) -> None:
        """Each by how long after its own goodbye: when there is a relay again, and not all at once."""
        first_s = spread_s + AWAY_S
        return_s = min(self._policy.return_s, self._policy.return_each_s * len(goodbyes_s))
        for keeper, goodbye_s in goodbyes_s.items():
            delay_s = first_s + random.random() * return_s - goodbye_s  # noqa: S311
            keeper.tell(Kind.RESTART, Restart(reconnect_in_ms=max(0, int(delay_s * 1000))))

    async def _close(self, keeper: Keeper, after_s: float) -> None:
        await asyncio.sleep(after_s)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._policy.flush_s):
                # Only the kernel knows, and does not tell.
                while keeper.carrier is not None and not keeper.carrier.is_flushed:  # noqa: ASYNC110
                    await asyncio.sleep(LOOK_S)
        keeper.leave(Reset("draining", "the relay is shutting down"), *self._goodbye)

    async def aclose(self) -> None:
        """Whatever is left is over: of a drain that was not waited for, that may be everybody."""
        left = self.registry.snapshot()
        if self._is_restart:
            self._tell_when_to_return(dict.fromkeys(left, 0.0), 0.0)
        for keeper in left:
            keeper.leave(Reset("draining", "the relay has ended"), *self._goodbye)
        await self._welcoming.aclose()


class _Lulls:
    """Of streams on which answers come to calls that nobody sees under way: has nothing come for a while?"""

    def __init__(self, lull_s: float) -> None:
        self._lull_s = lull_s
        self._clock = asyncio.get_running_loop().time
        self._seen: dict[Stream, tuple[int, float]] = {}

    def is_awaited(self, stream: Stream | None) -> bool:
        """Is it such a stream, and may something come yet?"""
        if stream is None or not stream.brings_answers:
            return False
        passed_bytes, since = self._seen.get(stream, (-1, 0.0))
        now = self._clock()
        if stream.passed_bytes != passed_bytes:
            self._seen[stream] = stream.passed_bytes, now
            return True
        return now - since < self._lull_s


def _body_bytes(exchange: Exchange) -> int:
    return len(exchange.request.body)


def _no_bytes(waiting: WaitingCall) -> int:
    return 0
