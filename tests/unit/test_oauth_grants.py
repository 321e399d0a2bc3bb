"""When a token is due, and what a refresh changes."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.oauth.bounds import MARGIN_S, MOST_SCOPES
from mooring.oauth.grants import Grant, Identity, Registration, Tokens, united

NOW = 1_000_000.0
HOUR = 3600.0


def grant(lifetime_s: float | None) -> Grant:
    return Grant(
        server="https://mcp.example.com/mcp",
        resource="https://mcp.example.com",
        issuer="https://as.example.com",
        token_endpoint="https://as.example.com/token",
        identity=Identity(client_id="me", secret="hunter2-secret"),
        access="hunter2-access",
        refresh="hunter2-refresh",
        obtained_at=NOW,
        lifetime_s=lifetime_s,
    )


@pytest.mark.parametrize(
    ("lifetime_s", "after_s", "is_due", "is_expired"),
    [
        (3600, 0, False, False),
        (3600, 3539, False, False),
        (3600, 3541, True, False),
        (3600, 3600, True, True),
        (30, 23, False, False),
        (30, 25, True, False),
        (3600, -30, False, False),
        (3600, -3600, True, False),
        (None, 10**9, False, False),
    ],
)
def test_a_token_is_renewed_ahead_of_its_end(
    lifetime_s: float | None, after_s: float, is_due: bool, is_expired: bool
) -> None:
    kept = grant(lifetime_s)
    assert (kept.is_due(NOW + after_s), kept.is_expired(NOW + after_s)) == (is_due, is_expired)


@given(st.floats(0.001, 1e8), st.floats(-1e8, 1e9))
def test_whatever_is_expired_is_due(lifetime_s: float, after_s: float) -> None:
    kept = grant(lifetime_s)
    assert not kept.is_expired(NOW + after_s) or kept.is_due(NOW + after_s)
    assert not kept.is_due(NOW)


def test_what_cannot_be_renewed_is_used_to_its_end() -> None:
    renews = grant(HOUR)
    ends = msgspec.structs.replace(renews, refresh=None)
    assert renews.needs_another(NOW + HOUR - 1) and not ends.needs_another(NOW + HOUR - 1)
    assert ends.needs_another(NOW + HOUR)
    assert renews.needs_another(NOW - HOUR) and not ends.needs_another(NOW - HOUR), "the clock was put back"


def test_a_rotated_refresh_token_takes_the_place_of_the_old_one() -> None:
    kept = grant(3600)
    rotated = kept.renewed(Tokens(access="a2", refresh="r2", scopes=("x",), lifetime_s=60), NOW + 9)
    assert (rotated.access, rotated.refresh, rotated.scopes) == ("a2", "r2", ("x",))
    assert (rotated.expires_at, rotated.issuer) == (NOW + 69, kept.issuer)
    stays = rotated.renewed(Tokens(access="a3"), NOW + 10)
    assert (stays.refresh, stays.scopes, stays.expires_at) == ("r2", ("x",), None)
    assert kept.generation < rotated.generation < stays.generation


def test_nothing_shows_itself() -> None:
    shown = repr([grant(1), grant(1).identity, Tokens(access="hunter2", refresh="hunter2")])
    assert "hunter2" not in shown


def test_a_registration_is_good_for_its_issuer_its_scopes_and_its_time() -> None:
    kept = Registration(
        issuer="https://as",
        identity=Identity(client_id="me"),
        redirect_port=1,
        scopes=("a", "b"),
        secret_expires_at=NOW,
    )
    early = NOW - MARGIN_S - 1
    assert kept.fits("https://as", ("b",), early)
    assert not kept.fits("https://as/", ("b",), early)
    assert not kept.fits("https://as", ("c",), early)
    assert not kept.fits("https://as", ("b",), NOW)


def test_scopes_are_united_in_order_and_within_bounds() -> None:
    assert united(("a", "b"), (), ("b", "c")) == ("a", "b", "c")
    assert len(united(tuple(map(str, range(1000))))) == MOST_SCOPES
