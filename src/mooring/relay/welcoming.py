"""Agents and clients that arrive: from the upgrade to the first envelope, and who gets which name.

1. The upgrade: not while draining, not too often from one address, not with a wrong token: each refused
   before anything is agreed, in the words of HTTP.
2. The hello, within a bound. A token that came with it is looked at now.
3. What is asked for must be allowed; the codes with which a link is closed say what is wrong.
4. The name. Whoever comes back goes on with its own link. Another one's name is had only if that one does not
   answer (`probe_s`): then all that was open there is over, and its callers are told.

Who only `enquires` is told what it would be told, and sent away: it takes nobody's name, and gets no call.
"""

import asyncio
import logging
from collections.abc import Callable

from mooring.http.problems import problem
from mooring.relay.carrier import prepare
from mooring.relay.closing import (
    BAD_TOKEN,
    FAILED,
    MALFORMED,
    NAME_HELD,
    NO_SUCH_SERVER,
    NORMAL,
    NOT_ALLOWED,
    PROTOCOL_ERROR,
    TOO_MANY,
)
from mooring.relay.envelope import (
    SUBPROTOCOL,
    VERSION,
    BadEnvelope,
    Kind,
    encode,
    read_json,
    split,
    write_json,
)
from mooring.relay.gate import Gate
from mooring.relay.keeper import AGENT, CLIENT, Keeper
from mooring.relay.link import Stream
from mooring.relay.meters import Counters, Meters
from mooring.relay.policy import RelayPolicy
from mooring.relay.refusals import may_not_call
from mooring.relay.registry import Registry
from mooring.relay.tokens import Grant, is_name
from mooring.relay.words import Hello, Opening, Reset, Welcome, is_window
from mooring.wire.http import Exchange, Headers, Request, Response
from mooring.wire.websocket import WebSocket

__all__ = ["Welcoming"]

log = logging.getLogger("mooring.relay")

Opened = Callable[[Keeper, Stream, Opening], None]
MAX_INSTANCE = 128
"""Characters of it, which are kept for as long as the link."""
REPLACED = "another agent with the same token has taken the name"


class Arrival:
    """A socket that has said nothing yet, or is being decided about."""

    def __init__(self, kind: str, socket: WebSocket, request: Request, grant: Grant | None) -> None:
        self.kind = kind
        self.socket = socket
        self.request = request
        self.grant = grant
        self.is_gone = False

    def refuse(self, code: int, reason: str) -> None:
        """Close it; its goodbye is heard, if it had to wait before."""
        self.socket.close(code, reason)
        self.socket.go_on()


