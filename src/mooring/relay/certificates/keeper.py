"""The relay's certificate: had from the first moment on, kept, and renewed in time.

    certificates = open_certificates(["relay.example.com"], folder)      # see `entrance`
    await plain.listen_tcp(host, 80)             # a Listener of `certificates.challenges`
    certificates.has_port_80 = True
    await listener.listen_tcp(host, 443, tls=certificates.context)
    await certificates.obtain()
    task = asyncio.create_task(certificates.run())

Invariants:
- What is shown is shown in every handshake from then on; connections that are open go on.
- A failure never takes away a certificate that is there.
- One that cannot be written is shown all the same, and written as soon as that is possible: authorities sign
  the same thing only a few times a week, so none is thrown away.
- There is one order at a time.
"""

import asyncio
import logging
import math
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec

from mooring.errors import MooringError, Unavailable
from mooring.relay.certificates import troubles
from mooring.relay.certificates.answers import Answers
from mooring.relay.certificates.authority import AuthorityClient
from mooring.relay.certificates.door import Door
from mooring.relay.certificates.issued import Issued
from mooring.relay.certificates.messages import HTTP_01, TLS_ALPN_01, one_line
from mooring.relay.certificates.names import check_authority_url, check_domains, check_email
from mooring.relay.certificates.ordering import Ordering
from mooring.relay.certificates.policy import Authority, CertificatePolicy, due_at, next_look_s, retry_s
from mooring.relay.certificates.shelf import KeptAccount, Shelf
from mooring.relay.certificates.signing import AccountKey, answering_certificate, new_key_pem
from mooring.relay.certificates.status import CertificateStatus, Trouble
from mooring.wire.http import App

__all__ = ["Certificates"]

log = logging.getLogger("mooring.relay")


