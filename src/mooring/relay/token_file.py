"""The file in which a relay's tokens are kept: their hashes, and what each is good for.

Invariants:
- It is whole at every moment: written beside its place, then put there in one step. Who is killed in between
  leaves the one before, and at most `tokens.json.new`, which the next writer removes.
- One writer at a time, by a lock on `tokens.lock`; readers need none.
- One that is damaged is left as it is and told, to writers too: a new one in its place would shut out
  everybody. So is one with a field that is unknown here: what it means (a limit, perhaps) would be lost.
- No error repeats anything of what is in it.

When a token was last used is not in it: that would be a write for every use.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta, Struct

from mooring.errors import MooringError, Unavailable, UserError
from mooring.relay.tokens import (
    ANY,
    CALL_PATTERN,
    ID_PATTERN,
    NAME_PATTERN,
    SERVER_PATTERN,
    digest,
    mint,
    parse_agent,
    parse_calls,
    parse_servers,
)
from mooring.secrets.whole_files import waiting_lock, write_whole

__all__ = ["MAX_LIFETIME_S", "Created", "TokenFile", "TokenRecord", "TokensDamaged", "Wanted", "read_tokens"]

MAX_FILE_BYTES = 64 * 1024 * 1024
"""Some 200,000 tokens. It bounds what a file that is none of ours can make a relay read."""
MAX_LIFETIME_S = 100 * 365 * 86400
"""A number far beyond that would be no date any more."""
LAST_MOMENT = 253402300799.0
"""Of the year 9999."""
LOCK_S = 5.0
"""For another command that is writing."""
VERSION = 1

Moment = Annotated[float, Meta(ge=0, le=LAST_MOMENT)]


class TokenRecord(
    Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, gc=False
):
    """What is kept of one token."""

    id: Annotated[str, Meta(pattern=rf"^{ID_PATTERN}\Z")]
    name: Annotated[str, Meta(pattern=rf"^{NAME_PATTERN}\Z")]
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    servers: tuple[Annotated[str, Meta(pattern=rf"^{SERVER_PATTERN}\Z")], ...] = ()
    calls: tuple[Annotated[str, Meta(pattern=rf"^{CALL_PATTERN}\Z")], ...] = ()
    created: Moment
    """In seconds since 1970, like `expires`."""
    expires: Moment | None = None

    def is_over(self, now: float) -> bool:
        """Has it expired?"""
        return self.expires is not None and now >= self.expires

    def __repr__(self) -> str:
        return f"<TokenRecord {self.name}>"


class Wanted(Struct, frozen=True, kw_only=True):
    """A token to be made. Raises ValueError for what cannot be one."""

    name: str
    servers: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    lifetime_s: float | None = None
    """None: until it is revoked."""

    def __post_init__(self) -> None:
        parse_agent(self.name)
        for server in self.servers:
            parse_servers(server)
        for call in self.calls:
            parse_calls(call)
        if not self.servers and not self.calls:
            raise ValueError("a token that may neither connect nor call anything is of no use")
        if self.lifetime_s is not None and not 0 < self.lifetime_s <= MAX_LIFETIME_S:
            raise ValueError("a token is good for some time, and for no more than a hundred years")


class Created(NamedTuple):
    """A token that was made: the only moment at which its text is known."""

    text: str
    record: TokenRecord

    def __repr__(self) -> str:
        return f"<Created {self.record.name}>"


class TokensDamaged(MooringError):
    """The file cannot be read as what it should be."""


class _Contents(Struct, forbid_unknown_fields=True):
    version: int
    tokens: list[msgspec.Raw]
    """Read one by one: a relay with very many goes on with its work in between, if it reads in a thread."""


class _Version(Struct):
    version: int


_record = msgspec.json.Decoder(TokenRecord)


def read_tokens(path: Path) -> list[TokenRecord]:
    """All of them; none if there is no file. Raises TokensDamaged, UserError."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _unusable(path, error) from None
    if len(data) > MAX_FILE_BYTES:
        raise _damaged(path)
    try:
        if msgspec.json.decode(data, type=_Version).version > VERSION:
            raise _too_new(path)
        tokens = [_record.decode(raw) for raw in msgspec.json.decode(data, type=_Contents).tokens]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise (_too_new(path) if "unknown field" in str(error) else _damaged(path)) from None
    # A name belongs to one token, or to nobody knows whom.
    if len({one.name for one in tokens}) < len(tokens) or len({one.id for one in tokens}) < len(tokens):
        raise _damaged(path)
    return tokens


