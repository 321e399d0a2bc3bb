"""Where logins are kept: a folder in the state directory, for the user alone, and the system's keyring.

    oauth/tokens.json   grants, registrations, and what may be told of them; written like the file of secrets
    oauth/….lock        held by whoever changes the login of one server

Invariants:
- A grant is in the keyring if that takes it and gives it back at the login, or else in the file. If there are
  two, because the keyring was locked in between, the one of the later generation counts.
- The grant is written before what is told of it: whoever is killed in between has lost no token.
- Every method but `stamp` waits for a disk or a keyring: `aside` calls them so that the loop does not wait.
"""

import asyncio
import fcntl
import hashlib
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from mooring.errors import MooringError, Unavailable, UserError
from mooring.oauth.bounds import LOCK_S
from mooring.oauth.grants import About, Grant, Registration
from mooring.oauth.metadata import shown
from mooring.secrets.threads import in_thread
from mooring.secrets.vault import Vault, VaultDamaged

__all__ = ["Shelf", "aside", "logins_folder"]

log = logging.getLogger("mooring.oauth")

LOOK_AGAIN_S = 0.02
IN_KEYRING, IN_FILE, ABOUT, REGISTRATION = "keyring", "file", "about", "registration"
T = TypeVar("T")
S = TypeVar("S", Grant, About, Registration)


async def aside(work: Callable[[], T]) -> T:
    """Do it in a thread, to its end even if nobody waits any more. Raises Unavailable if it takes long."""
    doing = in_thread(work, "what is kept of logins")
    try:
        async with asyncio.timeout(LOCK_S):
            return await asyncio.shield(doing)
    except TimeoutError:
        raise Unavailable(
            "the place where logins are kept does not answer",
            code="logins_unavailable",
            hint="does the system's keyring wait to be unlocked?",
        ) from None


def logins_folder(state: Path) -> Path:
    """Where they are, in a state directory."""
    return state / "oauth"