class Welcoming:
    """See the module. `aclose` leaves no task."""

    def __init__(
        self,
        registry: Registry,
        gate: Gate,
        counters: Counters,
        policy: RelayPolicy,
        *,
        on_open: Opened,
        on_agent: Callable[[str], None],
        expects: Callable[[str, str], bool],
        url_of: Callable[[str], str],
        meters: Meters,
    ) -> None:
        self._registry = registry
        self._gate = gate
        self._counters = counters
        self._policy = policy
        self._on_open = on_open
        self._on_agent = on_agent
        self._expects = expects
        self._url_of = url_of
        self._meters = meters
        self._arrivals: set[Arrival] = set()
        self._claims: set[asyncio.Task[None]] = set()
        self._refusal: Response | None = None

    def serve_agent(self, exchange: Exchange) -> None:
        """`/v1/server`."""
        self._serve(AGENT, exchange)

    def serve_client(self, exchange: Exchange) -> None:
        """`/v1/client`."""
        self._serve(CLIENT, exchange)

    def refuse_new(self, cause: str) -> None:
        """No upgrade is granted any more, and nobody who is at the door gets in."""
        headers: Headers = [(b"retry-after", b"5")]
        self._refusal = problem(503, "draining", f"the relay is shutting down ({cause})", headers=headers)

    @property
    def sockets(self) -> list[WebSocket]:
        """Of those that have not got in yet."""
        return [arrival.socket for arrival in self._arrivals]

    async def aclose(self) -> None:
        """Give up what is being decided."""
        for task in self._claims:
            task.cancel()
        if self._claims:
            await asyncio.wait(self._claims)

    # 1

    def _serve(self, kind: str, exchange: Exchange) -> None:
        request = exchange.request
        if self._refusal is not None:
            self._turn_away(kind, "draining", exchange, self._refusal)
            return
        if (too_often := self._gate.check_upgrade(request)) is not None:
            self._turn_away(kind, "rate_limited", exchange, too_often)
            return
        grant: Grant | None = None
        if request.header(b"authorization") is not None:
            judged = self._gate.check_token(request)
            if isinstance(judged, Response):
                self._turn_away(kind, "bad_token", exchange, judged)
                return
            grant = judged
        socket = exchange.upgrade(SUBPROTOCOL)
        if socket is not None:
            self._expect_hello(Arrival(kind, socket, request, grant))

    def _turn_away(self, kind: str, outcome: str, exchange: Exchange, answer: Response) -> None:
        self._counters.add("upgrades_total", kind, outcome)
        exchange.respond(answer)

    # 2

    def _expect_hello(self, arrival: Arrival) -> None:
        prepare(arrival.socket)
        self._arrivals.add(arrival)
        loop = asyncio.get_running_loop()
        late = loop.call_later(self._policy.hello_s, self._refuse, arrival, PROTOCOL_ERROR, "no hello came")

        def on_message(message: bytes) -> None:
            late.cancel()
            arrival.socket.on_message = lambda more: self._refuse(
                arrival, PROTOCOL_ERROR, "one hello is enough"
            )
            self._on_hello(arrival, message)

        def on_closed(code: int, reason: str) -> None:
            late.cancel()
            arrival.is_gone = True
            if arrival in self._arrivals:
                self._arrivals.discard(arrival)
                outcome = "protocol_error" if code in MALFORMED else "left"
                self._counters.add("upgrades_total", arrival.kind, outcome)

        arrival.socket.on_message = on_message
        arrival.socket.on_closed = on_closed

    def _on_hello(self, arrival: Arrival, message: bytes) -> None:
        try:
            [got] = split(message)
            if got.kind != Kind.HELLO:
                raise BadEnvelope("the first envelope must be a hello")
            hello: Hello = read_json(got.payload, Hello)
        except (BadEnvelope, ValueError) as error:
            self._refuse(
                arrival, PROTOCOL_ERROR, str(error) if isinstance(error, BadEnvelope) else "no hello"
            )
            return
        if arrival.grant is None:
            judged = self._gate.check(hello.token.encode() or None, arrival.request)
            if isinstance(judged, Response):
                self._refuse(arrival, BAD_TOKEN, "the token is not valid here", "bad_token")
                return
            arrival.grant = judged
        self._consider(arrival, arrival.grant, hello)

    # 3

    def _consider(self, arrival: Arrival, grant: Grant, hello: Hello) -> None:
        if VERSION not in hello.versions:
            self._refuse(arrival, PROTOCOL_ERROR, f"version {VERSION} of the protocol is spoken here")
        elif not _is_sensible(hello):
            self._refuse(arrival, PROTOCOL_ERROR, "the hello does not say what it must")
        elif len(hello.servers) > self._policy.max_servers_per_agent:
            self._refuse(arrival, TOO_MANY, "too many servers", "too_many")
        elif self._refusal is not None:
            self._refuse(arrival, 1001, "shutting down", "draining")
        elif arrival.kind == AGENT:
            self._consider_agent(arrival, grant, hello)
        else:
            self._consider_client(arrival, grant, hello)

    def _consider_agent(self, arrival: Arrival, grant: Grant, hello: Hello) -> None:
        wrong = [server for server in hello.servers if not grant.may_connect(server)]
        if hello.willing and len(wrong) < len(hello.servers):
            hello.servers = tuple(server for server in hello.servers if server not in wrong)
            wrong = []
        if not grant.servers:
            self._refuse(arrival, NOT_ALLOWED, "this token may call, but not connect", "not_allowed")
        elif wrong:
            what = wrong[0][:40] if is_name(wrong[0]) else "a server of that name"
            self._refuse(arrival, NOT_ALLOWED, f"this token may not offer {what}", "not_allowed")
        elif hello.enquires:
            self._consider_enquiry(arrival, grant, hello)
        else:
            arrival.socket.hold()
            task = asyncio.create_task(self._claim(arrival, grant, hello), name="claim")
            self._claims.add(task)
            task.add_done_callback(self._claims.discard)

    def _consider_enquiry(self, arrival: Arrival, grant: Grant, hello: Hello) -> None:
        """Of an agent. Who has the name is not asked for a sign: nobody is to go."""
        incumbent = self._registry.agent(grant.name)
        if incumbent is not None and incumbent.is_attached:
            self._refuse_name(arrival, grant)
        elif incumbent is None and self._is_full(AGENT):
            self._refuse_agent(arrival)
        else:
            self._tell_welcome(arrival, grant.name, hello.servers, self._url_of(grant.name))

    def _consider_client(self, arrival: Arrival, grant: Grant, hello: Hello) -> None:
        before = self._registry.client(hello.link) if hello.link else None
        if before is not None and before.is_same(hello) and before.grant.id == grant.id:
            self._attach(arrival, before, hello)  # whoever of its agents is away meanwhile
            return
        for server in hello.servers:
            agent, _, name = server.partition("/")
            if not grant.may_call(agent, name):
                self._refuse(arrival, NOT_ALLOWED, may_not_call(agent, name), "not_allowed")
                return
            there = self._registry.agent(agent)
            if not (self._expects(agent, name) if there is None else name in there.servers):
                self._refuse(arrival, NO_SUCH_SERVER, "there is no such server here now", "no_such_server")
                return
        if self._is_full(CLIENT):
            self._refuse(arrival, TOO_MANY, "too many clients are connected", "too_many")
            return
        if hello.enquires:
            self._tell_welcome(arrival, grant.name, (), "")
            return
        keeper = self._keeper(CLIENT, grant, hello)
        self._registry.claim(keeper)
        self._attach(arrival, keeper, hello)

    def _is_full(self, kind: str) -> bool:
        agents, clients = self._registry.counts
        return agents >= self._policy.max_agents if kind == AGENT else clients >= self._policy.max_clients

    # 4

    async def _claim(self, arrival: Arrival, grant: Grant, hello: Hello) -> None:
        incumbent = self._registry.agent(grant.name)
        if incumbent is not None and incumbent.is_same(hello):
            self._attach(arrival, incumbent, hello)
            return
        is_own = incumbent is not None and incumbent.instance == hello.instance  # it has given up that link
        if incumbent is not None and not is_own and await incumbent.probe(self._policy.probe_s):
            self._refuse_name(arrival, grant)
            return
        if arrival.is_gone or self._refusal is not None:
            self._refuse(arrival, 1001, "shutting down", "draining")
            return
        if incumbent is not None and incumbent.is_gone:
            incumbent = None  # it went while it was asked
        if incumbent is None and self._is_full(AGENT):  # now: of many who come at once each may be the last
            self._refuse_agent(arrival)
            return
        keeper = self._keeper(AGENT, grant, hello)
        if not self._registry.claim(keeper, incumbent):
            # Somebody was quicker, or the incumbent went meanwhile: the next attempt finds out.
            self._refuse(arrival, FAILED, "try again", "left")
            return
        if incumbent is not None:
            self._counters.add("agents_replaced_total")
            incumbent.leave(Reset("agent_replaced", REPLACED), NAME_HELD, REPLACED)
        self._attach(arrival, keeper, hello)

    def _keeper(self, kind: str, grant: Grant, hello: Hello) -> Keeper:
        meter = self._meters.of(grant.id)
        keeper = Keeper(
            kind, grant, hello, self._policy, meter=meter, counters=self._counters, on_gone=self._forget
        )
        if kind == CLIENT:
            keeper.link.on_open = lambda stream, opening: self._on_open(keeper, stream, opening)
        return keeper

    def _attach(self, arrival: Arrival, keeper: Keeper, hello: Hello) -> None:
        if arrival.is_gone:
            if not keeper.is_attached and keeper.id != hello.link:
                keeper.leave(Reset("agent_gone", "it went while it was coming"), NORMAL, "")
            return
        self._arrivals.discard(arrival)
        try:
            keeper.attach(
                arrival.socket, hello, url=self._url_of(keeper.name) if keeper.kind == AGENT else ""
            )
        except BadEnvelope as error:
            # The two ends do not remember the same: what was open is over, and it may begin anew.
            self._counters.add("upgrades_total", keeper.kind, "protocol_error")
            arrival.refuse(FAILED, str(error))
            keeper.leave(Reset("link_damaged", str(error)), FAILED, str(error))
            return
        if keeper.kind == AGENT:
            keeper.servers = frozenset(hello.servers)
        is_return = keeper.is_same(hello)
        began = "not_resumed" if hello.link else "accepted"
        self._counters.add("upgrades_total", keeper.kind, "resumed" if is_return else began)
        log.info(
            "%s %s %s",
            keeper.kind,
            keeper.name,
            "is back" if is_return else "has connected",
            extra={
                "event": "resumed" if is_return else "connected",
                "kind": keeper.kind,
                "name_": keeper.name,
            },
        )
        arrival.socket.go_on()
        if keeper.kind == AGENT:
            self._on_agent(keeper.name)

    def _forget(self, keeper: Keeper) -> None:
        if self._registry.release(keeper):
            extra = {"event": "gone", "kind": keeper.kind, "name_": keeper.name}
            why = f": {keeper.why_gone}" if keeper.why_gone else ""
            log.info("%s %s has gone%s", keeper.kind, keeper.name, why, extra=extra)

    def _tell_welcome(self, arrival: Arrival, name: str, servers: tuple[str, ...], url: str) -> None:
        """It would be, and is not in: it has no link."""
        self._arrivals.discard(arrival)
        self._counters.add("upgrades_total", arrival.kind, "accepted")
        extra = {"event": "enquired", "kind": arrival.kind, "name_": name}
        log.debug("%s %s asks whether it may connect", arrival.kind, name, extra=extra)
        welcome = Welcome(version=VERSION, link="", name=name, servers=servers, url=url)
        arrival.socket.send(encode(Kind.WELCOME, payload=write_json(welcome)))
        arrival.refuse(NORMAL, "")

    def _refuse_name(self, arrival: Arrival, grant: Grant) -> None:
        self._refuse(arrival, NAME_HELD, f"{grant.name} is connected from elsewhere", "name_held")

    def _refuse_agent(self, arrival: Arrival) -> None:
        self._refuse(arrival, TOO_MANY, "too many agents are connected", "too_many")

    def _refuse(self, arrival: Arrival, code: int, reason: str, outcome: str = "protocol_error") -> None:
        if arrival in self._arrivals:
            self._arrivals.discard(arrival)
            self._counters.add("upgrades_total", arrival.kind, outcome)
        arrival.refuse(code, reason)


def _is_sensible(hello: Hello) -> bool:
    return 0 < len(hello.instance) <= MAX_INSTANCE and is_window(hello.window) and hello.received >= 0
