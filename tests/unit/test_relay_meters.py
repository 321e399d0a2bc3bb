"""How much a token may send, and what is counted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.relay.meters import ByteMeter, BytePolicy, Count, Counters, Family, Meters

KIB, MIB = 1024, 1024 * 1024


class Clock:
    """Moved by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


# Bytes


def test_a_burst_passes_and_what_is_beyond_it_is_waited_for() -> None:
    clock = Clock()
    meter = ByteMeter(BytePolicy(bytes_per_minute=60 * KIB), clock)
    assert meter.count(60 * KIB) == 0
    assert meter.count(KIB) == pytest.approx(1.0) and not meter.has_room(0)
    assert meter.count(4 * KIB) == pytest.approx(5.0), "what was read is counted, however much it was"
    clock.now += 5.0
    assert meter.has_room(0) and meter.count(2 * KIB) == pytest.approx(2.0)
    clock.now += 1000.0
    assert meter.has_room(60 * KIB) and meter.count(60 * KIB) == 0 and meter.count(KIB) > 0


def test_the_usual_policy_lets_pictures_and_the_largest_message_through_at_once() -> None:
    meter = ByteMeter(BytePolicy(), Clock())
    assert all(meter.count(4 * MIB) == 0 for _ in range(50)) and meter.count(64 * MIB) == 0
    assert meter.count(512 * MIB) > 0


def test_without_a_limit_nobody_waits() -> None:
    meter = ByteMeter(BytePolicy(bytes_per_minute=None), Clock())
    assert meter.has_room(2**50) and meter.count(2**50) == 0 and meter.has_room(2**50)


@pytest.mark.parametrize(
    "policy", [{"bytes_per_minute": 0}, {"bytes_per_minute": -1}, {"burst_minutes": -1.0}]
)
def test_a_limit_that_lets_nothing_through_is_refused(policy: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="no use"):
        BytePolicy(**policy)


@given(
    st.lists(st.tuples(st.integers(0, 64 * KIB), st.sampled_from([0.0, 0.01, 1.0, 30.0])), max_size=60),
    st.sampled_from([60, 60 * KIB, 60 * MIB]),
    st.sampled_from([0.0, 0.1, 1.0]),
)
def test_who_is_read_from_as_told_sends_no_more_than_allowed(
    reads: list[tuple[int, float]], per_minute: int, burst_minutes: float
) -> None:
    clock = Clock()
    meter = ByteMeter(BytePolicy(bytes_per_minute=per_minute, burst_minutes=burst_minutes), clock)
    begun, total, largest = clock.now, 0, max((amount for amount, _ in reads), default=0)
    not_before = begun
    for amount, pause in reads:
        clock.now = max(clock.now, not_before)
        allowed = per_minute * burst_minutes + (clock.now - begun) * per_minute / 60
        assert total <= allowed * 1.000001 + 1
        total += amount
        not_before = clock.now + meter.count(amount)
        clock.now += pause
    assert (
        total <= per_minute * burst_minutes + (clock.now - begun) * per_minute / 60 * 1.000001 + largest + 1
    )


def test_all_connections_of_a_token_share_one_meter_and_coming_again_pays_nothing() -> None:
    clock = Clock()
    meters = Meters(BytePolicy(bytes_per_minute=60), clock)
    assert meters.of("one").count(120) == pytest.approx(60.0)
    assert not meters.of("one").has_room(0) and meters.of("other").has_room(60)
    assert meters.of("one") is meters.of("one") and len(meters) == 2
    meters.forget(frozenset({"one", "nobody"}))
    assert len(meters) == 1 and meters.of("one").has_room(60)


def test_links_of_one_token_that_has_sent_far_too_much_take_turns() -> None:
    clock, slowed = Clock(), Count()
    meter = ByteMeter(BytePolicy(bytes_per_minute=60 * KIB, turn_s=2.0), clock)
    first, second, third = (meter.counting_turns(slowed) for _ in range(3))
    assert first(60 * KIB) == 0 and slowed.value == 0
    assert first(KIB) == pytest.approx(1.0), "what is soon over is waited for"
    assert [link(100 * KIB) for link in (first, second, third)] == [2.0, 4.0, 6.0]
    assert first(1) == 6.0, "one turn each, and not two because it was read twice"
    clock.now += 4.0
    assert second(1) == 6.0 and slowed.value == 6
    clock.now += 1000.0
    assert first(61 * KIB) == pytest.approx(1.0)


