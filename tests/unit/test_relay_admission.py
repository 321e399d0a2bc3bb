"""How often an address may come, and whose address it is."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mooring.relay.admission import (
    FAILURES,
    LOOKED_AT,
    MAX_UNASKED,
    MOST_HOPS,
    UNIX,
    UPGRADES,
    ClientAddress,
    RateLimiter,
    RatePolicy,
    parse_proxy,
    unasked,
)


class Clock:
    """Moved by hand."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def limiter(clock: Clock, **policy: float) -> RateLimiter:
    return RateLimiter(RatePolicy(**({"per_second": 2.0, "burst": 3} | policy)), clock)  # type: ignore[arg-type]


def taken(limited: RateLimiter, address: str, times: int) -> int:
    """How many of so many attempts were let through."""
    return sum(limited.take(address) == 0 for _ in range(times))


# How often


def test_a_burst_passes_and_then_so_many_a_second() -> None:
    clock = Clock()
    limited = limiter(clock)
    assert [limited.take("1.2.3.4") for _ in range(5)] == [0, 0, 0, 0.5, 0.5]
    clock.now += 0.25
    assert limited.wait_s("1.2.3.4") == limited.take("1.2.3.4") == 0.25
    clock.now += 0.25
    assert limited.wait_s("1.2.3.4") == 0 and taken(limited, "1.2.3.4", 9) == 1
    clock.now += 1.0
    assert taken(limited, "1.2.3.4", 9) == 2
    clock.now += 1000.0
    assert taken(limited, "1.2.3.4", 9) == 3, "no more than a burst, however long one waited"


def test_looking_counts_nothing() -> None:
    limited = limiter(Clock())
    assert [limited.wait_s("1.2.3.4") for _ in range(10)] == [0] * 10
    assert len(limited) == 0 and taken(limited, "1.2.3.4", 9) == 3


@pytest.mark.parametrize("policy", [UPGRADES, FAILURES])
@pytest.mark.parametrize("now", [0.0, 0.1, 1e5 + 0.3, 1e9 + 0.7])
def test_the_whole_burst_passes_whatever_the_clock_says(policy: RatePolicy, now: float) -> None:
    limited = RateLimiter(policy, Clock(now))
    assert taken(limited, "1.2.3.4", policy.burst + 5) == policy.burst


def test_failures_are_taken_more_seriously_than_visits() -> None:
    assert UPGRADES.burst >= 10 * FAILURES.burst and UPGRADES.per_second >= 100 * FAILURES.per_second


@pytest.mark.parametrize(
    "policy", [{"per_second": 0}, {"per_second": -1.0}, {"burst": 0}, {"shared_buckets": 0}]
)
def test_a_rate_that_lets_nobody_in_is_refused(policy: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="no rate"):
        limiter(Clock(), **policy)


STEPS = st.lists(
    st.tuples(st.sampled_from([0.0, 0.01, 0.1, 0.5, 1.0, 3.0, 60.0]), st.sampled_from("abcdefgh")),
    max_size=120,
)


@given(
    STEPS,
    st.sampled_from([0.1, 1.0, 3.0, 20.0]),
    st.integers(1, 6),
    st.integers(0, 5),
    st.integers(1, 3),
)
def test_nobody_gets_more_than_a_burst_and_the_rate_in_any_span(
    steps: list[tuple[float, str]], per_second: float, burst: int, most: int, shared: int
) -> None:
    """However many addresses there are, and whether they are remembered, share or were forgotten."""
    clock = Clock()
    limited = limiter(clock, per_second=per_second, burst=burst, max_addresses=most, shared_buckets=shared)
    passed: dict[str, list[float]] = {}
    for pause, address in steps:
        clock.now += pause
        wait_s = limited.wait_s(address)
        assert limited.take(address) == pytest.approx(wait_s)
        if wait_s == 0:
            passed.setdefault(address, []).append(clock.now)
        assert len(limited) <= most
    for moments in passed.values():
        for first, start in enumerate(moments):
            for last in range(first, len(moments)):
                allowed = burst + (moments[last] - start) * per_second
                assert last - first + 1 <= allowed + 0.01


@given(STEPS, st.sampled_from([0.1, 3.0, 20.0]), st.integers(1, 6))
def test_who_waits_as_long_as_told_is_let_in(
    steps: list[tuple[float, str]], per_second: float, burst: int
) -> None:
    clock = Clock()
    limited = limiter(clock, per_second=per_second, burst=burst, max_addresses=2, shared_buckets=1)
    for pause, address in steps:
        clock.now += pause
        if wait_s := limited.take(address):
            assert 0 < wait_s <= burst / per_second * 1.001
            clock.now += wait_s
            assert limited.take(address) == 0