class TokenFile:
    """See the module. Every method waits for a disk, and those that write for other writers too."""

    def __init__(self, path: Path, wall: Callable[[], float] = time.time) -> None:
        self.path = path
        self._wall = wall

    def all(self) -> list[TokenRecord]:
        """By name. Raises TokensDamaged, UserError."""
        return sorted(read_tokens(self.path), key=lambda record: record.name)

    def create(self, *wanted: Wanted) -> list[Created]:
        """Make all of these, or none. Raises TokensDamaged, UserError, Unavailable."""
        with self._writing():
            tokens = read_tokens(self.path)
            names = {record.name for record in tokens}
            made: list[Created] = []
            for one in wanted:
                if one.name in names:
                    raise UserError(
                        f"there is a token named {one.name} already",
                        code="token_exists",
                        hint=f"choose another name, or first: mooring relay token revoke {one.name}",
                    )
                names.add(one.name)
                made.append(self._make(one))
            self._write([*tokens, *(created.record for created in made)])
        return made

    def revoke(self, name: str) -> bool:
        """Have it no more. False: there was none. Raises TokensDamaged, UserError, Unavailable."""
        with self._writing():
            tokens = read_tokens(self.path)
            left = [record for record in tokens if record.name != name]
            if len(left) == len(tokens):
                return False
            self._write(left)
        return True

    def _make(self, wanted: Wanted) -> Created:
        minted, now = mint(), self._wall()
        record = TokenRecord(
            id=minted.id,
            name=wanted.name,
            sha256=digest(minted.text.encode()),
            servers=(ANY,) if ANY in wanted.servers else wanted.servers,
            calls=(ANY,) if ANY in wanted.calls else wanted.calls,
            created=now,
            expires=None if wanted.lifetime_s is None else now + wanted.lifetime_s,
        )
        return Created(minted.text, record)

    def _write(self, tokens: list[TokenRecord]) -> None:
        contents = _Contents(VERSION, [msgspec.Raw(msgspec.json.encode(record)) for record in tokens])
        data = msgspec.json.format(msgspec.json.encode(contents), indent=1) + b"\n"
        if len(data) > MAX_FILE_BYTES:
            raise UserError(
                f"there is no room for more tokens: {self.path} may have {MAX_FILE_BYTES:,} bytes",
                code="too_many_tokens",
                hint="revoke some: mooring relay token revoke NAME",
            )
        try:
            write_whole(self.path, data)
        except OSError as error:
            raise _unusable(self.path, error) from None

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """One at a time."""
        with ExitStack() as stack:
            try:
                is_alone = stack.enter_context(waiting_lock(self.path.with_suffix(".lock"), LOCK_S))
            except OSError as error:
                raise _unusable(self.path, error) from None
            if not is_alone:
                raise Unavailable(
                    "another command is writing tokens, and does not finish",
                    code="tokens_busy",
                    hint="try again",
                )
            yield


def _damaged(path: Path) -> TokensDamaged:
    return TokensDamaged(
        f"{path} is damaged",
        code="tokens_damaged",
        hint="put back a good copy; or remove it: then no token is good any more, and new ones can be made",
    )


def _too_new(path: Path) -> UserError:
    return UserError(
        f"{path} was written by a newer Mooring",
        code="tokens_too_new",
        hint="upgrade Mooring, or give another folder with --state or MOORING_RELAY_STATE",
    )


def _unusable(path: Path, error: OSError) -> UserError:
    return UserError(
        f"{path} cannot be used: {error.strerror}",
        code="tokens_unusable",
        hint="make it readable and writable for you, and see whether its disk has room",
    )
