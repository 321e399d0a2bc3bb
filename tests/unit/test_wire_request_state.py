"""A state is good for what it was made for, and for nothing else."""

import base64

from hypothesis import given
from hypothesis import strategies as st

from mooring.wire.request_state import MAX_CHARACTERS, Claims, Sealer, digest

BOUND = digest("local", "tools/call", b'{"name":"x"}')
CLAIMS = Claims("call-1", 2, 100.0, BOUND)


def test_a_state_opens_with_what_it_says() -> None:
    sealer = Sealer()
    opened = sealer.open(sealer.seal(CLAIMS), BOUND, 99.0)
    assert opened.claims == CLAIMS and not opened.reason


def test_it_expires() -> None:
    sealer = Sealer()
    opened = sealer.open(sealer.seal(CLAIMS), BOUND, 100.0)
    assert opened.claims is None and "expired" in opened.reason


def test_it_is_bound_to_principal_method_and_params() -> None:
    sealer = Sealer()
    others = [
        digest("other", "tools/call", b'{"name":"x"}'),
        digest("local", "prompts/get", b'{"name":"x"}'),
        digest("local", "tools/call", b'{"name":"y"}'),
        digest('local"', "tools/call", b'{"name":"x"}'),
    ]
    for other in others:
        assert sealer.open(sealer.seal(CLAIMS), other, 1.0).claims is None


def test_it_is_bound_to_what_the_params_say_not_to_their_words() -> None:
    said = digest("local", "tools/call", b'{"name":"x","arguments":{"a":[1,{"b":2,"c":3.5}],"d":"\xc3\xa9"}}')
    again = b'{ "arguments":{"d":"\\u00e9", "a":[1,{"c":3.50,"b":2}]},"name":"x"}'
    assert digest("local", "tools/call", again) == said
    assert digest("local", "tools/call", again.replace(b"2", b"4")) != said
    assert digest("local", "tools/call", again.replace(b"[1,", b'["1",')) != said


def test_params_that_cannot_be_read_are_bound_to_their_words() -> None:
    odd = [
        rb'{"a":"\ud83d"}',
        rb'{"a":"\udead"}',
        b'{"a":1e999}',
        b'{"a":' + b"[" * 9999 + b"]" * 9999 + b"}",
    ]
    assert len({digest("local", "tools/call", params) for params in odd}) == len(odd)


def test_another_process_does_not_know_it() -> None:
    assert Sealer().open(Sealer().seal(CLAIMS), BOUND, 1.0).claims is None


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_no_changed_byte_is_believed(place: int, change: int) -> None:
    sealer = Sealer(b"k" * 32)
    data = bytearray(base64.urlsafe_b64decode(sealer.seal(CLAIMS)))
    data[place % len(data)] ^= change
    assert sealer.open(base64.urlsafe_b64encode(bytes(data)).decode(), BOUND, 1.0).claims is None


def test_a_state_that_is_too_long_is_not_looked_at() -> None:
    sealer = Sealer()
    state = sealer.seal(Claims("x" * MAX_CHARACTERS, 2, 100.0, BOUND))
    assert sealer.open(state, BOUND, 1.0).claims is None


@given(st.text(max_size=2000))
def test_anything_else_is_refused_in_words(state: str) -> None:
    opened = Sealer().open(state, BOUND, 1.0)
    assert opened.claims is None and "requestState" in opened.reason
