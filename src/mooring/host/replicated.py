"""A foreground run that is one of several replicas: its parts put together, joined and left in order.

Loaded only with `--sessions`: nobody else pays for a client of Redis.
"""

import asyncio
import contextlib
import logging
import re
import secrets
import socket
import time
from collections.abc import Callable
from typing import Any

from mooring import __version__
from mooring.errors import UserError
from mooring.host.options import ReplicaOptions
from mooring.host.prometheus import Teller
from mooring.proxy.proxy import Proxy
from mooring.replicas.event_store import EventStore
from mooring.replicas.forwarding import Forwarding
from mooring.replicas.front import Front
from mooring.replicas.holdings import Holdings
from mooring.replicas.latency import BUCKETS_S
from mooring.replicas.lease import suspending_clock
from mooring.replicas.membership import Membership
from mooring.replicas.policy import ReplicaPolicy
from mooring.replicas.records import Keys, Replica
from mooring.replicas.redis_client import open_client
from mooring.replicas.seal import Seal
from mooring.replicas.shared_store import SharedStore
from mooring.replicas.store_errors import UNUSABLE_HINT, StoreUnavailable, unusable
from mooring.wire.http import App, Request

__all__ = ["Replicated", "join"]

log = logging.getLogger("mooring.replicas")

RETRY_S = 0.5
LOOK_S = 0.02
LEAVE_S = 0.5
"""For each of three parts to tell Redis what is left to tell. It comes after the deadline of a shutdown,
which leaves two seconds."""


class Replicated:
    """This replica. `leave` leaves nothing."""

    def __init__(
        self,
        front: Front,
        *,
        seal: Seal,
        store: SharedStore,
        membership: Membership,
        forwarding: Forwarding,
        holdings: Holdings,
        events: EventStore,
    ) -> None:
        self.front = front
        self._seal = seal
        self._store = store
        self._membership = membership
        self._forwarding = forwarding
        self._holdings = holdings
        self._events = events
        self._releasing: asyncio.Task[None] | None = None

    def vouch(self, request: Request) -> str | None:
        """For whom another replica asks."""
        return self._seal.vouch(request)

    @property
    def is_ready(self) -> bool:
        """May we act for our sessions? While Redis is gone for all, yes."""
        return self._membership.holds()

    def status(self) -> dict[str, Any]:
        """For `/readyz`."""
        trouble = self._membership.trouble
        return {
            "replica": self._membership.name,
            "others": len(self._membership.others),
            "holds_lease": self._membership.holds(),
            "trouble": trouble.message if trouble is not None else None,
        }

    def tell(self, tell: Teller) -> None:
        """For `/metrics`."""
        member, latency = self._membership, self._store.latency
        tell.gauge(
            "replica_holds_lease", "1 if this replica may act for its sessions.", [({}, int(member.holds()))]
        )
        tell.gauge(
            "replicas_alive", "Replicas with a lease, this one included.", [({}, len(member.others) + 1)]
        )
        tell.gauge("sessions_owned", "Sessions that this replica owns.", [({}, len(self._holdings))])
        tell.gauge(
            "requests_under_way_elsewhere",
            "Requests passed on, or looking for a session.",
            [({}, self.front.under_way)],
        )
        tell.counter("forwards_total", "Requests passed on to other replicas.", [({}, self.front.forwards)])
        tell.counter(
            "takeovers_total", "Sessions taken over from other replicas.", [({}, self._holdings.takeovers)]
        )
        tell.counter(
            "sessions_lost_total",
            "Sessions that others had taken before we noticed.",
            [({}, self._holdings.lost)],
        )
        tell.counter(
            "events_stored_total",
            "Events stored in Redis before they were sent.",
            [({}, self._events.stored)],
        )
        tell.counter(
            "events_unstored_total", "Events sent without being stored.", [({}, self._events.unstored)]
        )
        tell.histogram(
            "redis_duration_seconds",
            "Time to the answer of Redis, of many commands that were sent together too.",
            BUCKETS_S,
            latency.buckets,
            latency.sum_s,
        )
        tell.counter("redis_failures_total", "Questions that Redis did not answer.", [({}, latency.failures)])

    def hang_up(self) -> None:
        """Other replicas hear that no more is taken."""
        self.front.hang_up()

    def begin_drain(self) -> None:
        """Take nothing any more, and let go of sessions as they come to rest."""
        self.front.is_draining = True
        self._releasing = asyncio.create_task(self.front.release_all(), name="releasing sessions")

    def hold_calls(self) -> None:
        """Sessions that never rest are given a rest."""
        self.front.holds_calls = True

    async def wait_unneeded(self) -> None:
        """Until all sessions have gone, or nobody else is there, by way of whom somebody could come."""
        while self.front.can_release and await self._still_releases():
            pass

    async def wait_released(self) -> None:
        """Until all sessions have gone; for ever, if Redis does not answer."""
        while await self._still_releases():
            pass

    async def _still_releases(self) -> bool:
        """Is a session left, and somebody who lets go of it? Answered a moment later."""
        if self._releasing is None or not self._holdings.are_left:
            return False
        return not (await asyncio.wait([self._releasing], timeout=LOOK_S))[0]

    def stop_releasing(self) -> None:
        """Calls are cut from now on: what is let go after that is not let go in peace."""
        if self._releasing is not None:
            self._releasing.cancel()
        self.front.give_up_all()

    async def leave(self) -> None:
        """Whatever could not be released is anybody's from now on."""
        if self._releasing is not None:
            self._releasing.cancel()
            await asyncio.gather(self._releasing, return_exceptions=True)
        await self.front.aclose()
        for part in (self._events, self._holdings, self._membership):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LEAVE_S):
                    await part.aclose()
        await self._forwarding.aclose()
        await self._store.aclose()


