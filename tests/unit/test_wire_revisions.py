"""What differs between the revisions of the protocol."""

import pytest

from mooring.wire.revisions import HANDSHAKE_REVISIONS, LATEST, MODERN, Rules, rules_for


@pytest.mark.parametrize(
    ("revision", "batches", "priming"),
    [
        ("2024-11-05", False, False),
        ("2025-03-26", True, False),
        ("2025-06-18", False, False),
        ("2025-11-25", False, True),
        ("2026-07-28", False, False),
        ("1999-01-01", False, False),
        ("", False, False),
    ],
)
def test_the_rules_of_a_revision(revision: str, batches: bool, priming: bool) -> None:
    assert rules_for(revision) == Rules(batches=batches, priming=priming)


def test_the_handshake_revisions_are_listed_latest_first_and_modern_is_none_of_them() -> None:
    assert list(HANDSHAKE_REVISIONS) == ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]
    assert next(iter(HANDSHAKE_REVISIONS)) == LATEST
    assert MODERN not in HANDSHAKE_REVISIONS
