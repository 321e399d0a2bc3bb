"""One order, step by step (RFC 8555, 7.4):

1. say for which domains;
2. show for each, in the way that was chosen, that it is ours, unless the authority remembers;
3. send the request to be signed, once the order is ready;
4. fetch the chain.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from mooring.relay.certificates import troubles
from mooring.relay.certificates.answers import Answers
from mooring.relay.certificates.authority import AuthorityClient, Reply
from mooring.relay.certificates.messages import Authorization, Order
from mooring.relay.certificates.policy import CertificatePolicy
from mooring.relay.certificates.signing import base64url, signing_request

__all__ = ["Ordering"]

PENDING = "pending"
BEING_MADE = frozenset({PENDING, "ready", "processing"})

T = TypeVar("T", Order, Authorization)


class Ordering:
    """By one account, with one kind of challenge."""

    def __init__(
        self, client: AuthorityClient, answers: Answers, kind: str, policy: CertificatePolicy
    ) -> None:
        self._client = client
        self._answers = answers
        self._kind = kind
        self._policy = policy

    async def order(self, key_pem: bytes, domains: Sequence[str]) -> bytes:
        """A chain of certificates for that key. Raises MooringError."""
        wish = {"identifiers": [{"type": "dns", "value": domain} for domain in domains]}
        reply = await self._client.post((await self._client.directory()).new_order, wish)  # 1
        order, url = reply.read(Order), reply.header(b"location")
        if not url or len(order.authorizations) > len(domains):
            raise troubles.failed("its order is not what RFC 8555 says")
        for authorization in order.authorizations:  # 2
            await self._authorize(authorization)
        order = await self._until(url, Order, lambda seen: seen.status != PENDING)
        if order.status == "ready":  # 3
            request = base64url(signing_request(key_pem, domains))
            await self._client.post(order.finalize, {"csr": request})
        order = await self._until(url, Order, lambda seen: seen.status not in BEING_MADE)
        if order.certificate is None:
            words = order.error.words if order.error is not None else f"the order is {order.status}"
            raise troubles.failed(words)
        return (await self._client.post(order.certificate)).body  # 4

    async def _authorize(self, url: str) -> None:
        seen = (await self._client.post(url)).read(Authorization)
        if seen.status == "valid":
            return
        domain, offer = seen.identifier.value, seen.offer(self._kind)
        if offer is None:
            raise troubles.challenge_not_offered(domain, self._kind)
        proof = self._client.key.key_authorization(offer.token)
        with self._answers.shown(self._kind, domain, offer.token, proof):
            if offer.status == PENDING:
                await self._client.post(offer.url, {})
            seen = await self._until(url, Authorization, lambda seen: seen.status != PENDING)
        if seen.status != "valid":
            raise troubles.challenge_failed(domain, self._kind, seen.problem)

    async def _until(self, url: str, kind: type[T], is_done: Callable[[T], bool]) -> T:
        """What is there, once it is done."""
        policy = self._policy
        what, timeout_s = (
            ("signed", policy.issuing_timeout_s)
            if kind is Order
            else ("looked at the domain", policy.validation_timeout_s)
        )
        wait_s = policy.first_poll_s
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    reply: Reply = await self._client.post(url)
                    seen = reply.read(kind)
                    if is_done(seen):
                        return seen
                    await asyncio.sleep(min(reply.retry_after_s or wait_s, policy.longest_poll_s))
                    wait_s *= 2
        except TimeoutError:
            raise troubles.slow(what, timeout_s) from None