class Shelf:
    """What is kept in one state directory."""

    def __init__(self, state: Path, wall: Callable[[], float] = time.time) -> None:
        self._folder = logins_folder(state)
        self._vault = Vault(self._folder / "tokens.json", wall)

    # Grants -----------------------------------------------------------------------------------

    def grant(self, server: str) -> Grant | None:
        """The token for a server, if there is one. Raises MooringError."""
        found: list[Grant] = []
        trouble: MooringError | None = None
        for place in (IN_FILE, IN_KEYRING):
            try:
                kept = self._get(place, server, Grant)
            except MooringError as error:
                trouble = error
                continue
            if kept is not None and kept.server == server:
                found.append(kept)
        if not found and trouble is not None:
            raise trouble
        # (Those of one generation were kept before there were any.)
        return max(found, key=lambda grant: (grant.generation, grant.obtained_at), default=None)

    def keep(self, grant: Grant, about: About, *, anew: bool = False) -> None:
        """Have that token, where the one before it was; `anew`: in the best place. Raises MooringError."""
        tries_keyring = anew or self._has(IN_KEYRING, grant.server)
        if tries_keyring and self._keep_in_keyring(grant):
            self._remove(IN_FILE, grant.server)
        else:
            self._put(IN_FILE, grant.server, grant)
        self._put(ABOUT, grant.server, about)

    def drop(self, server: str, about: About | None) -> None:
        """Have no token for that server, and tell that of it. Raises MooringError."""
        self._remove(IN_FILE, server)
        if about is not None:
            self._put(ABOUT, server, about)
        self._remove(IN_KEYRING, server)  # late: it may be locked
        if about is None:
            self._remove(ABOUT, server)

    def about(self, server: str) -> About | None:
        """What may be told. Raises MooringError."""
        return self._get(ABOUT, server, About)

    def abouts(self) -> list[About]:
        """What may be told of all servers, by their names. Raises MooringError."""
        with _in_our_words():
            entries = self._vault.all()
        texts = [kept.value for name, kept in entries.items() if name.startswith(f"oauth:{ABOUT}:")]
        found = [about for text in texts if (about := _decoded(text, About)) is not None]
        return sorted(found, key=lambda about: about.server)

    def tell(self, about: About) -> None:
        """Change what may be told. Raises MooringError."""
        self._put(ABOUT, about.server, about)

    # Registrations ----------------------------------------------------------------------------

    def registration(self, issuer: str) -> Registration | None:
        """Who we are to an authorization server. Raises MooringError."""
        return self._get(REGISTRATION, issuer, Registration)

    def keep_registration(self, registration: Registration) -> None:
        """Be that. Raises MooringError."""
        self._put(REGISTRATION, registration.issuer, registration)

    def drop_registration(self, issuer: str) -> None:
        """Be nobody. Raises MooringError."""
        self._remove(REGISTRATION, issuer)

    # Others -----------------------------------------------------------------------------------

    def stamp(self) -> tuple[int, int] | None:
        """Changes whenever anything does; quick."""
        try:
            found = self._vault.path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns

    @asynccontextmanager
    async def locked(self, server: str) -> AsyncIterator[None]:
        """Nobody else changes the login of that server meanwhile. Raises MooringError."""
        self._make_folder()
        path = self._folder / f"{self._digest(server)}.lock"
        try:
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise _unusable(path, error) from None
        try:
            await _wait_for(lock, server)
            yield
        finally:
            os.close(lock)

    def _make_folder(self) -> None:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._folder.stat().st_mode & 0o077:
                self._folder.chmod(0o700)
        except OSError as error:
            raise _unusable(self._folder, error) from None

    # Entries ----------------------------------------------------------------------------------

    def _digest(self, whose: str) -> str:
        """Keyrings are one for all state directories, so an entry's name says of which it is."""
        return hashlib.sha256(os.fsencode(self._folder) + b"\0" + whose.encode()).hexdigest()[:32]

    def _name(self, what: str, whose: str) -> str:
        # With a colon, which no secret of the user's has.
        return f"oauth:{what}:{self._digest(whose)}"

    def _has(self, what: str, whose: str) -> bool:
        try:
            return self._name(what, whose) in self._vault.all()
        except VaultDamaged:
            return False  # whoever writes begins another

    def _get(self, what: str, whose: str, kind: type[S]) -> S | None:
        with _in_our_words():
            text = self._vault.look_up(self._name(what, whose))
        return _decoded(text, kind)

    def _put(self, what: str, whose: str, value: S) -> None:
        self._make_folder()
        self._vault.put(self._name(what, whose), msgspec.json.encode(value).decode())

    def _keep_in_keyring(self, grant: Grant) -> bool:
        """False: there is no keyring, or none that keeps anything."""
        self._make_folder()
        name, text = self._name(IN_KEYRING, grant.server), msgspec.json.encode(grant).decode()
        try:
            self._vault.put(name, text, in_keyring=True)
            if self._vault.look_up(name) == text:
                return True
            self._vault.remove(name)
        except UserError as error:
            if not error.code.startswith("keyring_"):
                raise
        return False

    def _remove(self, what: str, whose: str) -> None:
        if self._vault.path.exists():
            with _in_our_words():
                self._vault.remove(self._name(what, whose))


def _decoded(text: str | None, kind: type[S]) -> S | None:
    try:
        return None if text is None else msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError:
        log.warning("what was kept of a login cannot be read; it is as if there were none")
        return None


@contextmanager
def _in_our_words() -> Iterator[None]:
    """The file is no file of `mooring secret`, whatever it is written with."""
    try:
        yield
    except VaultDamaged as error:
        raise UserError(
            error.message,
            code="logins_damaged",
            hint="put back a good copy; or mooring login NAME: it is kept aside, a new one begun",
        ) from None


async def _wait_for(lock: int, server: str) -> None:
    try:
        async with asyncio.timeout(LOCK_S):
            while not _taken(lock):  # noqa: ASYNC110 - another process holds it, and sends no event
                await asyncio.sleep(LOOK_AGAIN_S)
    except TimeoutError:
        raise Unavailable(
            f"somebody else has been renewing the login of {shown(server)} for {LOCK_S:g} s",
            code="login_busy",
            hint="try again",
        ) from None


def _taken(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _unusable(path: Path, error: OSError) -> UserError:
    return UserError(
        f"{path} cannot be used: {error.strerror}",
        code="logins_unusable",
        hint="make it readable and writable for you, and see whether its disk has room",
    )
