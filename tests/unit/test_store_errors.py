"""What Redis says, told to whoever gave its address."""

import pytest

from mooring.errors import UserError
from mooring.replicas.address import parse_store_address
from mooring.replicas.shared_store import refusal_of
from mooring.replicas.store_errors import UNUSABLE_HINT, StoreUnavailable, unusable

HELLO = "HELLO must be called with the client already authenticated, otherwise the HELLO AUTH …"


def told(url: str, *words: str, has_password: bool = False) -> UserError:
    """`words`: of the errors that it came from, the last one first."""
    error: Exception = StoreUnavailable("of some reason")
    outer = error
    for text in words:
        error.__cause__ = Exception(text)
        error = error.__cause__
    assert isinstance(outer, StoreUnavailable)
    return unusable(outer, parse_store_address(url), has_password=has_password, otherwise=UNUSABLE_HINT)


@pytest.mark.parametrize(
    ("url", "words", "message", "hint"),
    [
        ("redis://r", (HELLO,), "Redis wants a password", "--sessions-password file:PATH"),
        ("redis://r", ("NOAUTH Authentication required.",), "Redis wants a password", "--sessions-password"),
        ("redis://r/99", ("DB index is out of range",), "Redis has no database 99", "0 to 15"),
        (
            "redis+sentinel://r/p",
            ("unknown command 'SENTINEL', with args beginning with: 'MASTERS'", HELLO),
            "what answers at r:26379 is no sentinel",
            "--sessions redis://HOST:PORT",
        ),
        (
            "rediss+cluster://r",
            ("cannot be connected", "This instance has cluster support disabled"),
            "Redis at r:6379 is no cluster",
            "--sessions rediss://HOST:PORT",
        ),
    ],
)
def test_what_time_does_not_mend(url: str, words: tuple[str, ...], message: str, hint: str) -> None:
    error = told(url, *words)
    assert (error.message, error.code) == (message, "sessions_refused")
    assert hint in error.hint


@pytest.mark.parametrize(
    ("url", "words", "hint"),
    [
        ("redis://r", ("Connection refused",), "with TLS: rediss://"),
        ("rediss://r", (), "it may not speak TLS: try redis://"),
        ("redis+cluster://r", ("unknown command 'SENTINEL'",), "with TLS: rediss://"),
    ],
)
def test_what_may_be_a_matter_of_time(url: str, words: tuple[str, ...], hint: str) -> None:
    error = told(url, *words)
    assert error.code == "sessions_unreachable"
    assert "cannot be used: of some reason" in error.message
    assert error.hint.endswith(hint)


@pytest.mark.parametrize(
    ("text", "is_refusal"),
    [
        ("DB index is out of range", True),
        ("invalid DB index", True),
        ("WRONGPASS invalid username-password pair", True),
        ("value is not an integer or out of range", False),
        ("Index out of range. LOADING Redis is loading the dataset in memory", False),
    ],
)
def test_what_is_refused_for_good(text: str, is_refusal: bool) -> None:
    error = StoreUnavailable(text)
    error.__cause__ = Exception(text)
    assert (refusal_of(error) is not None) is is_refusal


def test_with_a_password_it_is_not_asked_for() -> None:
    refusal = UserError("Redis refuses us: " + HELLO, code="sessions_refused")
    address = parse_store_address("redis://r")
    assert unusable(refusal, address, has_password=True, otherwise="") is refusal
    assert unusable(refusal, address, has_password=False, otherwise="").message == "Redis wants a password"


def test_errors_that_came_from_each_other_in_a_circle_end() -> None:
    first, second = StoreUnavailable("a"), Exception("b")
    first.__cause__, second.__cause__ = second, first
    address = parse_store_address("redis://r")
    assert unusable(first, address, has_password=False, otherwise="").code == "sessions_unreachable"
