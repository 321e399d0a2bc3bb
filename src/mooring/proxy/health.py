"""Whether an instance that nobody calls still lives: now and then it is asked for a sign of life.

The states of an instance, as its `Pulse` knows them:

    resting   nothing is asked; a while after the last call or sign of life → asked
    asked     an answer, whatever it says, or a call → resting; silence → asked once more, then → silent
    silent    it is replaced, unless no instance of this server ever answers such questions

A question is no call: it counts as no use, its id is a secret of ours, and its answer is looked for only
where an answer belongs to nobody else, so that calls pay nothing for it.
"""

import logging
import secrets

from mooring.proxy.era import discover_request
from mooring.proxy.policy import SessionPolicy
from mooring.proxy.ports import Channel, Discarded
from mooring.wire import jsonrpc
from mooring.wire.jsonrpc import Id
from mooring.wire.memory import Memory

__all__ = ["SILENCE", "Health", "Pulse"]

log = logging.getLogger("mooring.session")

MISSES = 2
"""Questions in a row without an answer: one may be lost in a moment of great load."""


SILENCE = Discarded(f"it did not answer {MISSES} pings")


class Health:
    """What all instances of one workload have in common."""

    __slots__ = ("_is_used_to_pings", "_name", "_silences_in_doubt", "interval_s", "is_over", "timeout_s")

    def __init__(self, policy: SessionPolicy, name: str) -> None:
        self._name = name
        self.interval_s = policy.ping_interval_s
        self.timeout_s = policy.ping_timeout_s
        self.is_over = False
        """All are about to be stopped: who is silent now need not be replaced."""
        self._is_used_to_pings = False
        self._silences_in_doubt = 0

    @property
    def is_used_to_pings(self) -> bool:
        """Instances of this server answer."""
        return self._is_used_to_pings

    def may_replace(self) -> bool:
        """Does the silence of an instance mean anything?

        There are servers that ignore what they do not know, pings too, against all rules. If nothing is
        known yet it does; if then the next is as silent, that is their way.
        """
        if not self._is_used_to_pings:
            self.heard_nothing()
        return self._is_used_to_pings or self._silences_in_doubt == 1

    def heard(self) -> None:
        """An instance has answered."""
        self._is_used_to_pings = True

    def heard_nothing(self) -> None:
        """An instance that should live has not."""
        self._silences_in_doubt += 1
        if self._silences_in_doubt == 2:
            log.warning(
                "%s does not answer pings: if it hangs while it is idle, that is not noticed",
                self._name,
                extra={"event": "pings_unanswered", "server": self._name},
            )


class Pulse:
    """Of one instance, from the moment it knows its client."""

    __slots__ = ("_asked_at", "_count", "_health", "_misses", "_prefix", "_rested_at")

    def __init__(self, health: Health, now: float) -> None:
        self._health = health
        self._prefix = ""
        self._count = 0
        self._misses = 0
        self._asked_at: float | None = None
        self._rested_at = now

    def rest(self, now: float) -> None:
        """It has something to do, or has shown that it lives."""
        self._misses = 0
        self._asked_at = None
        self._rested_at = now

    def has_stopped(self, now: float, channel: Channel, memory: Memory) -> bool:
        """Nobody calls it: ask it if that is due. True: it has had its chances, and is to be replaced."""
        health = self._health
        if health.interval_s is None or health.is_over:
            return False
        if channel.is_paused:
            self.rest(now)
            return False
        if self._asked_at is None:
            if now - self._rested_at >= health.interval_s:
                self._ask(now, channel, memory)
            return False
        if now - self._asked_at < health.timeout_s:
            return False
        self._misses += 1
        if self._misses < MISSES:
            self._ask(now, channel, memory)
            return False
        self.rest(now)
        return health.may_replace()

    def _ask(self, now: float, channel: Channel, memory: Memory) -> None:
        self._asked_at = now
        if not channel.writable:
            return  # what it is asked already it does not read: that is an answer too
        # No client can guess it, and have the answer taken for its own.
        self._prefix = self._prefix or f"mooring-ping-{secrets.token_hex(8)}-"
        self._count += 1
        id = f"{self._prefix}{self._count}"
        channel.send(jsonrpc.request(id, "ping") if memory.handshake else discover_request(id))

    def hear(self, id: Id | None, now: float) -> bool:
        """An answer that is nobody else's: is it a sign of life?"""
        if not self._prefix or not isinstance(id, str) or not id.startswith(self._prefix):
            return False
        self._health.heard()
        self.rest(now)
        return True
