"""Who may come, and how often: whom a request counts for, and how many each of them has left. Pure.

A relay asks in this order, cheapest first:
1. `ClientAddress`: whom does the request count for?
2. An upgrade costs one of the address's `UPGRADES`. None left: 429 and Retry-After, and nothing else is done.
3. The token. A good one is let in, whatever others behind the same address did: nobody guesses 256 random
   bits, so a lock on the whole address would only shut out neighbours.
4. A bad one costs one of the address's `FAILURES`. None left: 429 in place of 401, and the connection ends.
"""

import random
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Literal

from msgspec import Struct

__all__ = [
    "FAILURES",
    "UNIX",
    "UPGRADES",
    "ClientAddress",
    "Proxy",
    "RateLimiter",
    "RatePolicy",
    "parse_proxy",
    "unasked",
    "upgrades",
]

UNIX: Literal["unix"] = "unix"
"""The peer of a connection through a unix socket, which has no address."""

Address = IPv4Address | IPv6Address
Proxy = IPv4Network | IPv6Network | Literal["unix"]
"""Who is believed about whom it speaks for."""


# How often ------------------------------------------------------------------------------------


class RatePolicy(Struct, frozen=True, kw_only=True):
    """What one address may do: so many at once, and from then on so many a second."""

    per_second: float
    burst: int
    max_addresses: int = 65_536
    """That are remembered one by one, some 15 MB. An address is forgotten as soon as it has all of its burst
    again, so this many are in debt at the same moment, which takes a flood from that many networks."""
    shared_buckets: int = 1024
    """For addresses beyond that, which share: each of them still gets something, and a flood no more than so
    many times what one address gets."""

    def __post_init__(self) -> None:
        if not (
            self.per_second > 0 and self.burst >= 1 and self.max_addresses >= 0 and self.shared_buckets >= 1
        ):
            raise ValueError("a rate that lets nobody in is no rate")


UPGRADES = RatePolicy(per_second=20.0, burst=200)
"""An office of 200 workstations behind one address comes back at once when its line does, one of 2,000 within
a minute and a half. A handshake of TLS takes about a millisecond: what one address gets is a fiftieth of a
core."""


def upgrades(per_second: float) -> RatePolicy:
    """The same for whoever is granted so many: more a second, and as many more at once."""
    burst = int(UPGRADES.burst / UPGRADES.per_second * per_second)
    return RatePolicy(per_second=per_second, burst=max(UPGRADES.burst, burst))


MAX_UNASKED = 1000
"""Connections of one address on which nothing is asked. Five times what it may open at once. No WebSocket
is one of them, nor a call under way: these are handshakes, and what clients keep for later."""


