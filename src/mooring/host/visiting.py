"""A visit to a server: a session for one errand, and its end, whatever becomes of the errand.

1. Is the server there at all? Nobody waits at a terminal for one that may come back.
2. The session is opened, and the errand done.
3. A signal ends the errand: its calls are cancelled at the server, which has a moment to hear of it.
4. The session is ended. A second signal does not wait for that.

Exit statuses: what the errand says; 128 and the number of the signal if one ended it.
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from mooring.errors import Unavailable
from mooring.host.credentials import StoredCredentials, warn_of_listeners
from mooring.host.stop import Stop
from mooring.host.waits import until
from mooring.http.client import Client
from mooring.http.client_errors import NotSent
from mooring.http.client_proxies import Proxies
from mooring.http.origin import parse_url
from mooring.remote.endpoint import Endpoint
from mooring.remote.policy import RemotePolicy
from mooring.remote.reach import Reach
from mooring.remote.visitor import Company, Json, Tap, Visitor
from mooring.wire.http import Headers

__all__ = ["OPEN_S", "Errand", "VisitOptions", "run"]

OPEN_S = 120.0
"""For a server to open a session, or to answer what is no call: it may have to start first."""
RETRY_S = 2.0
"""A server that is busy for longer is not waited for: why it is busy is what one wants to know."""
CANCEL_S = 2.0
"""For it to hear that a call is cancelled."""

Errand = Callable[[Visitor], Awaitable[int]]


@dataclass(frozen=True, kw_only=True)
class VisitOptions:
    """Whom to visit, and as whom."""

    url: str
    headers: Headers = field(default_factory=list)
    """Beside those of the protocol; their values may be secrets."""
    token_file: Path | None = None
    ca_file: Path | None = None
    capabilities: Json = field(default_factory=dict)
    open_timeout_s: float = OPEN_S
    policy: RemotePolicy = field(default_factory=lambda: RemotePolicy(longest_retry_s=RETRY_S))


async def run(
    options: VisitOptions, company: Company, errand: Errand, stop: Stop, tap: Tap | None = None
) -> int:
    """Do the errand; returns the exit status. Raises MooringError for what went wrong, when all is ended."""
    proxies = Proxies.from_environment(os.environ)
    origin, target = parse_url(options.url, options.ca_file, proxies=proxies)
    credentials = StoredCredentials(options.headers, options.token_file)
    warn_of_listeners(credentials, origin)
    client = Client(origin)
    reach = Reach(client, options.url, options.policy)
    visitor = Visitor(
        Endpoint(client, target, credentials, options.policy), reach, options.policy, company, tap
    )

    async def visit() -> int:
        await _connect(client, options.url)  # 1
        await visitor.open(options.capabilities, timeout_s=options.open_timeout_s)  # 2
        return await errand(visitor)

    doing = asyncio.create_task(visit(), name="errand")
    stopping = asyncio.create_task(stop.wait_requested(), name="stop")
    try:
        await asyncio.wait([doing, stopping], return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        doing.cancel()  # nothing if it is done
        await asyncio.gather(doing, stopping, return_exceptions=True)
        await until(stop, CANCEL_S, visitor.wait_told())  # 3
        await until(stop, None, visitor.aclose())  # 4
        await reach.aclose()
        await client.aclose()
    return 128 + signal.Signals[stop.cause] if doing.cancelled() else doing.result()


async def _connect(client: Client, url: str) -> None:
    try:
        await client.connect()
    except NotSent as error:
        hint = error.hint or "is it running, and the URL right?"
        raise Unavailable(f"cannot reach {url}: {error.message}", code="unreachable", hint=hint) from None
