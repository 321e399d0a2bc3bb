"""Many hold bytes together: one bound for all, and a share that nobody is denied."""

from mooring.wire.budget import Budget


def test_there_is_room_for_all_and_then_for_shares_only() -> None:
    budget = Budget(1000, sharers=10)
    assert budget.has_room(1000, held_bytes=0)
    budget.taken_bytes = 950
    assert budget.has_room(50, held_bytes=900)
    assert not budget.has_room(51, held_bytes=900)
    assert budget.has_room(51, held_bytes=0), "nobody else's business"
    assert not budget.has_room(51, held_bytes=50)
    budget.taken_bytes = 1001
    assert budget.is_exceeded
    assert budget.has_room(100, held_bytes=0) and not budget.has_room(101, held_bytes=0)