def unasked(per_second: float, max_connections: int) -> int:
    """The same for whoever is granted so many upgrades. Never all the room: others come, too."""
    granted = MAX_UNASKED * upgrades(per_second).burst // UPGRADES.burst
    return max(1, min(granted, max_connections // 2))


FAILURES = RatePolicy(per_second=0.1, burst=20)
"""Agents stop at the first refusal, and people who have copied a token badly try a few times. Who goes on is
looking for something: 20 attempts, then six a minute, are few lines in a log and no work."""

LOOKED_AT = 4
"""Remembered addresses that are looked at with each one that is counted. All are looked at before a quarter
as many have come, so hardly more than a third above those in debt are remembered."""
SLACK = 0.001
"""Of an interval: sums of fractions are off by less, and nobody is sent away for so little."""


class RateLimiter:
    """A bucket of tokens for each address; of IPv6, for each /64, which is what one customer has at least.

    What is remembered of an address is one number: when its bucket will be full again. One that is full is
    not remembered. While it is not full it is kept, whoever else comes: no crowd makes its debt forgotten.
    """

    def __init__(self, policy: RatePolicy, clock: Callable[[], float]) -> None:
        self._policy = policy
        self._clock = clock
        self._interval_s = 1 / policy.per_second
        self._span_s = policy.burst / policy.per_second
        self._full_at: OrderedDict[str, float] = OrderedDict()
        self._shared_full_at = array("d", [float("-inf")]) * policy.shared_buckets
        # Nobody can tell who shares with whom.
        self._salt = random.SystemRandom().getrandbits(64)

    def __len__(self) -> int:
        """How many addresses are remembered."""
        return len(self._full_at)

    def take(self, address: str) -> float:
        """Count one. Returns 0, or how long to wait if there is none left (then nothing is counted)."""
        now, key = self._clock(), _counted_as(address)
        full_at = max(now, self._debt(key)) + self._interval_s
        wait_s = self._beyond(full_at, now)
        self._forget_some(now)
        if wait_s:
            return wait_s
        if key in self._full_at or len(self._full_at) < self._policy.max_addresses:
            self._full_at[key] = full_at
        else:
            self._shared_full_at[self._share(key)] = full_at
        return 0.0

    def wait_s(self, address: str) -> float:
        """How long until `take` counts one; 0: now."""
        now = self._clock()
        return self._beyond(max(now, self._debt(_counted_as(address))) + self._interval_s, now)

    def _beyond(self, full_at: float, now: float) -> float:
        """How much longer than a whole burst takes it would be until the bucket is full."""
        beyond_s = full_at - self._span_s - now
        return beyond_s if beyond_s > SLACK * self._interval_s else 0.0

    def _debt(self, key: str) -> float:
        """Who is not remembered may have been one of those who share, and gets no second burst."""
        found = self._full_at.get(key)
        return self._shared_full_at[self._share(key)] if found is None else found

    def _share(self, key: str) -> int:
        return hash((self._salt, key)) % len(self._shared_full_at)

    def _forget_some(self, now: float) -> None:
        """Those at the front: who has all of its burst again goes, anybody else to the back."""
        for _ in range(min(LOOKED_AT, len(self._full_at))):
            key, full_at = self._full_at.popitem(last=False)
            if full_at > now:
                self._full_at[key] = full_at


_TRANSLATED = IPv6Network("64:ff9b::/96")
"""IPv4 seen through a translator (RFC 6052): all of it would be one /64."""


def _counted_as(address: str) -> str:
    parsed = _parsed(address)
    if not isinstance(parsed, IPv6Address):
        return address if parsed is None else str(parsed)
    if parsed in _TRANSLATED:
        return str(IPv4Address(int(parsed) & 0xFFFFFFFF))
    return f"{IPv6Address(int(parsed) >> 64 << 64)}/64"


# Whom it counts for ---------------------------------------------------------------------------

MOST_HOPS = 32
"""Proxies in a row that are followed; nobody has more."""


def parse_proxy(text: str) -> Proxy:
    """An address, a network or `unix`, of a proxy whose X-Forwarded-For is believed. Raises ValueError."""
    if text == UNIX:
        return UNIX
    try:
        network = ip_network(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is no proxy; write its address, its network (10.0.0.0/8, with nothing after the "
            "prefix) or unix"
        ) from None
    if isinstance(network, IPv6Network) and network.prefixlen >= 96:
        mapped = network.network_address.ipv4_mapped
        if mapped is not None:
            network = IPv4Network((mapped, network.prefixlen - 96))
    if not network.prefixlen:
        raise ValueError(f"{text!r} is everybody, and everybody could then come under any address")
    return network


class ClientAddress:
    """Whom requests count for: whoever sent them, or whom a trusted proxy names."""

    def __init__(self, trusted: Iterable[Proxy] = ()) -> None:
        given = tuple(trusted)
        self._trusts_unix = UNIX in given
        self._networks = tuple(proxy for proxy in given if not isinstance(proxy, str))

    def place(self, address: str) -> str:
        """What counts as one with it before anything is said: its network. Of a proxy, which speaks for
        anybody, and of a unix socket nothing does: it is empty."""
        sender = _parsed(address)
        return "" if sender is None or self._is_trusted(sender) else _counted_as(address)

    def of(self, peer: str, forwarded: Sequence[bytes] = ()) -> str:
        """Its address, in the one way to write it, or `unix`.

        `peer` is as in `Request.peer`; `forwarded` are all X-Forwarded-For fields in their order. Each proxy
        adds at the end whom it was asked by, so what stands right of the first address that is not trusted
        was written by those who are, and what stands left of it by anybody.
        """
        if peer == UNIX:
            return (self._named(forwarded) if self._trusts_unix else None) or UNIX
        sender = _without_port(peer)
        if sender is None:
            return peer
        return (self._named(forwarded) if self._is_trusted(sender) else None) or str(sender)

    def _named(self, forwarded: Sequence[bytes]) -> str | None:
        """None: nobody but proxies, or somebody who wrote no address."""
        hops = b",".join(forwarded).rsplit(b",", MOST_HOPS)[-MOST_HOPS:]
        for hop in reversed(hops):
            address = _without_port(hop.strip(b" \t").decode("latin-1"))
            if address is None:
                return None
            if not self._is_trusted(address):
                return str(address)
        return None

    def _is_trusted(self, address: Address) -> bool:
        return any(address in network for network in self._networks)


def _without_port(text: str) -> Address | None:
    """Of `1.2.3.4`, `1.2.3.4:80`, `::1`, `[::1]` or `[::1]:80`. None for anything else."""
    if text.startswith("["):
        inside, bracket, port = text[1:].partition("]")
        if not bracket or ":" not in inside or (port and not _is_port(port[1:], port[:1])):
            return None
        return _parsed(inside)
    if text.count(":") == 1:
        text, _, port = text.partition(":")
        if not _is_port(port):
            return None
    return _parsed(text)


def _is_port(text: str, colon: str = ":") -> bool:
    return colon == ":" and text.isascii() and text.isdecimal() and len(text) <= 5


def _parsed(text: str) -> Address | None:
    """Without the interface that a link-local one has; the IPv4 address if it is one in IPv6's clothes."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if isinstance(address, IPv4Address):
        return address
    return address.ipv4_mapped or IPv6Address(int(address))
