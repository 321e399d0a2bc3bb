"""Who we are to a server elsewhere: headers that were given, and what a login has brought.

Headers that have references are looked up when a session begins, and once more when the server refuses them:
a secret that was changed is used. Where nobody has given an `Authorization`, `mooring login` can.
"""

import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from mooring.errors import MooringError, UserError
from mooring.http.client_proxies import Proxies
from mooring.oauth.credentials import OAuthCredentials
from mooring.oauth.fetching import TlsFiles, through
from mooring.oauth.keeping import aside
from mooring.oauth.login import LoginState, status
from mooring.remote.options import RemoteOptions, may_be_value
from mooring.wire.http import Headers
from mooring.workloads.definition import HEADER

__all__ = ["LookUp", "RemoteCredentials"]

log = logging.getLogger("mooring.workload")

LookUp = Callable[[], Awaitable[Mapping[str, str]]]


class RemoteCredentials:
    """See the module, and `remote.endpoint.Credentials`."""

    def __init__(self, name: str, options: RemoteOptions, look_up: LookUp, state: Path | None) -> None:
        """`look_up`: what its references lead to now. `state`: where logins are kept; None: nowhere."""
        self._fixed = [(header.encode(), value.encode()) for header, value in options.headers.items()]
        self._looked_up: Headers = []
        self._look_up = look_up
        self._has_references = bool(options.header_references)
        self._url = options.url
        self._state = state
        given = {header.lower() for header in (*options.headers, *options.header_references)}
        self._login: OAuthCredentials | None = None
        if state is not None and "authorization" not in given and not options.url.startswith("unix:"):
            network = through(Proxies.from_environment(os.environ))
            self._login = OAuthCredentials(
                options.url,
                state,
                name=name,
                tls=TlsFiles(options.ca_file, options.client_cert, options.client_key),
                network=network,
            )
        self._is_logged_in = False

    @property
    def headers(self) -> Headers:
        """To be sent with every request."""
        login = self._login.headers if self._login is not None and self._is_logged_in else []
        return [*self._fixed, *self._looked_up, *login]

    def use(self, variables: Mapping[str, str]) -> None:
        """What references have led to, by `HEADER` and name. Raises UserError that repeats no value."""
        found: Headers = []
        for name, value in variables.items():
            if not name.startswith(HEADER):
                continue
            header = name.removeprefix(HEADER)
            if not may_be_value(value):
                text = f"the header {header} would have characters that no header may have"
                raise UserError(text, code="bad_header", hint="see what its references lead to")
            found.append((header.encode(), value.encode()))
        self._looked_up = found

    async def look_for_login(self) -> None:
        """Has anybody logged in? Most servers need nobody to. One that cannot be read is none, and told."""
        state = self._state
        if self._login is None or state is None or self._is_logged_in:
            return
        try:
            found = await aside(lambda: status(self._url, state))
        except MooringError as error:
            log.warning("%s", error.message, extra={"event": error.code})
            return
        self._is_logged_in = found.state is not LoginState.NONE

    async def ready(self) -> None:
        """Before a request: a token that expires soon is renewed."""
        if self._login is not None and self._is_logged_in:
            await self._login.ready()

    async def renew(self, status: int = 401, challenge: bytes | None = None) -> bool:
        """The server did not accept them. True: there are others by now."""
        if self._login is not None:
            await self.look_for_login()
            if self._is_logged_in and await self._login.renew(status, challenge):
                return True
        if status != 401 or not self._has_references:
            return False
        before = self._looked_up
        try:
            self.use(await self._look_up())
        except MooringError as error:
            log.warning("%s", error.message, extra={"event": error.code})
            return False
        return self._looked_up != before

    async def aclose(self) -> None:
        """Let a renewal that is under way come to its end: the old token may be worth nothing by now."""
        if self._login is not None:
            await self._login.aclose()
