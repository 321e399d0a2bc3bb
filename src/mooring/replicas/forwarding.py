"""Passing a request on to the replica that has its session, and its answer back: both as they are.

- A request is passed on once, over a connection that is kept: one that it has for itself (`send`); or, if it
  is a small POST, one that it shares with others (`link_to`). What is not known to be unsent is never sent
  again.
- Answers of a known and small length are passed on whole, all else piece by piece, no faster than the client
  reads.
- A client that goes closes the request at the owner, which is all that it would have seen itself.
- A replica that lives, but cannot be reached any more, is noticed by its kernel's silence: for as long as a
  lease.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import NamedTuple
from urllib.parse import quote

from mooring.errors import MooringError
from mooring.http.client import Client, ClientResponse
from mooring.http.client_errors import AnswerLost
from mooring.http.client_limits import ClientLimits
from mooring.http.origin import parse_url
from mooring.replicas.link_asking import AskingLink
from mooring.replicas.link_frames import MAX_BODY_BYTES, MAX_HEAD_BYTES
from mooring.replicas.links import Links
from mooring.replicas.policy import ReplicaPolicy
from mooring.replicas.records import Replica
from mooring.replicas.seal import HEADER, NOBODY, Seal
from mooring.wire.http import HOP_BY_HOP, Exchange, Headers, Request, Response

__all__ = ["HELD", "MISDIRECTED", "NEIGHBOURS_PATH", "NO", "REFUSALS", "UNTRUSTED", "YES", "Forwarding"]

log = logging.getLogger("mooring.replicas")

MISDIRECTED = 421
"""The session is not, or no longer, where the request was sent; nothing was done."""
NEIGHBOURS_PATH = "/.mooring/replica"
HELD = "held"
YES, NO = b"yn"
"""Of each session that is asked for."""
WHOLE_BYTES = 64 * 1024
"""An answer up to this is kept until it is whole: one write."""
MAX_WORD_BYTES = 4096
UNTRUSTED = frozenset({401, 403})
"""Whoever is vouched for is not asked who he is: it is us who are not believed."""
REFUSALS = UNTRUSTED | {MISDIRECTED}
"""By which another replica says that it did nothing."""

# Who asks was judged where the request came in; the owner believes that replica.
JUDGED = frozenset({b"authorization", b"expect", b"host", b"origin", HEADER})
OF_AN_ANSWER = frozenset({b"date", b"server"})


class _Told(NamedTuple):
    """A head that was sent ahead of its requests: on which link, with which seal, and its number there."""

    link: AskingLink
    seal: tuple[bytes, bytes]
    number: int


class Forwarding:
    """The connections to all other replicas."""

    def __init__(self, seal: Seal, policy: ReplicaPolicy, name: Callable[[], str]) -> None:
        """`name`: of our own incarnation."""
        self._seal = seal
        self._policy = policy
        self._name = name
        self._clients: dict[str, Client] = {}
        self._links = Links(NEIGHBOURS_PATH, lambda: seal.header(name(), NOBODY), policy)

    async def send(self, request: Request, to: Replica) -> ClientResponse:
        """Pass it on; the head of the answer. Raises NotSent, AnswerLost."""
        headers = [*_fields_to_pass_on(request.headers, JUDGED), self._seal_for(request)]
        return await self._client(to).request(request.method, _target(request), headers, request.body)

    def link_to(self, to: Replica, request: Request) -> tuple[AskingLink, int] | None:
        """A link that takes this request now, and the number of its head there. None: nothing was sent."""
        link = self._links.usable(to.address)
        if link is None or len(request.body) > MAX_BODY_BYTES:
            return None
        # Sent ahead once for all requests that share a head, as those of one client do.
        seal = self._seal_for(request)
        told: _Told | None = request.head.notes.get(self)
        if told is None or told.link is not link or told.seal is not seal or not link.knows_head(told.number):
            headers = [*_fields_to_pass_on(request.headers, JUDGED), seal]
            head = self._client(to).encode_head(request.method, _target(request), headers)
            if len(head) > MAX_HEAD_BYTES:
                return None
            number = link.put_head(head + b"Content-Length: 0\r\n\r\n")
            told = request.head.notes[self] = _Told(link, seal, number)
        return link, told.number

    def _seal_for(self, request: Request) -> tuple[bytes, bytes]:
        return self._seal.header(self._name(), request.principal)

    async def answer(self, exchange: Exchange, response: ClientResponse) -> None:
        """Pass the answer on. Raises AnswerLost if it breaks off before anything of it was."""
        headers = _fields_to_pass_on(response.headers, OF_AN_ANSWER)
        if _is_short(response.headers):
            exchange.respond(Response(response.status, await response.read(WHOLE_BYTES), headers))
            return
        caught_up = asyncio.Event()
        exchange.on_writable = caught_up.set
        exchange.start(response.status, headers)
        try:
            async for piece in response:
                exchange.write(piece)
                if not exchange.writable and not exchange.disconnected:
                    caught_up.clear()
                    await caught_up.wait()
        except BaseException as error:
            exchange.abort()  # visibly incomplete: an event stream is resumed, wherever its events are
            if not isinstance(error, AnswerLost):
                raise
        else:
            exchange.end()

    async def promise_rest(self, replica: Replica, incarnation: str) -> bool:
        """See `Neighbours`."""
        return await self._ask(replica, f"rest={incarnation}") == b"yes"

    async def holds(self, replica: Replica, incarnation: str) -> bool:
        """Does it live under that name, and may it act? Whoever does not answer does not."""
        return await self._ask(replica, f"holds={incarnation}") == b"yes"

    async def held_of(self, ids: Collection[str], replica: Replica) -> set[str]:
        """Which of these are its own, though Redis has nothing of them? It writes those down again."""
        answer = await self._ask(replica, HELD, " ".join(ids).encode())
        return {id for id, says in zip(ids, answer, strict=False) if says == YES}

    async def _ask(self, replica: Replica, question: str, body: bytes = b"") -> bytes:
        try:
            async with asyncio.timeout(self._policy.hold_s):
                client = self._client(replica)
                headers = [self._seal.header(self._name(), NOBODY)]
                response = await client.request("POST", f"{NEIGHBOURS_PATH}?{question}", headers, body)
                try:
                    return await response.read(MAX_WORD_BYTES) if response.status == 200 else b""
                finally:
                    response.close()
        except (MooringError, TimeoutError) as error:
            log.debug("%s does not answer: %s", replica.address, error)
            return b""

    def _client(self, replica: Replica) -> Client:
        client = self._clients.get(replica.address)
        if client is None:
            origin, _ = parse_url(replica.address)
            limits = ClientLimits(
                max_connections=self._policy.max_connections,
                max_redirects=0,
                connect_timeout_s=self._policy.connect_s,
                place_timeout_s=self._policy.connect_s,
                vanished_s=self._policy.lease_s,
            )
            # Replicas come and go, mostly under new addresses: those that nobody speaks to are let go.
            self._clients = {address: one for address, one in self._clients.items() if one.is_used}
            client = self._clients[replica.address] = Client(origin, limits)
        return client

    async def aclose(self) -> None:
        """Let go of all of them."""
        await asyncio.gather(self._links.aclose(), *(client.aclose() for client in self._clients.values()))
        self._clients.clear()


def _target(request: Request) -> str:
    return quote(request.path) + (f"?{request.query}" if request.query else "")


def _fields_to_pass_on(headers: Headers, left_out: Collection[bytes]) -> Headers:
    """All that is not between two neighbours only."""
    return [(name, value) for name, value in headers if name not in HOP_BY_HOP and name not in left_out]


def _is_short(headers: Headers) -> bool:
    """Does an answer say that it is short?"""
    length = next((value for name, value in headers if name == b"content-length"), b"")
    return length.isdigit() and int(length) <= WHOLE_BYTES
