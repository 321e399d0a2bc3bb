"""A link at the relay, of an agent or a client: with a socket, without one for a while, or gone.

| state | | ends by |
|---|---|---|
| attached | a socket carries it | its loss, `leave` |
| lost | it can be gone on with | `attach`, the end of the grace, `leave` |
| gone | for good; all its connections have been told | |

Every timer belongs to one loss: whoever comes late finds another state and changes nothing.
"""

import asyncio
import os
import secrets
import time
from collections.abc import Callable

from mooring.relay.carrier import Carrier
from mooring.relay.closing import BAD_TOKEN, FAILED, MALFORMED
from mooring.relay.counting import code_label
from mooring.relay.envelope import VERSION, BadEnvelope, Envelope, Kind, encode, read_json, write_json
from mooring.relay.holding import Holding
from mooring.relay.link import Ear, Link, Stream
from mooring.relay.meters import ByteMeter, Counters
from mooring.relay.policy import RelayPolicy
from mooring.relay.tokens import Grant
from mooring.relay.words import Goodbye, Hello, Opening, Reset, Welcome
from mooring.wire.websocket import WebSocket

__all__ = ["AGENT", "CLIENT", "Keeper"]

AGENT, CLIENT = "agent", "client"


class Keeper:
    """See the module. `on_gone` is called once, when it is."""

    def __init__(
        self,
        kind: str,
        grant: Grant,
        hello: Hello,
        policy: RelayPolicy,
        *,
        meter: ByteMeter,
        counters: Counters,
        on_gone: Callable[["Keeper"], None],
    ) -> None:
        self.kind = kind
        self.grant = grant
        self.name = grant.name
        self.instance = hello.instance
        self.servers = frozenset(hello.servers)
        self.id = secrets.token_urlsafe(18)
        self.link = Link(_nobody, peer_window=hello.window)
        self.link.on_word = self._on_word
        self.carrier: Carrier | None = None
        self.is_gone = False
        self.since = time.time()
        self.reconnects = 0
        self.calls = 0
        self.round_trip_s: float | None = None
        self.why_gone = ""
        """If whoever reads the log should know."""
        self._policy = policy
        self._measure = meter.counting_turns(counters.find("slowed_total"))
        self._lost = counters.find("links_lost_total", kind)
        self._counters = counters
        self._bad_counted = self._stray_counted = 0
        self._on_gone = on_gone
        self._loop = asyncio.get_running_loop()
        self._grace: asyncio.TimerHandle | None = None
        self._holding = Holding(policy.hold_s, lambda: self.is_attached, self._give_up)
        self._probes: dict[bytes, tuple[float, asyncio.Future[bool]]] = {}

    def __repr__(self) -> str:
        state = "gone" if self.is_gone else "attached" if self.carrier else "lost"
        return f"<Keeper of {self.kind} {self.name} {state}>"

    @property
    def is_attached(self) -> bool:
        """A socket carries it."""
        return self.carrier is not None

    def is_same(self, hello: Hello) -> bool:
        """Does it come back to go on?"""
        return bool(hello.link) and (hello.link, hello.instance) == (self.id, self.instance)

    def attach(self, socket: WebSocket, hello: Hello, *, url: str = "") -> None:
        """A socket carries it from now on. Raises BadEnvelope if the two ends do not remember the same."""
        is_return = self.is_same(hello)
        if self.carrier is not None:  # its own ghost: the same program has dialled again
            self._part(self.carrier)
        if is_return:
            self.link.resume(hello.received)
            self.reconnects += 1
        self._end_probes(is_there=True)
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None
        welcome = Welcome(
            version=VERSION,
            link=self.id,
            name=self.name,
            resumed=is_return,
            received=self.link.received,
            window=self.link.window,
            servers=hello.servers if self.kind == AGENT else (),
            url=url,
            grace_ms=int(self._policy.grace_s * 1000),
        )
        socket.send(encode(Kind.WELCOME, payload=write_json(welcome)))
        self.carrier = Carrier(
            self.link,
            socket,
            is_strict=self.kind == CLIENT,
            on_lost=self._on_lost,
            measure=self._measure,
        )
        if is_return:
            self._ask()  # its answer comes after all that is sent again

    def open(self, opening: Opening, ear: Ear) -> Stream:
        """A connection to its other end. If the link is lost, it waits for it, but not for ever."""
        self.calls += 1
        stream = self.link.open(opening, ear)
        stream.on_asked = self._hold
        self._hold(stream)
        return stream

    def _hold(self, stream: Stream) -> None:
        if self.carrier is None:
            self._holding.hold([stream])

    async def probe(self, timeout_s: float) -> bool:
        """Does its other end answer? Whatever it says is a sign, and who may say nothing is not silent."""
        carrier = self.carrier
        if carrier is None:
            return False
        heard = carrier.heard
        mark = os.urandom(8)
        answered = self._loop.create_future()
        self._probes[mark] = self._loop.time(), answered
        self.link.say(Kind.PING, mark)
        try:
            async with asyncio.timeout(timeout_s):
                return await answered and not self.is_gone
        except TimeoutError:
            return carrier is self.carrier and (carrier.is_resting or carrier.heard > heard)
        finally:
            self._probes.pop(mark, None)

    def measure(self) -> None:
        """Ask for a sign, to learn how far away its other end is. One that did not come in time is none."""
        if self.carrier is not None:
            late = self._loop.time() - self._policy.probe_s
            self._probes = {mark: one for mark, one in self._probes.items() if one[0] > late}
            self._ask()

    def _ask(self) -> None:
        mark = os.urandom(8)
        self._probes[mark] = self._loop.time(), self._loop.create_future()
        self.link.say(Kind.PING, mark)

    def look(self) -> None:
        """Once in a while: tell what came, count what was bad, and end what nobody hears."""
        link = self.link
        link.acknowledge()
        self._count_envelopes()
        if link.is_ignored:
            self.leave(Reset("link_damaged", "nothing is acknowledged"), FAILED, "nothing is acknowledged")

    def tell(self, kind: int, words: object) -> None:
        """Say something about the link, if there is one to hear it."""
        if self.carrier is not None:
            self.link.say(kind, write_json(words))

    def leave(self, reset: Reset, code: int, reason: str) -> None:
        """It is over: its connections are told, and then its other end. Idempotent."""
        if self.is_gone:
            return
        self.is_gone = True
        self.why_gone = reason if code == BAD_TOKEN else ""
        if self._grace is not None:
            self._grace.cancel()
        for stream in tuple(self.link.streams.values()):
            # Each with what is known of it: nothing was done that was not sent whole.
            stream.give_up(stream.with_what_is_known(reset))
        carrier, self.carrier = self.carrier, None
        if carrier is not None:
            self._count_close(code)
            carrier.close(code, reason)
            carrier.drop()
        self._end_probes(is_there=False)
        self._count_envelopes()
        self._on_gone(self)
        self._holding.end()
        # The two know each other: without this only the collector would find them.
        self.link.on_word = self.link.on_open = None

    def _count_envelopes(self) -> None:
        """Those that came since, and were of no use."""
        link = self.link
        self._counters.add("bad_envelopes_total", amount=link.bad - self._bad_counted)
        self._counters.add("stray_envelopes_total", amount=link.stray - self._stray_counted)
        self._bad_counted, self._stray_counted = link.bad, link.stray

    def _count_close(self, code: int) -> None:
        self._counters.add("links_closed_total", self.kind, code_label(code))

    # When the socket is lost.

    def _part(self, carrier: Carrier) -> None:
        carrier.drop()
        carrier.socket.abort()
        self.carrier = None
        self.link.lose()
        self._hold_calls()

    def _on_lost(self, code: int, reason: str) -> None:
        self.carrier = None
        self._count_close(code)
        if self.kind == CLIENT and code in MALFORMED:
            # A bad frame ends a client: nobody waits for its return.
            self.leave(Reset("caller_gone", f"{self.name} does not speak as it should"), code, reason)
        else:
            self._lose()

    def _lose(self) -> None:
        self._lost.value += 1
        self._end_probes(is_there=False)
        self.link.lose()
        self._hold_calls()
        self._grace = self._loop.call_later(self._policy.grace_s, self._end_grace)

    def _end_probes(self, *, is_there: bool) -> None:
        """Whoever waits for a sign knows enough."""
        for _, answered in self._probes.values():
            if not answered.done():
                answered.set_result(is_there)
        self._probes.clear()

    def _hold_calls(self) -> None:
        self._holding.hold([stream for stream in self.link.streams.values() if stream.is_call])

    def _give_up(self, stream: Stream) -> None:
        seconds = f"{self._policy.hold_s:g} s"
        reset = Reset("agent_lost", f"{self.name} is not connected, and did not return within {seconds}")
        stream.give_up(stream.with_what_is_known(reset))

    def _end_grace(self) -> None:
        if self.carrier is None:
            text = f"{self.name} is not connected any more"
            self.leave(Reset("agent_gone", text), 1000, "")

    # What its other end says about the link.

    def _on_word(self, got: Envelope) -> None:
        if got.kind == Kind.PING:
            self.link.say(Kind.PONG, got.payload[:16])
        elif got.kind == Kind.PONG:
            since, answered = self._probes.pop(got.payload, (0.0, None))
            if answered is not None and not answered.done():
                self._holding.release()
                self.round_trip_s = self._loop.time() - since
                answered.set_result(True)
        elif got.kind == Kind.GOODBYE:
            goodbye: Goodbye = read_json(got.payload, Goodbye)
            why = f": {goodbye.reason[:200]}" if goodbye.reason else ""
            self._loop.call_soon(
                self.leave, Reset("agent_gone", f"{self.name} has disconnected{why}"), 1000, "goodbye"
            )
        elif got.kind in (Kind.HELLO, Kind.WELCOME):
            raise BadEnvelope("said twice, or by the wrong end")


def _nobody() -> None:
    """There is no socket yet."""
