"""An agent: the link of a workstation to its relay, kept for as long as it is wanted.

| state | | next |
|---|---|---|
| dialling | a connection is made, the relay greeted | the same (network), connected, waiting, refused |
| connected | callers are answered | waiting |
| waiting | for the next attempt, or a change of network | dialling |
| refused | the relay has said no, for a reason that time does not heal | |

A link that was lost is gone on with: what was under way stays under way here until the relay's grace is over,
and the relay sends again what did not come through. Only then is it given up.

Who answers in a relay's place (another program, a certificate that nobody vouches for) is a mistake before
the first link, and ends it; later it may be a network that wants a login first, and is waited out.
"""

import asyncio
import logging
import math
import os
import random
import re
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

import msgspec

from mooring import __version__
from mooring.errors import MooringError, Unavailable, UserError
from mooring.http.client_errors import BadAnswer, NotTrusted
from mooring.http.origin import Origin
from mooring.http.websocket_client import ClientSockets, Refused
from mooring.relay.backoff import Backoff
from mooring.relay.carrier import Carrier, prepare
from mooring.relay.closing import BAD_TOKEN, NAME_HELD, NORMAL, NOT_ALLOWED, PROTOCOL_ERROR
from mooring.relay.envelope import (
    SUBPROTOCOL,
    VERSION,
    BadEnvelope,
    Envelope,
    Kind,
    encode,
    read_json,
    split,
    write_json,
)
from mooring.relay.link import Link, Stream
from mooring.relay.policy import AgentPolicy
from mooring.relay.words import Goodbye, Hello, Opening, Reset, Restart, Welcome, is_window
from mooring.secrets.threads import in_thread
from mooring.wire.http import Headers
from mooring.wire.websocket import WebSocket

__all__ = ["Agent", "AgentStatus", "State", "Target", "refused_status"]

log = logging.getLogger("mooring.relay")

LINK_LOST = Reset("link_lost", "the link to the relay was lost", close=1011)
MISTAKE = MooringError("it failed inside Mooring; the log says why", code="internal_error")
TOKEN = re.compile(r"[\x21-\x7e]{1,500}")
FATAL_STATUSES = {401: "the relay does not know this token", 403: "the relay does not allow it"}
NO_RELAYS = frozenset({*range(200, 400), 404, 405})
"""Statuses with which no relay answers an upgrade; whatever does is something else."""
UPGRADE_REQUIRED = 426
NAME_IS_HELD = "name_held"
VISIBLE = re.compile("[!-~]{1,200}")
SLOW_S = 1.0
"""A relay that has not answered by then is told of: whoever looks on sees what is waited for."""
REMIND_S = 5.0
"""A cause that lasts is told again after this, then after twice as long, and so on: people see that it goes
on, and a log of weeks has few lines."""
LONGEST_GRACE_MS = 3_600_000
"""Whatever a relay says: an hour."""


class State(Enum):
    """See the module."""

    DIALLING = "dialling"
    CONNECTED = "connected"
    WAITING = "waiting"
    REFUSED = "refused"


@dataclass(frozen=True, kw_only=True)
class Target:
    """Which relay, by which door, as what."""

    origin: Origin
    path: str
    """`/v1/server` or `/v1/client`, below what stands before it."""
    shown: str
    """Its address as the user wrote it."""
    url: str = ""
    """The same, as HTTP has it."""
    servers: tuple[str, ...] = ()
    is_willing: bool = False
    """Offer those of them that the token allows."""
    token: Callable[[], str] = lambda: ""
    """Asked before each attempt, as it may have been exchanged; in a thread, as it may wait for a keyring."""


class AgentStatus(msgspec.Struct, kw_only=True):
    """What `mooring connect status` tells."""

    relay: str
    state: str
    name: str
    servers: list[str]
    urls: dict[str, str]
    connected_since: float | None
    round_trip_ms: float | None
    calls: int
    reconnects: int
    next_attempt_in_s: float | None
    last_error: str | None
    last_error_code: str | None
    hint: str | None
    """What to do about it."""