@given(STEPS)
def test_neighbours_do_not_matter_while_there_is_room(steps: list[tuple[float, str]]) -> None:
    clock = Clock()
    among_others, alone = limiter(clock, max_addresses=8), limiter(clock)
    for pause, address in steps:
        clock.now += pause
        wait_s = among_others.take(address)
        if address == "a":
            assert wait_s == alone.take(address)


# How much is remembered


def test_a_flood_of_addresses_makes_nobodys_debt_forgotten() -> None:
    clock = Clock()
    limited = limiter(clock, max_addresses=100, shared_buckets=4)
    assert taken(limited, "debtor", 9) == 3
    wait_s = limited.wait_s("debtor")
    passed = sum(limited.take(f"10.1.{n // 256}.{n % 256}") == 0 for n in range(10_000))
    assert len(limited) == 100 and limited.wait_s("debtor") == wait_s
    assert passed == 99 + 4 * 3, "those that are remembered, and what four buckets hold"


def test_who_comes_when_all_is_full_shares_and_gets_something() -> None:
    clock = Clock()
    limited = limiter(clock, max_addresses=2, shared_buckets=1)
    for address in ("a", "b"):
        assert taken(limited, address, 9) == 3
    assert [limited.take(address) == 0 for address in "cdef"] == [True, True, True, False]
    clock.now += 0.5
    assert [limited.take(address) == 0 for address in "fe"] == [True, False]
    clock.now += 0.5
    assert limited.take("a") == 0, "those that are remembered share with nobody"


def test_who_shared_gets_no_second_burst_when_there_is_room_again() -> None:
    clock = Clock()
    limited = limiter(clock, max_addresses=1, shared_buckets=1)
    assert limited.take("a") == 0
    clock.now += 0.4
    assert taken(limited, "b", 9) == 3
    clock.now += 0.2
    assert taken(limited, "b", 9) == 0 and len(limited) == 0, "a is forgotten, and what b owes is not"


