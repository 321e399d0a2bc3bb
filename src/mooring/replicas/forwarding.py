"""Passing a request on to the replica that has its session, and its answer back: both as they are.

- A request is passed on once, over a connection that is kept. What is not known to be unsent is never sent
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
from urllib.parse import quote

from mooring.errors import MooringError
from mooring.http.client import Client, ClientResponse
from mooring.http.client_errors import AnswerLost
from mooring.http.client_limits import ClientLimits
from mooring.http.origin import parse_url
from mooring.replicas.policy import ReplicaPolicy
from mooring.replicas.records import Replica
from mooring.replicas.seal import Seal
from mooring.wire.http import HOP_BY_HOP, Exchange, Headers, Request, Response

__all__ = ["MISDIRECTED", "NEIGHBOURS_PATH", "Forwarding", "fields_to_pass_on"]

log = logging.getLogger("mooring.replicas")

MISDIRECTED = 421
"""The session is not, or no longer, where the request was sent; nothing was done."""
NEIGHBOURS_PATH = "/.mooring/replica"
WHOLE_BYTES = 64 * 1024
"""An answer up to this is kept until it is whole: one write."""
MAX_WORD_BYTES = 4096

# Who asks was judged where the request came in; the owner believes that replica.
JUDGED = frozenset({b"authorization", b"expect", b"host", b"origin", b"mooring-replica"})
OF_AN_ANSWER = frozenset({b"date", b"server"})


def fields_to_pass_on(headers: Headers, left_out: Collection[bytes]) -> Headers:
    """All that is not between two neighbours only."""
    return [(name, value) for name, value in headers if name not in HOP_BY_HOP and name not in left_out]


class Forwarding:
    """The connections to all other replicas."""

    def __init__(self, seal: Seal, policy: ReplicaPolicy, name: Callable[[], str]) -> None:
        """`name`: of our own incarnation."""
        self._seal = seal
        self._policy = policy
        self._name = name
        self._clients: dict[str, Client] = {}
        self.forwards = 0

    async def send(self, request: Request, to: Replica) -> ClientResponse:
        """Pass it on; the head of the answer. Raises NotSent, AnswerLost."""
        target = quote(request.path) + (f"?{request.query}" if request.query else "")
        headers = fields_to_pass_on(request.headers, JUDGED)
        headers.append(self._seal.header(self._name(), request.principal))
        self.forwards += 1
        return await self._client(to).request(request.method, target, headers, request.body)

    async def answer(self, exchange: Exchange, response: ClientResponse) -> None:
        """Pass the answer on. Raises AnswerLost if it breaks off before anything of it was."""
        headers = fields_to_pass_on(response.headers, OF_AN_ANSWER)
        length = response.header(b"content-length")
        if length is not None and length.isdigit() and int(length) <= WHOLE_BYTES:
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

    async def _ask(self, replica: Replica, question: str) -> bytes:
        try:
            async with asyncio.timeout(self._policy.hold_s):
                client = self._client(replica)
                headers = [self._seal.header(self._name(), "")]
                response = await client.request("POST", f"{NEIGHBOURS_PATH}?{question}", headers)
                return await response.read(MAX_WORD_BYTES) if response.status == 200 else b""
        except (MooringError, TimeoutError) as error:
            log.debug("%s does not answer: %s", replica.address, error)
            return b""

    def _client(self, replica: Replica) -> Client:
        client = self._clients.get(replica.address)
        if client is None:
            origin, _ = parse_url(replica.address)
            limits = ClientLimits(connect_timeout_s=self._policy.connect_s, vanished_s=self._policy.lease_s)
            client = self._clients[replica.address] = Client(origin, limits)
        return client

    async def aclose(self) -> None:
        """Let go of all of them."""
        await asyncio.gather(*(client.aclose() for client in self._clients.values()))
        self._clients.clear()