def test_what_has_room_now_and_what_never_has() -> None:
    clock = Clock()
    meter = ByteMeter(BytePolicy(bytes_per_minute=60 * KIB), clock)
    assert meter.has_room(60 * KIB) and not meter.has_room(61 * KIB) and not meter.could_have_room(61 * KIB)
    meter.count(40 * KIB)
    assert meter.has_room(20 * KIB) and not meter.has_room(21 * KIB) and meter.could_have_room(60 * KIB)
    meter.count(21 * KIB)
    assert not meter.has_room(0)
    clock.now += 2.0
    assert meter.has_room(KIB)
    without = ByteMeter(BytePolicy(bytes_per_minute=None), clock)
    assert without.has_room(2**50) and without.could_have_room(2**50)


# Counts

FAMILIES = (
    Family("relay_grace_expiries_total", "Names that were given up."),
    Family(
        "relay_upgrades_total",
        "Upgrades asked for.",
        {"endpoint": ("server", "client"), "outcome": ("accepted", "4409", "rate_limited")},
    ),
)


def told(counters: Counters) -> dict[str, list[tuple[dict[str, str], int]]]:
    return {family.name: samples for family, samples in counters.samples()}


def test_every_count_is_there_from_the_beginning() -> None:
    assert told(Counters(FAMILIES)) == {
        "relay_grace_expiries_total": [({}, 0)],
        "relay_upgrades_total": [
            ({"endpoint": endpoint, "outcome": outcome}, 0)
            for endpoint in ("server", "client")
            for outcome in ("accepted", "4409", "rate_limited")
        ],
    }
    assert [family.text for family, _ in Counters(FAMILIES).samples()] == [one.text for one in FAMILIES]


def test_what_is_counted_is_told() -> None:
    counters = Counters(FAMILIES)
    counters.add("relay_grace_expiries_total")
    counters.add("relay_upgrades_total", "client", "4409", amount=5)
    accepted = counters.find("relay_upgrades_total", "server", "accepted")
    accepted.value += 2
    assert counters.find("relay_upgrades_total", "server", "accepted") is accepted
    samples = told(counters)
    assert samples["relay_grace_expiries_total"] == [({}, 1)]
    assert [(labels, count) for labels, count in samples["relay_upgrades_total"] if count] == [
        ({"endpoint": "server", "outcome": "accepted"}, 2),
        ({"endpoint": "client", "outcome": "4409"}, 5),
    ]
    assert told(Counters(FAMILIES))["relay_grace_expiries_total"] == [({}, 0)], "each has counts of its own"


@pytest.mark.parametrize(
    "words",
    [
        ("relay_nothing_total",),
        ("relay_upgrades_total",),
        ("relay_upgrades_total", "server"),
        ("relay_upgrades_total", "server", "203.0.113.7"),
        ("relay_upgrades_total", "accepted", "server"),
        ("relay_grace_expiries_total", "laptop"),
    ],
)
def test_nothing_is_counted_that_was_not_declared(words: tuple[str, ...]) -> None:
    counters = Counters(FAMILIES)
    before = told(counters)
    with pytest.raises(KeyError):
        counters.add(*words)
    assert told(counters) == before


@pytest.mark.parametrize(
    "family",
    [
        Family("relay_things", "No total."),
        Family("Relay_total", "Not plain."),
        Family("relay_total", "Two\nlines."),
        Family("relay_total", "A label without values.", {"outcome": ()}),
        Family("relay_total", "Not plain.", {"out-come": ("a",)}),
        Family("relay_total", "Not plain.", {"outcome": ('a"',)}),
        Family("relay_total", "An address.", {"outcome": ("203.0.113.7",)}),
        FAMILIES[0],
    ],
)
def test_what_cannot_be_told_cannot_be_declared(family: Family) -> None:
    with pytest.raises(ValueError, match=r"cannot be counted|declared twice"):
        Counters([FAMILIES[0], family])