def test_who_has_all_of_its_burst_again_is_forgotten() -> None:
    clock = Clock()
    limited = limiter(clock, max_addresses=1000)
    for n in range(1000):
        assert limited.take(f"10.1.{n // 256}.{n % 256}") == 0
    assert len(limited) == 1000
    clock.now += 10.0
    for n in range(1000 // LOOKED_AT):
        limited.take(f"10.2.{n // 256}.{n % 256}")
    assert len(limited) <= 1000 // LOOKED_AT


def test_a_debtor_at_the_front_does_not_keep_others_remembered() -> None:
    clock = Clock()
    limited = limiter(clock, per_second=0.1, burst=10)
    taken(limited, "debtor", 10)
    for n in range(50):
        limited.take(f"10.1.0.{n}")
    clock.now += 11.0
    for _ in range(50):
        limited.take("debtor")
    assert len(limited) == 1 and limited.wait_s("debtor") > 0


# Who counts as one

SAME = [
    ("2001:db8:0:1::1", "2001:db8:0:1:ffff:ffff:ffff:ffff"),
    ("2001:db8:0:1::1", "2001:0DB8:0000:0001::2"),
    ("1.2.3.4", "::ffff:1.2.3.4"),
    ("1.2.3.4", "::ffff:102:304"),
    ("1.2.3.4", "64:ff9b::1.2.3.4"),
    ("fe80::1%eth0", "fe80::2"),
    (UNIX, UNIX),
]
OTHERS = [
    ("2001:db8:0:1::1", "2001:db8:0:2::1"),
    ("1.2.3.4", "1.2.3.5"),
    ("::ffff:1.2.3.4", "::ffff:1.2.3.5"),
    ("64:ff9b::1.2.3.4", "64:ff9b::1.2.3.5"),
    ("::1.2.3.4", "1.2.3.4"),
    (UNIX, "127.0.0.1"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_these_count_as_one(one: str, other: str) -> None:
    limited = limiter(Clock())
    assert taken(limited, one, 2) == 2 and taken(limited, other, 9) == 1 and len(limited) == 1


@pytest.mark.parametrize(("one", "other"), OTHERS)
def test_these_do_not(one: str, other: str) -> None:
    limited = limiter(Clock())
    assert taken(limited, one, 9) == 3 and taken(limited, other, 9) == 3 and len(limited) == 2


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_an_ipv6_network_of_64_bits_counts_as_one(prefix: int, one: int, other: int) -> None:
    addresses = [IPv6Address(prefix << 64 | rest) for rest in (one, other)]
    nat64 = IPv6Network("64:ff9b::/96")
    assume(not any(address.ipv4_mapped or address in nat64 for address in addresses))
    limited = limiter(Clock())
    for address in addresses:
        limited.take(str(address))
    assert len(limited) == 1


# Whose address it is


def address(*trusted: str) -> ClientAddress:
    return ClientAddress(map(parse_proxy, trusted))


@pytest.mark.parametrize(
    ("trusted", "peer", "place"),
    [
        ((), "198.51.100.7", "198.51.100.7"),
        ((), "::ffff:198.51.100.7", "198.51.100.7"),
        ((), "2001:db8::7", "2001:db8::/64"),
        ((), "fe80::7%eth0", "fe80::/64"),
        ((), "", ""),
        (("198.51.100.0/24",), "198.51.100.7", ""),
        (("198.51.100.0/24",), "198.51.101.7", "198.51.101.7"),
    ],
)
def test_which_connections_count_together_before_anything_is_said(
    trusted: tuple[str, ...], peer: str, place: str
) -> None:
    assert address(*trusted).place(peer) == place


@pytest.mark.parametrize(
    ("per_second", "connections", "most"),
    [
        (20.0, 10_000, MAX_UNASKED),
        (0.5, 10_000, MAX_UNASKED),
        (200.0, 100_000, 10 * MAX_UNASKED),
        (20.0, 200, 100),
        (20.0, 1, 1),
    ],
)
def test_no_address_has_all_the_room(per_second: float, connections: int, most: int) -> None:
    assert unasked(per_second, connections) == most


FORWARDED = [
    # trusted, peer, fields, counts for
    ((), "198.51.100.7:4000", [b"1.1.1.1"], "198.51.100.7"),
    ((), "[2001:DB8::7]:4000", [b"1.1.1.1"], "2001:db8::7"),
    ((), "[::ffff:198.51.100.7]:4000", [], "198.51.100.7"),
    ((), "[fe80::7%eth0]:4000", [], "fe80::7"),
    ((), UNIX, [b"1.1.1.1"], UNIX),
    (("127.0.0.1",), UNIX, [b"1.1.1.1"], UNIX),
    ((UNIX,), UNIX, [b"1.1.1.1"], "1.1.1.1"),
    ((UNIX,), UNIX, [], UNIX),
    ((UNIX,), UNIX, [b"unix:"], UNIX),
    ((UNIX,), "127.0.0.1:1", [b"1.1.1.1"], "127.0.0.1"),
    (("127.0.0.1",), "127.0.0.1:1", [b"1.1.1.1"], "1.1.1.1"),
    (("127.0.0.1",), "127.0.0.2:1", [b"1.1.1.1"], "127.0.0.2"),
    (("127.0.0.1",), "[::ffff:127.0.0.1]:1", [b"1.1.1.1"], "1.1.1.1"),
    (("::ffff:127.0.0.0/104",), "127.9.9.9:1", [b"1.1.1.1"], "1.1.1.1"),
    (("::1",), "[::1]:1", [b"2001:db8::1"], "2001:db8::1"),
    (("2001:db8::/32",), "[2001:db8:9::1]:1", [b"::ffff:1.1.1.1"], "1.1.1.1"),
    (("10.0.0.0/8",), "10.0.0.1:1", [b"6.6.6.6, 1.1.1.1"], "1.1.1.1"),
    (("10.0.0.0/8",), "10.0.0.1:1", [b"6.6.6.6, 1.1.1.1, 10.0.0.2"], "1.1.1.1"),
    (("10.0.0.0/8",), "10.0.0.1:1", [b"6.6.6.6", b"1.1.1.1,10.0.0.3\t", b" 10.0.0.2"], "1.1.1.1"),
    (("10.0.0.0/8",), "10.0.0.1:1", [b"1.1.1.1:5000"], "1.1.1.1"),
    (("10.0.0.0/8",), "10.0.0.1:1", [b"[2001:db8::1]:5000"], "2001:db8::1"),
    (("10.0.0.0/8",), "10.0.0.1:1", [b"[2001:db8::1]"], "2001:db8::1"),
    (("10.0.0.0/8",), "10.0.0.1:1", [b"garbage, 1.1.1.1"], "1.1.1.1"),
    # Nobody but proxies, and what is no address
    (("10.0.0.0/8",), "10.0.0.1:1", [], "10.0.0.1"),
    (("10.0.0.0/8",), "10.0.0.1:1", [b"10.0.0.3, 10.0.0.2"], "10.0.0.1"),
    (("10.0.0.0/8",), "10.0.0.1:1", [b"1.1.1.1, garbage"], "10.0.0.1"),
    (("10.0.0.0/8",), "10.0.0.1:1", [b"1.1.1.1, garbage, 10.0.0.2"], "10.0.0.1"),
    (("10.0.0.0/8",), "10.0.0.1:1", [b"1.1.1.1,"], "10.0.0.1"),
    (("10.0.0.0/8",), "10.0.0.1:1", [b"1.1.1.1" + b",10.0.0.2" * MOST_HOPS], "10.0.0.1"),
]
GARBAGE = [
    b"",
    b"unknown",
    b"localhost",
    b"1.1.1",
    b"1.1.1.1.1",
    b"01.1.1.1",
    b"1.1.1.256",
    b"1.1.1.1/32",
    b"1.1.1.1:",
    b"1.1.1.1:http",
    b"1.1.1.1:123456",
    b"1.1.1.1%eth0",
    b"[1.1.1.1]",
    b"[::1",
    b"[::1]80",
    b"[::1]:",
    b"::1]:80",
    b"[[::1]]",
    b'"1.1.1.1"',
    b"for=1.1.1.1",
    b"1.1.1.1\xb2",
    b"\xff\xfe",
]


@pytest.mark.parametrize(("trusted", "peer", "fields", "expected"), FORWARDED)
def test_a_request_counts_for(
    trusted: tuple[str, ...], peer: str, fields: list[bytes], expected: str
) -> None:
    assert address(*trusted).of(peer, fields) == expected


@pytest.mark.parametrize("garbage", GARBAGE)
def test_garbage_counts_as_the_peer(garbage: bytes) -> None:
    assert address("10.0.0.0/8").of("10.0.0.1:1", [b"1.1.1.1", garbage]) == "10.0.0.1"


ADDRESSES = st.ip_addresses()
TRUSTED = st.one_of(
    st.integers(0, 2**24 - 1).map(lambda rest: str(IPv4Address(10 << 24 | rest))),
    st.integers(0, 2**64 - 1).map(lambda rest: str(IPv6Address(0xFD00 << 112 | rest))),
    st.integers(0, 2**24 - 1).map(lambda rest: f"::ffff:{IPv4Address(10 << 24 | rest)}"),
)
TRUSTING = address("10.0.0.0/8", "fd00::/64")


def in_brackets(text: str) -> str:
    return f"[{text}]:1" if ":" in text else f"{text}:1"


def canonical(text: str) -> str:
    parsed = ip_address(text)
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return str(mapped or parsed)


def is_trusted(text: str) -> bool:
    parsed = ip_address(canonical(text))
    return parsed in IPv4Network("10.0.0.0/8") or parsed in IPv6Network("fd00::/64")


@given(st.binary(max_size=60), ADDRESSES.map(str), st.lists(TRUSTED, max_size=5), TRUSTED)
def test_whatever_a_client_writes_it_counts_for_where_it_came_from(
    written: bytes, client: str, proxies: list[str], peer: str
) -> None:
    assume(not is_trusted(client))
    chain = ", ".join([client, *proxies]).encode()
    assert TRUSTING.of(in_brackets(peer), [written + b"," + chain]) == canonical(client)
    assert TRUSTING.of(in_brackets(peer), [written, chain]) == canonical(client)


@given(ADDRESSES.map(str), st.lists(st.binary(max_size=40) | ADDRESSES.map(lambda one: str(one).encode())))
def test_who_is_not_trusted_counts_for_itself(peer: str, fields: list[bytes]) -> None:
    assume(not is_trusted(peer))
    assert TRUSTING.of(in_brackets(peer), fields) == canonical(peer)
    assert ClientAddress().of(in_brackets(peer), fields) == canonical(peer)
    assert TRUSTING.of(UNIX, fields) == UNIX


@given(st.lists(st.binary(max_size=40) | TRUSTED.map(str.encode)), TRUSTED)
def test_a_header_of_any_bytes_gives_an_address(fields: list[bytes], peer: str) -> None:
    found = TRUSTING.of(in_brackets(peer), fields)
    assert found == canonical(found) and (found == canonical(peer) or not is_trusted(found))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is no proxy"),
        ("localhost", "is no proxy"),
        ("10.0.0.1/8", "nothing after the prefix"),
        ("10.0.0.1:80", "is no proxy"),
        ("UNIX", "is no proxy"),
        ("0.0.0.0/0", "everybody"),
        ("::/0", "everybody"),
        ("::ffff:0:0/96", "everybody"),
    ],
)
def test_what_cannot_be_trusted_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_proxy(text)
