"""What is kept between two starts: our account with each authority, and one certificate.

- The key of an account is written before the authority hears of it: it can be lost in no moment.
- What is damaged is set aside and told, and then as good as not there: another can be had of everything.
- The loop never waits for the disk; a thread does, for a bounded time.
"""

import asyncio
import hashlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from mooring.errors import Unavailable
from mooring.relay.certificates.folder import Folder
from mooring.relay.certificates.issued import Issued
from mooring.relay.certificates.messages import decoded
from mooring.relay.certificates.signing import AccountKey
from mooring.secrets.threads import in_thread

__all__ = ["KeptAccount", "Shelf"]

log = logging.getLogger("mooring.relay")

CERTIFICATE = "certificate.pem"
T = TypeVar("T")


class KeptAccount(msgspec.Struct, frozen=True):
    """Ours with one authority. Nothing tells the key by accident."""

    key: str
    authority: str
    email: str | None = None
    """That the authority knows."""

    def __repr__(self) -> str:
        return f"<account with {self.authority}>"


class Shelf:
    """See the module. Everything raises MooringError."""

    def __init__(self, folder: Path, authority: str, disk_timeout_s: float) -> None:
        self._folder = Folder(folder)
        self._authority = authority
        self._disk_timeout_s = disk_timeout_s
        self._under_way: set[asyncio.Future[object]] = set()

    async def prepare(self) -> None:
        """Have a folder that is ours alone."""
        await self._aside(self._folder.prepare)

    async def check_room(self) -> None:
        """An authority does not sign as often as we like: could its certificate be written?"""
        await self._aside(self._folder.check_room)

    async def certificate(self) -> Issued | None:
        """The one that is kept, whatever it is for."""
        data = await self._aside(lambda: self._folder.read(CERTIFICATE))
        try:
            return None if data is None else Issued.parsed(data)
        except ValueError as error:
            await self._set_aside(CERTIFICATE, str(error))
            return None

    async def keep(self, issued: Issued) -> None:
        """In place of the one before."""
        await self._aside(lambda: self._folder.write(CERTIFICATE, issued.pem))

    async def account(self) -> KeptAccount:
        """The one that is kept, or another, of which the authority does not know yet."""
        data = await self._aside(lambda: self._folder.read(self._account_file))
        if data is not None:
            kept = decoded(data, KeptAccount)
            if kept is not None and kept.authority == self._authority and _is_key(kept.key):
                return kept
            await self._set_aside(self._account_file, "it is no account with this authority")
        account = KeptAccount(key=AccountKey.new().pem, authority=self._authority)
        await self.keep_account(account)
        return account

    async def keep_account(self, account: KeptAccount) -> None:
        """In place of the one before."""
        data = msgspec.json.encode(account) + b"\n"
        await self._aside(lambda: self._folder.write(self._account_file, data))

    async def aclose(self) -> None:
        """No thread is left at the disk, unless the disk does not answer."""
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=self._disk_timeout_s)

    @property
    def _account_file(self) -> str:
        """One for each authority, so that trying another out costs nothing."""
        return f"account-{hashlib.sha256(self._authority.encode()).hexdigest()[:16]}.json"

    async def _set_aside(self, name: str, why: str) -> None:
        aside = await self._aside(lambda: self._folder.set_aside(name))
        log.warning("%s was damaged (%s); it is kept as %s, and another is made", name, why, aside)

    async def _aside(self, work: Callable[[], T]) -> T:
        """Do it in a thread, to its end even if nobody waits any more."""
        doing: asyncio.Future[T] = in_thread(work, "the certificate's folder")
        self._under_way.add(doing)  # type: ignore[arg-type]
        doing.add_done_callback(self._under_way.discard)
        try:
            async with asyncio.timeout(self._disk_timeout_s):
                return await asyncio.shield(doing)
        except TimeoutError:
            raise Unavailable(
                f"the disk of {self._folder.path} does not answer",
                code="certificates_unavailable",
                hint="is it mounted over a network that is gone?",
            ) from None


def _is_key(pem: str) -> bool:
    try:
        AccountKey(pem)
    except ValueError:
        return False
    return True