class Certificates:
    """For one set of domains, from one authority. Made inside a running loop, ended by `aclose`."""

    def __init__(
        self,
        domains: Sequence[str],
        folder: Path,
        authority: Authority,
        *,
        challenge: str | None,
        policy: CertificatePolicy,
        wall: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """`challenge`: how to show that the domains are ours (`http-01`, `tls-alpn-01`); None: by HTTP if
        `has_port_80`, otherwise by TLS. Raises UserError.
        """
        self._domains = check_domains(domains, policy.max_domains)
        check_authority_url(authority.url)
        check_email(authority.email)
        self._authority = authority
        self._challenge = challenge
        self._policy = policy
        self._wall = wall
        self._sleep = sleep
        self._shelf = Shelf(folder, authority.url, policy.disk_timeout_s)
        self._door = Door()
        self._answers = Answers(self._door, answering_certificate)
        self._busy = asyncio.Lock()
        self._issued: Issued | None = None
        self._is_kept = True
        self._failures = 0
        self._retry_s = 0.0
        """After the last of them."""
        self._trouble: Trouble | None = None
        self._next_attempt_at: float | None = None
        self.context = self._door.context
        """For the listener on port 443, whether there is a certificate already or not."""
        self.challenges: App = self._answers.serve
        """For the listener on port 80."""
        self.has_port_80 = False
        """Such a listener is open."""

    @property
    def challenge(self) -> str:
        """How we show that the domains are ours."""
        return self._challenge or (HTTP_01 if self.has_port_80 else TLS_ALPN_01)

    @property
    def status(self) -> CertificateStatus:
        """What may be told."""
        issued = self._issued
        return CertificateStatus(
            domains=list(self._domains),
            authority=self._authority.url,
            challenge=self.challenge,
            valid_from=None if issued is None else issued.valid_from,
            valid_until=None if issued is None else issued.valid_until,
            issuer=None if issued is None else issued.issuer,
            is_kept=self._is_kept,
            last_error=self._trouble,
            next_attempt_at=self._next_attempt_at,
        )

    async def obtain(self) -> None:
        """Have a certificate: the one that is kept, or a new one.

        Raises MooringError if there is none. `run` can go on from there: it tries again in a while. Only of
        Unavailable that is told here.
        """
        async with self._busy:
            try:
                await self._have_one()
            except MooringError as error:
                has_one = self._issued is not None  # it could not be written
                if has_one or isinstance(error, Unavailable):
                    self._tell(error)
                else:
                    self._note(error)
                if not has_one:
                    raise

    async def run(self) -> None:
        """Renew it whenever that is due, until cancelled. What fails is told, and tried again."""
        while True:
            await self._sleep(self._plan())
            async with self._busy:
                try:
                    await self._look()
                except MooringError as error:
                    self._tell(error)
                except Exception as error:
                    # Whatever it is, the next attempt may go well; until then there is what there was.
                    log.exception("a mistake of Mooring's", extra={"event": "certificate_trouble"})
                    self._note(
                        MooringError(f"a mistake of Mooring's: {type(error).__name__}", code="internal")
                    )

    async def aclose(self) -> None:
        """Leaves nothing behind; whoever awaits `run` or `obtain` has cancelled that before."""
        await self._shelf.aclose()

    # When.

    def _plan(self) -> float:
        """How long to wait; what for is told."""
        now, dice = self._wall(), random.random()  # noqa: S311 - spreads load
        if self._failures:
            wait_s = self._retry_s
            self._next_attempt_at = now + wait_s
        elif self._issued is None:
            wait_s, self._next_attempt_at = 0.0, now
        else:
            span = self._issued.valid_from, self._issued.valid_until
            wait_s = next_look_s(self._policy, now, *span, dice)
            self._next_attempt_at = max(now, due_at(self._policy, *span))
        return wait_s

    async def _look(self) -> None:
        """Do what is to be done now, if anything is. Raises MooringError."""
        issued = await self._have_one()
        if not self._is_kept:
            await self._keep(issued)
        if self._wall() >= due_at(self._policy, issued.valid_from, issued.valid_until):
            await self._order()
        self._failures, self._trouble = 0, None

    # Having one.

    async def _have_one(self) -> Issued:
        """The one there is, the one that is kept, or a new one. Raises MooringError."""
        if self._issued is None:
            await self._take_up()
        return self._issued or await self._order()

    async def _take_up(self) -> None:
        """Show what is kept, if it is what would be ordered, and not over. Raises MooringError."""
        await self._shelf.prepare()
        kept, now = await self._shelf.certificate(), self._wall()
        if kept is None:
            return
        if not kept.is_for(self._authority.url, self._domains) or kept.valid_until <= now:
            log.info("the certificate that is kept is over, or another one; one is ordered")
            return
        if kept.valid_from > now:
            begins = troubles.shown_time(kept.valid_from)
            log.warning("the certificate that is kept is good from %s on; is the clock right?", begins)
        self._show(kept)

    async def _order(self) -> Issued:
        """Order one, show it, keep it. Raises MooringError."""
        await self._shelf.prepare()
        await self._shelf.check_room()
        account = await self._shelf.account()
        client = AuthorityClient(self._authority, AccountKey(account.key), self._policy, self._wall)
        try:
            async with asyncio.timeout(self._policy.order_timeout_s):
                await self._sign_in(client, account)
                key_pem = new_key_pem()
                ordering = Ordering(client, self._answers, self.challenge, self._policy)
                chain = await ordering.order(key_pem, self._domains)
        except TimeoutError:
            raise troubles.slow("finished", self._policy.order_timeout_s) from None
        finally:
            await client.aclose()
        issued = self._checked(key_pem, chain)
        self._show(issued)
        log.info(
            "there is a new certificate for %s, good until %s",
            ", ".join(self._domains),
            troubles.shown_time(issued.valid_until),
            extra={"event": "certificate_obtained", "valid_until": issued.valid_until},
        )
        await self._keep(issued)
        return issued

    async def _sign_in(self, client: AuthorityClient, account: KeptAccount) -> None:
        """The authority knows us, and where to write to."""
        email = self._authority.email
        url, was_there = await client.sign_in(email)
        if not was_there:
            terms = one_line((await client.directory()).meta.terms_of_service) or "it has none"
            log.info("an account was made with %s; its terms: %s", self._authority.url, terms)
        if email is None or email == account.email:
            return
        if was_there:
            await client.post(url, {"contact": [f"mailto:{email}"]})
        await self._shelf.keep_account(msgspec.structs.replace(account, email=email))

    def _checked(self, key_pem: bytes, chain: bytes) -> Issued:
        """Is it what was ordered?"""
        try:
            issued = Issued.assembled(self._authority.url, key_pem, chain, self._policy.max_chain)
        except ValueError as error:
            raise troubles.failed(f"what it sent is no certificate for us: {error}") from None
        if not issued.is_for(self._authority.url, self._domains):
            raise troubles.failed("what it sent is for other domains")
        now, skew_s = self._wall(), self._policy.max_clock_skew_s
        if not issued.valid_from - skew_s <= now < issued.valid_until:
            raise troubles.clock_wrong(now, issued.valid_from)
        return issued

    def _show(self, issued: Issued) -> None:
        try:
            self._door.show(issued.pem)
        except OSError as error:  # ssl.SSLError is one too
            raise troubles.failed(f"it cannot be used for TLS: {error}") from None
        self._issued = issued

    async def _keep(self, issued: Issued) -> None:
        self._is_kept = False
        await self._shelf.keep(issued)
        self._is_kept = True

    # Telling.

    def _note(self, error: MooringError) -> None:
        self._failures += 1
        retry_after_s = error.retry_after_s if isinstance(error, Unavailable) else None
        dice = random.random()  # noqa: S311 - spreads load
        self._retry_s = retry_s(self._policy, self._failures, retry_after_s, dice)
        self._trouble = Trouble(self._wall(), error.code, error.message, error.hint)

    def _tell(self, error: MooringError) -> None:
        self._note(error)
        until = self._issued and troubles.shown_time(self._issued.valid_until)
        log.warning(
            "trouble with the certificate for %s: %s (%s; next try in %d s)%s",
            ", ".join(self._domains),
            error.message,
            f"there is one until {until}" if until else "there is none, so nobody can connect",
            math.ceil(self._retry_s),
            f"; hint: {error.hint}" if error.hint else "",
            extra={"event": "certificate_trouble", "code": error.code, "hint": error.hint},
        )