async def join(
    options: ReplicaOptions, proxy: Proxy, local: App, wall: Callable[[], float] = time.time
) -> Replicated:
    """Become one of the replicas. Raises UserError if Redis refuses us, or is not there."""
    policy = options.policy
    client = open_client(options.store, options.password, options.ca_file, policy.store_s)
    store = SharedStore(client, Keys(options.prefix, proxy.name), policy.store_s)
    try:
        await _wait_there(store, options, policy)
        if await store.may_evict():
            log.warning(
                "Redis forgets sessions when its memory is full: give it maxmemory-policy noeviction",
                extra={"event": "sessions_may_be_evicted"},
            )
        key = options.key.encode() if options.key else await store.secret(secrets.token_hex(32).encode())
        return await _join(options, proxy, local, policy=policy, store=store, key=key, wall=wall)
    except BaseException:
        await store.aclose()
        raise


async def _join(
    options: ReplicaOptions,
    proxy: Proxy,
    local: App,
    *,
    policy: ReplicaPolicy,
    store: SharedStore,
    key: bytes,
    wall: Callable[[], float],
) -> Replicated:
    clock = suspending_clock()
    seal = Seal(key, wall)
    events = EventStore(store, policy, lambda: membership.holds())  # noqa: PLW0108 - made below
    holdings = Holdings(proxy, store, events, policy, wall=wall)
    forwarding = Forwarding(seal, policy, lambda: membership.name)
    at = Replica(options.advertise, _host(), wall(), __version__)

    async def agree_on_key() -> None:
        """Redis may have lost it: it is told again, unless whoever came first since has made another."""
        nonlocal key
        if not options.key and (kept := await store.secret(key)) != key:
            key = kept
            seal.use(key)

    async def go_on(is_empty: bool) -> None:
        await agree_on_key()
        proxy.stateless.be_replica(membership.name)
        await holdings.reclaim(is_empty)

    membership = Membership(
        store,
        policy,
        at,
        clock=clock,
        neighbours=forwarding,
        on_reborn=go_on,
        on_look=agree_on_key,
        is_named=holdings.is_named,
    )
    front = Front(
        local,
        proxy,
        holdings,
        membership=membership,
        forwarding=forwarding,
        store=store,
        seal=seal,
        policy=policy,
        clock=proxy.clock,
    )
    await membership.begin()
    holdings.begin(membership)
    proxy.stateless.be_replica(membership.name)
    others = len(membership.others)
    log.info(
        "this is replica %s at %s; there %s",
        membership.name,
        options.advertise,
        "is no other yet" if not others else "is one other" if others == 1 else f"are {others} others",
        extra={"event": "joined", "replica": membership.name, "others": others},
    )
    return Replicated(
        front,
        seal=seal,
        store=store,
        membership=membership,
        forwarding=forwarding,
        holdings=holdings,
        events=events,
    )


async def _wait_there(store: SharedStore, options: ReplicaOptions, policy: ReplicaPolicy) -> None:
    """Redis may be started at the same moment as we are."""
    give_up_at = time.monotonic() + policy.start_s
    is_told = False
    while True:
        try:
            return await store.check()
        except (StoreUnavailable, UserError) as error:
            told = unusable(
                error, options.store, has_password=bool(options.password), otherwise=UNUSABLE_HINT
            )
            if told.code != "sessions_unreachable" or time.monotonic() > give_up_at:
                raise told from None
            if not is_told:
                is_told = True
                log.warning(
                    "waiting for Redis at %s, up to %g s: %s",
                    options.store.shown,
                    policy.start_s,
                    error.why if isinstance(error, StoreUnavailable) else error.message,
                    extra={"event": "waiting_for_redis"},
                )
        await asyncio.sleep(RETRY_S)


def _host() -> str:
    """For people, and in names: nothing but what a name may have."""
    return re.sub(r"[^A-Za-z0-9-]", "-", socket.gethostname().split(".")[0])[:40] or "replica"
