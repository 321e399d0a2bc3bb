"""Instances of a server elsewhere: each is a conversation over HTTP, with a session of its own there.

Nothing is started, so nothing exits: what goes wrong on the way is told to the calls that meet it
(`remote.conversation`), and that the server cannot be reached is an obstacle and no failure. All instances
share the connections, and what is known of the server: whether it can be reached, what its tools are.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from mooring.errors import Unavailable
from mooring.http.client import Client
from mooring.http.client_errors import AnswerLost, NoPlace, NotSent
from mooring.http.client_proxies import Proxies
from mooring.http.origin import Origin, parse_url
from mooring.proxy.trail import Trail
from mooring.remote.conversing import converse
from mooring.remote.detecting import detect, speaks_modern
from mooring.remote.endpoint import Endpoint
from mooring.remote.options import RemoteOptions
from mooring.remote.policy import RemotePolicy
from mooring.remote.reach import Reach
from mooring.wire.failures import Failure
from mooring.wire.http import Headers
from mooring.wire.mirrored import MarkedTools
from mooring.workloads.definition import ServerOptions
from mooring.workloads.makers import Ears, Instance, Passed
from mooring.workloads.remote_credentials import LookUp, RemoteCredentials
from mooring.workloads.remote_instance import RemoteInstance, limits_of

__all__ = ["RemoteMaker", "origin_of"]

log = logging.getLogger("mooring.workload")

LONGEST_PAUSE_S = 30.0
"""Between two attempts to reach a server."""
LOOK_AGAIN_S = 30.0
"""By ourselves, after one that does not answer; of one that can be reached again we are told."""
MOST_ATTEMPTS = 4
"""At anything that a server does not do, before its caller is told."""
LONGEST_RETRY_S = 10.0
"""What waits for a server that says when (a handshake, a notification, a stream) waits no longer."""


class RemoteMaker:
    """See the module, and `makers.Maker`."""

    may_return = False

    def __init__(
        self,
        definition: ServerOptions,
        ears: Ears,
        *,
        clock: Callable[[], float],
        look_up: LookUp,
        logins: Path | None,
        trail: Trail,
    ) -> None:
        """`look_up`: what its references lead to now. `logins`: the state directory, where they are kept.

        `trail`: which way requests have come.
        """
        if definition.remote is None:
            raise ValueError("no address")
        self._options = definition.remote
        self._name = definition.name
        self._ears = ears
        self._clock = clock
        self._sessions = definition.sessions
        self._credentials = RemoteCredentials(definition.name, definition.remote, look_up, logins)
        self._trail = trail
        self._policy = RemotePolicy(
            max_message_bytes=definition.sessions.max_message_bytes,
            patience_s=0,
            longest_wait_s=LONGEST_PAUSE_S,
            longest_retry_s=LONGEST_RETRY_S,
            most_refused_resumes=MOST_ATTEMPTS,
            most_busy=MOST_ATTEMPTS,
            waits_when_busy=False,
            repeats_tools=definition.sessions.retry,
            most_handshakes=MOST_ATTEMPTS,
            tells_people=False,
        )
        self._client: Client | None = None
        self._reach: Reach | None = None
        self._target = ""
        self._instances: dict[int, RemoteInstance] = {}
        self._tools = MarkedTools()
        self._made = 0
        self._known = None if self._options.transport == "auto" else self._options.transport
        self._is_modern: bool | None = None
        """It can be spoken to without a handshake; None: that is not known yet."""
        self._detecting = asyncio.Lock()
        self._closing: asyncio.Task[None] | None = None

    programs = ()
    """See `Maker`: none is ours."""

    def replace(self, instance: Instance, reason: str) -> None:
        """See `Maker`: nobody here could."""

    @property
    def instances(self) -> tuple[RemoteInstance, ...]:
        """See `Maker`."""
        return tuple(self._instances.values())

    async def check(self, variables: Mapping[str, str]) -> None:
        """Whether there is a server is seen when it is spoken to."""
        self._credentials.use(variables)
        self._open()

    async def regain(self, variables: Mapping[str, str]) -> RemoteInstance | None:
        """See `Maker`: nothing ends here that could come back."""
        return None

    async def start(self, variables: Mapping[str, str]) -> RemoteInstance:
        """Another session there, once it is known that the server can be reached."""
        self._check_open()
        self._credentials.use(variables)
        await self._credentials.look_for_login()
        client, reach = self._open()
        if not reach.is_up:
            raise self._unreachable(reach.why)  # which tells when it is not so any more
        try:
            await client.connect()
        except NoPlace:
            raise
        except NotSent as error:
            reach.lost(error)
            raise self._unreachable(error) from error
        kind = await self._transport(client, reach)
        self._check_open()
        self._made += 1
        instance = RemoteInstance(
            self._made,
            self._clock(),
            on_ended=lambda: self._forget(instance),
            # A session of the older transport is its stream, which nobody else could go on with.
            backend=self._options.shown_url if kind != "sse" else "",
        )
        instance.on_trouble = self._on_trouble
        instance.speaks_modern = bool(self._is_modern)
        conversation = converse(
            kind,
            client,
            self._target,
            self._credentials,
            reach=reach,
            outlet=instance.outlet,
            policy=self._policy,
            on_outcome=instance.on_outcome,
            tools=self._tools,
            also=self._way,
        )
        instance.begin(conversation)
        self._instances[instance.n] = instance
        return instance

    def _way(self) -> Headers:
        return self._trail.headers

    def _check_open(self) -> None:
        if self._closing is not None:
            raise Unavailable(f"{self._name}: Mooring is shutting down", code="shutting_down")

    def adopt(self, passed: Passed) -> Instance:
        """Never: its sessions are opened anew by whoever takes them over."""
        raise TypeError("a server elsewhere has no instances that could be passed on")

    def part_with(self, instance: Instance) -> None:
        """Never, for the same reason."""

    def hurry(self) -> None:
        """No more patience with farewells."""
        for instance in self.instances:
            instance.hurry()

    async def aclose(self) -> None:
        """End all sessions there, and close the connections. Cancelling the wait does not cut it short."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(), name=f"close {self._name}")
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        # At once: a server that does not answer takes its time for each.
        await asyncio.gather(*(instance.stop() for instance in self.instances))
        await self._credentials.aclose()
        if self._reach is not None:
            await self._reach.aclose()
        if self._client is not None:
            await self._client.aclose()

    async def _transport(self, client: Client, reach: Reach) -> Literal["http", "sse"]:
        """Found out once, unless it was said. What shows itself as neither is spoken to as if it were new."""
        async with self._detecting:
            if self._known is None or self._is_modern is None:
                endpoint = Endpoint(client, self._target, self._credentials, self._policy, also=self._way)
                try:
                    await self._find_out(endpoint)
                except NoPlace:
                    raise
                except NotSent as error:
                    reach.lost(error)
                    raise self._unreachable(error) from error
                except AnswerLost as error:
                    raise self._unreachable(error) from error
        return self._known or "http"

    async def _find_out(self, endpoint: Endpoint) -> None:
        if self._known != "sse" and await speaks_modern(endpoint, self._policy):
            self._known, self._is_modern = "http", True
            return
        if self._known is None:
            self._known = await detect(endpoint, self._policy)
        if self._known is not None:
            self._is_modern = False

    def _open(self) -> tuple[Client, Reach]:
        """Raises UserError if the address, or a file that goes with it, is no good."""
        if self._client is None or self._reach is None:
            origin, self._target = origin_of(self._options, Proxies.from_environment(os.environ))
            self._client = Client(origin, limits_of(self._sessions))
            self._reach = Reach(
                self._client, self._options.shown_url, self._policy, self._on_reach, is_told=False
            )
        return self._client, self._reach

    def _on_trouble(self, failure: Failure | None) -> None:
        if failure is None and self._known is None:
            self._known = "http"  # it answers; the older transport would have shown itself before
        self._ears.on_trouble(failure)

    def _on_reach(self, why: NotSent | None) -> None:
        if why is None:
            about = {"event": "reachable", "server": self._name}
            log.info("%s: %s can be reached", self._name, self._options.shown_url, extra=about)
        self._ears.on_engine(None if why is None else self._unreachable(why))

    def _unreachable(self, why: NotSent | AnswerLost) -> Unavailable:
        text = f"{self._name}: {self._options.shown_url} cannot be reached: {why.message}"
        hint = why.hint or "nothing is lost: it is tried again and again"
        return Unavailable(text, code="unreachable", hint=hint, retry_after_s=LOOK_AGAIN_S)

    def _forget(self, instance: RemoteInstance) -> None:
        self._instances.pop(instance.n, None)


def origin_of(options: RemoteOptions, proxies: Proxies) -> tuple[Origin, str]:
    """Raises UserError if the address, or a file that goes with it, is no good."""
    return parse_url(
        options.url,
        options.ca_file,
        client_cert=options.client_cert,
        client_key=options.client_key,
        proxies=proxies,
    )
