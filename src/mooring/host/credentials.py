"""Who we are to a server: a bearer token from a file, and headers from our environment. Never from argv."""

import ipaddress
import logging
import re
from collections.abc import Mapping
from pathlib import Path

from mooring.errors import UserError
from mooring.http.origin import Origin
from mooring.remote.options import may_be_set, may_be_value
from mooring.wire.http import Headers

__all__ = ["StoredCredentials", "headers_from", "is_open_to_listeners", "warn_of_listeners"]

log = logging.getLogger("mooring.host")

MAX_TOKEN_FILE_CHARACTERS = 64 * 1024
"""Of a file with one token; a device has no end."""
_TOKEN = re.compile(r"[\x21-\x7e]+")


def headers_from(pairs: Mapping[str, str], environ: Mapping[str, str]) -> Headers:
    """Header → variable, to header → value. Raises UserError that repeats no value."""
    headers: Headers = []
    for name, variable in pairs.items():
        if not may_be_set(name):
            raise UserError(
                f"--header-env: {name!r} cannot be set", code="bad_header", hint="give another header"
            )
        value = environ.get(variable, "").strip()
        if not value or not may_be_value(value):
            what = "has characters that no header may have" if value else "is not set"
            raise UserError(
                f"--header-env: the variable {variable} {what}",
                code="bad_header",
                hint=f"set {variable}, for example in the client's configuration",
            )
        headers.append((name.encode(), value.encode()))
    return headers


class StoredCredentials:
    """`renew` looks into the file again: a token that was rotated is found there."""

    def __init__(self, fixed: Headers, token_file: Path | None) -> None:
        self._fixed = fixed
        self._token_file = token_file
        self._token = _read_token(token_file) if token_file is not None else ""

    @property
    def headers(self) -> Headers:
        """To be sent with every request."""
        if not self._token:
            return self._fixed
        return [*self._fixed, (b"Authorization", b"Bearer " + self._token.encode())]

    async def ready(self) -> None:
        """It does not expire by itself."""

    async def renew(self, status: int = 401, challenge: bytes | None = None) -> bool:
        """Is there another token by now?"""
        if self._token_file is None:
            return False
        before = self._token
        try:
            self._token = _read_token(self._token_file)
        except UserError:
            return False
        return self._token != before


def _read_token(path: Path) -> str:
    """The only token of a file, whose line is `TOKEN` or `NAME TOKEN`."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            text = file.read(MAX_TOKEN_FILE_CHARACTERS + 1)
    except OSError as error:
        raise UserError(
            f"the token file {path} cannot be read: {error.strerror}",
            code="token_file_unreadable",
            hint="give the path of a file that Mooring may read",
        ) from None
    lines = [line.split() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if len(lines) != 1 or len(lines[0]) > 2 or len(text) > MAX_TOKEN_FILE_CHARACTERS:
        raise _unusable(path, f"{'no' if not lines else 'more than one'} token is in there")
    if not _TOKEN.fullmatch(lines[0][-1]):
        raise _unusable(path, "the token has characters that no header may have")
    return lines[0][-1]


def _unusable(path: Path, why: str) -> UserError:
    return UserError(
        f"the token file {path} cannot be used: {why}",
        code="token_file_invalid",
        hint="put the server's token into it, alone on one line",
    )


def warn_of_listeners(credentials: StoredCredentials, origin: Origin) -> None:
    """Say so if others on the way may read who we are."""
    if credentials.headers and is_open_to_listeners(origin):
        log.warning("the token is sent to %s without encryption; use https", origin.host)


def is_open_to_listeners(origin: Origin) -> bool:
    """May others on the way read what is sent?"""
    if origin.tls is not None or origin.unix is not None:
        return False
    try:
        return not ipaddress.ip_address(origin.host).is_loopback
    except ValueError:
        return origin.host.lower() != "localhost"
