"""Requests to an authority: each signed, with a nonce of the authority's, and within bounds (RFC 8555, 6).

Invariants:
- A nonce is used once. One that the authority does not know (any more) costs another attempt, nothing else.
- Nothing is asked for by anything but https, and of no more hosts than a directory of good sense names.
- What fails is told as one of `troubles`.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

import msgspec

from mooring import __version__
from mooring.errors import MooringError, UserError
from mooring.http.client import Client
from mooring.http.client_errors import AnswerLost, BadAnswer, NotSent
from mooring.http.origin import parse_url
from mooring.relay.certificates import troubles
from mooring.relay.certificates.messages import Account, Directory, Problem, decoded
from mooring.relay.certificates.policy import Authority, CertificatePolicy
from mooring.relay.certificates.signing import AccountKey
from mooring.wire.http import Headers

__all__ = ["AuthorityClient", "Reply"]

AGENT = (b"User-Agent", f"mooring/{__version__}".encode())
SIGNED = (b"Content-Type", b"application/jose+json")
BAD_NONCE = "badNonce"
ERRORS = 400

T = TypeVar("T")


@dataclass(frozen=True)
class Reply:
    """An answer that is no error."""

    status: int
    headers: Headers
    body: bytes
    retry_after_s: float | None

    def header(self, name: bytes) -> str:
        """The first field of that (lower case) name; empty: there is none."""
        return next((value.decode("latin-1") for key, value in self.headers if key == name), "")

    def read(self, kind: type[T]) -> T:
        """What it says. Raises MooringError."""
        found = decoded(self.body, kind)
        if found is None:
            raise troubles.failed("its answer is not what RFC 8555 says")
        return found


class AuthorityClient:
    """For one errand, by one account. `aclose` leaves no connection."""

    def __init__(
        self, authority: Authority, key: AccountKey, policy: CertificatePolicy, wall: Callable[[], float]
    ) -> None:
        self.key = key
        self._authority = authority
        self._policy = policy
        self._wall = wall
        self._clients: list[Client] = []
        self._nonces: list[str] = []
        self._directory: Directory | None = None
        self._account_url = ""

    async def directory(self) -> Directory:
        """Where to ask for what. Raises MooringError, also if it is another time there than here."""
        if self._directory is None:
            reply = await self._ask("GET", self._authority.url, [])
            self._check_clock(reply)
            self._directory = reply.read(Directory)
        return self._directory

    async def sign_in(self, email: str | None) -> tuple[str, bool]:
        """Have an account. Its address, and whether it was there before. Raises MooringError."""
        meta = (await self.directory()).meta
        if meta.external_account_required:
            # Some say so only here, and refuse with less clear words.
            raise troubles.refused(Problem("externalAccountRequired", "it wants an invitation"), 0, None)
        wish: dict[str, Any] = {"termsOfServiceAgreed": True}
        if email is not None:
            wish["contact"] = [f"mailto:{email}"]
        reply = await self.post((await self.directory()).new_account, wish)
        self._account_url = reply.header(b"location")
        if not self._account_url or reply.read(Account).status != "valid":
            raise troubles.refused(Problem("unauthorized", "it is not valid any more"), reply.status, None)
        return self._account_url, reply.status == 200

    async def post(self, url: str, payload: object = None) -> Reply:
        """Say this there; None: only ask what is there. Raises MooringError."""
        body = b"" if payload is None else msgspec.json.encode(payload)
        for _ in range(self._policy.nonce_tries):
            signed = self.key.sign(
                {
                    "nonce": await self._nonce(),
                    "url": url,
                    **({"kid": self._account_url} if self._account_url else {"jwk": self.key.public}),
                },
                body,
            )
            try:
                return await self._ask("POST", url, [SIGNED], signed)
            except _NonceRefused:
                continue
        raise troubles.failed(
            f"it has refused {self._policy.nonce_tries} nonces of its own, one after another"
        )

    async def aclose(self) -> None:
        """Close every connection."""
        while self._clients:
            await self._clients.pop().aclose()

    async def _nonce(self) -> str:
        if not self._nonces:
            await self._ask("GET", (await self.directory()).new_nonce, [])
        if not self._nonces:
            raise troubles.failed("it gives no nonce")
        return self._nonces.pop()

    async def _ask(self, method: str, url: str, headers: Headers, body: bytes = b"") -> Reply:
        client, target = self._client_for(url)
        try:
            async with asyncio.timeout(self._policy.request_timeout_s):
                response = await client.request(method, target, [AGENT, *headers], body)
                try:
                    content = await response.read(self._policy.max_answer_bytes)
                finally:
                    response.close()
        except TimeoutError:
            late = NotSent(f"no answer within {self._policy.request_timeout_s:g} s", code="timeout")
            raise troubles.unreachable(self._authority.url, late) from None
        except BadAnswer as error:
            raise troubles.failed(error.message) from error
        except (NotSent, AnswerLost) as error:
            raise troubles.unreachable(self._authority.url, error) from error
        reply = Reply(response.status, response.headers, content, self._retry_after_s(response.headers))
        if nonce := reply.header(b"replay-nonce"):
            self._nonces = [nonce]  # the latest is the freshest, and we ask one thing at a time
        if reply.status >= ERRORS:
            raise self._refusal(reply)
        return reply

    def _refusal(self, reply: Reply) -> Exception:
        problem = decoded(reply.body, Problem) or Problem(detail="it does not say why")
        if problem.kind == BAD_NONCE:
            return _NonceRefused()
        return troubles.refused(problem, reply.status, reply.retry_after_s)

    def _client_for(self, url: str) -> tuple[Client, str]:
        for client in self._clients:
            if (target := client.origin.resolve(url, "/")) is not None:
                return client, target
        try:
            origin, target = parse_url(url, self._authority.ca_file, proxies=self._authority.proxies)
        except UserError as error:
            if url == self._authority.url:
                raise
            raise troubles.failed(f"it names an address that is none: {error.message}") from None
        if origin.tls is None or len(self._clients) >= self._policy.max_hosts:
            raise troubles.failed("it names addresses without https, or too many")
        self._clients.append(client := Client(origin))
        return client, target

    def _check_clock(self, reply: Reply) -> None:
        theirs, ours = _http_date(reply.header(b"date")), self._wall()
        if theirs is not None and abs(theirs - ours) > self._policy.max_clock_skew_s:
            raise troubles.clock_wrong(ours, theirs)

    def _retry_after_s(self, headers: Headers) -> float | None:
        value = next((value.decode("latin-1") for key, value in headers if key == b"retry-after"), "")
        if value.isascii() and value.isdigit():
            return float(value[:9])
        at = _http_date(value)
        return None if at is None else max(0.0, at - self._wall())


class _NonceRefused(MooringError):
    def __init__(self) -> None:
        super().__init__("the authority does not know this nonce", code="bad_nonce")


def _http_date(value: str) -> float | None:
    try:
        return parsedate_to_datetime(value).timestamp()
    except (ValueError, OverflowError):
        return None