def refused_status(relay: str, error: MooringError) -> AgentStatus:
    """Of a connection that cannot even be tried."""
    return AgentStatus(
        relay=relay,
        state=State.REFUSED.value,
        name="",
        servers=[],
        urls={},
        connected_since=None,
        round_trip_ms=None,
        calls=0,
        reconnects=0,
        next_attempt_in_s=None,
        last_error=error.message,
        last_error_code=error.code,
        hint=error.hint or None,
    )


class Agent:
    """One link. `run` until it is refused or `leave` is called; `aclose` leaves nothing."""

    def __init__(
        self,
        target: Target,
        policy: AgentPolicy,
        *,
        on_open: Callable[[Stream, Opening], None] | None = None,
        on_welcome: Callable[[Welcome], None] = lambda welcome: None,
        on_lost: Callable[[], None] = lambda: None,
        on_answer: Callable[[], None] = lambda: None,
        keeps_trying: bool = False,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`on_lost`: the socket is, and the link may come back. `on_answer`: the relay has answered a ping,
        and so has all that was sent again. `keeps_trying`: nobody waits for the first link, so whoever
        answers in the relay's place is waited out from the beginning."""
        self.target = target
        self.link = self._make_link(on_open)
        self.welcome: Welcome | None = None
        self.state = State.DIALLING
        self.reconnects = 0
        self.round_trip_s: float | None = None
        self.connected_since: float | None = None
        self.last_error: MooringError | None = None
        self._on_open = on_open
        self._on_welcome = on_welcome
        self._told_lost = on_lost
        self._told_answer = on_answer
        self._keeps_trying = keeps_trying
        self._policy = policy
        self._clock = clock
        self._backoff = Backoff(policy, chance)
        self._instance = secrets.token_urlsafe(18)
        self._sockets = ClientSockets(clock=clock)
        self._carrier: Carrier | None = None
        self._lost: asyncio.Future[tuple[int, str]] | None = None
        self._reading: asyncio.Future[str] | None = None
        """A look for the token: one at a time, for it may hang."""
        self._too_early: list[bytes] = []
        """What came right behind the welcome."""
        self._next_at: float | None = None
        self._told = ""
        """Why there is no link, as it was told last; empty: nothing was."""
        self._tell_again_at = self._tell_again_s = 0.0
        self._hurry = asyncio.Event()
        self._pings: dict[bytes, float] = {}
        self._grace: asyncio.TimerHandle | None = None
        self._minimum_s = 0.0
        """The relay's own word on when to come back."""
        self._conflicts = 0
        """In a row."""
        self._conflicts_since = 0.0
        self._is_leaving = self._enquires = False
        self._goodbye: Goodbye | None = None
        """With which to leave; None: without a word, for a successor."""
        self._ended = asyncio.Event()
        """`run` does not run."""
        self._ended.set()

    def _make_link(self, on_open: Callable[[Stream, Opening], None] | None) -> Link:
        link = Link(lambda: None, on_open)
        link.on_word = self._on_word
        return link

    @property
    def is_connected(self) -> bool:
        """A socket carries the link now."""
        return self._carrier is not None

    def hurry(self) -> None:
        """The network has changed: the next attempt is now, also if one is under way; a link that is there is
        asked for a sign."""
        self._hurry.set()
        if self._carrier is not None:
            mark = self.ping()
            loop = asyncio.get_running_loop()
            loop.call_later(self._policy.probe_s, self._drop_silent, self._carrier, mark)

    def _drop_silent(self, carrier: Carrier, mark: bytes) -> None:
        if self._carrier is carrier and mark in self._pings:
            log.info("the relay does not answer after a change of network: dialling again")
            carrier.socket.abort()

    def ping(self) -> bytes:
        """Measure the distance, by a mark that comes back."""
        mark = os.urandom(8)
        if self._carrier is not None:
            self._pings[mark] = self._clock()
            self.link.say(Kind.PING, mark)
        return mark

    async def run(self) -> None:
        """Keep the link. Returns after `leave`. Raises MooringError when the relay refuses for good."""
        self._ended.clear()
        try:
            while not self._is_leaving:
                self.state = State.DIALLING
                await self._attempt()
                if not self._is_leaving:
                    await self._wait()
        except Exception as error:
            self.state = State.REFUSED
            self.last_error = error if isinstance(error, MooringError) else MISTAKE
            raise
        finally:
            self._ended.set()

    async def _attempt(self) -> None:
        """One link, from its beginning to its end. Raises MooringError for what time does not heal."""
        try:
            socket, welcome = await self._dial_on_this_network()
            code, reason = await self._serve(socket, welcome)
            self._note_end(code, reason)
        except Refused as error:
            self._note_refusal(error)
        except UserError:
            raise
        except NotTrusted as error:
            self._note_stranger(self._in_our_words(error))
        except BadAnswer as error:
            self._note_stranger(self._no_relay(error.message))
        except MooringError as error:
            self._note(error)
        finally:
            if self.last_error is None or self.last_error.code != NAME_IS_HELD:
                self._conflicts = 0  # it was something else this time

    async def knock(self) -> None:
        """One attempt, and away again without a word. Raises MooringError for a no."""
        self._is_leaving = self._enquires = True
        await self._attempt()

    async def leave(self, reason: str, *, is_final: bool = True) -> None:
        """Say goodbye, so that nobody waits for us; what is under way is over. Returns when the relay has
        heard it and `run` has ended, or after `goodbye_s`.

        Not `is_final`: another takes our place, for whom the relay holds what comes meanwhile.
        """
        self._is_leaving = True
        self._goodbye = Goodbye(reason) if is_final else None
        self._hurry.set()
        if self._carrier is not None:
            self._say_goodbye(self._carrier)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._policy.goodbye_s):
                await self._ended.wait()

    def _say_goodbye(self, carrier: Carrier) -> None:
        if self._goodbye is not None:
            self.link.say(Kind.GOODBYE, write_json(self._goodbye))
        carrier.close(NORMAL, self._goodbye.reason if self._goodbye is not None else "")

    async def aclose(self) -> None:
        """Cut it."""
        self._is_leaving = True
        if self._grace is not None:
            self._grace.cancel()
        if self._carrier is not None:
            self._carrier.drop()
            self._carrier = None
        self.link.fail(LINK_LOST)
        await self._sockets.aclose()

    def status(self, calls: int) -> AgentStatus:
        """What there is to tell."""
        welcome, now = self.welcome, self._clock()
        url = (welcome.url or f"{self.target.url}/{welcome.name}") if welcome is not None else ""
        servers = self.target.servers if welcome is None else welcome.servers
        trip_s = self.round_trip_s if self.is_connected else None
        return AgentStatus(
            relay=self.target.shown,
            state=self.state.value,
            name=welcome.name if welcome is not None else "",
            servers=list(servers),
            urls={name: f"{url}/{name}/mcp" for name in servers} if url else {},
            connected_since=self.connected_since if self.is_connected else None,
            round_trip_ms=None if trip_s is None else round(trip_s * 1000, 2),
            calls=calls,
            reconnects=self.reconnects,
            next_attempt_in_s=None if self._next_at is None else round(max(0.0, self._next_at - now), 1),
            last_error=self.last_error.message if self.last_error is not None else None,
            last_error_code=self.last_error.code if self.last_error is not None else None,
            hint=(self.last_error.hint or None) if self.last_error is not None else None,
        )

    # Dialling.

    async def _dial_on_this_network(self) -> tuple[WebSocket, Welcome]:
        """If it changes meanwhile, the attempt is given up for another: its packets may be lost by now."""
        slow = asyncio.get_running_loop().call_later(SLOW_S, self._tell_dialling)
        try:
            return await self._dial_until_it_stays()
        finally:
            slow.cancel()

    def _tell_dialling(self) -> None:
        if not self._told and not self._is_leaving:
            log.info("connecting to %s …", self.target.shown)

    async def _dial_until_it_stays(self) -> tuple[WebSocket, Welcome]:
        while True:
            dialling = asyncio.ensure_future(self._dial())
            changing = asyncio.ensure_future(self._hurry.wait())
            try:
                await asyncio.wait([dialling, changing], return_when=asyncio.FIRST_COMPLETED)
                if dialling.done() or self._is_leaving:  # then the relay hears of that once it has answered
                    return await dialling
            finally:
                dialling.cancel()
                changing.cancel()
                await asyncio.gather(dialling, changing, return_exceptions=True)
            self._hurry.clear()
            log.info("the network has changed: dialling again")

    async def _dial(self) -> tuple[WebSocket, Welcome]:
        headers: Headers = [(b"Authorization", b"Bearer " + _checked(await self._token()))]
        socket = await self._sockets.open(
            self.target.origin, self.target.path, headers, subprotocol=SUBPROTOCOL
        )
        prepare(socket)
        heard: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        early: list[bytes] = []
        ends: list[_Closed] = []

        def on_message(message: bytes) -> None:
            socket.hold()  # what follows is for the link
            socket.on_message = early.append
            if not heard.done():
                heard.set_result(message)

        def on_closed(code: int, reason: str) -> None:
            ends.append(_Closed(code, reason))
            if not heard.done():
                heard.set_exception(ends[0])

        socket.on_message, socket.on_closed = on_message, on_closed
        before, link = self.welcome, self.link
        hello = Hello(
            instance=self._instance,
            servers=self.target.servers,
            willing=self.target.is_willing,
            link=before.link if before is not None else "",
            received=self.link.received,
            window=self.link.window,
            software=f"mooring/{__version__}",
            enquires=self._enquires,
        )
        socket.send(encode(Kind.HELLO, payload=write_json(hello)))
        try:
            async with asyncio.timeout(self._policy.welcome_s):
                message = await heard
            if ends:
                raise ends[0]  # in the same breath
            welcome = _read_welcome(message)
            if welcome.resumed and self.link is not link:
                # Its grace ended while we asked. A new one is no sequel: what is said on it would be taken
                # for what came before, and dropped.
                raise MooringError("the link was given up while the relay was asked", code="link_lost")
            self._too_early = early
            return socket, welcome
        except _Closed as closed:
            raise self._refusal(closed.code, closed.reason) from None
        except TimeoutError:
            socket.abort()
            raise MooringError("the relay does not answer", code="timeout") from None
        except BadEnvelope as error:
            socket.abort()
            raise MooringError(f"the relay does not speak as it should: {error}", code="bad_answer") from None
        except BaseException:
            socket.abort()
            raise

    async def _token(self) -> str:
        """A look that hangs is waited for by the next attempt too. Raises MooringError."""
        if self._reading is None or self._reading.done():
            self._reading = in_thread(self.target.token, "the token of a relay")
        try:
            async with asyncio.timeout(self._policy.token_s):
                return await asyncio.shield(self._reading)
        except TimeoutError:
            raise Unavailable(
                f"the token could not be read within {self._policy.token_s:g} s",
                code="references_slow",
                hint="unlock the keyring, or see whether the disk of the file answers",
            ) from None

    # Being connected.

    async def _serve(self, socket: WebSocket, welcome: Welcome) -> tuple[int, str]:
        """Until the link is lost."""
        try:
            self._go_on(welcome)
        except MooringError:
            socket.abort()
            raise
        self._lost = asyncio.get_running_loop().create_future()
        self._carrier = carrier = Carrier(self.link, socket, is_strict=False, on_lost=self._on_lost)
        began = self._clock()
        self.state = State.CONNECTED
        self.connected_since = time.time()
        self._next_at = None
        self._conflicts = 0
        self._minimum_s = 0.0
        self._keeps_trying = True
        self._hurry.clear()
        self.last_error, self._told = None, ""
        for message in self._too_early:
            carrier.hear(message)
        self._too_early = []
        socket.go_on()
        self._on_welcome(welcome)
        if self._is_leaving:  # somebody said so while we dialled
            self._say_goodbye(carrier)
        try:
            return await self._beat(self._lost)
        finally:
            self._backoff.note_uptime(self._clock() - began)

    def _go_on(self, welcome: Welcome) -> None:
        """The link that was, if the relay remembers it; otherwise all that was on it is over."""
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None
        is_first = self.welcome is None
        if welcome.resumed and not is_first:
            try:
                self.link.resume(welcome.received)
                self.reconnects += 1
            except BadEnvelope as error:
                self._begin_anew()
                raise MooringError(
                    f"the relay does not remember the link: {error}", code="bad_link"
                ) from None
        elif not is_first:
            self._begin_anew()
            self.reconnects += 1
        self.link.peer_window = welcome.window
        self.welcome = welcome

    def _begin_anew(self) -> None:
        before, self.link = self.link, self._make_link(self._on_open)
        before.hand_over(self.link)
        before.fail(LINK_LOST)
        self.welcome = None

    async def _beat(self, lost: "asyncio.Future[tuple[int, str]]") -> tuple[int, str]:
        next_ping = 0.0
        while True:
            if self._clock() >= next_ping:
                next_ping = self._clock() + self._policy.ping_s
                self.ping()
            self.link.acknowledge()
            done, _ = await asyncio.wait([lost], timeout=1.0)
            if done:
                return lost.result()

    def _on_lost(self, code: int, reason: str) -> None:
        self._carrier = None
        self._pings.clear()
        self.link.lose()
        grace_ms = self.welcome.grace_ms if self.welcome is not None else 0
        loop = asyncio.get_running_loop()
        self._grace = loop.call_later(
            min(max(0, grace_ms), LONGEST_GRACE_MS) / 1000, self._end_grace, self.link
        )
        if self._lost is not None and not self._lost.done():
            self._lost.set_result((code, reason))
        self._told_lost()

    def _end_grace(self, link: Link) -> None:
        if self._carrier is None and self.link is link:
            self._begin_anew()

    def _on_word(self, got: Envelope) -> None:
        if got.kind == Kind.PING:
            self.link.say(Kind.PONG, got.payload[:16])
        elif got.kind == Kind.PONG:
            since = self._pings.pop(got.payload, None)
            if since is not None:
                self.round_trip_s = self._clock() - since
                self._told_answer()
            if not self._pings:
                self._hurry.clear()  # the link has outlived whatever has changed
        elif got.kind == Kind.RESTART:
            restart: Restart = read_json(got.payload, Restart)
            longest_ms = int(self._policy.longest_asked_s * 1000)
            self._minimum_s = min(max(0, restart.reconnect_in_ms), longest_ms) / 1000
            self._backoff.begin_anew()

    # Not being connected.

    def _note(self, error: MooringError) -> None:
        self.last_error = error

    def _tell_waiting(self, delay_s: float) -> None:
        """Each cause once, and again if it lasts."""
        why = self.last_error.message if self.last_error is not None else ""
        if why == self._told:
            if self._clock() < self._tell_again_at:
                return
            self._tell_again_s *= 2
        else:
            self._told, self._tell_again_s = why, REMIND_S
        self._tell_again_at = self._clock() + self._tell_again_s
        why = why.removeprefix(f"{self.target.origin.authority}: ")
        next_s = math.ceil(delay_s)
        log.warning("not connected to %s: %s; next try in %d s", self.target.shown, why, next_s)

    def _note_end(self, code: int, reason: str) -> None:
        if self._is_leaving:
            return
        refusal = self._refusal(code, reason)
        if isinstance(refusal, UserError):
            raise refusal
        self._note(refusal)

    def _note_refusal(self, error: Refused) -> None:
        """By the status of the answer to the upgrade."""
        if error.status in FATAL_STATUSES:
            raise UserError(
                f"{FATAL_STATUSES[error.status]} ({self.target.shown} answers {error.status})",
                code="relay_refused",
                hint="make a token there with: mooring relay token create NAME --servers …",
            ) from None
        if error.status in NO_RELAYS:
            self._note_stranger(self._no_relay(f"it answers with HTTP status {error.status}", _place(error)))
            return
        wait = error.header(b"retry-after") or b""
        if wait.isdigit():
            self._minimum_s = min(float(wait[:9]), self._policy.longest_asked_s)
        hint = ""
        if error.status == UPGRADE_REQUIRED:
            hint = "what is in front of the relay must pass WebSockets on"
        self._note(MooringError(f"the relay answers {error.status}", code="relay_busy", hint=hint))

    def _note_stranger(self, error: MooringError) -> None:
        """It is not the relay who answers."""
        if not self._keeps_trying:
            raise error
        self._note(error)

    def _in_our_words(self, error: NotTrusted) -> NotTrusted:
        """Whoever wrote `wss://` is asked about that, not about HTTP."""
        if error.code != "tls_failed" or not self.target.shown.startswith("wss:"):
            return error
        return NotTrusted(error.message, code=error.code, hint="is it ws:// rather than wss://?")

    def _no_relay(self, why: str, place: str = "") -> MooringError:
        return Unavailable(
            f"{self.target.shown} is no relay: {why}",
            code="not_a_relay",
            hint=f"it says that it is at {place}: is the relay there?"
            if place
            else "give the address of mooring relay: wss://relay.example.com",
        )

    def _refusal(self, code: int, reason: str) -> MooringError:
        """What a close means."""
        said = f"{reason} (close code {code})" if reason else f"close code {code}"
        if code in (BAD_TOKEN, NOT_ALLOWED):
            hint = "mooring relay token list, on the relay, shows what its tokens allow"
            return UserError(f"the relay refuses: {said}", code="relay_refused", hint=hint)
        if code == NAME_HELD:
            hint = "end the other one, or give this machine a token of its own"
            if self._is_conflict_for_good():
                return UserError(f"the relay refuses: {said}", code=NAME_IS_HELD, hint=hint)
            return MooringError(said, code=NAME_IS_HELD, hint=hint)
        if code == PROTOCOL_ERROR:
            return MooringError(f"the relay does not understand us: {said}", code="bad_link")
        return MooringError(f"the link was lost: {said}", code="link_lost")

    def _is_conflict_for_good(self) -> bool:
        """One more, and they go on for so long that it is nobody's ghost."""
        now, policy = self._clock(), self._policy
        if not self._conflicts:
            self._conflicts_since = now
        self._conflicts += 1
        lasts_s = now - self._conflicts_since
        return self._conflicts >= policy.max_conflicts and lasts_s >= policy.conflicts_s

    async def _wait(self) -> None:
        """For the next attempt; a change of network is one reason not to."""
        self.state = State.WAITING
        delay_s = self._backoff.next_s(self._minimum_s)
        self._minimum_s = 0.0  # the relay's word is good for one attempt
        self._next_at = self._clock() + delay_s
        self._tell_waiting(delay_s)
        try:
            async with asyncio.timeout(delay_s):
                await self._hurry.wait()
        except TimeoutError:
            pass
        self._hurry.clear()
        self._next_at = None


def _place(refused: Refused) -> str:
    """Where it leads elsewhere, if that can be shown."""
    place = (refused.header(b"location") or b"").decode("latin-1")
    return place if VISIBLE.fullmatch(place) else ""


def _checked(token: str) -> bytes:
    """Nothing but a token: whatever is in a file by mistake is not sent, nor shown."""
    if TOKEN.fullmatch(token) is None:
        raise UserError(
            "what is kept as the relay's token is none",
            code="bad_token",
            hint="put the token there that mooring relay token create printed, and nothing else",
        )
    return token.encode("ascii")


class _Closed(Exception):
    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


def _read_welcome(message: bytes) -> Welcome:
    envelopes = [*split(message)]
    if [got.kind for got in envelopes] != [Kind.WELCOME]:
        raise BadEnvelope("the first message must be a welcome, and nothing else")
    welcome: Welcome = read_json(envelopes[0].payload, Welcome)
    if welcome.version != VERSION or not is_window(welcome.window):
        raise BadEnvelope("the welcome does not say what it must")
    return welcome
